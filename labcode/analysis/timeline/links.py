"""A trace in; from each kernel back to operator, annotation, module and line of Python, out.

A kernel of the backward pass is launched by a thread without Python; its forward operator, found by the
trace's ``fwdbwd`` arrows, says which line and module it comes from.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labcode.analysis.buckets import own_names
from labcode.analysis.timeline import tree as kineto_tree
from labcode.analysis.timeline.joins import duration_ns, launch_rows
from labcode.reports.columns import Bools, Ints, objects, process_keys, unique
from labcode.reports.common import STEP
from labcode.reports.frames import codes_of
from labcode.reports.kineto.report import KinetoReport

MODULE = "nn.Module: "


def op_kernel_trace(report: KinetoReport) -> pd.DataFrame:
    """Every operation of a GPU with what launched it, by start time.

    start_ns, duration_ns, rank, device, stream, kind, name (short), op (the innermost operator), outer_op
    (the outermost), annotation (the innermost that the program made), module (path of modules), pass
    ('forward', 'backward', 'optimizer', '' where unknown), python (the innermost frame of the program),
    python_stack (outermost first, joined by ';'), call, call_ns, queue_ns (from the end of the call to
    the start on the GPU). Texts are '' where the trace does not tell.
    """
    ops, api = report.gpu_ops(), report.api()
    tree = kineto_tree.build(report)
    where = launch_events(report, tree)
    forward = forward_events(report, tree)
    from_forward = nearest_link(tree, forward)
    names = tree.events["name"].to_numpy(object)
    kinds = tree.events["kind"].to_numpy(object)
    back = np.append(from_forward, -1)[where]
    # also where the backward pass runs on the thread that called it: the line of backward() says nothing
    source = np.where(back >= 0, back, where)
    frames = np.append(nearest(tree, kinds == "python"), -1)[source]
    users = np.append(nearest(tree, (kinds == "python") & own_names(names)), -1)[source]
    modules = np.append(nearest(tree, (kinds == "python") & _starts(names, (MODULE,))), -1)[source]
    marks = (kinds == "annotation") & ~_starts(names, (STEP,))
    row = launch_rows(ops, api)
    called = np.append(duration_ns(api), 0)[row]
    ends = np.append(api["end_ns"].to_numpy(np.int64), 0)[row]
    start = ops["start_ns"].to_numpy(np.int64)
    calls = np.append(api["name"].to_numpy(object), "")
    # a stack that older versions wrote with the operator
    older = np.append(report.ops()["call_stack"].to_numpy(object), "")
    inner_op = np.append(nearest(tree, kinds == "op"), -1)[where]
    rows = np.append(tree.events["row"].to_numpy(np.int64), -1)[inner_op]
    stack = _paths(tree, kinds == "python", str, frames)
    table = pd.DataFrame(
        {
            "start_ns": start,
            "duration_ns": duration_ns(ops),
            **{c: ops[c].to_numpy() for c in ("rank", "device", "stream")},
            "kind": ops["kind"].array,
            "name": ops["short_name"].array,
            "op": _names(names, inner_op),
            "outer_op": _names(names, np.append(outermost(tree, kinds == "op"), -1)[where]),
            "annotation": _names(names, np.append(nearest(tree, marks), -1)[where]),
            "module": _paths(tree, _starts(names, (MODULE,)), _bare_module, modules),
            "pass": _passes(tree, forward, where, back, modules),
            "python": _names(names, users),
            "python_stack": np.where(stack == "", older[rows], stack),
            "call": calls[row],
            "call_ns": np.where(row >= 0, called, 0),
            "queue_ns": np.where(row >= 0, np.maximum(start - ends, 0), 0),
        }
    )
    texts = ("op", "outer_op", "annotation", "module", "pass", "python", "python_stack", "call")
    return table.astype(dict.fromkeys(texts, "str"))


def module_sum(report: KinetoReport) -> pd.DataFrame:
    """Time by module (``nn.Module``), in the order in which they first ran.

    module (its path: ``Net_0/Linear_1``, named as the profiler numbers instances); calls; cpu_ns (in its
    forward, all inside); forward_ns, backward_ns (durations on the GPU of what it and its parts launched, in
    either pass); own_forward_ns, own_backward_ns (without its parts); kernels. Empty without modules in
    the trace.
    """
    tree = kineto_tree.build(report)
    names, kinds = tree.events["name"].to_numpy(object), tree.events["kind"].to_numpy(object)
    is_module = (kinds == "python") & _starts(names, (MODULE,))
    where = launch_events(report, tree)
    back = np.append(nearest_link(tree, forward_events(report, tree)), -1)[where]
    inside = np.append(nearest(tree, is_module), -1)
    module = np.where(back >= 0, inside[back], inside[where])
    spent = duration_ns(report.gpu_ops())
    events = np.flatnonzero(is_module)
    sums = {
        f"{what}_ns": _added(len(names), module[chosen], spent[chosen])
        for what, chosen in (("own_forward", back < 0), ("own_backward", back >= 0))
    }
    sums["own_kernels"] = _added(len(names), module, np.ones(len(spent), np.int64))
    for what in ("forward_ns", "backward_ns", "kernels"):
        sums[what] = tree.inclusive(sums[f"own_{what}"])
    table = pd.DataFrame(
        {
            "module": _paths(tree, is_module, _bare_module, events),
            "calls": 1,
            "cpu_ns": duration_ns(tree.events)[events],
            **{key: values[events] for key, values in sums.items() if key != "own_kernels"},
            "first": tree.events["start_ns"].to_numpy(np.int64)[events],
        }
    )
    columns = ["calls", "cpu_ns", "forward_ns", "backward_ns", "own_forward_ns", "own_backward_ns", "kernels"]
    grouped = table.groupby("module", sort=False)
    found = grouped[columns].sum().assign(first=grouped["first"].min()).reset_index()
    found = found.sort_values("first", kind="stable", ignore_index=True)
    return found[["module", *columns]].astype({"module": "str", **dict.fromkeys(columns, "int64")})


def memory_timeline(report: KinetoReport) -> pd.DataFrame:
    """Allocations and frees by time: start_ns, rank, device (-1: the host), bytes, allocated_bytes and
    reserved_bytes (afterwards), op (the innermost operator then running on that thread), annotation.
    """
    memory = report.memory()
    tree = kineto_tree.build(report)
    kinds, names = tree.events["kind"].to_numpy(object), tree.events["name"].to_numpy(object)
    event = _covering(tree, memory)
    op = np.append(nearest(tree, kinds == "op"), -1)[event]
    mark = np.append(nearest(tree, (kinds == "annotation") & ~_starts(names, (STEP,))), -1)[event]
    columns = ["start_ns", "rank", "device", "bytes", "allocated_bytes", "reserved_bytes"]
    table = memory[columns].assign(op=_names(names, op), annotation=_names(names, mark))
    return table.astype({"op": "str", "annotation": "str"})


def launch_events(report: KinetoReport, tree: kineto_tree.Tree) -> Ints:
    """For each GPU operation the innermost event known to have launched it: its call, else its operator."""
    row = launch_rows(report.gpu_ops(), report.api())
    calls = np.full(len(report.api()) + 1, -1, np.int64)
    mine = np.flatnonzero((tree.events["kind"] == "call").to_numpy())
    calls[tree.events["row"].to_numpy(np.int64)[mine]] = mine
    found = calls[row]
    # a call that lies outside of the operator it is linked with says less than that operator
    owner = np.where((found >= 0) & (np.append(tree.parent, -1)[found] < 0), tree.op_event, found)
    return np.where(found < 0, tree.op_event, np.where(owner < 0, found, owner))


def forward_events(report: KinetoReport, tree: kineto_tree.Tree) -> Ints:
    """For each event the one of the forward pass whose gradient it computes, by the trace's arrows; or -1."""
    flows = report.flows()
    flows = flows[flows["category"].isin(["fwdbwd", "forward_backward"])]
    found = np.full(len(tree.events), -1, np.int64)
    begins = flows[flows["phase"] == "s"].drop_duplicates(["rank", "flow"])
    ends = flows[flows["phase"] == "f"].drop_duplicates(["rank", "flow"])
    pairs = begins.merge(ends, on=["rank", "flow"], suffixes=("", "_back"))
    if len(pairs) == 0:
        return found
    fore = _starting(tree, pairs["rank"], pairs["tid"], pairs["start_ns"])
    back = _starting(tree, pairs["rank"], pairs["tid_back"], pairs["start_ns_back"])
    both = (fore >= 0) & (back >= 0)
    found[back[both]] = fore[both]
    # what the engine does around that gradient, such as adding it up, belongs to it
    engine = _starts(tree.events["name"].to_numpy(object), ("autograd::engine::evaluate_function",))
    around = tree.parent[back[both]]
    taken = (around >= 0) & np.append(engine, False)[around]
    found[around[taken]] = np.where(found[around[taken]] < 0, fore[both][taken], found[around[taken]])
    return found


