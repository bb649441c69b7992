"""Traces in Perfetto's own format in, the documented tables of `KinetoReport` out::

    report = open_pftrace("run.pftrace")
    report.kernels().groupby("name")["start_ns"].count()

A trace that `labcode timeline` wrote comes back with its kernels, copies, calls and ranges, on the clock of
the capture. Of other traces, events are read whose category says what they are, in nanoseconds since the
first event.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from labcode.reports.columns import objects
from labcode.reports.frames import frame
from labcode.reports.kineto import tables as kineto_tables
from labcode.reports.kineto.open import RankTrace
from labcode.reports.kineto.ranks import Ranks, filled
from labcode.reports.kineto.report import KinetoReport
from labcode.reports.perfetto.open import OURS, read_pftrace
from labcode.reports.perfetto.schema import GRAPH


def open_pftrace(path: str | Path) -> PerfettoReport:
    """Open a trace (``.pftrace``, ``.perfetto-trace``, or either compressed by gzip).

    A trace that is cut off is read up to the cut; ``warnings`` says what was not read, and how much of it.
    Raises `labcode.errors.InputError` for a file that is missing, not such a trace, or without any slice.
    """
    path = Path(path)
    return PerfettoReport(path, [read_pftrace(path)])


class _Processes(Ranks):
    """The processes of one trace: what ran on a GPU is its own process'."""

    def __init__(self, ranks: Sequence[RankTrace]) -> None:
        super().__init__(ranks)
        (one,) = ranks
        if one.metadata[OURS]:
            self.origin_ns = one.base_ns

    def where(self, one: RankTrace, raw: Mapping[str, Any]) -> dict[str, Any]:
        """start_ns … correlation of what ran on a GPU."""
        return {**super().where(one, raw), "pid": raw["pid"]}

    def odd(self, path: Path) -> list[str]:
        """What is odd, a line each."""
        return [
            f"{path}: no GPU operations" if "ProfilerActivity" in line else line for line in super().odd(path)
        ]


class PerfettoReport(KinetoReport):
    """One trace. It has the tables of `KinetoReport`, where ``pid`` is each event's own process."""

    _together = _Processes
    format = "perfetto"

    def __repr__(self) -> str:
        return f"PerfettoReport({str(self.path)!r})"

    def kernels(self) -> pd.DataFrame:
        """Kernel executions; columns as in `KinetoReport.kernels`."""
        return self._table("kernels", _kernels)

    def graph_launches(self) -> pd.DataFrame:
        """Launches of whole CUDA graphs, where the trace was made from a capture that has them."""
        return self._table("graph_launches", _graphs)

    def gpu_ops(self) -> pd.DataFrame:
        """Kernels, copies, memsets and whole graphs by start time; columns as in `KinetoReport.gpu_ops`."""
        if "gpu_ops" in self._tables or not len(graphs := self.graph_launches()):
            return super().gpu_ops()
        whole = super().gpu_ops()
        names = "graph " + graphs["graph_id"].astype("str")
        missing = pd.array([pd.NA] * len(graphs), dtype="Int64")
        more = graphs.assign(
            kind="graph", name=names, short_name=names, bytes=missing, graph_node=missing, external_id=missing
        )
        every = pd.concat([whole, more[list(whole.columns)]], ignore_index=True)
        every = every.astype({"kind": "str", "name": "str", "short_name": "str"})
        self._tables["gpu_ops"] = every.sort_values("start_ns", kind="stable", ignore_index=True)
        return self._tables["gpu_ops"]

    def threads(self) -> pd.DataFrame:
        """The CPU threads that have a name in the trace: pid, tid, name, rank."""
        (one,) = self._run.ranks
        named = {(pid, tid): name for pid, tid, name in reversed(one.columns.threads)}
        rows = [(pid, tid, name, one.rank) for (pid, tid), name in sorted(named.items())]
        types = {"pid": "int64", "tid": "int64", "name": "str", "rank": "int64"}
        return pd.DataFrame(rows, columns=list(types)).astype(types)


def _kernels(run: Ranks, one: RankTrace) -> pd.DataFrame:
    raw = run.raw(one, "kernel")
    table = kineto_tables.kernels(run, one)
    return table.assign(short_name=objects(raw["short"], one.columns.texts)) if "short" in raw else table


def _graphs(run: Ranks, one: RankTrace) -> pd.DataFrame:
    none: dict[str, Any] = dict.fromkeys(
        ("name", "pid", "tid", "start", "duration", "device", "context", "stream", "correlation"),
        np.empty(0, np.int64),
    )
    raw = one.columns.kinds.get(GRAPH, none)
    names = objects(raw["name"], one.columns.texts)
    numbers = [int(text) if (text := str(name).rpartition(" ")[2][:18]).isdecimal() else 0 for name in names]
    return frame(
        **{key: filled(v) if key == "correlation" else v for key, v in run.where(one, raw).items()},
        graph_id=np.array(numbers, np.int64),
    )
