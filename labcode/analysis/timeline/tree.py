"""A trace in; which event on the CPU lies inside which, and what each launched on the GPU, out.

The tree is that of ``prof.key_averages()`` (``torch/autograd/profiler_util.py``, `EventList._build_tree`): of
one thread, an event is the child of the last one that holds it whole. A call of the CUDA runtime belongs to
the thread of the operator it is linked with; one linked with none, and the profiler's own overhead, to the
main thread. Annotations that are asynchronous are in no tree.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd

from labcode.analysis.timeline import intervals
from labcode.analysis.timeline.joins import named_like, spans
from labcode.reports.columns import Bools, Ints, process_keys
from labcode.reports.kineto.ranks import PID_OF_RANK
from labcode.reports.kineto.report import KinetoReport

_BUILT: WeakKeyDictionary[KinetoReport, dict[bool, Tree]] = WeakKeyDictionary()
ASYNC = r"^(?:nccl|gloo|ucc|mpi):"
HIDDEN = (
    "profiler::_record_function_enter",
    "profiler::_record_function_enter_new",
    "profiler::_record_function_exit",
    "aten::is_leaf",
    "aten::output_nr",
    "aten::_version",
)


@dataclass(frozen=True, eq=False)
class Tree:
    """Events on the CPU by thread and start, those around before those inside.

    ``events``: kind ('op', 'annotation', 'python', 'call', 'overhead'), name, rank, pid, tid (of the thread
    it counts for), start_ns, end_ns, row (in the report's table of its kind). ``parent`` is a position in
    ``events`` or -1, ``depth`` 0 at the outermost. ``op_event`` gives for each row of the report's `gpu_ops`
    the event it was launched by; -1 for none.
    """

    events: pd.DataFrame
    parent: Ints
    depth: Ints
    op_event: Ints

    def inclusive(self, own: Ints) -> Ints:
        """A number for each event → its sum over the event and all inside it."""
        return sum_up(own, self.parent, self.depth)


def build(report: KinetoReport, *, python: bool = True) -> Tree:
    """The tree of a trace; without ``python``, Python's functions are left out. Built once a report."""
    built = _BUILT.setdefault(report, {})
    python = python and len(report.python_functions()) > 0
    if python not in built:
        built[python] = _build(report, python=python)
    return built[python]


def _build(report: KinetoReport, *, python: bool) -> Tree:
    api = report.api()
    parts = {
        "op": report.ops(),
        "annotation": report.annotations(),
        "python": report.python_functions() if python else report.python_functions().iloc[:0],
        "call": api,
        "overhead": report.overheads(),
    }
    columns = ["name", "rank", "pid", "tid", "start_ns", "end_ns"]
    events = pd.concat(
        [part[columns].assign(kind=kind, row=np.arange(len(part))) for kind, part in parts.items()],
        ignore_index=True,
    ).astype({"kind": "str", "name": "str"})
    fronts = np.flatnonzero(events["kind"].isin(["op", "annotation"]).to_numpy())
    external = np.concatenate(
        [parts[kind]["external_id"].fillna(0).to_numpy(np.int64) for kind in ("op", "annotation")]
    )
    linked = _linked(api, events, fronts, external)
    tid = events["tid"].to_numpy(np.int64).copy()
    kinds, main = events["kind"].to_numpy(object), _main_threads(events)
    calls, own = np.flatnonzero(kinds == "call"), np.flatnonzero(kinds == "overhead")
    tid[calls] = np.where(linked >= 0, tid[linked], main[calls])
    tid[own] = main[own]
    events["tid"] = tid
    kept = np.flatnonzero(~events["name"].isin(HIDDEN).to_numpy() & ~is_async(events))
    order = kept[
        np.lexsort(
            (
                -events["end_ns"].to_numpy()[kept],
                events["start_ns"].to_numpy()[kept],
                tid[kept],
                events["rank"].to_numpy()[kept],
            )
        )
    ]
    place = np.full(len(events) + 1, -1, np.int64)
    place[order] = np.arange(len(order))
    ops = report.gpu_ops()
    owner = _owners(ops, api, linked, events, fronts, external)
    events = events.iloc[order].reset_index(drop=True)
    parent = _parents(events)
    return Tree(events, parent, intervals.depths(parent), place[owner])


def is_async(events: pd.DataFrame) -> Bools:
    """Which events begin on one thread and end on another: annotations of collectives, known by their names.

    They hold nothing and lie in nothing.
    """
    return (events["kind"] == "annotation").to_numpy() & named_like(events["name"], ASYNC)


def sum_up(own: Ints, parent: Ints, depth: Ints) -> Ints:
    """Each value with those of all that lies inside."""
    total = np.array(own, np.int64)
    by_depth = np.argsort(depth, kind="stable")
    bounds = np.searchsorted(depth[by_depth], np.arange(int(depth.max(initial=0)) + 2))
    for level in range(len(bounds) - 2, 0, -1):
        rows = by_depth[bounds[level] : bounds[level + 1]]
        np.add.at(total, parent[rows], total[rows])
    return total


def _parents(events: pd.DataFrame) -> Ints:
    """The event around each, as a position, in a table sorted by rank, thread, start and (falling) end."""
    start, end = spans(events)
    thread = process_keys(*(events[c].to_numpy(np.int64) for c in ("rank", "tid", "rank", "tid")))[0]
    return holders(thread, end, start)


def holders(thread: Ints, end: Ints, start: Ints | None = None) -> Ints:
    """`intervals.holders` of many threads; those of one thread stand together."""
    around = np.full(len(thread), -1, np.int64)
    bounds = np.flatnonzero(np.diff(thread, prepend=-1, append=-1))
    for low, high in itertools.pairwise(bounds.tolist()):
        inside = intervals.holders(end[low:high], None if start is None else start[low:high])
        around[low:high] = np.where(inside >= 0, inside + low, -1)
    return around


def _main_threads(events: pd.DataFrame) -> Ints:
    """For each event the main thread of its rank: the one with the process's number, else its own."""
    tid, pid = events["tid"].to_numpy(np.int64), events["pid"].to_numpy(np.int64)
    found = tid.copy()
    for _, rows in events.groupby("rank").indices.items():
        mine = tid[rows]
        main = np.flatnonzero(
            (mine == pid[rows] % PID_OF_RANK) & (events["kind"].to_numpy()[rows] != "overhead")
        )
        if len(main):
            found[rows] = mine[main[0]]
    return found


def _linked(api: pd.DataFrame, events: pd.DataFrame, fronts: Ints, external: Ints) -> Ints:
    """For each call the operator or annotation whose id it names, as a row of ``events``; -1 for none.

    A call that is linked with nothing bears its own correlation as External id. Where an operator happens to
    have the same number, the call counts as linked only if it began within it on the same thread.
    """
    identity = api["external_id"].fillna(0).to_numpy(np.int64)
    found = _by_id(api["rank"].to_numpy(np.int64), identity, events, fronts, external)
    doubtful = np.flatnonzero((found >= 0) & (identity == api["correlation"].to_numpy(np.int64)))
    if len(doubtful):
        start, end, tid = (events[c].to_numpy(np.int64) for c in ("start_ns", "end_ns", "tid"))
        at = api["start_ns"].to_numpy(np.int64)[doubtful]
        front = found[doubtful]
        inside = (start[front] <= at) & (at <= end[front])
        inside &= tid[front] == api["tid"].to_numpy(np.int64)[doubtful]
        found[doubtful[~inside]] = -1
    return found


def _owners(
    ops: pd.DataFrame,
    api: pd.DataFrame,
    linked: Ints,
    events: pd.DataFrame,
    fronts: Ints,
    external: Ints,
) -> Ints:
    """For each GPU operation the operator or annotation it is linked with, as a row of ``events``."""
    from labcode.analysis.timeline.joins import launch_rows

    identity = ops["external_id"].fillna(0).to_numpy(np.int64)
    found = _by_id(ops["rank"].to_numpy(np.int64), identity, events, fronts, external)
    row = launch_rows(ops, api)
    doubtful = (identity == ops["correlation"].to_numpy(np.int64)) & (found >= 0)
    called = np.where(row >= 0, np.append(linked, -1)[row], -1)
    return np.where(doubtful, called, found)


def _by_id(rank: Ints, identity: Ints, events: pd.DataFrame, fronts: Ints, external: Ints) -> Ints:
    found = np.full(len(identity), -1, np.int64)
    if len(fronts) == 0 or len(identity) == 0:
        return found
    wanted, keys = process_keys(rank, identity, events["rank"].to_numpy(np.int64)[fronts], external)
    order = np.argsort(keys, kind="stable")
    place = np.searchsorted(keys[order], wanted)
    place[place == len(keys)] = 0
    hit = (keys[order][place] == wanted) & (identity > 0)
    return np.where(hit, fronts[order[place]], found)
