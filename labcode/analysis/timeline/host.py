"""A trace with Python's functions in; where the time of the threads that ran Python went, by line, out."""

import ast
import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from labcode.analysis.buckets import FRAME, own_names
from labcode.analysis.timeline import tree as kineto_tree
from labcode.analysis.timeline.joins import named_like, spans
from labcode.analysis.timeline.links import nearest
from labcode.errors import LabError
from labcode.inputs import plain_file
from labcode.reports.columns import Bools, Ints
from labcode.reports.frames import codes_of
from labcode.reports.kineto.report import KinetoReport

OWN = "its own code"
_BUILT_IN = re.compile(r"<built-in (?:function|method) (\w+).*>")
_WAITS = re.compile(  # built-in functions in which something else is waited for
    r"sleep|wait\w*|acquire|join|e?poll|select|recv\w*|send\w*|accept|connect|"
    r"open|read\w*|write\w*|flush|fsync|stat|listdir|scandir"
)
_NAMELESS = r"\): <(?:genexpr|listcomp|dictcomp|setcomp|lambda)>$"  # of the function around them
_UPDATE = r"^Optimizer\.step#"
UPDATES = 3
_LARGEST_SOURCE = 1 << 20  # bytes
COLUMNS = {"where": "str", "calls": "str", "self_ns": "int64", "share": "float64"}


def host_lines(report: KinetoReport) -> pd.DataFrame:
    """Where the time of the threads that ran the program's Python went, the most first; of each rank.

    rank (of traces of several), where (function and place, ``load, train.py:4``; a comprehension counts for
    the function around it; the line is the one that was seen, where `labcode record` looked at stacks, else
    that of the only call, where the source lies beside the trace, else the function's first one, which is all
    that a trace of PyTorch's tells), calls (what the line of the program
    calls: an operator, a function of a library, something built in that waits or runs operators; or `OWN`,
    with what else is built in), self_ns (without what the program's own functions inside take), share of the
    rank's `extent_ns`. Where an optimizer makes updates, only what lies between the first and the last one
    counts (`updates`). Empty without functions of Python (``with_stack=True``).
    """
    parts = {rank: _lines(report, rank) for rank in report.ranks}
    if len(parts) == 1:
        return next(iter(parts.values()))
    tables = [table.assign(rank=rank)[["rank", *COLUMNS]] for rank, table in parts.items()]
    return pd.concat(tables, ignore_index=True)


def _lines(report: KinetoReport, rank: int) -> pd.DataFrame:
    """One rank's, as `host_lines` has them."""
    tree = kineto_tree.build(report)
    events = tree.events
    names, python = events["name"].to_numpy(object), (events["kind"] == "python").to_numpy()
    mine = python & own_names(names)
    length = extent_ns(report, rank)
    window = updates(report, rank)
    own = _own_ns(tree, window[:2] if window else None)
    named = nearest(tree, mine & ~named_like(events["name"], _NAMELESS))
    user = np.where(named >= 0, named, nearest(tree, mine))
    around = np.append(mine, False)[tree.parent]
    called = np.where(mine, -1, nearest(tree, around & ~mine))
    operators = called[(events["kind"] == "op").to_numpy() & (called >= 0)]
    plain = _plain(events["name"])
    plain[operators] = False
    called = np.where(np.append(plain, False)[called], -1, called)
    kept = (user >= 0) & (own > 0) & (events["rank"] == rank).to_numpy()
    table = pd.DataFrame(
        {
            "where": np.append(names, "")[user[kept]],
            "calls": np.append(names, OWN)[called[kept]],
            "self_ns": own[kept],
        }
    )
    found = table.groupby(["where", "calls"], sort=False)["self_ns"].sum().reset_index()
    found["share"] = found["self_ns"] / max(length, 1)
    folder = report.path if report.path.is_dir() else report.path.parent
    pairs = zip(found["where"], found["calls"], strict=True)
    where = pd.Series([_called_at(str(one), str(name), folder) for one, name in pairs], dtype="str")
    found = found.assign(where=where, calls=found["calls"].map(callee))
    found = found.groupby(["where", "calls"], sort=False).sum().reset_index()
    return found.sort_values("self_ns", ascending=False, kind="stable", ignore_index=True).astype(COLUMNS)