def _starting(tree: kineto_tree.Tree, rank: pd.Series, tid: pd.Series, start: pd.Series) -> Ints:
    """The innermost operator that begins at that time on that thread; -1 for none."""
    mine = np.flatnonzero((tree.events["kind"] == "op").to_numpy())
    keys = pd.MultiIndex.from_frame(tree.events.iloc[mine][["rank", "tid", "start_ns"]])
    last = ~keys.duplicated(keep="last")
    place = keys[last].get_indexer(pd.MultiIndex.from_arrays([rank, tid, start]))
    return np.where(place >= 0, mine[last][place], -1)


def _passes(
    tree: kineto_tree.Tree, forward: Ints, where: Ints, back: Ints, modules: Ints
) -> NDArray[np.object_]:
    """Which pass of training each operation belongs to."""
    names = tree.events["name"].to_numpy(object)
    partners = np.zeros(len(names), np.bool_)
    partners[forward[forward >= 0]] = True
    engine = np.append(nearest(tree, _starts(names, ("autograd::engine::",))), -1)[where]
    stepping = np.append(nearest(tree, _starts(names, ("Optimizer.step#",))), -1)[where]
    fore = np.append(nearest(tree, partners), -1)[where]
    found = np.full(len(where), "", object)
    found[(fore >= 0) | (modules >= 0)] = "forward"
    found[stepping >= 0] = "optimizer"
    found[(back >= 0) | (engine >= 0)] = "backward"
    return found


