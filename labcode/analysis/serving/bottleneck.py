"""What bounds a program or a kernel: a report in; a few shares as evidence, and one of seven names, out.

The order of the questions is that of the decision tree (`labcode.figures.diagrams.decisions`): first whether
the GPU works at all, then what at, and only for kernels what inside of the GPU limits them.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from labcode.analysis.timeline import intervals
from labcode.analysis.timeline.intervals import Spans
from labcode.analysis.timeline.joins import in_window, spans
from labcode.analysis.timeline.overlap import is_communication
from labcode.analysis.timeline.utilization import idle_gaps
from labcode.errors import LabError
from labcode.reports.ncu.launch import Launch

MUCH = 0.2  # of the window: less idle time, or less copying, is not what bounds it
LONG_NS = 100_000  # a gap that no launch explains: the program was elsewhere
NEAR = 0.6  # of a unit's peak: as close as ncu's own rules call bound
NAMES = ("input", "launch", "transfer", "communication", "compute", "memory", "latency")
Evidence = Mapping[str, float]


def of_timeline(ops: pd.DataFrame, window: tuple[int, int]) -> dict[str, float]:
    """Shares of a window, over all GPUs alike, of a report's `gpu_ops`.

    ``idle``: nothing runs; ``long_gaps``: of the idle time, that in gaps of `LONG_NS` or more; ``copying``:
    copies and nothing else run; ``talking``: communication and no other kernel runs. `LabError` without a
    window or without GPUs.
    """
    low, high = window
    if high <= low or ops.empty:
        raise LabError("no operation of a GPU lies in the window: there is nothing to judge")
    shares = []
    for device, mine in in_window(ops, window).groupby("device"):
        length = float(high - low)
        spans = {"all": mine, "copy": mine[mine["kind"] == "memcpy"], "talk": mine[is_communication(mine)]}
        rest = mine[(mine["kind"] != "memcpy") & ~is_communication(mine)]
        busy = {name: _clipped(table, window) for name, table in spans.items()}
        working = _clipped(rest, window)
        gaps = idle_gaps(ops[ops["device"] == device], window)
        lengths = (gaps["end_ns"] - gaps["start_ns"]).to_numpy(float)
        shares.append(
            {
                "idle": 1 - intervals.total(*busy["all"]) / length,
                "long_gaps": float(lengths[lengths >= LONG_NS].sum() / max(lengths.sum(), 1.0)),
                "copying": _alone(busy["copy"], working, busy["talk"]) / length,
                "talking": _alone(busy["talk"], working, (np.array([], int), np.array([], int))) / length,
            }
        )
    return {str(name): float(value) for name, value in pd.DataFrame(shares).mean().items()}


def of_launch(launch: Launch) -> dict[str, float]:
    """Shares of their peaks that a launch reached by Nsight Compute: ``sm`` and ``memory``."""
    return {"sm": launch.number("compute_pct") / 100, "memory": launch.number("memory_pct") / 100}


def name_timeline(evidence: Evidence) -> str:
    """``input``, ``launch``, ``transfer``, ``communication``, or ``kernels``: look into those."""
    if evidence["idle"] >= MUCH:
        return "input" if evidence["long_gaps"] >= 0.5 else "launch"
    if max(evidence["copying"], evidence["talking"]) >= MUCH:
        return "transfer" if evidence["copying"] >= evidence["talking"] else "communication"
    return "kernels"


def name_launch(evidence: Evidence) -> str:
    """``compute``, ``memory``, or ``latency`` where neither is near its peak."""
    if max(evidence["sm"], evidence["memory"]) < NEAR:
        return "latency"
    return "compute" if evidence["sm"] > evidence["memory"] else "memory"


def _clipped(table: pd.DataFrame, window: tuple[int, int]) -> Spans:
    starts, ends = spans(table)
    return intervals.union(*intervals.clip(starts, ends, window))


def _alone(mine: Spans, *others: Spans) -> int:
    """Nanoseconds of spans in which none of the others runs."""
    left = mine
    for other in others:
        left = intervals.subtract(*left, *other)
    return intervals.total(*left)
