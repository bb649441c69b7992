"""Traces of ``torch.profiler`` (Kineto) in, documented tables out.

Times are integers in nanoseconds since the first event of the trace (of all ranks, on their common clock).
Every table has its columns and dtypes also when the trace holds no such events, and a column ``rank``. What
a capture of nsys holds, too, has the same columns as there (`labcode.reports.nsys`), so that an analysis of
one works on the other.

    report = open_trace("run.trace.json.gz")
    report.kernels().groupby("name")["start_ns"].count()
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from labcode.errors import InputError
from labcode.reports.kineto_events import FIELDS, HOLDS, MISSING
from labcode.reports.kineto_names import COPY, MEMSET, short_name
from labcode.reports.kineto_open import RankTrace, correlation_doubles, open_ranks, trace_files
from labcode.reports.nsys_columns import Column, Ints, objects, unique
from labcode.reports.nsys_frames import frame as _frame

MEASURED = "lab:measured"
STEP = "ProfilerStep#"
JUMP_NS = 60_000_000_000  # without any event: the clock jumped, or the program was stopped
_CPU = ("op", "annotation", "runtime", "driver")
_GPU = ("kernel", "memcpy", "memset")
_NO_RANK_PID = 10_000_000


def open_trace(path: str | Path | Sequence[Path]) -> KinetoReport:
    """Open a trace (``.json``, ``.json.gz``), a folder with one for each rank, or these files.

    Raises `labcode.errors.InputError` for a file that is missing or no trace. One that is cut off is read as
    far as it goes; ``warnings`` says how far that is.
    """
    if isinstance(path, str | Path):
        path = Path(path)
        if not path.exists():
            raise InputError(f"{path}: no such file; check the path")
        files = trace_files(path) if path.is_dir() else [path]
        shown = path
    else:
        files = list(path)
        shown = files[0] if len(files) == 1 else files[0].parent
    ranks, notes = open_ranks(files)
    return KinetoReport(shown, ranks, notes)


class KinetoReport:
    """The traces of one run: one file, or one for each rank.

    ``path`` is what was opened, ``ranks`` the numbers of the ranks that are there, ``world_size`` how many
    there were, ``warnings`` what is odd, a line each, ``complete`` whether no file is cut off.
    """

    def __init__(self, path: Path, ranks: Sequence[RankTrace], notes: Sequence[str] = ()) -> None:
        self.path = path
        self._ranks = list(ranks)
        self.ranks: tuple[int, ...] = tuple(one.rank for one in ranks)
        self.world_size: int = max(one.world_size for one in ranks)
        self.complete: bool = not any(one.cut_off for one in ranks)
        self.product_version = ""
        self._shift = {one.rank: one.base_ns for one in ranks}
        starts = [
            one.base_ns + int(columns["start"].min())
            for one in ranks
            for kind, columns in one.columns.kinds.items()
            if len(columns["start"]) and kind != "flow"
        ]
        self.origin_ns: int = min(starts, default=0)
        self._pid = {one.rank: _main_pid(one) for one in ranks}
        if len(set(self._pid.values())) < len(self._pid):
            self._pid_shift = {one.rank: one.rank * _NO_RANK_PID for one in ranks}
        else:
            self._pid_shift = dict.fromkeys(self._pid, 0)
        self._devices = _devices(ranks)
        self._tables: dict[str, pd.DataFrame] = {}
        found = [line for one in ranks for line in one.warnings]
        self.warnings: tuple[str, ...] = (*found, *notes, *self._odd())

    def __enter__(self) -> KinetoReport:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"KinetoReport({str(self.path)!r}, ranks {self.ranks})"

    def close(self) -> None:
        """Nothing is open; here so that reports of all tools are used alike."""

    # ---- what ran on the GPU

    def kernels(self) -> pd.DataFrame:
        """Kernel executions, in the order of the file.

        start_ns, end_ns; rank; pid (of the rank's process); device (the GPU's number, of its own for each
        rank's GPU where ranks number theirs alike); context, stream, correlation (joins with `api` within a
        pid); name, short_name; grid_x … block_z; registers_per_thread; shared_bytes (static and dynamic);
        graph_node (Int64); external_id (Int64: of the operator that launched it); blocks_per_sm,
        warps_per_sm, occupancy_pct (float64, Kineto's estimate); collective, message_type (texts, ''
        without), message_in, message_out, group_size (Int64), process_group, of collectives.
        """
        return self._table("kernels", self._kernels)

    def _kernels(self, one: RankTrace) -> pd.DataFrame:
        raw = self._raw(one, "kernel")
        grids = [_triples(one, raw[what]) for what in ("grid", "block")]
        axes = {
            f"{what}_{axis}": values[:, place]
            for what, values in zip(("grid", "block"), grids, strict=True)
            for place, axis in enumerate("xyz")
        }
        shorts = _mapped(raw["name"], one.columns.texts, short_name)
        return _frame(
            **self._where(one, raw),
            name=objects(raw["name"], one.columns.texts),
            short_name=shorts,
            **axes,
            registers_per_thread=_filled(raw["registers"]),
            shared_bytes=_filled(raw["shared"]),
            graph_node=_column(raw["graph_node"]),
            external_id=_column(raw["external"]),
            blocks_per_sm=raw["blocks_per_sm"],
            warps_per_sm=raw["warps_per_sm"],
            occupancy_pct=raw["occupancy"],
            collective=objects(raw["collective"], one.columns.texts),
            message_type=objects(raw["message_type"], one.columns.texts),
            message_in=_column(raw["message_in"]),
            message_out=_column(raw["message_out"]),
            group_size=_column(raw["group_size"]),
            process_group=objects(raw["process_group"], one.columns.texts),
        )

    def memcpys(self) -> pd.DataFrame:
        """Copies: as `kernels` up to correlation; bytes; copy_kind ('H2D', 'D2H', …), src_kind, dst_kind
        ('pageable', 'pinned', 'device', …); raw_name (as Kineto writes it); graph_node, external_id (Int64).
        """
        return self._table("memcpys", self._memcpys)

    def _memcpys(self, one: RankTrace) -> pd.DataFrame:
        raw, texts = self._raw(one, "memcpy"), one.columns.texts
        return _frame(
            **self._where(one, raw),
            bytes=_filled(raw["bytes"]),
            copy_kind=_mapped(raw["name"], texts, lambda name: _copy(name)[0]),
            src_kind=_mapped(raw["name"], texts, lambda name: _copy(name)[1]),
            dst_kind=_mapped(raw["name"], texts, lambda name: _copy(name)[2]),
            raw_name=objects(raw["name"], texts),
            graph_node=_column(raw["graph_node"]),
            external_id=_column(raw["external"]),
        )

    def memsets(self) -> pd.DataFrame:
        """Memsets: as `kernels` up to correlation; bytes; value (always 0: a trace does not hold it);
        mem_kind; raw_name; graph_node, external_id (Int64).
        """
        return self._table("memsets", self._memsets)

    def _memsets(self, one: RankTrace) -> pd.DataFrame:
        raw = self._raw(one, "memset")
        return _frame(
            **self._where(one, raw),
            bytes=_filled(raw["bytes"]),
            value=np.zeros(len(raw["start"]), np.int64),
            mem_kind=_mapped(raw["name"], one.columns.texts, _memset),
            raw_name=objects(raw["name"], one.columns.texts),
            graph_node=_column(raw["graph_node"]),
            external_id=_column(raw["external"]),
        )

    def graph_launches(self) -> pd.DataFrame:
        """Whole CUDA graphs: none, for Kineto traces the kernels inside. Columns as of nsys' captures."""
        columns = ("start_ns", "end_ns", "pid", "device", "context", "stream", "correlation", "graph_id")
        return _frame(**{column: np.empty(0, np.int64) for column in columns})

    def gpu_ops(self) -> pd.DataFrame:
        """Kernels, copies and memsets by start time.

        kind ('kernel', 'memcpy', 'memset'); name; start_ns … correlation as in `kernels`; bytes (Int64);
        short_name; graph_node, external_id (Int64); rank.
        """
        if "gpu_ops" not in self._tables:
            kernels, copies, memsets = self.kernels(), self.memcpys(), self.memsets()
            copies = copies.assign(name="memcpy " + copies["copy_kind"])
            copies = copies.assign(short_name=copies["name"])
            memsets = memsets.assign(name="memset", short_name="memset")
            columns = ["kind", "name", *_WHERE, "bytes", "short_name", "graph_node", "external_id", "rank"]
            parts = [
                part.assign(kind=kind, bytes=size)[columns]
                for kind, part, size in (
                    ("kernel", kernels, pd.array([pd.NA] * len(kernels), dtype="Int64")),
                    ("memcpy", copies, copies["bytes"].astype("Int64")),
                    ("memset", memsets, memsets["bytes"].astype("Int64")),
                )
            ]
            whole = pd.concat(parts, ignore_index=True)
            whole = whole.astype({"kind": "str", "name": "str", "short_name": "str"})
            self._tables["gpu_ops"] = whole.sort_values("start_ns", kind="stable", ignore_index=True)
        return self._tables["gpu_ops"]

    def synchronizations(self) -> pd.DataFrame:
        """Waits as CUPTI saw them, where they were recorded; columns as of `kernels` up to correlation, and
        sync_type.
        """
        return self._table("synchronizations", self._synchronizations)

    def _synchronizations(self, one: RankTrace) -> pd.DataFrame:
        raw = self._raw(one, "sync")
        return _frame(
            **self._where(one, raw),
            sync_type=objects(raw["name"], one.columns.texts),
            external_id=_column(raw["external"]),
        )

    def gpu_annotations(self) -> pd.DataFrame:
        """Annotations where their work ran on the GPU: start_ns, end_ns, rank, pid, device, stream, name,
        external_id (Int64: of the annotation on the CPU).

        From the first to the last operation. Kineto writes them wider by one unit of its clock (nanoseconds,
        in older traces microseconds) on each side, so that viewers draw them around; that is taken back.
        """
        return self._table("gpu_annotations", self._gpu_annotations)

    def _gpu_annotations(self, one: RankTrace) -> pd.DataFrame:
        raw = self._raw(one, "gpu_annotation")
        wider = 1 if (raw["start"] % 1000).any() or (raw["duration"] % 1000).any() else 1000
        raw = {**raw, "start": raw["start"] + wider, "duration": np.maximum(raw["duration"] - 2 * wider, 0)}
        return _frame(
            **self._times(one, raw),
            pid=np.full(len(raw["start"]), self._pid[one.rank] + self._pid_shift[one.rank]),
            device=self._device(one, raw["pid"]),
            stream=raw["tid"],
            name=objects(raw["name"], one.columns.texts),
            external_id=_column(raw["external"]),
        )

    # ---- what ran on the CPU

    def api(self) -> pd.DataFrame:
        """Calls of the CUDA runtime and driver, in the order of the file.

        start_ns, end_ns, rank, pid, tid, correlation, name, raw_name (the same), event_class ('runtime',
        'driver'), return_value (always 0: a trace does not hold it), external_id (Int64).
        """
        return self._table("api", self._api)

    def _api(self, one: RankTrace) -> pd.DataFrame:
        parts = []
        for kind in ("runtime", "driver"):
            raw = self._raw(one, kind)
            names = objects(raw["name"], one.columns.texts)
            parts.append(
                _frame(
                    **self._times(one, raw),
                    **self._thread(one, raw),
                    correlation=_filled(raw["correlation"]),
                    name=names,
                    raw_name=names,
                    event_class=np.full(len(names), kind, object),
                    return_value=np.zeros(len(names), np.int64),
                    external_id=_column(raw["external"]),
                    order=raw["order"],
                )
            )
        whole = pd.concat(parts, ignore_index=True).sort_values("order", kind="stable", ignore_index=True)
        return whole.drop(columns="order")

    def ops(self) -> pd.DataFrame:
        """Operators (``cpu_op``), in the order of the file.

        start_ns, end_ns, rank, pid, tid, name; external_id (Int64: joins with kernels and calls), sequence
        (Int64: joins a backward operator with its forward one), fwd_thread (Int64); input_dims, input_types,
        input_strides, concrete_inputs (JSON texts, '' where not recorded), call_stack, module_hierarchy (as
        older versions write them).
        """
        return self._table("ops", self._ops)

    def _ops(self, one: RankTrace) -> pd.DataFrame:
        raw, texts = self._raw(one, "op"), one.columns.texts
        whole = {"external_id": "external", "sequence": "sequence", "fwd_thread": "fwd_thread"}
        words = ("input_dims", "input_types", "input_strides", "concrete_inputs", "call_stack")
        return _frame(
            **self._times(one, raw),
            **self._thread(one, raw),
            name=objects(raw["name"], texts),
            **{name: _column(raw[key]) for name, key in whole.items()},
            **{word: objects(raw[word], texts) for word in (*words, "module_hierarchy")},
        )

    def annotations(self) -> pd.DataFrame:
        """What the program marked (``record_function``, the profiler's steps, the optimizer's):
        start_ns, end_ns, rank, pid, tid, name, external_id (Int64).
        """
        return self._table("annotations", self._annotations)

    def _annotations(self, one: RankTrace) -> pd.DataFrame:
        raw = self._raw(one, "annotation")
        return _frame(
            **self._times(one, raw),
            **self._thread(one, raw),
            name=objects(raw["name"], one.columns.texts),
            external_id=_column(raw["external"]),
        )

    def nvtx(self) -> pd.DataFrame:
        """The annotations as ranges, with the columns that nsys' captures have: start_ns, end_ns (Int64),
        pid, tid, end_tid, domain (''), name, event_type ('push_pop'), color (missing); rank.
        """
        marks = self.annotations()
        missing = pd.array([pd.NA] * len(marks), dtype="Int64")
        words = {"domain": "", "event_type": "push_pop"}
        table = marks.assign(end_ns=marks["end_ns"].astype("Int64"), end_tid=missing, color=missing, **words)
        columns = ["start_ns", "end_ns", "pid", "tid", "end_tid", "domain", "name", "event_type", "color"]
        return table[[*columns, "rank"]].astype(dict.fromkeys(words, "str"))

    def python_functions(self) -> pd.DataFrame:
        """Calls of Python functions (``with_stack=True``), in the order of the file.

        start_ns, end_ns, rank, pid, tid, name (``file.py(12): function``, ``<built-in …>``, ``nn.Module:
        Linear_0``); python_id, python_parent (Int64: the caller's python_id), python_module (Int64).
        """
        return self._table("python_functions", self._python_functions)

    def _python_functions(self, one: RankTrace) -> pd.DataFrame:
        raw = self._raw(one, "python")
        return _frame(
            **self._times(one, raw),
            **self._thread(one, raw),
            name=objects(raw["name"], one.columns.texts),
            **{key: _column(raw[key]) for key in FIELDS["python"]},
        )

    def memory(self) -> pd.DataFrame:
        """Allocations and frees (``profile_memory=True``), by time.

        start_ns, rank, pid, tid; bytes (negative: a free), allocated_bytes, reserved_bytes (Int64: in all,
        afterwards), address, device_type ('cpu', 'cuda', …), device (-1: the host).
        """
        return self._table("memory", self._memory)

    def _memory(self, one: RankTrace) -> pd.DataFrame:
        raw = self._raw(one, "memory")
        mine = objects(raw["name"], one.columns.texts) == "[memory]"
        raw = {key: values[mine] for key, values in raw.items()}
        times = self._times(one, raw)
        times.pop("end_ns")
        kind = _filled(raw["device_type"])
        device = np.where(kind == 0, -1, _filled(raw["device_id"]))
        table = _frame(
            **times,
            **self._thread(one, raw),
            bytes=_filled(raw["memory_bytes"]),
            allocated_bytes=_column(raw["allocated"]),
            reserved_bytes=_column(raw["reserved"]),
            address=_filled(raw["address"]),
            device_type=objects(kind.clip(0, 2), ["cpu", "cuda", "other"]),
            device=np.where(device >= 0, self._device(one, device), -1),
        )
        return table.sort_values("start_ns", kind="stable", ignore_index=True)

    def overheads(self) -> pd.DataFrame:
        """What the profiler itself took: start_ns, end_ns, rank, pid, tid, name."""
        return self._table("overheads", self._overheads)

    def _overheads(self, one: RankTrace) -> pd.DataFrame:
        raw = self._raw(one, "overhead")
        return _frame(
            **self._times(one, raw),
            **self._thread(one, raw),
            name=objects(raw["name"], one.columns.texts),
        )

    def profiler_overhead(self) -> pd.DataFrame:
        """`overheads`, as nsys' captures call them: start_ns, end_ns, rank, pid, tid, name."""
        return self.overheads()

    def flows(self) -> pd.DataFrame:
        """Ends of arrows: start_ns, rank, pid, tid (of the GPU: device and stream), flow (its id), phase ('s'
        or 'f'), category ('ac2g': from call to kernel, 'fwdbwd').
        """
        return self._table("flows", self._flows)

    def _flows(self, one: RankTrace) -> pd.DataFrame:
        raw = self._raw(one, "flow")
        times = self._times(one, raw)
        times.pop("end_ns")
        return _frame(
            **times,
            pid=raw["pid"],
            tid=raw["tid"],
            flow=_filled(raw["id"]),
            phase=objects(raw["phase"], one.columns.texts),
            category=objects(raw["category"], one.columns.texts),
        )

    # ---- what it ran on

    def gpus(self) -> pd.DataFrame:
        """The GPUs (``deviceProperties``) that anything ran on, or all where nothing ran: device, rank, name,
        sm_count, memory_bytes, compute_capability (texts such as '9.0').
        """
        rows = []
        for one in self._ranks:
            listed = one.metadata.get("deviceProperties")
            for entry in listed if isinstance(listed, list) else ():
                if not isinstance(entry, dict) or not isinstance(entry.get("id"), int):
                    continue
                key = (one.rank, entry["id"])
                if self._devices and key not in self._devices:
                    continue
                capability = f"{entry.get('computeMajor', '?')}.{entry.get('computeMinor', '?')}"
                number = self._devices.get(key, entry["id"])
                sizes = [v if isinstance(v, int) else 0 for v in map(entry.get, ("numSms", "totalGlobalMem"))]
                rows.append((number, one.rank, str(entry.get("name", "")), *sizes, capability))
        columns = ["device", "rank", "name", "sm_count", "memory_bytes", "compute_capability"]
        types = dict.fromkeys(("device", "rank", "sm_count", "memory_bytes"), "int64")
        table = pd.DataFrame(rows, columns=columns).astype({**types, "name": "str", columns[-1]: "str"})
        return table.sort_values(["device", "rank"], ignore_index=True)

    def threads(self) -> pd.DataFrame:
        """The CPU threads that the trace names: pid, tid, name, rank."""
        rows = [
            (pid + self._pid_shift[one.rank], tid, " ".join(name.split()), one.rank)
            for one in self._ranks
            for pid, tid, name in dict.fromkeys(one.columns.threads)
            if pid == self._pid[one.rank]
        ]
        types = {"pid": "int64", "tid": "int64", "name": "str", "rank": "int64"}
        return pd.DataFrame(rows, columns=list(types)).astype(types)

    def distributed(self) -> pd.DataFrame:
        """Who took part (``distributedInfo``): rank, world_size, backend, path of the file, events read,
        complete (False: cut off).
        """
        rows = []
        for one in self._ranks:
            found = one.metadata.get("distributedInfo")
            backend = str(found.get("backend", "")) if isinstance(found, dict) else ""
            complete = not one.cut_off
            rows.append((one.rank, one.world_size, backend, one.path.name, one.columns.events, complete))
        return pd.DataFrame(rows, columns=["rank", "world_size", "backend", "file", "events", "complete"])

    def metadata(self, rank: int | None = None) -> Mapping[str, Any]:
        """What stands beside the events in a rank's file (of the first one by default)."""
        number = self.ranks[0] if rank is None else rank
        return next(one.metadata for one in self._ranks if one.rank == number)

    def window(self) -> tuple[int, int]:
        """(start, end) of the measured part: the annotations `MEASURED`, else from first to last event.

        Python's functions do not count: those that were entered before the profiler began are open.
        """
        marks = self.annotations()
        measured = marks[marks["name"] == MEASURED]
        if len(measured):
            return int(measured["start_ns"].min()), int(measured["end_ns"].max())
        spans = [
            (
                self._ns(one, columns["start"]).min(),
                self._ns(one, columns["start"] + columns["duration"]).max(),
            )
            for one in self._ranks
            for kind, columns in one.columns.kinds.items()
            if kind in (*_CPU, *_GPU) and len(columns["start"])
        ]
        if not spans:
            return 0, 0
        return int(min(start for start, _ in spans)), int(max(end for _, end in spans))

    # ---- inner workings

    def _table(self, name: str, make: Callable[[RankTrace], pd.DataFrame]) -> pd.DataFrame:
        if name not in self._tables:
            parts = [make(one).assign(rank=np.int64(one.rank)) for one in self._ranks]
            self._tables[name] = parts[0] if len(parts) == 1 else pd.concat(parts, ignore_index=True)
        return self._tables[name]

    def _raw(self, one: RankTrace, kind: str) -> dict[str, Any]:
        found = one.columns.kinds.get(kind)
        if found is not None:
            return found
        keys = ("name", "pid", "tid", "start", "duration", "order", *FIELDS[kind])
        keys = (*keys, "id", "phase", "category") if kind == "flow" else keys
        return {key: np.empty(0, np.float64 if HOLDS.get(key) == "real" else np.int64) for key in keys}

    def _ns(self, one: RankTrace, times: Ints) -> Ints:
        return times + (self._shift[one.rank] - self.origin_ns)

    def _times(self, one: RankTrace, raw: Mapping[str, Any]) -> dict[str, Any]:
        start = self._ns(one, raw["start"])
        return {"start_ns": start, "end_ns": start + raw["duration"]}

    def _thread(self, one: RankTrace, raw: Mapping[str, Any]) -> dict[str, Any]:
        return {"pid": raw["pid"] + self._pid_shift[one.rank], "tid": raw["tid"]}

    def _where(self, one: RankTrace, raw: Mapping[str, Any]) -> dict[str, Any]:
        device = np.where(raw["device"] == MISSING, raw["pid"], raw["device"])
        return {
            **self._times(one, raw),
            "pid": np.full(len(device), self._pid[one.rank] + self._pid_shift[one.rank]),
            "device": self._device(one, device),
            "context": _filled(raw["context"]),
            "stream": np.where(raw["stream"] == MISSING, raw["tid"], raw["stream"]),
            "correlation": _filled(raw["correlation"]),
        }

    def _device(self, one: RankTrace, numbers: Ints) -> Ints:
        distinct, codes = unique(np.asarray(numbers, np.int64))
        known = [self._devices.get((one.rank, int(number)), int(number)) for number in distinct]
        return np.array(known, np.int64)[codes] if len(distinct) else np.asarray(numbers, np.int64)

    def _odd(self) -> list[str]:
        notes = []
        for one in self._ranks:
            doubles = correlation_doubles(one.columns)
            if doubles:
                notes.append(
                    f"{one.path}: {doubles:,} correlation ids are those of several calls; what ran on the "
                    "GPU under one is counted for the call that began first"
                )
            gap, place = _longest_silence(one)
            if gap > JUMP_NS:
                notes.append(
                    f"{one.path}: no event for {gap / 1e9:,.0f} s, {place / 1e9:,.3f} s after the start: the "
                    "clock jumped or the program stood still; shares of the whole time count this silence"
                )
        if not any(kind in one.columns.kinds for one in self._ranks for kind in _GPU):
            notes.append(
                f"{self.path}: no GPU operations; record them with "
                "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]"
            )
        return notes