def operators(report: KinetoReport) -> pd.Series:
    """The time of operators on the CPU by name, without what those inside take, of all threads and ranks, in
    ns; the most first.
    """
    tree = kineto_tree.build(report)
    ops = (tree.events["kind"] == "op").to_numpy()
    found = pd.Series(_own_ns(tree)[ops]).groupby(tree.events["name"].to_numpy(object)[ops]).sum()
    return found.sort_values(ascending=False, kind="stable")


def short_operators(report: KinetoReport) -> Iterator[tuple[str, int, float, float]]:
    """The function of the program's with the most operators that it calls itself, not by way of a module, an
    optimizer or autograd: its name, how many (those inside of others left out), ns of one in the mean, and
    the share of its calls in the time of the program; none without functions of Python.
    """
    tree = kineto_tree.build(report)
    names, kinds = tree.events["name"].to_numpy(object), tree.events["kind"].to_numpy()
    ops = kinds == "op"
    mine = (kinds == "python") & own_names(names)
    user = nearest(tree, mine | ops)[tree.parent]
    called = ops & (tree.parent >= 0) & np.append(mine, False)[user]
    around = np.append(nearest(tree, (kinds == "python") & ~_built_in(tree.events["name"])), -1)[tree.parent]
    called &= around == user
    if not called.any():
        return
    places, distinct = codes_of(tree.events["name"].iloc[user[called]])
    bare = pd.Series([re.sub(r"\(\d+\): ", ": ", str(name)) for name in distinct], dtype="str")
    codes = codes_of(bare)[0][places]  # a function, whatever its line
    counts = np.bincount(codes)
    most = int(counts.argmax())
    start, end = spans(tree.events)
    spent = (end - start)[called][codes == most]
    inside = (end - start)[np.unique(user[called][codes == most])].sum()
    whole = max(sum(extent_ns(report, rank) for rank in report.ranks), 1)
    usual = int(np.bincount(places[codes == most]).argmax())
    yield str(distinct[usual]), int(counts[most]), float(spent.mean()), min(float(inside) / whole, 1.0)


def _built_in(names: pd.Series) -> Bools:
    codes, distinct = codes_of(names)
    hits = np.array([str(name).startswith("<built-in") for name in distinct], np.bool_)
    return np.append(hits, False)[codes]


def double_ns(report: KinetoReport) -> int:
    """ns of operators on the CPU with a float64 tensor among their inputs, without what those inside take; of
    all threads and ranks. 0 where no types were recorded (``record_shapes=True``).
    """
    tree = kineto_tree.build(report)
    ops = (tree.events["kind"] == "op").to_numpy()
    inputs = report.ops()[["input_types", "input_dims"]].iloc[tree.events["row"].to_numpy(np.int64)[ops]]
    wide = [_wide(*one) for one in inputs.itertuples(index=False, name=None)]
    return int(_own_ns(tree)[ops][np.array(wide, np.bool_)].sum())


@functools.cache
def _wide(types: str, sizes: str) -> bool:
    """Whether a float64 tensor is among inputs (JSON texts); a number of Python's has no sizes."""
    return '"double"' in types and any(
        kind == "double" and size
        for kind, size in zip(json.loads(types), json.loads(sizes or "[]"), strict=False)
    )


def _own_ns(tree: kineto_tree.Tree, window: tuple[int, int] | None = None) -> Ints:
    """ns of each event in a window without those inside of it."""
    start, end = spans(tree.events)
    if window is not None:
        start, end = np.clip(start, *window), np.clip(end, *window)
    spent = end - start
    inner = np.bincount(tree.parent[tree.parent >= 0], spent[tree.parent >= 0], len(spent))
    return np.asarray(np.maximum(spent - inner.astype(np.int64), 0), np.int64)


