"""Hidden inputs: what happened on a made-up machine in, tables as of `labcode.reports.nsys.report` out.

Two ways to make them: the ``*_table`` functions turn rows into tables with all columns and their types, and
`Recorder` plays a CPU thread that launches, copies and waits, and keeps the times a profiler would have seen.
All times in ns.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from labcode.grading import columns

Row = dict[str, Any]
MAIN_STREAM = 7
RANGE_NS = 60  # what opening or closing a range costs, so that no two begin at the same time


def table(rows: Sequence[Mapping[str, Any]], kind: str) -> pd.DataFrame:
    """These rows as a table of `NsysReport`: ``kernels``, ``memcpys``, ``gpu_ops``, ``api`` or ``nvtx``.

    Columns that a row does not name get a plain default. Rows keep their order.
    """
    wanted = columns.TABLES[kind]
    data = {
        name: pd.Series([row.get(name, default) for row in rows], dtype=dtype)
        for name, (dtype, default) in wanted.items()
    }
    unknown = {name for row in rows for name in row} - set(wanted)
    if unknown:
        raise KeyError(f"{kind} has no columns {sorted(unknown)}")
    return pd.DataFrame(data)


def ops_table(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """GPU operations of all kinds, in order of their start."""
    return _by_start(table([_named(row) for row in rows], "gpu_ops"))


def kernels_of(ops: pd.DataFrame, kernels: Sequence[Mapping[str, Any]] = ()) -> pd.DataFrame:
    """The kernels among operations as a table of kernels; ``kernels`` adds columns by pid and correlation."""
    chosen = ops[ops["kind"] == "kernel"]
    shared = [name for name in columns.TABLES["kernels"] if name in chosen.columns]
    rows = [{str(k): v for k, v in row.items()} for row in chosen[shared].to_dict("records")]
    more = {(row["pid"], row["correlation"]): row for row in kernels}
    return _by_start(
        table([{**row, **more.get((row["pid"], row["correlation"]), {})} for row in rows], "kernels")
    )


@dataclass
class Recorder:
    """One CPU thread of one process that drives one GPU, and what the profiler writes down about both.

    ``now`` is the thread's clock. A launch takes ``launch_ns`` on the CPU; the operation starts
    ``latency_ns`` after the call returned, or when its stream is free, or (``room`` streams at most at once)
    when the GPU has room. Several recorders may share a GPU.
    """

    pid: int = 4000
    tid: int = 4000
    device: int = 0
    now: int = 0
    launch_ns: int = 3000
    latency_ns: int = 1500
    room: int = 1000
    correlation: int = 100
    ops: list[Row] = field(default_factory=list)
    calls: list[Row] = field(default_factory=list)
    ranges: list[Row] = field(default_factory=list)
    free: dict[int, int] = field(default_factory=dict)

    def work(self, ns: int) -> None:
        """The thread computes, outside of any API."""
        self.now += ns

    @contextmanager
    def range(self, name: str) -> Iterator[None]:
        """An NVTX push/pop range."""
        row: Row = {
            "start_ns": self.now,
            "pid": self.pid,
            "tid": self.tid,
            "name": name,
            "event_type": "push_pop",
        }
        self.ranges.append(row)
        self.now += RANGE_NS
        yield
        row["end_ns"] = self.now
        row["end_tid"] = self.tid
        self.now += RANGE_NS

    def call(self, name: str, ns: int, *, numbered: bool = True) -> int:
        """An API call; gives back its correlation."""
        self.correlation += 1
        self.calls.append(
            {
                "start_ns": self.now,
                "end_ns": self.now + ns,
                "pid": self.pid,
                "tid": self.tid,
                "correlation": self.correlation,
                "name": name,
                "raw_name": name + "_v3020",
                "event_class": "runtime",
            }
        )
        self.now += ns
        return self.correlation

    def launch(self, ns: int, name: str = "kernel", stream: int = MAIN_STREAM, **more: Any) -> Row:
        """Launch a kernel that runs for ``ns``."""
        correlation = self.call("cudaLaunchKernel", self.launch_ns)
        return self._queue("kernel", ns, stream, correlation, name=name, short_name=name, **more)

    def copy(self, ns: int, size: int, kind: str = "H2D", stream: int = MAIN_STREAM, **more: Any) -> Row:
        """Queue a copy that runs for ``ns``."""
        correlation = self.call("cudaMemcpyAsync", self.launch_ns)
        name = f"memcpy {kind}"
        return self._queue("memcpy", ns, stream, correlation, name=name, short_name=name, bytes=size, **more)

    def memset(self, ns: int, size: int = 4096, stream: int = MAIN_STREAM) -> Row:
        """Queue a memset that runs for ``ns``."""
        correlation = self.call("cudaMemsetAsync", self.launch_ns)
        return self._queue("memset", ns, stream, correlation, name="memset", short_name="memset", bytes=size)

    def graph(self, ns: int, stream: int = MAIN_STREAM) -> Row:
        """Launch a graph that is traced as a whole and runs for ``ns``."""
        correlation = self.call("cudaGraphLaunch", self.launch_ns)
        return self._queue("graph", ns, stream, correlation, name="graph", short_name="graph")

    def graph_nodes(self, ns: Sequence[int], name: str, stream: int = MAIN_STREAM) -> list[Row]:
        """Launch a graph of which each node is traced: kernels that share the correlation of the launch."""
        correlation = self.call("cudaGraphLaunch", self.launch_ns)
        return [
            self._queue("kernel", each, stream, correlation, name=name, short_name=name, graph_node=node)
            for node, each in enumerate(ns, 1)
        ]

    def synchronize(self, after_ns: int = 4000, name: str = "cudaDeviceSynchronize") -> None:
        """Wait until the GPU is done; the call returns ``after_ns`` later."""
        done = max([self.now, *self.free.values()])
        self.call(name, done - self.now + after_ns)

    def read_back(self, ns: int = 1200, size: int = 4, stream: int = MAIN_STREAM) -> None:
        """Copy a few bytes to the host and wait for them, as ``.item()`` does."""
        self.copy(ns, size, "D2H", stream)
        self.synchronize(name="cudaStreamSynchronize")

    def _queue(self, kind: str, ns: int, stream: int, correlation: int, **more: Any) -> Row:
        busy = sorted(end for end in self.free.values() if end > self.now)
        no_room = busy[-self.room] if len(busy) >= self.room else 0
        start = max(self.now + self.latency_ns, self.free.get(stream, 0), no_room)
        row = {
            "kind": kind,
            "start_ns": start,
            "end_ns": start + ns,
            "pid": self.pid,
            "device": self.device,
            "context": 1,
            "stream": stream,
            "correlation": correlation,
            **more,
        }
        self.free[stream] = start + ns
        self.ops.append(row)
        return row


def tables_of(recorders: Sequence[Recorder]) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """The tables ``gpu_ops``, ``api`` and ``nvtx`` of what some recorders wrote down."""
    known = columns.TABLES["gpu_ops"]
    ops = ops_table([{k: v for k, v in row.items() if k in known} for r in recorders for row in r.ops])
    api = _by_start(table([row for r in recorders for row in r.calls], "api"))
    nvtx = _by_start(table([row for r in recorders for row in r.ranges], "nvtx"))
    return ops, api, nvtx


def _named(row: Mapping[str, Any]) -> Row:
    return {"kind": "kernel", **row}


def _by_start(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.sort_values("start_ns", kind="stable").reset_index(drop=True)
