"""Traces of ``torch.profiler`` (Kineto) in, documented tables out.

Times are integers in nanoseconds since the first event of the trace (of all ranks, on their common clock).
Every table has its columns and dtypes also when the trace holds no such events, and a column ``rank``. What
a capture of nsys holds, too, has the same columns as there (`labcode.reports.nsys.report`), so that an
analysis of one works on the other.

    report = open_trace("run.trace.json.gz")
    report.kernels().groupby("name")["start_ns"].count()
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from labcode.ending import Closing
from labcode.reports.frames import frame
from labcode.reports.kineto import tables as kineto_tables
from labcode.reports.kineto.names import thread_name
from labcode.reports.kineto.open import RankTrace, open_ranks, trace_files
from labcode.reports.kineto.ranks import Ranks
from labcode.reports.marks import MEASURED, STEP
from labcode.reports.shown import Shown

_WHERE = ("start_ns", "end_ns", "pid", "device", "context", "stream", "correlation")


def open_trace(path: str | Path | Sequence[Path]) -> KinetoReport:
    """Open a trace (``.json``, ``.json.gz``), a folder with one for each rank, or these files.

    Raises `labcode.errors.InputError` for a file that is missing or no trace. One that is cut off is read as
    far as it goes; ``warnings`` says how far that is.
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
    """The traces of one run: one file, or one for each rank.

    ``path`` is what was opened, ``ranks`` the numbers of the ranks that are there, ``world_size`` how many
    there were, ``warnings`` what is odd, a line each, ``complete`` whether no file is cut off,
    ``beside`` a trace of another run that reports compare it with.
    """

    format: Literal["kineto", "perfetto"] = "kineto"
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
        """From here on show what overlaps a window alone, cut off at its edges.

        Allocations and arrows are points of a sequence: they are shown whole.
        """
        self._only = window
        self._tables.clear()

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
        return self._table("kernels", kineto_tables.kernels)

    def memcpys(self) -> pd.DataFrame:
        """Copies: as `kernels` up to correlation; bytes; copy_kind ('H2D', 'D2H', …), src_kind, dst_kind
        ('pageable', 'pinned', 'device', …); raw_name (as Kineto writes it); graph_node, external_id (Int64).
        """
        return self._table("memcpys", kineto_tables.memcpys)

    def memsets(self) -> pd.DataFrame:
        """Memsets: as `kernels` up to correlation; bytes; value (always 0: a trace does not hold it);
        mem_kind; raw_name; graph_node, external_id (Int64).
        """
        return self._table("memsets", kineto_tables.memsets)

    def graph_launches(self) -> pd.DataFrame:
        """Whole CUDA graphs: none, for Kineto traces the kernels inside. Columns as of nsys' captures."""
        columns = ("start_ns", "end_ns", "pid", "device", "context", "stream", "correlation", "graph_id")
        return frame(**{column: np.empty(0, np.int64) for column in columns})

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
        """Waits as CUPTI recorded them; columns as of `kernels` up to correlation, and sync_type."""
        return self._table("synchronizations", kineto_tables.synchronizations)

    def gpu_annotations(self) -> pd.DataFrame:
        """Annotations where their work ran on the GPU: start_ns, end_ns, rank, pid, device, stream, name,
        external_id (Int64: of the annotation on the CPU).

        From the first to the last operation. Kineto writes them wider by one unit of its clock (nanoseconds,
        in older traces microseconds) on each side, so that viewers draw them around; that is taken back.
        """
        return self._table("gpu_annotations", kineto_tables.gpu_annotations)

    # ---- what ran on the CPU

    def api(self) -> pd.DataFrame:
        """Calls of the CUDA runtime and driver, in the order of the file.

        start_ns, end_ns, rank, pid, tid, correlation, name, raw_name (the same), event_class ('runtime',
        'driver'), return_value (always 0: a trace does not hold it), external_id (Int64).
        """
        return self._table("api", kineto_tables.api)

    def ops(self) -> pd.DataFrame:
        """Operators (``cpu_op``), in the order of the file.

        start_ns, end_ns, rank, pid, tid, name; external_id (Int64: joins with kernels and calls), sequence
        (Int64: joins a backward operator with its forward one), fwd_thread (Int64); input_dims, input_types,
        input_strides, concrete_inputs (JSON texts, '' where not recorded), call_stack, module_hierarchy (as
        older versions write them).
        """
        return self._table("ops", kineto_tables.ops)

    def annotations(self) -> pd.DataFrame:
        """What the program marked (``record_function``, the profiler's steps, the optimizer's):
        start_ns, end_ns, rank, pid, tid, name, external_id (Int64).
        """
        return self._table("annotations", kineto_tables.marks)

    def nvtx(self) -> pd.DataFrame:
        """The annotations as ranges, with the columns that nsys' captures have: start_ns, end_ns (Int64),
        pid, tid, end_tid, domain (''), name, event_type ('push_pop'), color (missing); rank.

        In a trace without GPU operations, operators count as ranges, too: it has nothing else to show.
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
        """Calls of Python functions (``with_stack=True``), in the order of the file.

        start_ns, end_ns, rank, pid, tid, name (``file.py(12): function``, ``<built-in …>``, ``nn.Module:
        Linear_0``); python_id, python_parent (Int64: the caller's python_id), python_module (Int64).
        """
        return self._table("python_functions", kineto_tables.python_functions)

    def memory(self) -> pd.DataFrame:
        """Allocations and frees (``profile_memory=True``), by time.

        start_ns, rank, pid, tid; bytes (negative: a free), allocated_bytes, reserved_bytes (Int64: in all,
        afterwards), address, device_type ('cpu', 'cuda', …), device (-1: the host).
        """
        return self._table("memory", kineto_tables.memory)

    def overheads(self) -> pd.DataFrame:
        """What the profiler itself took: start_ns, end_ns, rank, pid, tid, name."""
        return self._table("overheads", kineto_tables.overheads)

    def profiler_overhead(self) -> pd.DataFrame:
        """`overheads`, as nsys' captures call them: start_ns, end_ns, rank, pid, tid, name."""
        return self.overheads()

    def flows(self) -> pd.DataFrame:
        """Ends of arrows: start_ns, rank, pid, tid (of the GPU: device and stream), flow (its id), phase ('s'
        or 'f'), category ('ac2g': from call to kernel, 'fwdbwd').
        """
        return self._table("flows", kineto_tables.flows)

    # ---- what it ran on

    def gpus(self) -> pd.DataFrame:
        """The GPUs (``deviceProperties``) that anything ran on, or all where nothing ran: device, rank, name,
        sm_count, memory_bytes, compute_capability (texts such as '9.0').
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
        """The CPU threads that the trace names: pid, tid, name (as the program named it), rank."""
        rows = [
            (pid + self._run.pid_shift[one.rank], tid, thread_name(name), one.rank)
            for one in self._run.ranks
            for pid, tid, name in dict.fromkeys(one.columns.threads)
            if pid == self._run.own_pid[one.rank]
        ]
        types = {"pid": "int64", "tid": "int64", "name": "str", "rank": "int64"}
        return pd.DataFrame(rows, columns=list(types)).astype(types)

    def distributed(self) -> pd.DataFrame:
        """Who took part (``distributedInfo``): rank, world_size, backend, path of the file, events read,
        complete (False: cut off).
        """
        rows = []
        for one in self._run.ranks:
            found = one.metadata.get("distributedInfo")
            backend = str(found.get("backend", "")) if isinstance(found, dict) else ""
            complete = not one.cut_off
            rows.append((one.rank, one.world_size, backend, one.path.name, one.columns.events, complete))
        return pd.DataFrame(rows, columns=["rank", "world_size", "backend", "file", "events", "complete"])

    def metadata(self, rank: int | None = None) -> Mapping[str, Any]:
        """What stands beside the events in a rank's file (of the first one by default)."""
        number = self.ranks[0] if rank is None else rank
        return next(one.metadata for one in self._run.ranks if one.rank == number)

    def utc_origin_ns(self) -> int | None:
        """When the trace's clock showed 0, in ns of Unix time; None where a rank's file does not say so."""
        return self.origin_ns if all(one.base_ns for one in self._run.ranks) else None

    def window(self) -> tuple[int, int]:
        """(start, end) of the measured part: the annotations `MEASURED`, else from first to last event.

        Python's functions do not count: those that were entered before the profiler began are open. Where
        the report shows a window alone (`only`), it is that.
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
