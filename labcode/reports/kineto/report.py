"""Traces of ``torch.profiler`` (Kineto) in, documented tables out.

Times are integers in nanoseconds since the first event of the trace (of all ranks, on their common clock).
Every table has the same columns and dtypes even when the trace holds no such events, and every table has a
column ``rank``. Tables that captures of nsys have, too, have the same columns as there
(`labcode.reports.nsys.report`), so an analysis written for one works on the other::

    report = open_trace("run.trace.json.gz")
    report.kernels().groupby("name")["start_ns"].count()

Columns are ``int64`` or ``str`` unless a method says otherwise; ``Int64`` columns may have missing values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from labcode.errors import InputError
from labcode.inputs import Closing
from labcode.reports.common import MEASURED, STEP, Kind, Shown
from labcode.reports.frames import frame
from labcode.reports.kineto import tables as kineto_tables
from labcode.reports.kineto.names import thread_name
from labcode.reports.kineto.open import RankTrace, open_ranks, trace_files
from labcode.reports.kineto.ranks import Ranks

_WHERE = ("start_ns", "end_ns", "pid", "device", "context", "stream", "correlation")


def open_trace(path: str | Path | Sequence[Path]) -> KinetoReport:
    """Open a trace (``.json``, ``.json.gz``), a folder with one trace per rank, or a list of such files.

    A trace that is cut off is read up to the cut, and ``warnings`` says where that is. Raises
    `labcode.errors.InputError` for a file that is missing or not a trace.
    """
    if isinstance(path, str | Path):
        path = Path(path)
        files = trace_files(path) if path.is_dir() else [path]
        shown = path
    else:
        files = list(path)
        shown = files[0] if len(files) == 1 else files[0].parent
    ranks, notes = open_ranks(files)
    return KinetoReport(shown, ranks, notes)


class KinetoReport(Shown, Closing):
    """The traces of one run: one file, or one per rank.

    ``path`` is what was opened, ``ranks`` the ranks whose traces are there, ``world_size`` how many ranks
    the run had, ``warnings`` one line for each oddity, ``complete`` False if any file is cut off, ``beside``
    a trace of another run to compare with.
    """

    format: Kind = "kineto"
    _together: type[Ranks] = Ranks

    def __init__(self, path: Path, ranks: Sequence[RankTrace], notes: Sequence[str] = ()) -> None:
        self.path = path
        self.ranks: tuple[int, ...] = tuple(one.rank for one in ranks)
        self.world_size: int = max(one.world_size for one in ranks)
        self.complete: bool = not any(one.cut_off for one in ranks)
        self.product_version = ""
        self.beside: Path | None = None
        self._run = self._together(ranks)
        self.origin_ns: int = self._run.origin_ns
        self._tables: dict[str, pd.DataFrame] = {}
        self._only: tuple[int, int] | None = None
        found = [line for one in ranks for line in one.warnings]
        self.warnings: tuple[str, ...] = (*found, *notes, *self._run.odd(path))

    def only(self, window: tuple[int, int]) -> None:
        """Restrict all tables to a window (start, end) in ns: only what overlaps it, clipped to its edges.

        Allocations and flows are kept whole, because they make sense only as complete sequences.
        """
        self._only = window
        self._tables.clear()

    def __repr__(self) -> str:
        return f"KinetoReport({str(self.path)!r}, ranks {self.ranks})"

    def close(self) -> None:
        """Do nothing, because no file stays open; every kind of report has this method."""

    # ---- what ran on the GPU

    def kernels(self) -> pd.DataFrame:
        """Kernel executions, in file order.

        start_ns, end_ns; rank; pid (the rank's process); device (GPU number; renumbered where several ranks
        use the same number for different GPUs); context, stream, correlation (joins with `api` within a pid);
        name, short_name; grid_x … block_z; registers_per_thread; shared_bytes (static plus dynamic, per
        block); graph_node (Int64); external_id (Int64: the operator that launched it); blocks_per_sm,
        warps_per_sm, occupancy_pct (float64: Kineto's estimates); and of collectives: collective,
        message_type, process_group ('' for other kernels), message_in, message_out, group_size (Int64).
        """
        return self._table("kernels", kineto_tables.kernels)

    def memcpys(self) -> pd.DataFrame:
        """Copies, in file order.

        Columns as in `kernels` up to correlation, and rank; bytes; copy_kind ('H2D', 'D2H', …); src_kind,
        dst_kind ('pageable', 'pinned', 'device', …); raw_name (as Kineto writes it); graph_node, external_id
        (Int64).
        """
        return self._table("memcpys", kineto_tables.memcpys)

    def memsets(self) -> pd.DataFrame:
        """Memsets, in file order.

        Columns as in `kernels` up to correlation, and rank; bytes; value (always 0, because a trace does not
        hold it); mem_kind; raw_name; graph_node, external_id (Int64).
        """
        return self._table("memsets", kineto_tables.memsets)

    def graph_launches(self) -> pd.DataFrame:
        """Launches of whole CUDA graphs: always empty, because Kineto records the kernels inside.

        Columns as in `labcode.reports.nsys.report.NsysReport.graph_launches`.
        """
        columns = ("start_ns", "end_ns", "pid", "device", "context", "stream", "correlation", "graph_id")
        return frame(**{column: np.empty(0, np.int64) for column in columns})

    def gpu_ops(self) -> pd.DataFrame:
        """Kernels, copies and memsets, sorted by start time.

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
        """Waits as CUPTI recorded them, in file order.

        Columns as in `kernels` up to correlation, and rank; sync_type; external_id (Int64).
        """
        return self._table("synchronizations", kineto_tables.synchronizations)

    def gpu_annotations(self) -> pd.DataFrame:
        """Annotations on the GPU's time line, each from its first to its last operation.

        start_ns, end_ns, rank, pid, device, stream, name, external_id (Int64: the annotation on the CPU).
        Kineto widens each by one tick of its clock (a nanosecond, in older traces a microsecond) on either
        side, so that viewers draw it around its operations; here that is undone.
        """
        return self._table("gpu_annotations", kineto_tables.gpu_annotations)

    # ---- what ran on the CPU

    def api(self) -> pd.DataFrame:
        """Calls of the CUDA runtime and driver, in file order.

        start_ns, end_ns, rank, pid, tid, correlation, name, raw_name (the same), event_class ('runtime',
        'driver'), return_value (always 0: a trace does not hold it), external_id (Int64).
        """
        return self._table("api", kineto_tables.api)

    def ops(self) -> pd.DataFrame:
        """Operators (``cpu_op``), in file order.

        start_ns, end_ns, rank, pid, tid, name; external_id (Int64: joins with kernels and calls), sequence
        (Int64: joins a backward operator with its forward one), fwd_thread (Int64); input_dims, input_types,
        input_strides, concrete_inputs (JSON texts, '' where not recorded), call_stack, module_hierarchy (as
        older versions write them).
        """
        return self._table("ops", kineto_tables.ops)

    def annotations(self) -> pd.DataFrame:
        """Ranges marked by ``record_function``, by the profiler's steps and by optimizers.

        start_ns, end_ns, rank, pid, tid, name, external_id (Int64).
        """
        return self._table("annotations", kineto_tables.marks)

    def nvtx(self) -> pd.DataFrame:
        """The `annotations`, with the columns of NVTX ranges in captures of nsys.

        start_ns, end_ns (Int64), pid, tid, end_tid, domain (always ''), name, event_type (always 'push_pop'),
        color (always missing), rank. In a trace without GPU operations, operators are included as ranges.
        """
        marks = self.annotations()
        if not len(self.gpu_ops()):
            columns = list(marks.columns)
            marks = pd.concat([marks, self.ops()[columns]], ignore_index=True)
        missing = pd.array([pd.NA] * len(marks), dtype="Int64")
        words = {"domain": "", "event_type": "push_pop"}
        table = marks.assign(end_ns=marks["end_ns"].astype("Int64"), end_tid=missing, color=missing, **words)
        columns = ["start_ns", "end_ns", "pid", "tid", "end_tid", "domain", "name", "event_type", "color"]
        return table[[*columns, "rank"]].astype(dict.fromkeys(words, "str"))

    def python_functions(self) -> pd.DataFrame:
        """Calls of Python functions (recorded by ``with_stack=True``), in file order.

        start_ns, end_ns, rank, pid, tid, name (``file.py(12): function``, ``<built-in …>``, ``nn.Module:
        Linear_0``); python_id, python_parent (Int64: the caller's python_id), python_module (Int64).
        """
        return self._table("python_functions", kineto_tables.python_functions)

    def memory(self) -> pd.DataFrame:
        """Allocations and frees (recorded by ``profile_memory=True``), sorted by time.

        start_ns, rank, pid, tid; bytes (negative for a free); allocated_bytes, reserved_bytes (Int64: the
        totals afterwards); address; device_type ('cpu', 'cuda', …); device (-1 for the host).
        """
        return self._table("memory", kineto_tables.memory)

    def overheads(self) -> pd.DataFrame:
        """Time that the profiler itself took: start_ns, end_ns, rank, pid, tid, name."""
        return self._table("overheads", kineto_tables.overheads)

    def profiler_overhead(self) -> pd.DataFrame:
        """The same as `overheads`, under the name that captures of nsys use."""
        return self.overheads()

    def flows(self) -> pd.DataFrame:
        """The ends of flow arrows: start_ns, rank, pid, tid, flow, phase, category.

        pid and tid are device and stream where the end lies on a GPU; flow is the arrow's id; phase is 's'
        (start) or 'f' (finish); category is 'ac2g' (from call to kernel) or 'fwdbwd'.
        """
        return self._table("flows", kineto_tables.flows)

    # ---- what it ran on

    def gpus(self) -> pd.DataFrame:
        """The GPUs (``deviceProperties``) that were used, or all of them where none was.

        device, rank, name, sm_count, memory_bytes, compute_capability ('9.0').
        """
        rows = []
        for one in self._run.ranks:
            listed = one.metadata.get("deviceProperties")
            for entry in listed if isinstance(listed, list) else ():
                if not isinstance(entry, dict) or _whole(entry.get("id")) is None:
                    continue
                key = (one.rank, entry["id"])
                if self._run.devices and key not in self._run.devices:
                    continue
                capability = f"{entry.get('computeMajor', '?')}.{entry.get('computeMinor', '?')}"
                number = self._run.devices.get(key, entry["id"])
                sizes = [_whole(entry.get(what)) or 0 for what in ("numSms", "totalGlobalMem")]
                rows.append((number, one.rank, str(entry.get("name", "")), *sizes, capability))
        columns = ["device", "rank", "name", "sm_count", "memory_bytes", "compute_capability"]
        types = dict.fromkeys(("device", "rank", "sm_count", "memory_bytes"), "int64")
        table = pd.DataFrame(rows, columns=columns).astype({**types, "name": "str", columns[-1]: "str"})
        return table.sort_values(["device", "rank"], ignore_index=True)

    def threads(self) -> pd.DataFrame:
        """The CPU threads that have a name in the trace: pid, tid, name, rank."""
        rows = [
            (pid + self._run.pid_shift[one.rank], tid, thread_name(name), one.rank)
            for one in self._run.ranks
            for pid, tid, name in dict.fromkeys(one.columns.threads)
            if pid == self._run.own_pid[one.rank]
        ]
        types = {"pid": "int64", "tid": "int64", "name": "str", "rank": "int64"}
        return pd.DataFrame(rows, columns=list(types)).astype(types)

    def distributed(self) -> pd.DataFrame:
        """The ranks that were read (``distributedInfo``), one row each.

        rank, world_size, backend, file (its name), events (how many were read), complete (False if cut off).
        """
        rows = []
        for one in self._run.ranks:
            found = one.metadata.get("distributedInfo")
            backend = str(found.get("backend", "")) if isinstance(found, dict) else ""
            complete = not one.cut_off
            rows.append((one.rank, one.world_size, backend, one.path.name, one.columns.events, complete))
        return pd.DataFrame(rows, columns=["rank", "world_size", "backend", "file", "events", "complete"])

    def metadata(self, rank: int | None = None) -> Mapping[str, Any]:
        """The members beside the events in a rank's file, by default the first; `InputError` without one."""
        number = self.ranks[0] if rank is None else rank
        for one in self._run.ranks:
            if one.rank == number:
                return one.metadata
        there = ", ".join(map(str, self.ranks))
        raise InputError(f"{self.path}: no trace of rank {number}; it has those of {there}")

    def gpu_names(self) -> dict[int, str]:
        """The names of `gpus` by their numbers."""
        gpus = self.gpus()
        return dict(zip(gpus["device"], gpus["name"], strict=True))

    def is_marked(self) -> bool:
        """Whether `window` has to be asked for the part to analyze: always, for it is read already."""
        return True

    def utc_origin_ns(self) -> int | None:
        """The Unix time in ns at which the trace's clock is 0; None where a rank's file does not say."""
        return self.origin_ns if all(one.base_ns for one in self._run.ranks) else None

    def window(self) -> tuple[int, int]:
        """The part to analyze, as (start, end) in ns.

        That is the window given to `only`, else from the first to the last of the annotations named
        ``lab:measured``, else from the first to the last event. Python functions are left out, because some
        were entered before the profiler began.
        """
        if self._only is not None:
            return self._only
        marks = self.annotations()
        measured = marks[marks["name"] == MEASURED]
        if len(measured):
            return int(measured["start_ns"].min()), int(measured["end_ns"].max())
        spans = self._run.spans()
        if not spans:
            return 0, 0
        return min(start for start, _ in spans), max(end for _, end in spans)

    # ---- inner workings

    def _table(self, name: str, make: Callable[[Ranks, RankTrace], pd.DataFrame]) -> pd.DataFrame:
        if name not in self._tables:
            parts = [make(self._run, one).assign(rank=np.int64(one.rank)) for one in self._run.ranks]
            table = parts[0] if len(parts) == 1 else pd.concat(parts, ignore_index=True)
            self._tables[name] = table if self._only is None else _cut(table, self._only)
        return self._tables[name]


def _cut(table: pd.DataFrame, window: tuple[int, int]) -> pd.DataFrame:
    """The rows that overlap a window, cut off at its edges; a table without ends is left as it is."""
    if "end_ns" not in table:
        return table
    start, end = table["start_ns"], table["end_ns"]
    inside = (start < window[1]) & ((end > window[0]) | (start >= window[0]))
    cut = table.assign(start_ns=start.clip(*window), end_ns=end.clip(*window))
    return cut[inside].reset_index(drop=True)


def _whole(value: Any) -> int | None:
    """A whole number of at most 63 bits; None for anything else."""
    return value if isinstance(value, int) and 0 <= value < 1 << 63 else None


__all__ = ["MEASURED", "STEP", "KinetoReport", "open_trace"]
