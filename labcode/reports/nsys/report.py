"""Nsight Systems captures: a path in, documented tables out.

Times are integers in nanoseconds since the capture began. Every table has the same columns and dtypes even
when the capture holds no such events: texts are ``str``, numbers ``int64``, numbers that may be missing
``Int64``, True and False ``bool``. Reading a table raises `labcode.errors.InputError` where the file turns
out to be damaged::

    report = open_report("capture.sqlite")
    report.kernels().groupby("name")["start_ns"].count()

Each method names the table of the export that it reads, and the option of nsys that records it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd

from labcode.inputs import Closing
from labcode.reports.columns import (
    Column,
    Ints,
    Objects,
    joined,
    named,
    numbered,
    objects,
    small,
    taken,
    together,
    unique,
)
from labcode.reports.common import MEASURED, Shown
from labcode.reports.frames import frame as _frame
from labcode.reports.frames import is_any
from labcode.reports.nsys import schema, stacks
from labcode.reports.nsys.open import open_export
from labcode.reports.nsys.schema import SchemaVersion, api_name, pid_of, tid_of
from labcode.reports.nsys.source import Source
from labcode.reports.nsys.sqlite import Coded

if TYPE_CHECKING:
    from labcode.reports.nsys.counters import Counter

_FRAME = ("start", "end", "globalPid", "deviceId", "contextId", "streamId", "correlationId")
_WHERE = ("pid", "device", "context", "stream", "correlation")
_COPY = (*_FRAME, "bytes", "copyKind", "srcKind", "dstKind", "graphNodeId")
_SET = (*_FRAME, "bytes", "value", "memKind", "graphNodeId")
_FEW_DOMAINS = 4096  # pairs of a process and a domain that are named without asking whether they occur


def open_report(path: str | Path) -> NsysReport:
    """Open an export (``.sqlite``, ``.sqlite.xz``, ``.nsys.xz``) or ``.nsys-rep``, which nsys exports first.

    Raises `labcode.errors.InputError` for a file that is missing, truncated, damaged, not from nsys or of a
    schema that cannot be read, and `labcode.errors.ToolError` if an ``.nsys-rep`` cannot be exported here.
    """
    return NsysReport(Source(open_export(Path(path))))


class NsysReport(Shown, Closing):
    """One open capture. It holds no lock on its file, so closing it, or using ``with``, is optional.

    ``path`` is the file that was opened, ``schema`` the version of its export schema, ``product_version``
    the version of the nsys that wrote it.
    """

    format: Literal["nsys"] = "nsys"

    def __init__(self, source: Source) -> None:
        self.source = source
        self.path: Path = source.path
        self.schema: SchemaVersion = source.version
        self.product_version: str = source.product

    def __repr__(self) -> str:
        return f"NsysReport({str(self.path)!r}, schema {self.schema})"

    def close(self) -> None:
        """Close the file."""
        self.source.close()

    @property
    def warnings(self) -> tuple[str, ...]:
        """One line for each oddity of the file: its version, columns missing in the tables read so far."""
        return self.source.warnings

    # ---- what ran on the GPU

    def kernels(self) -> pd.DataFrame:
        """Kernel executions (``CUPTI_ACTIVITY_KIND_KERNEL``), in file order.

        start_ns, end_ns; pid; device (GPU number, the same for all processes); context, stream (unique only
        together with pid and device); correlation (joins with `api` within a pid); name (demangled, with
        template arguments), short_name; grid_x … block_z; registers_per_thread; static_shared_bytes,
        dynamic_shared_bytes (per block); graph_node (Int64: the CUDA graph node that launched it, missing
        outside graphs).
        """
        more = ("demangledName", "shortName", *schema.GRID, "registersPerThread", "staticSharedMemory")
        raw = self.source.ints(schema.KERNEL, (*_FRAME, *more, "dynamicSharedMemory", "graphNodeId"))
        grid = {f"{c[:-1]}_{c[-1].lower()}": raw[c].values for c in schema.GRID}
        return _frame(
            **self._where(raw),
            name=objects(*self.source.kernel_names(raw["demangledName"])),
            short_name=objects(*self.source.kernel_names(raw["shortName"])),
            **grid,
            registers_per_thread=raw["registersPerThread"].values,
            static_shared_bytes=raw["staticSharedMemory"].values,
            dynamic_shared_bytes=raw["dynamicSharedMemory"].values,
            graph_node=raw["graphNodeId"],
        )

    def grids(self) -> tuple[Ints, Ints, Ints]:
        """Three arrays with one value per kernel: its start in ns, its blocks, its threads per block."""
        return self.source.taken(
            "grids", lambda: _grids(self.source.ints(schema.KERNEL, ("start", *schema.GRID)))
        )

    def memcpys(self) -> pd.DataFrame:
        """Copies (``CUPTI_ACTIVITY_KIND_MEMCPY``), in file order.

        start_ns, end_ns, pid, device, context, stream, correlation as in `kernels`; bytes; copy_kind ('H2D',
        'D2H', 'D2D', 'H2H', 'P2P', 'managed H2D', …); src_kind, dst_kind ('pageable', 'pinned', 'device',
        'managed', …); graph_node (Int64).
        """
        raw = self.source.shared(schema.MEMCPY, _COPY, _COPY)
        return _frame(
            **self._where(raw),
            bytes=raw["bytes"].values,
            copy_kind=named(raw["copyKind"].values, schema.COPY_KINDS),
            src_kind=named(raw["srcKind"].filled(-1), schema.MEMORY_KINDS),
            dst_kind=named(raw["dstKind"].filled(-1), schema.MEMORY_KINDS),
            graph_node=raw["graphNodeId"],
        )

    def memsets(self) -> pd.DataFrame:
        """Memsets (``CUPTI_ACTIVITY_KIND_MEMSET``), in file order.

        start_ns, end_ns, pid, device, context, stream, correlation as in `kernels`; bytes; value; mem_kind
        ('device', 'managed', …); graph_node (Int64).
        """
        raw = self.source.shared(schema.MEMSET, _SET, _SET)
        return _frame(
            **self._where(raw),
            bytes=raw["bytes"].values,
            value=raw["value"].values,
            mem_kind=named(raw["memKind"].filled(-1), schema.MEMORY_KINDS),
            graph_node=raw["graphNodeId"],
        )

    def graph_launches(self) -> pd.DataFrame:
        """Launches of whole CUDA graphs (``CUPTI_ACTIVITY_KIND_GRAPH_TRACE``, from schema 3.11).

        start_ns, end_ns, pid, device, context, stream, correlation as in `kernels`; graph_id. The kernels
        inside appear in `kernels` only if the capture was made with ``--cuda-graph-trace=node``.
        """
        raw = self.source.ints(schema.GRAPH, (*_FRAME, "graphId"))
        return _frame(**self._where(raw), graph_id=raw["graphId"].values)

    def gpu_ops(self) -> pd.DataFrame:
        """Everything that occupied a GPU: kernels, copies, memsets and whole graphs, sorted by start time.

        kind ('kernel', 'memcpy', 'memset', 'graph'); name (of the kernel; 'memcpy H2D'; 'memset'; 'graph 3');
        start_ns, end_ns, pid, device, context, stream, correlation as in `kernels`; bytes (Int64: copies and
        memsets); short_name; graph_node (Int64).
        """
        kernels = (*_FRAME, "demangledName", "shortName", "graphNodeId")
        raw = [
            self.source.ints(schema.KERNEL, (*kernels, *(schema.GRID if self.source.keeps else ()))),
            self.source.shared(schema.MEMCPY, (*_FRAME, "bytes", "copyKind", "graphNodeId"), _COPY),
            self.source.shared(schema.MEMSET, (*_FRAME, "bytes", "graphNodeId"), _SET),
            self.source.ints(schema.GRAPH, (*_FRAME, "graphId")),
        ]
        grids = _grids(raw[0]) if self.source.keeps else ()
        if self.source.keeps:
            raw[0] = {name: raw[0][name] for name in kernels}
        counts = [len(part["start"].values) for part in raw]
        copies = {kind: f"memcpy {name}" for kind, name in schema.COPY_KINDS.items()}
        graphs, codes = unique(raw[3]["graphId"].values)
        names = [
            self.source.kernel_names(raw[0]["demangledName"]),
            numbered(raw[1]["copyKind"].values, copies, "memcpy"),
            (np.zeros(counts[2], np.int64), ["memset"]),
            (codes, [f"graph {number}" for number in graphs]),
        ]
        where = [self._where(part) for part in raw]
        size = joined([_absent(counts[0]), raw[1]["bytes"], raw[2]["bytes"], _absent(counts[3])])
        node = joined([*(part["graphNodeId"] for part in raw[:3]), _absent(counts[3])])
        order = np.argsort(np.concatenate([part["start_ns"] for part in where]), kind="stable")
        if self.source.keeps:
            first = order[np.flatnonzero(order < counts[0])]  # kernels, by start
            self.source.once("grids", lambda: tuple(part[first] for part in grids))
        kinds = np.repeat(np.arange(4, dtype=np.int8), counts)
        short_names = [self.source.kernel_names(raw[0]["shortName"]), *names[1:]]
        del raw
        room = np.empty(len(order), np.int64)  # one for all columns, before they are brought in order
        return _frame(
            kind=objects(kinds[order], ["kernel", "memcpy", "memset", "graph"]),
            name=_together(names, order),
            **{
                key: taken(together([part.pop(key) for part in where], out=room), order)
                for key in list(where[0])
            },
            bytes=size.take(order),
            short_name=_together(short_names, order),
            graph_node=node.take(order),
        )

    def synchronizations(self) -> pd.DataFrame:
        """Waits for the GPU as CUPTI recorded them (``CUPTI_ACTIVITY_KIND_SYNCHRONIZATION``).

        start_ns, end_ns, pid, device, context, stream, correlation as in `kernels`; sync_type ('event',
        'stream wait event', 'stream', 'context'). Waits for a whole context name a stream that does not
        exist.
        """
        raw = self.source.ints(schema.SYNC, (*_FRAME, "syncType"))
        return _frame(**self._where(raw), sync_type=named(raw["syncType"].values, schema.SYNC_TYPES))

    def memory_usage(self) -> pd.DataFrame:
        """Allocations and frees by CUDA (``CUDA_GPU_MEMORY_USAGE_EVENTS``), sorted by time.

        Recorded with ``--cuda-memory-usage=true``. time_ns, pid, device, context, correlation as in
        `kernels`; operation ('allocation', 'deallocation'); mem_kind ('device', 'pinned', 'managed', …);
        address; bytes.
        """
        columns = ("start", "globalPid", "deviceId", "contextId", "correlationId", "memoryOperationType")
        raw = self.source.ints(schema.MEMORY_USAGE, (*columns, "memKind", "address", "bytes"))
        order = np.argsort(raw["start"].values, kind="stable")
        pid = pid_of(raw["globalPid"].values)
        table = _frame(
            time_ns=raw["start"].values,
            pid=pid,
            device=self._gpu_of(pid, raw["deviceId"].values),
            context=raw["contextId"].values,
            correlation=raw["correlationId"].values,
            operation=named(raw["memoryOperationType"].values, schema.MEMORY_OPERATIONS),
            mem_kind=named(raw["memKind"].values, schema.MEMORY_KINDS),
            address=raw["address"].values,
            bytes=raw["bytes"].values,
        )
        return table.iloc[order].reset_index(drop=True)

    def kernel_spans(self) -> dict[int, tuple[Ints, Ints]]:
        """By GPU number: the starts and ends, in ns, of its kernels and whole graphs, in no order."""
        parts: dict[int, list[tuple[Ints, Ints]]] = {}
        for table in (schema.KERNEL, schema.GRAPH):
            raw = self.source.ints(table, ("start", "end", "globalPid", "deviceId"))
            device = self._gpu_of(pid_of(raw["globalPid"].values), raw["deviceId"].values)
            for number in np.unique(device).tolist():
                rows = device == number
                parts.setdefault(number, []).append((raw["start"].values[rows], raw["end"].values[rows]))
        return {
            number: (np.concatenate([s for s, _ in some]), np.concatenate([e for _, e in some]))
            for number, some in parts.items()
        }

    def only(self, window: tuple[int, int]) -> None:
        """Restrict all tables to a window (start, end) in ns: only what overlaps it, clipped to its edges."""
        self.source.only(window)

    def has_counters(self) -> bool:
        """Whether the GPU's own counters were sampled."""
        return self.source.has_rows(schema.COUNTERS)

    def counters(self) -> list[Counter]:
        """The GPU's own counters over time (``GPU_METRICS``; ``--gpu-metrics-devices``), one series each."""
        if not self.has_counters():
            return []
        from labcode.reports.nsys.counters import read_counters

        return read_counters(self.source)

    def gpu_metrics(self) -> pd.DataFrame:
        """The samples of `counters`, sorted by GPU, metric and time.

        time_ns, device, metric (with its unit), value. A sample holds until the next one.
        """
        found = self.counters()
        none: list[Ints] = [np.empty(0, np.int64)]
        lengths = [len(counter.values) for counter in found]
        return _frame(
            time_ns=np.concatenate(none + [counter.time_ns for counter in found]),
            device=np.repeat(np.array([c.device for c in found], np.int64), lengths),
            metric=objects(np.repeat(np.arange(len(found)), lengths), [c.metric for c in found]),
            value=np.concatenate(none + [counter.values for counter in found]),
        )

    # ---- what ran on the CPU

    def api(self) -> pd.DataFrame:
        """Calls of the CUDA runtime and driver (``CUPTI_ACTIVITY_KIND_RUNTIME``), in file order.

        start_ns, end_ns; pid, tid; correlation (joins with GPU operations of the same pid); name (without
        nsys' version suffix: ``cudaLaunchKernel``), raw_name (with it); event_class ('runtime', 'driver');
        return_value.

        A capture made with ``--cudabacktrace`` holds each call that has a call stack twice, under the same
        correlation. The second records are left out here (nsys' own reports count both); their stacks are in
        `api_callchains`.
        """
        columns = ("start", "end", "globalTid", "correlationId", "nameId", "eventClass", "returnValue")
        once = ""
        if self.source.has(schema.CUDA_STACKS) and self.source.has_columns(schema.RUNTIME, ("eventClass",)):
            once = f"eventClass NOT IN ({', '.join(map(str, schema.BACKTRACE_CLASSES))})"
        raw = self.source.ints(schema.RUNTIME, columns, once)
        codes, texts = self.source.strings(raw["nameId"])
        return _frame(
            start_ns=raw["start"].values,
            end_ns=raw["end"].values,
            pid=pid_of(raw["globalTid"].values),
            tid=tid_of(raw["globalTid"].values),
            correlation=raw["correlationId"].values,
            name=objects(codes, [api_name(text) for text in texts]),
            raw_name=objects(codes, texts),
            event_class=named(raw["eventClass"].values, {0: "runtime", 1: "driver"}),
            return_value=raw["returnValue"].values,
        )

    def nvtx(self) -> pd.DataFrame:
        """NVTX ranges and marks (``NVTX_EVENTS``), in file order.

        start_ns, end_ns (Int64: missing for marks and for ranges that were still open at the end); pid, tid;
        end_tid (Int64: the thread that ended a start/end range); domain ('' for the default domain); name;
        event_type ('push_pop', 'start_end', 'mark'); color (Int64: ARGB).
        """
        columns = ("start", "end", "globalTid", "endGlobalTid", "eventType", "textId", "domainId", "color")
        raw, own = self.source.ranges(columns)
        pid, tid = pid_of(raw["globalTid"].values), tid_of(raw["globalTid"].values)
        ended = raw["endGlobalTid"]
        return _frame(
            start_ns=raw["start"].values,
            end_ns=raw["end"],
            pid=pid,
            tid=tid,
            end_tid=Column(tid_of(ended.values), ended.present),
            domain=self._domains(pid, raw["domainId"]),
            name=self._nvtx_texts(raw["textId"], own["text"]),
            event_type=named(raw["eventType"].values, schema.EVENT_TYPES),
            color=raw["color"],
        )

    def osrt(self) -> pd.DataFrame:
        """Calls of operating system libraries (``OSRT_API``; ``--trace=osrt``).

        start_ns, end_ns, pid, tid, name, return_value, nesting (0: not inside another traced call), callchain
        (Int64: joins with `osrt_callchains`; missing for calls shorter than ``--osrt-backtrace-threshold``).
        """
        columns = ("start", "end", "globalTid", "nameId", "returnValue", "nestingLevel", "callchainId")
        raw = self.source.ints(schema.OSRT, columns)
        return _frame(
            start_ns=raw["start"].values,
            end_ns=raw["end"].values,
            pid=pid_of(raw["globalTid"].values),
            tid=tid_of(raw["globalTid"].values),
            name=objects(*self.source.strings(raw["nameId"])),
            return_value=raw["returnValue"].values,
            nesting=raw["nestingLevel"].values,
            callchain=stacks.chain_of(self.source, raw["callchainId"], schema.OSRT_STACKS),
        )

    def osrt_begin(self) -> int | None:
        """The start of the first call in `osrt`, in ns; None where there is none."""
        start = self.source.ints(schema.OSRT, ("start",))["start"].values
        return int(start.min()) if len(start) else None

    # ---- call stacks

    def cpu_samples(self) -> pd.DataFrame:
        """Samples of running CPU threads (``COMPOSITE_EVENTS``; ``--sample=process-tree``).

        sample (joins with `cpu_callchains`), start_ns, pid, tid, cpu (Int64), thread_state ('running', …),
        cycles (since the thread's last sample, in units of the sampling period). Only running threads are
        sampled, so the number of samples measures CPU time.
        """
        return stacks.cpu_samples(self.source)

    def cpu_callchains(self) -> pd.DataFrame:
        """The native call stacks of `cpu_samples` (``SAMPLING_CALLCHAINS``), innermost function first.

        sample, depth (0: innermost), symbol (demangled), module (the library), unresolved (True where
        ``symbol`` is not a function's name).
        """
        return stacks.callchains(self.source, schema.SAMPLE_STACKS, "sample")

    def context_switches(self) -> pd.DataFrame:
        """When threads got and lost a CPU (``SCHED_EVENTS``; ``--cpuctxsw=process-tree``).

        Sorted by thread and time: start_ns, pid, tid, cpu (Int64), is_sched_in (False where it lost the CPU),
        thread_state ('terminated' at a thread's end, where nsys says so; otherwise mostly 'unknown').
        """
        return stacks.context_switches(self.source)

    def osrt_callchains(self) -> pd.DataFrame:
        """The native call stacks of long OS calls (``OSRT_CALLCHAINS``), innermost function first.

        callchain (joins with `osrt`), depth, symbol, module, unresolved as in `cpu_callchains`.
        """
        return stacks.callchains(self.source, schema.OSRT_STACKS, "callchain")

    def api_callchains(self) -> pd.DataFrame:
        """The native call stacks of CUDA calls (``CUDA_CALLCHAINS``; ``--cudabacktrace``), call by call.

        callchain, call_start_ns, call_end_ns, pid, tid, correlation (joins with GPU operations of the same
        pid), call_name; depth, symbol, module, unresolved as in `cpu_callchains`.
        """
        return stacks.api_callchains(self.source)

    def python_samples(self) -> pd.DataFrame:
        """Samples of Python threads (``--python-sampling=true``), sorted by time.

        sample (a number; joins with `python_frames`), start_ns, pid, tid, thread_state ('running',
        'interruptible', …).
        """
        return stacks.python_stacks(self.source, "sample")[0]

    def python_frames(self) -> pd.DataFrame:
        """The stacks of `python_samples`: sample, depth (0: innermost), function, file, line."""
        return stacks.python_stacks(self.source, "sample")[1]

    def python_backtraces(self) -> pd.DataFrame:
        """Python stacks taken at CUDA calls (``--python-backtrace=cuda``), by time, each with its call.

        backtrace (joins with `python_backtrace_frames`), start_ns, pid, tid, thread_state; call_start_ns,
        call_end_ns, correlation (Int64, missing where the capture lacks the call), call_name ('' there).
        """
        return stacks.python_backtraces(self.source)

    def python_backtrace_frames(self) -> pd.DataFrame:
        """The stacks of `python_backtraces`: backtrace, depth (0: innermost), function, file, line."""
        return stacks.python_stacks(self.source, "backtrace")[1]

    # ---- the machine and the profiler itself

    def gpus(self) -> pd.DataFrame:
        """The GPUs of the machine (``TARGET_INFO_GPU``).

        device, name, sm_count, memory_bytes, memory_bandwidth_bytes_per_s (published peak), clock_hz (maximum
        SM clock), l2_bytes, warps_per_sm, compute_capability ('9.0'). Numbers other than device are Int64.
        """
        columns = (
            "id",
            "smCount",
            "totalMemory",
            "memoryBandwidth",
            "clockRate",
            "l2CacheSize",
            "maxWarpsPerSm",
        )
        raw, texts = self.source.rows(schema.GPU, (*columns, "computeMajor", "computeMinor"), ("name",))
        versions = zip(raw["computeMajor"].values, raw["computeMinor"].values, strict=True)
        return _frame(
            device=raw["id"].values,
            name=objects(*texts["name"]),
            sm_count=raw["smCount"],
            memory_bytes=raw["totalMemory"],
            memory_bandwidth_bytes_per_s=raw["memoryBandwidth"],
            clock_hz=raw["clockRate"],
            l2_bytes=raw["l2CacheSize"],
            warps_per_sm=raw["maxWarpsPerSm"],
            compute_capability=np.array([f"{major}.{minor}" for major, minor in versions], object),
        )

    def gpu_names(self) -> dict[int, str]:
        """The names of the GPUs of the machine by their numbers."""
        raw, texts = self.source.rows(schema.GPU, ("id",), ("name",))
        return dict(zip(raw["id"].values.tolist(), objects(*texts["name"]), strict=True))

    def threads(self) -> pd.DataFrame:
        """The names of threads (``ThreadNames``): pid, tid, name."""
        raw = self.source.ints(schema.THREADS, ("globalTid", "nameId"))
        return _frame(
            pid=pid_of(raw["globalTid"].values),
            tid=tid_of(raw["globalTid"].values),
            name=objects(*self.source.strings(raw["nameId"])),
        )

    def diagnostics(self) -> pd.DataFrame:
        """Messages of the profiler about itself (``DIAGNOSTIC_EVENT``, from schema 3.11).

        time_ns; severity ('info', 'warning', 'error', 'verbose'); text; pid.
        """
        raw = self.source.ints(schema.DIAGNOSTICS, ("timestamp", "severity", "globalPid"))
        return _frame(
            time_ns=raw["timestamp"].values,
            severity=named(raw["severity"].values, schema.SEVERITIES),
            text=objects(*self.source.texts(schema.DIAGNOSTICS, "text")),
            pid=pid_of(raw["globalPid"].values),
        )

    def profiler_overhead(self) -> pd.DataFrame:
        """Time that the profiler itself took in the program's threads (``PROFILER_OVERHEAD``).

        start_ns, end_ns, pid, tid, name.
        """
        raw = self.source.ints(schema.OVERHEAD, ("start", "end", "globalTid", "nameId"))
        return _frame(
            start_ns=raw["start"].values,
            end_ns=raw["end"].values,
            pid=pid_of(raw["globalTid"].values),
            tid=tid_of(raw["globalTid"].values),
            name=objects(*self.source.strings(raw["nameId"])),
        )

    def window(self) -> tuple[int, int]:
        """The part of the capture to analyze, as (start, end) in ns.

        That is the window given to `only`, else from the first start to the last end of the NVTX ranges named
        ``lab:measured`` (over all processes), else from the first to the last event, else (0, 0).
        """
        if self.source.window is not None:
            return self.source.window
        ranges = self.nvtx()
        domain, _, name = MEASURED.partition(":")
        own = is_any(ranges["domain"], domain) & is_any(ranges["name"], name)
        plain = is_any(ranges["name"], MEASURED) & is_any(ranges["domain"], "")
        marked = own | plain
        if marked.any() and len(measured := ranges[marked & ranges["end_ns"].notna().to_numpy()]):
            return int(measured["start_ns"].min()), int(measured["end_ns"].max())
        first, last = [], []
        for table in (schema.KERNEL, schema.MEMCPY, schema.MEMSET, schema.GRAPH, schema.RUNTIME, schema.NVTX):
            extent = self.source.extent(table, schema.ALL_BUT_DOMAINS * (table == schema.NVTX))
            if extent is not None:
                first.append(extent[0])
                last.append(extent[1])
        return (min(first), max(last)) if first else (0, 0)

    def is_marked(self) -> bool:
        """Whether a text is the name of the ranges that `window` looks for, which takes longer."""
        names = MEASURED, MEASURED.partition(":")[2]
        tables = (schema.STRINGS, "value"), (schema.NVTX, "text")
        return any(self.source.has_text(*where, *names) for where in tables)

    def utc_origin_ns(self) -> int | None:
        """The Unix time in ns at which the capture's clock is 0 (``TARGET_INFO_SESSION_START_TIME``).

        None where the export does not say, as in scrubbed ones.
        """
        if not self.source.has_columns(schema.SESSION_START, ("utcEpochNs",)):
            return None
        found = self.source.ints(schema.SESSION_START, ("utcEpochNs",))["utcEpochNs"].values
        return int(found[0]) if len(found) else None

    # ---- helpers

    def _where(self, raw: Mapping[str, Column]) -> dict[str, Ints]:
        """start_ns … correlation of GPU operations."""
        pid = pid_of(raw["globalPid"].values)
        return {
            "start_ns": raw["start"].values,
            "end_ns": raw["end"].values,
            "pid": pid,
            "device": self._gpu_of(pid, raw["deviceId"].values),
            "context": raw["contextId"].values,
            "stream": raw["streamId"].values,
            "correlation": raw["correlationId"].values,
        }

    def _gpu_of(self, pid: Ints, device: Ints) -> Ints:
        """The GPU's number over all processes: one that sees only some of the GPUs counts those from 0."""
        columns = ("gpuId", "cudaId", "pid")
        if not self.source.has_columns(schema.CUDA_DEVICE, columns):
            return device
        raw = self.source.once("numbers of GPUs", lambda: self.source.ints(schema.CUDA_DEVICE, columns))
        renamed = device.copy()
        for gpu, own, process in zip(*(raw[c].values.tolist() for c in columns), strict=True):
            if gpu != own:
                renamed[(pid == process) & (device == own)] = gpu
        return renamed

    def _domains(self, pid: Ints, domain: Column) -> Objects:
        """Names of NVTX domains: a number is a name within its process only."""
        raw, texts = self.source.domains()
        names = self._nvtx_texts(raw["textId"], texts["text"])
        known = dict(
            zip(zip(pid_of(raw["globalTid"].values), raw["domainId"].values, strict=True), names, strict=True)
        )
        numbers, number = unique(domain.filled(0))
        if not known and len(numbers) == 1:  # nobody named any
            own = int(numbers[0])
            return objects(np.zeros(len(pid), np.int8), [f"domain {own}" if own else ""])
        processes, pair = unique(pid)
        if len(numbers) > 1:
            pair = pair * len(numbers) + number
        count = len(processes) * len(numbers)
        pairs, pair = (np.arange(count), pair) if count <= _FEW_DOMAINS else unique(pair)
        found = []
        for key in pairs.tolist():
            owner, own = int(processes[key // len(numbers)]), int(numbers[key % len(numbers)])
            found.append(known.get((owner, own), f"domain {own}" if own else ""))
        return objects(pair, found)

    def _nvtx_texts(self, ids: Column, own: Coded) -> Objects:
        """The texts of NVTX events: the registered one, or their own; '' where they have none."""
        codes, texts = self.source.strings(ids)
        if not any(texts):
            return objects(*own)
        registered = np.array([text != "" for text in texts] + [False], np.bool_)[codes]
        other = np.where(own[0] >= 0, own[0] + len(texts), -1)
        return objects(np.where(registered, codes, other), [*texts, *own[1]])


def _grids(raw: Mapping[str, Column]) -> tuple[Ints, Ints, Ints]:
    """Starts of kernels, blocks, threads in a block."""
    x, y, z, *block = (raw[name].values for name in schema.GRID)
    return raw["start"].values, small(x * y * z), small(block[0] * block[1] * block[2])


def _together(parts: Sequence[Coded], order: Ints) -> Objects:
    """The texts of several columns, one after the other, in some order."""
    first = np.cumsum([0, *(len(texts) for _, texts in parts)])
    size = np.int32 if first[-1] < 1 << 31 else np.int64
    codes = np.concatenate(
        [np.add(part, low, dtype=size) for (part, _), low in zip(parts, first, strict=False)]
    )
    return objects(codes[order], [text for _, texts in parts for text in texts])


def _absent(count: int) -> Column:
    return Column(np.broadcast_to(np.int64(0), count), np.broadcast_to(np.False_, count))
