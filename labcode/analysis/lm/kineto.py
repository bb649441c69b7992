"""A language model's parts in a trace: a report in, its GPU operations with the ranges around them out.

Ranges are the program's own (``record_function``). What the backward pass launches has no ranges but
``backward``; the arrows that a trace draws from each forward operator to its backward one lead to the ranges
of the former, so that time can be told by part and module in either pass.
"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labcode.analysis.lm import attribution
from labcode.analysis.timeline import links as kineto_links
from labcode.analysis.timeline import tree as kineto_tree
from labcode.reports.common import MEASURED, STEP
from labcode.reports.kineto.report import KinetoReport

FORWARD, BACKWARD = "forward", "backward"
_ENGINE = ("autograd::engine::",)


def operations(report: KinetoReport) -> pd.DataFrame:
    """The GPU operations with their paths, as `attribution` takes them; ``rank`` beside.

    The path of an operation of the backward pass is that of its forward operator with ``backward`` in the
    place of ``forward``; where no arrow leads to one, the path of its own launch.
    """
    ops = report.gpu_ops()
    tree = kineto_tree.build(report, python=False)
    names = tree.events["name"].to_numpy(object)
    marks = (tree.events["kind"] == "annotation").to_numpy() & _wanted(names)
    paths = np.append(_paths(tree, names, marks), "")
    where = kineto_links.launch_events(report, tree)
    back = np.append(kineto_links.nearest_link(tree, kineto_links.forward_events(report, tree)), -1)[where]
    own, ahead = paths[where], paths[back]
    engine = np.append(kineto_links.nearest(tree, _starts(names, _ENGINE)), -1)[where] >= 0
    full = [
        _backward(forward, path) if source >= 0 and forward else _marked(path, inside)
        for path, forward, source, inside in zip(own, ahead, back.tolist(), engine.tolist(), strict=True)
    ]
    table = ops[["kind", "name", "start_ns", "end_ns", "rank", "device", "stream"]]
    return table.assign(path=pd.Series(full, index=ops.index, dtype="str"))


def lm_buckets(report: KinetoReport) -> pd.DataFrame:
    """GPU time by pass and bucket: see `labcode.analysis.lm.attribution.buckets`."""
    return attribution.buckets(attribution.attribute(operations(report)), by=("pass",))


def lm_parts(report: KinetoReport) -> pd.DataFrame:
    """GPU time by pass, part of the model and bucket: see `labcode.analysis.lm.attribution.parts`."""
    return attribution.parts(attribution.attribute(operations(report)))


def lm_kernels(report: KinetoReport) -> pd.DataFrame:
    """Kernels by pass, the most time first: see `labcode.analysis.lm.attribution.kernels`."""
    return attribution.kernels(attribution.attribute(operations(report)))


def _backward(forward: str, own: str) -> str:
    """A forward path as that of the backward pass; one without ``forward`` in it goes below the own path."""
    parts = forward.split("/")
    if FORWARD in parts:
        parts[parts.index(FORWARD)] = BACKWARD
        return "/".join(parts)
    outer = own.split("/") if own else [BACKWARD]
    return "/".join([*outer, *parts])


def _marked(path: str, engine: bool) -> str:
    """The path of what no arrow leads from; the engine's own work is the backward pass's."""
    return path or (BACKWARD if engine else "")


def _paths(
    tree: kineto_tree.Tree, names: NDArray[np.object_], marks: NDArray[np.bool_]
) -> NDArray[np.object_]:
    """For each event the names of the marks around it and of itself, outermost first, joined by slashes."""
    found = np.full(len(names), "", object)
    for row in np.argsort(tree.depth, kind="stable").tolist():
        outer = found[tree.parent[row]] if tree.parent[row] >= 0 else ""
        if marks[row]:
            own = str(names[row]).replace("/", "∕")
            found[row] = f"{outer}/{own}" if outer else own
        else:
            found[row] = outer
    return found


def _wanted(names: NDArray[np.object_]) -> NDArray[np.bool_]:
    """Marks of the program: neither the profiler's steps nor the range that is cut out."""
    return ~_starts(names, (STEP, MEASURED))


def _starts(names: NDArray[np.object_], beginnings: tuple[str, ...]) -> NDArray[np.bool_]:
    return np.array([str(name).startswith(beginnings) for name in names], np.bool_)
