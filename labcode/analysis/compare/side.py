"""One capture in; of its measured part, the durations of every kernel, range and kind of copy by name out."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labcode.analysis.compare.ranges import STARTS, Floats
from labcode.analysis.timeline import intervals
from labcode.analysis.timeline.joins import duration_ns
from labcode.analysis.timeline.nvtx import cpu_ranges, labels, project
from labcode.analysis.timeline.transfers import host_memory
from labcode.reports.nsys.report import MEASURED, NsysReport


class Side:
    """One capture's measured part: tables cut to the window, durations by name."""

    def __init__(self, report: NsysReport, window: tuple[int, int]) -> None:
        def inside(table: pd.DataFrame) -> pd.DataFrame:
            return table[(table["start_ns"] >= window[0]) & (table["start_ns"] <= window[1])]

        nvtx = report.nvtx()
        nvtx = inside(nvtx[labels(nvtx) != MEASURED])
        self.kernels = inside(report.kernels())
        self.memcpys = inside(report.memcpys())
        self.graphs = len(inside(report.graph_launches()))
        ops = inside(report.gpu_ops())
        self.devices = sorted(int(device) for device in ops["device"].unique())
        self.busy_ns = sum(
            intervals.total(own["start_ns"].to_numpy(), own["end_ns"].to_numpy())
            for _, own in ops.groupby("device")
        )
        self.kernel_times = _times(self.kernels["name"], duration_ns(self.kernels))
        ranges = cpu_ranges(nvtx)
        self.range_times = _times(ranges["label"], duration_ns(ranges))
        self.range_starts = ranges[list(STARTS)]
        spans = project(nvtx, report.api(), ops)
        self.projected_times = _times(spans["label"], spans["span_ns"].to_numpy(np.int64))
        on_gpu = spans.drop(columns="start_ns").rename(columns={"gpu_start_ns": "start_ns"})
        self.projected_starts = on_gpu[list(STARTS)]
        self.copy_times = _by_copy(self.memcpys, duration_ns(self.memcpys))
        self.copy_sizes = _by_copy(self.memcpys, self.memcpys["bytes"].to_numpy(np.int64))
        self.copied_bytes = {kind: int(sizes.sum()) for kind, sizes in self.copy_sizes.items()}


def _times(names: pd.Series, values: NDArray[np.int64]) -> dict[str, Floats]:
    """The values of each name, in a table's order."""
    places = pd.Series(range(len(names))).groupby(names.to_numpy()).indices
    return {str(name): values[rows].astype(np.float64) for name, rows in places.items()}


def _by_copy(memcpys: pd.DataFrame, values: NDArray[np.int64]) -> dict[tuple[str, str], Floats]:
    """The values of each (kind of copy, host memory)."""
    keys = pd.DataFrame({"kind": memcpys["copy_kind"].to_numpy(), "memory": host_memory(memcpys).to_numpy()})
    found = {}
    for kind, same in keys.groupby("kind"):
        for memory, rows in same.groupby("memory"):
            found[str(kind), str(memory)] = values[rows.index.to_numpy()].astype(np.float64)
    return found
