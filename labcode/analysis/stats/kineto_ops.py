"""A trace in; operators, annotations, calls and kernels by name, as ``prof.key_averages()`` has them, out;
and of two traces their difference.
"""

import numpy as np
import pandas as pd

from labcode.analysis.timeline import tree as kineto_tree
from labcode.analysis.timeline.joins import duration_ns, named_like
from labcode.analysis.timeline.links import launch_events, nearest
from labcode.reports.columns import Ints
from labcode.reports.common import STEP
from labcode.reports.frames import codes_of
from labcode.reports.kineto.report import KinetoReport

_SUMS = (
    *("cpu_self_ns", "cpu_total_ns", "device_self_ns", "device_total_ns"),
    *("cpu_memory_self_bytes", "cpu_memory_bytes", "device_memory_self_bytes", "device_memory_bytes"),
)


def op_summary(report: KinetoReport, *, python: bool = False) -> pd.DataFrame:
    """A row for each name on the CPU and on the GPU, the most time of its own first (GPU, then CPU).

    name (steps together as ``ProfilerStep*``); device_type ('CPU', 'CUDA': kernels, copies, memsets and the
    annotations' spans on the GPU); annotation (whether the program marked it); calls; cpu_self_ns,
    cpu_total_ns (with and without what it called); device_self_ns, device_total_ns (durations on the GPU of
    what it launched itself, and of what it and those inside it launched: concurrent ones count each);
    cpu_memory_self_bytes … device_memory_bytes (allocated minus freed while it ran, by any thread).

    With ``python``, Python's functions are events, too (where the trace has them), as they are in newer
    versions of PyTorch.

    Equal to ``key_averages()``: an event that is the only child of one of the same name is one with it; the
    profiler's own events do not count; allocations outside of every event are in a row ``[memory]``; where
    the profiler's overhead (``Activity Buffer Request``, ``Lazy Function Loading``) falls into an operator,
    what that operator launched counts for the overhead once more.
    """
    tree = kineto_tree.build(report, python=python)
    events = tree.events
    count = len(events)
    merged = _merged(tree)
    spent = duration_ns(events)
    device = _launched(tree, duration_ns(report.gpu_ops()), merged)
    alive = np.flatnonzero(merged == np.arange(count))
    outer = np.where(tree.parent >= 0, merged[tree.parent], -1)
    memory = _memory(report, events)
    table = pd.DataFrame(
        {
            "name": _steps(events["name"]),
            "device_type": "CPU",
            "annotation": (events["kind"] == "annotation").to_numpy(),
            "calls": np.ones(count, np.int64),
            "cpu_self_ns": spent - _of_children(spent, outer, alive),
            "cpu_total_ns": spent,
            "device_self_ns": device,
            "device_total_ns": kineto_tree.sum_up(device, outer, tree.depth),
            **{
                key.replace("bytes", word): values - _of_children(values, outer, alive) * (word[0] == "s")
                for key, values in memory.items()
                for word in ("self_bytes", "bytes")
            },
        }
    ).iloc[alive]
    parts = [table, _async(report), _on_gpu(report), _loose(report, events)]
    whole = pd.concat([part for part in parts if len(part)] or [table], ignore_index=True)
    keys = ["name", "device_type", "annotation"]
    (name, names), (place, places) = (codes_of(whole[key]) for key in keys[:2])
    whole = whole[["annotation", "calls", *_SUMS]].assign(name=name, device_type=place)
    summary = whole.groupby(keys, sort=False)[["calls", *_SUMS]].sum().reset_index()
    for key, texts in (("name", names), ("device_type", places)):
        summary[key] = pd.Series(texts[summary[key]], dtype="str")
    by = ["device_self_ns", "cpu_self_ns", "name"]
    return summary.sort_values(by, ascending=[False, False, True], kind="stable", ignore_index=True)


def _merged(tree: kineto_tree.Tree) -> Ints:
    """For each event the one it counts for: itself, or its parent of the same name if that holds it alone."""
    parent = tree.parent
    some = parent >= 0
    children = np.bincount(parent[some], minlength=len(parent))
    codes = codes_of(_steps(tree.events["name"]))[0]
    lone = np.zeros(len(parent), np.bool_)
    lone[some] = (children[parent[some]] == 1) & (codes[parent[some]] == codes[some])
    target = np.where(lone, parent, np.arange(len(parent)))
    while True:
        further = target[target]
        if np.array_equal(further, target):
            return np.asarray(target, np.int64)
        target = further


