"""Call stacks counted: frames and samples of a report in; folded stacks, times of functions, differences out.

A *folded* profile is a table with one row for each distinct stack: ``stack`` (a tuple of labels, the root
first), ``count`` (samples) and ``weight`` (float64: the samples, or nanoseconds where weights were given)::

    samples = during(report.python_samples(), report.window())
    folded = fold(report.python_frames(), python_labels(report.python_frames()), samples["sample"])
    functions(folded).head()
"""

import re
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labcode.analysis.timeline import intervals, links
from labcode.analysis.timeline import tree as trees
from labcode.analysis.timeline.intervals import Window
from labcode.analysis.timeline.joins import spans
from labcode.analysis.timeline.links import MODULE
from labcode.reports.kineto.report import KinetoReport

KEYS = ("sample", "backtrace", "callchain")
_TRACED = re.compile(r"^(.+)\((\d+)\): (.+)$")  # file.py(12): function
_INTERPRETER = r"^(?:_?Py[A-Z_]|_PyEval|PyObject|method_vectorcall|cfunction_|vectorcall_|slot_tp_|object_)"


def python_labels(frames: pd.DataFrame, *, by: str = "function") -> pd.Series:
    """How Python frames are called in a profile: ``function (file)``, or ``function (file:line)`` by line."""
    place = frames["file"]
    if by == "line":
        place = place + ":" + frames["line"].astype(str)
    elif by != "function":
        raise ValueError(f"by={by!r}: choose 'function' or 'line'")
    return frames["function"] + " (" + place + ")"


def native_labels(frames: pd.DataFrame, *, by: str = "function") -> pd.Series:
    """How native frames are called: the function; ``[library]`` where it has no name, or always by module."""
    library = "[" + frames["module"].str.rsplit("/", n=1).str[-1].str.strip("[]") + "]"
    if by == "module":
        return library
    if by != "function":
        raise ValueError(f"by={by!r}: choose 'function' or 'module'")
    return frames["symbol"].where(~frames["unresolved"].astype(bool), library)


def key_of(frames: pd.DataFrame) -> str:
    """The column that numbers the stacks of a table of frames."""
    return next(name for name in KEYS if name in frames.columns)


def during(
    samples: pd.DataFrame,
    window: Window | None = None,
    *,
    spans: pd.DataFrame | None = None,
    pid: int | None = None,
    threads: Iterable[int] | None = None,
) -> pd.DataFrame:
    """The samples of a window, of some spans (a table with start_ns and end_ns, such as the idle gaps of a
    GPU), of a process, of some threads (tid)."""
    at = samples["start_ns"].to_numpy(np.int64)
    kept = np.ones(len(at), np.bool_)
    if window is not None:
        kept &= (at >= window[0]) & (at < window[1])
    if spans is not None:
        start, end = intervals.union(spans["start_ns"].to_numpy(), spans["end_ns"].to_numpy())
        place = np.searchsorted(start, at, "right") - 1
        kept &= (place >= 0) & (at < np.append(end, 0)[place])
    if pid is not None:
        kept &= samples["pid"].to_numpy() == pid
    if threads is not None:
        kept &= np.isin(samples["tid"].to_numpy(), list(threads))
    return samples[kept]


def fold(
    frames: pd.DataFrame,
    labels: pd.Series,
    stacks: Iterable[int] | None = None,
    *,
    weights: pd.Series | None = None,
) -> pd.DataFrame:
    """Equal stacks as one row, the heaviest first.

    ``frames`` is a table of a report (sample, backtrace or callchain; depth 0 innermost), ``labels`` what
    each is called, ``stacks`` the numbers that count (by default all), each as often as it is named.
    ``weights`` gives each named stack a weight (in the order of ``stacks``); without them each weighs 1.
    """
    key = key_of(frames)
    order = np.lexsort((-frames["depth"].to_numpy(np.int64), frames[key].to_numpy(np.int64)))
    numbers = frames[key].to_numpy(np.int64)[order]
    texts = labels.to_numpy(object)[order]
    edges = np.flatnonzero(np.diff(numbers)) + 1
    names = numbers[np.concatenate(([0], edges))] if len(numbers) else numbers
    by_number = {int(n): tuple(part) for n, part in zip(names, np.split(texts, edges), strict=False)}
    wanted = list(by_number) if stacks is None else [int(number) for number in stacks]
    amounts = [1.0] * len(wanted) if weights is None else [float(w) for w in weights]
    counted: dict[tuple[str, ...], list[float]] = {}
    for number, amount in zip(wanted, amounts, strict=True):
        stack = by_number.get(number)
        if stack is not None:
            row = counted.setdefault(stack, [0, 0.0])
            row[0] += 1
            row[1] += amount
    return _folded(counted)


