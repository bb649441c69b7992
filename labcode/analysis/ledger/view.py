"""A timeline in; its tables, read and joined once, out."""

import functools
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from labcode.analysis.ledger.owners import owners_of
from labcode.analysis.timeline.joins import launches_of
from labcode.analysis.timeline.summary import host_memory
from labcode.reports.columns import AnyInts, Bools, Ints, process_keys, remembering
from labcode.reports.frames import is_any
from labcode.reports.nsys.report import NsysReport
from labcode.reports.report import TimelineReport


class View:
    """What the ledger and the replay look at; every table is read when it is first asked for."""

    def __init__(self, report: TimelineReport) -> None:
        self.report = report
        self.hosts: dict[tuple[int, tuple[int, int]], Any] = {}  # what `labcode.analysis.ledger.ledger` found

    @cached_property
    def ops(self) -> pd.DataFrame:
        """All GPU operations, by start."""
        ops = self.report.gpu_ops()
        if ops["start_ns"].is_monotonic_increasing:
            return ops if isinstance(ops.index, pd.RangeIndex) else ops.reset_index(drop=True)
        return ops.sort_values("start_ns", kind="stable", ignore_index=True)

    @cached_property
    def api(self) -> pd.DataFrame:
        """All calls of CUDA."""
        return self.report.api()

    @cached_property
    def nvtx(self) -> pd.DataFrame:
        """All ranges."""
        return self.report.nvtx()

    @cached_property
    def row(self) -> Ints:
        """For each operation the position in ``api`` of the call that launched it; -1: none."""
        return launches_of(self.report, self.ops, self.api)

    @cached_property
    def owner(self) -> AnyInts:
        """For each operation its owner (`labcode.analysis.ledger.owners`)."""
        return owners_of(self.ops)

    @cached_property
    def pageable(self) -> Bools:
        """For each operation whether it copies from or to pageable memory of the host."""
        found = np.zeros(len(self.ops), np.bool_)
        copies = self.report.memcpys()
        slow = copies[["pid", "correlation"]][is_any(host_memory(copies), "pageable")]
        if len(slow):
            rows = np.flatnonzero(is_any(self.ops["kind"], "memcpy"))
            keys, theirs = process_keys(
                *(self.ops[c].to_numpy(np.int64)[rows] for c in ("pid", "correlation")),
                *(slow[c].to_numpy(np.int64) for c in ("pid", "correlation")),
            )
            found[rows] = np.isin(keys, theirs)
        return found

    def of_call(self, column: str, missing: int = -1) -> Ints:
        """A column of the launching call for each operation; ``missing`` where there is none."""
        return np.append(self.api[column].to_numpy(np.int64), missing)[self.row]


T = TypeVar("T")
KEPT = ("window", "kernels", "memcpys", "memsets", "graph_launches", "gpu_ops", "api", "nvtx", "gpus")


def kept(report: TimelineReport) -> TimelineReport:
    """The report, which from now on keeps the tables that are asked for many times: reading takes long."""
    if isinstance(report, NsysReport):
        report.source.keeps = True
        for name in KEPT:
            method = getattr(report, name)
            if not hasattr(method, "cache_info"):
                setattr(report, name, functools.cache(functools.partial(_remembered, method)))
    return report


def _remembered(method: Callable[[], T]) -> T:
    with remembering():
        return method()