def updates(report: KinetoReport, rank: int) -> tuple[int, int, int] | None:
    """From the end of an optimizer's first update to that of its last, and how often it updates in between.

    What is before is start-up and the first iteration; None with fewer than three updates.
    """
    marks = report.annotations()
    mine = marks[(marks["rank"] == rank).to_numpy() & named_like(marks["name"], _UPDATE)]
    if len(mine) < UPDATES:
        return None
    return int(mine["end_ns"].min()), int(mine["end_ns"].max()), len(mine) - 1


def _plain(names: pd.Series) -> Bools:
    """Which names are of what is built in and waits for nothing."""
    codes, distinct = codes_of(names)
    built = [_BUILT_IN.fullmatch(str(name)) for name in distinct]
    hits = np.array([one is not None and not _WAITS.fullmatch(one[1]) for one in built], np.bool_)
    return np.append(hits, False)[codes]


def extent_ns(report: KinetoReport, rank: int) -> int:
    """The length of what is judged: of `updates`, else from the first function of a rank's program that was
    seen to begin to the last one's end.
    """
    if window := updates(report, rank):
        return window[1] - window[0]
    functions = report.python_functions()
    functions = functions[functions["rank"] == rank]
    mine = functions[own_names(functions["name"].to_numpy(object))]
    return int(mine["end_ns"].max() - mine["start_ns"].min()) if len(mine) else 0


def _called_at(name: str, called: str, folder: Path) -> str:
    """As `place`, with the line of the only call of something in the function, where its source is found."""
    frame, other = FRAME.fullmatch(name), _BUILT_IN.fullmatch(called) or FRAME.fullmatch(called)
    if frame and called != OWN:
        word = other[other.lastindex or 0] if other else called.rpartition("::")[2]
        source = Path(frame["file"])  # of a program beside its trace; nothing else is looked into
        inside = {} if source.is_absolute() or ".." in source.parts else _calls(folder / source)
        lines = inside.get((int(frame["line"]), frame["function"]), {}).get(word, set())
        if len(lines) == 1:
            return f"{frame['function']}, {frame['file']}:{min(lines)}"
    return place(name)


@functools.lru_cache(maxsize=64)
def _calls(path: Path) -> dict[tuple[int, str], dict[str, set[int]]]:
    """Of each function in a source (its first line, where its decorators begin, and its name) the lines of
    calls, by what is called; none where there is no such source.
    """
    found: dict[tuple[int, str], dict[str, set[int]]] = {}
    try:
        tree = ast.parse(plain_file(path, most_bytes=_LARGEST_SOURCE).read_bytes())
    except (LabError, OSError, SyntaxError, ValueError, RecursionError):
        return found
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            key = min(one.lineno for one in (node, *node.decorator_list)), node.name
        elif isinstance(node, ast.Module):
            key = 1, "<module>"
        else:
            continue
        inside = found.setdefault(key, {})
        rest: list[ast.AST] = list(node.body)
        while rest:
            one = rest.pop()
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue  # has frames of its own
            if isinstance(one, ast.Call) and isinstance(one.func, ast.Name | ast.Attribute):
                word = one.func.id if isinstance(one.func, ast.Name) else one.func.attr
                inside.setdefault(word, set()).add(one.func.end_lineno or one.lineno)
            rest += ast.iter_child_nodes(one)
    return found


def place(name: str) -> str:
    """``train.py(4): load`` as ``load, train.py:4``; other names as they are."""
    found = FRAME.fullmatch(name)
    return f"{found['function']}, {found['file']}:{found['line']}" if found else name


def callee(name: str) -> str:
    """What is called, in short: ``sleep`` for ``<built-in function sleep>``, a library's function by its name
    and file."""
    built_in = _BUILT_IN.fullmatch(name)
    if built_in:
        return built_in[1]
    return place(name).removeprefix("nn.Module: ")