def below(folded: pd.DataFrame, text: str) -> pd.DataFrame:
    """The stacks that pass through a frame whose label holds ``text``, each from that frame on inwards."""
    counted: dict[tuple[str, ...], list[float]] = {}
    for stack, count, weight in _rows(folded):
        place = next((i for i, label in enumerate(stack) if text in label), None)
        if place is not None:
            row = counted.setdefault(stack[place:], [0, 0.0])
            row[0] += count
            row[1] += weight
    return _folded(counted)


def without(folded: pd.DataFrame, pattern: str = _INTERPRETER) -> pd.DataFrame:
    """The same profile without the frames whose label matches (by default those of Python's interpreter)."""
    counted: dict[tuple[str, ...], list[float]] = {}
    known: dict[str, bool] = {}
    labels = pd.Series(sorted({label for stack in folded["stack"] for label in stack}), dtype="str")
    known.update(zip(labels, labels.str.contains(pattern, regex=True), strict=True))
    for stack, count, weight in _rows(folded):
        rest = tuple(label for label in stack if not known[label])
        if rest:
            row = counted.setdefault(rest, [0, 0.0])
            row[0] += count
            row[1] += weight
    return _folded(counted)


def functions(folded: pd.DataFrame) -> pd.DataFrame:
    """Where the time went: one row for each label, the largest self weight first.

    label; self (weight of the stacks in which it is innermost), total (weight of the stacks in which it
    stands anywhere; a recursive function counts once), self_share, total_share (of the whole profile);
    self_count, total_count (samples).
    """
    own: dict[str, list[float]] = {}
    for stack, count, weight in _rows(folded):
        for label in set(stack):
            row = own.setdefault(label, [0.0, 0.0, 0, 0])
            row[1] += weight
            row[3] += count
        row = own[stack[-1]]
        row[0] += weight
        row[2] += count
    table = pd.DataFrame(
        [(label, *values) for label, values in own.items()],
        columns=["label", "self", "total", "self_count", "total_count"],
    ).astype({"label": "str", "self": "float64", "total": "float64"})
    table = table.astype({"self_count": "int64", "total_count": "int64"})
    whole = float(folded["weight"].sum())
    for name in ("self", "total"):
        table[f"{name}_share"] = table[name] / whole if whole else np.nan
    table = table.sort_values(["self", "total", "label"], ascending=[False, False, True], ignore_index=True)
    columns = ["label", "self", "total", "self_share", "total_share", "self_count", "total_count"]
    return table[columns]