def _launched(tree: kineto_tree.Tree, spent: Ints, merged: Ints) -> Ints:
    """GPU time that each event launched itself. Of events that count as one, the innermost's alone."""
    owned = tree.op_event >= 0
    own = np.zeros(len(merged), np.int64)
    np.add.at(own, tree.op_event[owned], spent[owned])
    kinds = tree.events["kind"].to_numpy(object)
    around = nearest(tree, np.isin(kinds, ("op", "annotation")))
    again = np.flatnonzero((kinds == "overhead") & (around >= 0))
    own[again] = own[around[again]]
    lone = np.flatnonzero(merged != np.arange(len(merged)))
    taken = np.zeros(len(merged), np.int64)
    taken[:] = own
    for row in lone[np.argsort(tree.depth[lone], kind="stable")]:  # the deepest of a chain comes last
        taken[merged[row]] = own[row]
        taken[row] = 0
    return taken


def _of_children(values: Ints, outer: Ints, alive: Ints) -> Ints:
    inside = alive[outer[alive] >= 0]
    sums = np.zeros(len(values), np.int64)
    np.add.at(sums, outer[inside], values[inside])
    return sums


def _async(report: KinetoReport) -> pd.DataFrame:
    """Annotations that begin on one thread and end on another: they have no time of their own."""
    marks = report.annotations()
    marks = marks[kineto_tree.is_async(marks.assign(kind="annotation"))]
    memory = _memory(report, marks)
    return pd.DataFrame(
        {
            "name": marks["name"],
            "device_type": "CPU",
            "annotation": True,
            "calls": 1,
            **dict.fromkeys(_SUMS, 0),
            **memory,
            "cpu_total_ns": duration_ns(marks),
        }
    )


def _steps(names: pd.Series) -> pd.Series:
    """``ProfilerStep#3`` → ``ProfilerStep*``."""
    return names.where(~named_like(names, f"^{STEP}"), "ProfilerStep*")


def _memory(report: KinetoReport, events: pd.DataFrame) -> dict[str, Ints]:
    """Bytes allocated minus freed between the start and the end of each event, both included."""
    found = {key: np.zeros(len(events), np.int64) for key in ("cpu_memory_bytes", "device_memory_bytes")}
    memory = report.memory()
    for rank, mine in memory.groupby("rank"):
        here = np.flatnonzero((events["rank"] == rank).to_numpy())
        times = mine["start_ns"].to_numpy(np.int64)
        low = np.searchsorted(times, events["start_ns"].to_numpy()[here], "left")
        high = np.searchsorted(times, events["end_ns"].to_numpy()[here], "right")
        for key, wanted in (("cpu_memory_bytes", "cpu"), ("device_memory_bytes", "cuda")):
            own = np.where(mine["device_type"] == wanted, mine["bytes"], 0)
            before = np.concatenate(([0], np.cumsum(own))).astype(np.int64)
            found[key][here] = before[high] - before[low]
    return found


def _loose(report: KinetoReport, events: pd.DataFrame) -> pd.DataFrame:
    """Allocations while no event ran: rows ``[memory]``."""
    memory = report.memory()
    parts = []
    for rank, mine in memory.groupby("rank"):
        own = events[events["rank"] == rank].sort_values("start_ns")
        times = mine["start_ns"].to_numpy(np.int64)
        reach = np.maximum.accumulate(own["end_ns"].to_numpy(np.int64)) if len(own) else times[:0]
        before = np.searchsorted(own["start_ns"].to_numpy(np.int64), times, "right")
        covered = np.zeros(len(times), np.bool_)
        covered[before > 0] = reach[before[before > 0] - 1] >= times[before > 0]
        parts.append(mine[~covered])
    loose = pd.concat(parts) if parts else memory
    sizes = {
        f"{kind}_memory_{word}": np.where(loose["device_type"] == wanted, loose["bytes"], 0)
        for kind, wanted in (("cpu", "cpu"), ("device", "cuda"))
        for word in ("self_bytes", "bytes")
    }
    zeros = dict.fromkeys(_SUMS[:4], 0)
    return pd.DataFrame(
        {"name": "[memory]", "device_type": "CPU", "annotation": False, "calls": 1, **zeros, **sizes},
        index=loose.index,
    )


