"""A trace and the GPU operations of one problem in; how much shorter the loop can become without it, out.

A step ends neither before the CPU has done its own work nor before the GPU has done its. With a problem
gone, the CPU still does what it did besides, and the GPU still runs all other operations; so the loop takes
at least the longer of the two, whatever waits for whom. That is a bound, not a forecast.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from labcode.analysis.timeline import intervals
from labcode.analysis.timeline import links as kineto_links
from labcode.analysis.timeline import tree as kineto_tree
from labcode.analysis.timeline.joins import in_window, named_like, spans
from labcode.analysis.timeline.utilization import SYNCHRONIZING
from labcode.reports.columns import Bools, Ints
from labcode.reports.common import STEP
from labcode.reports.kineto.report import KinetoReport

# they return when the copy is done, where memory is pageable
_BLOCKING = r"^(?:cuda|hip)Memcpy(?:Async|WithStream)?$|^cuMemcpy"


@dataclass(frozen=True)
class Bound:
    """What a problem takes of a window, and what is left of it without (all in ns but ``operations``).

    ``host_ns``, ``gpu_ns``: the CPU's own work (waits left out) and the GPU's, of the problem; ``wait_ns``
    the CPU's waits inside it; ``host_left_ns``, ``gpu_left_ns``: the work of everything else; ``gain``: the
    window divided by the longer of those two.
    """

    window_ns: int
    operations: int
    host_ns: int
    wait_ns: int
    gpu_ns: int
    host_left_ns: int
    gpu_left_ns: int

    @property
    def gain(self) -> float:
        """How many times as fast the window can become at most."""
        return self.window_ns / max(self.host_left_ns, self.gpu_left_ns, 1)


def steps_window(report: KinetoReport) -> tuple[int, int]:
    """From the begin of the first of the profiler's steps to the end of the last; all of a trace without."""
    marks = report.annotations()
    marks = marks[marks["name"].str.startswith(STEP)]
    return (int(marks["start_ns"].min()), int(marks["end_ns"].max())) if len(marks) else report.window()


def own_events(report: KinetoReport, mine: Bools) -> pd.DataFrame:
    """The events on the CPU in which nothing but the given GPU operations was launched: the outermost each.

    ``mine`` has an entry for each row of `gpu_ops`. Columns: those of `kineto_tree.Tree.events`.
    """
    tree = kineto_tree.build(report)
    where = kineto_links.launch_events(report, tree)
    known = where >= 0
    count = len(tree.events)
    every = tree.inclusive(np.bincount(where[known], minlength=count).astype(np.int64))
    some = tree.inclusive(np.bincount(where[known & mine], minlength=count).astype(np.int64))
    whole = (some > 0) & (some == every)
    outermost = whole & ~np.append(whole, False)[tree.parent]
    found: pd.DataFrame = tree.events[outermost]
    return found


def bound(report: KinetoReport, mine: Bools, also: pd.DataFrame | None = None) -> Bound:
    """What the loop in a trace of one rank could gain without some GPU operations and what launches them.

    ``mine`` has an entry for each row of `gpu_ops`; ``also`` are further times of the CPU (start_ns, end_ns,
    tid) that go with them, such as work that launches nothing. The CPU's work is that of the thread that
    launches most.
    """
    window = steps_window(report)
    ops, api = report.gpu_ops(), report.api()
    thread = _launcher(api, window)
    waiting = spans(waits(report, window))
    gone = own_events(report, mine)
    parts = [gone, *([also] if also is not None else [])]
    theirs = pd.concat([part.loc[part["tid"] == thread, ["start_ns", "end_ns"]] for part in parts])
    problem = intervals.clip(*intervals.union(*spans(theirs)), window)
    host = intervals.subtract(*intervals.clip(*window_spans(window), window), *waiting)
    left = intervals.subtract(*host, *problem)
    busy = intervals.clip(*spans(ops), window)
    rest = intervals.clip(*spans(ops[~mine]), window)
    gpu, gpu_left = intervals.total(*busy), intervals.total(*rest)
    return Bound(
        window[1] - window[0],
        len(in_window(ops[mine], window)),
        intervals.total(*host) - intervals.total(*left),
        intervals.total(*intervals.intersect(*problem, *waiting)),
        gpu - gpu_left,
        intervals.total(*left),
        gpu_left,
    )


def waits(report: KinetoReport, window: tuple[int, int]) -> pd.DataFrame:
    """Calls within a window in which the thread that launches most waits for the GPU; columns of `api`."""
    calls = in_window(report.api(), window)
    return calls[(calls["tid"] == _launcher(calls, window)) & _waiting(report, calls)]


def _launcher(api: pd.DataFrame, window: tuple[int, int]) -> int:
    calls = in_window(api, window)
    return int(calls["tid"].mode().iloc[0]) if len(calls) else 0


def window_spans(window: tuple[int, int]) -> tuple[Ints, Ints]:
    """A window as arrays."""
    return np.array(window[:1], np.int64), np.array(window[1:], np.int64)


def _waiting(report: KinetoReport, calls: pd.DataFrame) -> Bools:
    """Calls in which the CPU waits for the GPU: synchronizing ones, and copies from or to pageable memory."""
    copies = report.memcpys()
    pageable = copies[(copies["src_kind"] == "pageable") | (copies["dst_kind"] == "pageable")]
    blocking = (
        named_like(calls["name"], _BLOCKING) & calls["correlation"].isin(pageable["correlation"]).to_numpy()
    )
    return np.asarray(named_like(calls["name"], SYNCHRONIZING) | blocking, np.bool_)