def difference(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """Two profiles side by side, the stack whose share changed most first.

    stack; before, after (weights); before_share, after_share (of each profile's own sum: runs of different
    length compare); change (after_share less before_share).
    """
    table = (
        before[["stack", "weight"]]
        .rename(columns={"weight": "before"})
        .merge(after[["stack", "weight"]].rename(columns={"weight": "after"}), on="stack", how="outer")
        .fillna({"before": 0.0, "after": 0.0})
    )
    for name in ("before", "after"):
        whole = float(table[name].sum())
        table[f"{name}_share"] = table[name] / whole if whole else 0.0
    table["change"] = table["after_share"] - table["before_share"]
    order = table["change"].abs().sort_values(ascending=False, kind="stable").index
    return table.loc[order].reset_index(drop=True)


def sampling_period_ns(samples: pd.DataFrame) -> int:
    """The usual time between two samples of a thread that kept running; 0 when no thread has two."""
    ordered = samples.sort_values(["pid", "tid", "start_ns"], kind="stable")
    same = (ordered["pid"].diff() == 0) & (ordered["tid"].diff() == 0)
    steps = ordered["start_ns"].diff()[same]
    return int(steps.quantile(0.25)) if len(steps) else 0


def of_trace(
    report: KinetoReport,
    of: str,
    span: Window | None = None,
    threads: Iterable[tuple[int, int]] | None = None,
) -> pd.DataFrame:
    """The stacks of a trace of torch.profiler, weighted with time (ns); columns stack, count, weight.

    of: 'python' (Python's functions, with the time that each took apart from those it called), 'cpu' (also
    annotations, operators and CUDA calls), 'modules' (``nn.Module`` within ``nn.Module``, then the kernel,
    weighted with time on the GPU; what the backward pass launched counts for the module whose forward it
    answers). span: only what lies in it, cut at its ends; threads: only these (pid, tid). Empty where the
    trace holds nothing of the kind.
    """
    built = trees.build(report)
    kinds, names = built.events["kind"].to_numpy(object), built.events["name"].to_numpy(object)
    module = (kinds == "python") & built.events["name"].str.startswith(MODULE).to_numpy()
    wanted = module if of == "modules" else (kinds == "python") if of == "python" else kinds != "overhead"
    if of == "modules":
        ops = report.gpu_ops()
        where = links.launch_events(report, built)
        inside = np.append(links.nearest(built, wanted), -1)
        back = np.append(links.nearest_link(built, links.forward_events(report, built)), -1)[where]
        event, leaf = np.where(back >= 0, inside[back], inside[where]), ops["short_name"].to_numpy(object)
        weight = _overlap(ops, span)
        keep = (event >= 0) & (weight > 0)
        keep[keep] &= _of_threads(built.events.iloc[event[keep]], threads)
        event, leaf, weight = event[keep], leaf[keep], weight[keep]
    else:
        event, leaf = np.flatnonzero(wanted & _of_threads(built.events, threads)), None
        spent = _overlap(built.events, span)
        around = np.append(links.nearest(built, wanted), -1)[built.parent]
        inner = event[around[event] >= 0]
        np.subtract.at(spent, around[inner], _overlap(built.events, span)[inner])
        weight = spent[event]
        event, weight = event[weight > 0], weight[weight > 0]
    outer = np.append(links.nearest(built, wanted), -1)[built.parent]
    known: dict[int, tuple[str, ...]] = {-1: ()}
    for at in np.flatnonzero(wanted)[np.argsort(built.depth[wanted], kind="stable")].tolist():
        known[at] = (*known[int(outer[at])], _named(str(names[at])))
    counted: dict[tuple[str, ...], list[float]] = {}
    for place, (at, amount) in enumerate(zip(event.tolist(), weight.tolist(), strict=True)):
        stack = known[at] if leaf is None else (*known[at], str(leaf[place]))
        row = counted.setdefault(stack, [0, 0.0])
        row[0] += 1
        row[1] += amount
    return _folded(counted)


def _named(text: str) -> str:
    """A frame of a trace as those of nsys are called: ``function (file)``, ``Linear_3 (nn.Module)``."""
    if text.startswith(MODULE):
        return f"{text.removeprefix(MODULE)} (nn.Module)"
    return _TRACED.sub(r"\3 (\1)", text)


def _overlap(table: pd.DataFrame, span: Window | None) -> NDArray[np.int64]:
    """How much of each row lies in the span."""
    start, end = spans(table)
    if span is not None:
        start, end = np.clip(start, *span), np.clip(end, *span)
    return np.asarray(end - start, np.int64)


def _of_threads(events: pd.DataFrame, threads: Iterable[tuple[int, int]] | None) -> NDArray[np.bool_]:
    if threads is None:
        return np.ones(len(events), np.bool_)
    wanted = set(threads)
    found = [one in wanted for one in zip(events["pid"].tolist(), events["tid"].tolist(), strict=True)]
    return np.array(found, np.bool_)


def _rows(folded: pd.DataFrame) -> Iterable[tuple[tuple[str, ...], int, float]]:
    return zip(folded["stack"], folded["count"].tolist(), folded["weight"].tolist(), strict=True)


def _folded(counted: dict[tuple[str, ...], list[float]]) -> pd.DataFrame:
    ordered: Sequence[tuple[tuple[str, ...], list[float]]] = sorted(
        counted.items(), key=lambda item: (-item[1][1], item[0])
    )
    stacks = np.empty(len(ordered), object)
    stacks[:] = [stack for stack, _ in ordered]
    return pd.DataFrame(
        {
            "stack": stacks,
            "count": np.array([values[0] for _, values in ordered], np.int64),
            "weight": np.array([values[1] for _, values in ordered], np.float64),
        }
    )