_WHERE = ("start_ns", "end_ns", "pid", "device", "context", "stream", "correlation")


def _main_pid(one: RankTrace) -> int:
    """The process that recorded: the one with the most calls, operators and annotations."""
    pids = [one.columns.kinds[kind]["pid"] for kind in _CPU if kind in one.columns.kinds]
    if not pids or not sum(len(part) for part in pids):
        return 0
    distinct, counts = np.unique(np.concatenate(pids), return_counts=True)
    return int(distinct[counts.argmax()])


def _devices(ranks: Sequence[RankTrace]) -> dict[tuple[int, int], int]:
    """(rank, device) → a number of its own; the device's where no two ranks share one."""
    used: list[tuple[int, int]] = []
    for one in ranks:
        numbers: set[int] = set()
        for kind in (*_GPU, "sync"):
            raw = one.columns.kinds.get(kind)
            if raw is not None:
                device = np.where(raw["device"] == MISSING, raw["pid"], raw["device"])
                numbers |= set(np.unique(device).tolist())
        used += [(one.rank, number) for number in sorted(numbers) if number >= 0]
    if len({number for _, number in used}) == len(used):
        return {key: key[1] for key in used}
    if len({rank for rank, _ in used}) == len(used):
        return {key: key[0] for key in used}
    return {key: place for place, key in enumerate(sorted(used))}