def _on_gpu(report: KinetoReport) -> pd.DataFrame:
    """What ran on the GPU, by its own name."""
    named = [
        (report.kernels(), "name", False),
        (report.memcpys(), "raw_name", False),
        (report.memsets(), "raw_name", False),
        (report.synchronizations(), "sync_type", False),
        (report.gpu_annotations(), "name", True),
    ]
    parts = [
        pd.DataFrame(
            {
                "name": _steps(table[column]),
                "device_type": "CUDA",
                "annotation": annotation,
                "calls": 1,
                "device_self_ns": duration_ns(table),
                "device_total_ns": duration_ns(table),
            }
        )
        for table, column, annotation in named
        if len(table)
    ]
    if not parts:
        return pd.DataFrame()
    return pd.concat(parts, ignore_index=True).reindex(
        columns=["name", "device_type", "annotation", "calls", *_SUMS], fill_value=0
    )


# ---- two traces


def op_totals(report: KinetoReport) -> pd.DataFrame:
    """Operators, annotations, calls and what ran on GPUs, by type and name: type; name; calls; cpu_ns; gpu_ns
    (of what they launched, those inside included; of kernels, copies and memsets their own).
    """
    tree = kineto_tree.build(report)
    events, ops = tree.events, report.gpu_ops()
    where = launch_events(report, tree)
    own = np.zeros(len(events) + 1, np.int64)
    np.add.at(own, where, duration_ns(ops))
    keys = ["type", "name"]
    launched = pd.DataFrame(
        {"type": events["kind"].replace("op", "operator"), "name": _steps(events["name"])}
    )
    gpu = tree.inclusive(own[:-1])
    inside = launched.assign(gpu_ns=gpu)[gpu > 0].groupby(keys)["gpu_ns"].sum()
    on_cpu = [("operator", report.ops()), ("annotation", report.annotations()), ("call", report.api())]
    cpu = pd.concat(
        [
            pd.DataFrame({"type": kind, "name": _steps(table["name"]), "cpu_ns": duration_ns(table)})
            for kind, table in on_cpu
        ]
    ).groupby(keys)
    found = cpu["cpu_ns"].agg(["size", "sum"]).set_axis(["calls", "cpu_ns"], axis=1).join(inside)
    ran = [
        ("kernel", report.kernels(), "name"),
        ("copy", report.memcpys(), "raw_name"),
        ("memset", report.memsets(), "raw_name"),
    ]
    gpu_rows = pd.concat(
        [pd.DataFrame({"type": k, "name": t[c], "gpu_ns": duration_ns(t)}) for k, t, c in ran]
    ).groupby(keys)
    on_gpu = gpu_rows["gpu_ns"].agg(["size", "sum"]).set_axis(["calls", "gpu_ns"], axis=1)
    whole = pd.concat([found.reset_index(), on_gpu.reset_index()], ignore_index=True)
    return whole.fillna({"cpu_ns": 0, "gpu_ns": 0}).astype({"cpu_ns": "int64", "gpu_ns": "int64"})


def op_diff(before: KinetoReport, after: KinetoReport) -> pd.DataFrame:
    """The difference of two traces by name, the largest in time first.

    type ('operator', 'annotation', 'call', 'kernel', 'copy', 'memset'); name; change ('new', 'gone', 'more',
    'fewer', 'same' number of calls); calls_before, calls_after, calls_diff; cpu_before_ns, cpu_after_ns,
    cpu_diff_ns; gpu_before_ns, gpu_after_ns, gpu_diff_ns. Whole traces: record as many steps of each.
    """
    keys = ["type", "name"]
    one, other = (op_totals(report).set_index(keys) for report in (before, after))
    table = one.add_suffix("_before").join(other.add_suffix("_after"), how="outer").fillna(0).astype("int64")
    found: dict[str, pd.Series] = {}
    for what in ("calls", "cpu", "gpu"):
        unit = "" if what == "calls" else "_ns"
        had, has = (table[f"{what}{unit}_{when}"] for when in ("before", "after"))
        found |= {f"{what}_before{unit}": had, f"{what}_after{unit}": has, f"{what}_diff{unit}": has - had}
    table = pd.DataFrame(found)
    fewer = np.where(table["calls_diff"] < 0, "fewer", "same")
    change = np.where(table["calls_diff"] > 0, "more", fewer)
    change = np.where(table["calls_after"] == 0, "gone", change)
    table.insert(0, "change", np.where(table["calls_before"] == 0, "new", change))
    weight = table["gpu_diff_ns"].abs() + table["cpu_diff_ns"].abs()
    order = np.lexsort((np.arange(len(table)), -weight.to_numpy()))
    return table.iloc[order].reset_index().astype({"type": "str", "name": "str", "change": "str"})