def nearest_link(tree: kineto_tree.Tree, forward: Ints) -> Ints:
    """For each event the forward event of itself or of the nearest event around that has one; or -1."""
    near = nearest(tree, forward >= 0)
    return np.where(near >= 0, forward[near], -1)


def nearest(tree: kineto_tree.Tree, wanted: Bools) -> Ints:
    """For each event itself where it is wanted, else the nearest wanted one around it; -1 for none."""
    return _followed(np.where(wanted, np.arange(len(wanted)), tree.parent))


def _followed(step: Ints) -> Ints:
    """Where one gets from each place by steps from place to place; -1 where they lead nowhere."""
    step = np.append(step, -1)
    while ((further := step[step]) != step).any():
        step = further
    return step[:-1]


def outermost(tree: kineto_tree.Tree, wanted: Bools) -> Ints:
    """For each event the outermost wanted one around it or itself; -1 for none."""
    around = np.append(nearest(tree, wanted), -1)[tree.parent]
    return nearest(tree, wanted & (around < 0))


def _paths(
    tree: kineto_tree.Tree, wanted: Bools, named: Callable[[str], str], events: Ints
) -> NDArray[np.object_]:
    """The paths of some wanted events through the wanted ones around them as texts, '' for -1.

    Of those alone: texts of all events would fill the memory.
    """
    names = tree.events["name"].to_numpy(object)
    outer = np.append(nearest(tree, wanted), -1)[tree.parent]
    needed = np.zeros(len(names), np.bool_)
    at = np.unique(events[events >= 0])
    while len(at):
        needed[at] = True
        at = np.unique(outer[at])
        at = at[(at >= 0) & ~needed[np.maximum(at, 0)]]
    rows = np.flatnonzero(needed)
    steps: dict[tuple[int, str], int] = {}
    codes = np.full(len(names) + 1, -1, np.int64)
    for row in rows[np.argsort(tree.depth[rows], kind="stable")].tolist():
        codes[row] = steps.setdefault((int(codes[outer[row]]), named(names[row])), len(steps))
    known = list(steps)
    distinct, place = unique(codes[events])
    texts = []
    for code in distinct.tolist():
        path = []
        while code >= 0:
            code, name = known[code]
            path.append(name)
        texts.append(("/" if named is _bare_module else ";").join(reversed(path)))
    return objects(place, texts)


def python_lines(report: KinetoReport, ops: pd.DataFrame) -> NDArray[np.object_]:
    """For each of some operators (rows of the report's `ops`, by index) the innermost frame of Python that
    is the program's own; '' for none.
    """
    tree = kineto_tree.build(report)
    names, kinds = tree.events["name"].to_numpy(object), tree.events["kind"].to_numpy(object)
    place = np.full(len(report.ops()) + 1, -1, np.int64)
    mine = np.flatnonzero(kinds == "op")
    place[tree.events["row"].to_numpy(np.int64)[mine]] = mine
    users = np.append(nearest(tree, (kinds == "python") & own_names(names)), -1)
    return _names(names, users[place[ops.index.to_numpy(np.int64)]])


def _bare_module(name: str) -> str:
    return name.removeprefix(MODULE)


def _names(names: NDArray[np.object_], events: Ints) -> NDArray[np.object_]:
    return np.append(names, "")[events]


def _starts(names: NDArray[np.object_], beginnings: tuple[str, ...]) -> Bools:
    codes, distinct = codes_of(names)
    hits = np.array([str(name).startswith(beginnings) for name in distinct], np.bool_)
    return np.append(hits, False)[codes]


def _added(count: int, events: Ints, values: Ints) -> Ints:
    total = np.zeros(count, np.int64)
    some = events >= 0
    np.add.at(total, events[some], values[some])
    return total


def _covering(tree: kineto_tree.Tree, points: pd.DataFrame) -> Ints:
    """The innermost event around each moment on its thread; -1 for none."""
    events = tree.events
    keys, theirs = process_keys(
        *(events[c].to_numpy(np.int64) for c in ("rank", "tid")),
        *(points[c].to_numpy(np.int64) for c in ("rank", "tid")),
    )
    at = points["start_ns"].to_numpy(np.int64)
    start, end = (np.concatenate((events[c].to_numpy(np.int64), at)) for c in ("start_ns", "end_ns"))
    thread, place = np.concatenate((keys, theirs)), np.arange(len(start))
    order = np.lexsort((place, -end, start, thread))
    around = np.append(order, -1)[kineto_tree.holders(thread[order], end[order])]
    held = np.empty(len(order), np.int64)
    held[order] = around
    return _followed(np.where(place < len(keys), place, held))[len(keys) :]