def _longest_silence(one: RankTrace) -> tuple[int, int]:
    """The longest stretch in which nothing ran, in ns, and when it began after the first event."""
    parts = [columns for kind, columns in one.columns.kinds.items() if kind in (*_CPU, *_GPU)]
    if not parts:
        return 0, 0
    start = np.concatenate([columns["start"] for columns in parts])
    if int(start.max()) - int(start.min()) < JUMP_NS:
        return 0, 0
    end = start + np.concatenate([columns["duration"] for columns in parts])
    order = np.argsort(start, kind="stable")
    reach = np.maximum.accumulate(end[order])
    gaps = start[order][1:] - reach[:-1]
    worst = int(gaps.argmax())
    return int(gaps[worst]), int(reach[worst] - start.min())


def _filled(values: Ints) -> Ints:
    return np.where(values == MISSING, 0, values)


def _column(values: Ints) -> Column:
    present = values != MISSING
    return Column(values) if present.all() else Column(np.where(present, values, 0), present)


def _mapped(codes: Ints, texts: Sequence[str], function: Callable[[str], str]) -> Any:
    """Each text through a function, once for each distinct one."""
    distinct, places = unique(codes)
    return objects(places, [function(texts[code]) for code in distinct.tolist()])


def _triples(one: RankTrace, codes: Ints) -> Ints:
    """``[x, y, z]`` as three columns; 0 where a kernel has none."""
    distinct, places = unique(codes)
    found = np.zeros((len(distinct) + 1, 3), np.int64)
    for row, code in enumerate(distinct.tolist()):
        if code < 0:
            continue
        try:
            values = msgspec.json.decode(one.columns.texts[code], type=list[int])
        except msgspec.DecodeError:
            continue
        found[row, : len(values[:3])] = values[:3]
    return found[places]


def _copy(name: str) -> tuple[str, str, str]:
    found = re.match(COPY, name)
    if not found:
        return "unknown", "unknown", "unknown"
    return f"{found[1]}2{found[2]}", found[3].lower(), found[4].lower()


def _memset(name: str) -> str:
    found = re.match(MEMSET, name)
    return found[1].lower() if found else "unknown"


__all__ = ["MEASURED", "STEP", "KinetoReport", "open_trace"]
