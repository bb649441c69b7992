"""Hidden cases of advanced-ex01 (from a kernel to its line): a generator or captures in, cases out."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from labcode.exercises.advanced.ex01_reference import (
    Frame,
    Path,
    Rules,
    blame,
    common_path,
    paths,
    user_path,
)
from labcode.exercises.advanced.ex01_scenes import Tables, scenes
from labcode.exercises.cases import Case, Mistake, Task
from labcode.grading.exam import open_run
from labcode.store import CaptureSet

Rng = np.random.Generator
EXPERIMENT, RUN = "python_backtraces", "exam_baseline"
MOST = 12  # entries of an answer that are shown
_LIBRARIES = (
    "site-packages/torch/nn/functional.py",
    "/opt/venv/lib/python3.12/site-packages/numpy/_core/numeric.py",
    "/usr/lib/python3/dist-packages/yaml/loader.py",
    "lib/python3.13/runpy.py",
    "<frozen runpy>",
    "<string>",
)
_OWN = ("train.py", "src/model.py", "tools/lib/python_tools/heads.py", "my-site-packages-check/run.py")
_WRONG: tuple[tuple[str, Rules], ...] = (
    ("frames of libraries belong to no path of the program", Rules(own=False)),
    (
        "correlations and sequence numbers are counted by each process: match the pid, too",
        Rules(by_process=False),
    ),
    ("a thread without any stack runs no Python: follow its sequence numbers", Rules(backward=False)),
    (
        "the outermost operation around a call, not the innermost, tells what Python called",
        Rules(outermost=False),
    ),
    ("several operations may show a number; the last of them is the forward one", Rules(last=False)),
    ("a stack inside the operation comes before those around it", Rules(inside=False)),
    ("no stack inside: take what the stacks before and after it have in common", Rules(between=False)),
    ("the stack before tells half: keep only what the one after it shares", Rules(common=False)),
    ("in the same function on another line: keep the frame, with line 0", Rules(exact=True)),
)


def _frames_of(rng: Rng) -> list[tuple[str, list[Frame]]]:
    def pick(files: Sequence[str]) -> Frame:
        return f"f{rng.integers(100)}", str(rng.choice(files)), int(rng.integers(1, 900))

    def own() -> Frame:
        return pick(_OWN)

    def library() -> Frame:
        return pick(_LIBRARIES)

    return [
        ("the program's frames alone", [own() for _ in range(3)]),
        ("frames of libraries inside", [library(), library(), own(), own(), library()]),
        ("a library between own frames", [own(), library(), library(), own(), own()]),
        (
            "every kind of library",
            [("f", file, 1) for file in rng.permutation(_LIBRARIES).tolist()] + [own()],
        ),
        ("own files that look like libraries", [("f", file, 2) for file in _OWN]),
        ("libraries alone", [library(), library()]),
        ("no frames", []),
    ]


def _innermost(path: Path) -> list[Frame]:
    return list(path[-1:])


def _path_case(name: str, stack: list[Frame]) -> Case:
    right = user_path(stack)
    crude = tuple(frame for frame in reversed(stack) if "packages" not in frame[1] and "<" not in frame[1])
    mistakes = [
        Mistake("frames of libraries belong to no path of the program", tuple(reversed(stack))),
        Mistake("stacks come innermost first; the path begins outermost", right[::-1]),
        Mistake("this is the innermost own frame; asked for are all", _innermost(right)),
        Mistake("Python's own library (lib/python3.12/…) and a folder that only sounds alike differ", crude),
    ]
    return Case(
        name=f"a stack: {name}",
        summary="stack = " + (", ".join(f"{f} ({file}:{line})" for f, file, line in stack) or "empty"),
        function="user_path",
        arguments=(stack,),
        expected=right,
        mistakes=tuple(mistakes),
        show=_show,
    )


def _pairs(rng: Rng) -> list[tuple[str, Path, Path]]:
    a, b, c = (
        ("step", "train.py", 12),
        ("forward", "model.py", int(rng.integers(20, 90))),
        ("mix", "heads.py", 7),
    )
    later, other, named_alike = (b[0], b[1], b[2] + 1), ("loss", "model.py", 5), (b[0], "other.py", b[2])
    return [
        ("the same", (a, b, c), (a, b, c)),
        ("the same function, on another line", (a, b), (a, later)),
        ("another line further out", (a, b, c), (a, later, c)),
        ("another function", (a, b, c), (a, b, other)),
        ("one is the other's caller", (a, b), (a, b, c)),
        ("functions of one name in two files", (a, b), (a, named_alike)),
        ("nothing in common", (b,), (c,)),
        ("an empty one", (), (a, b)),
    ]


def _common_case(name: str, before: Path, after: Path) -> Case:
    right = common_path(before, after)
    return Case(
        name=f"two paths: {name}",
        summary=f"before = {_text(before)}; after = {_text(after)}",
        function="common_path",
        arguments=(list(before), list(after)),
        expected=right,
        mistakes=(
            Mistake("in the same function on another line: keep the frame, with line 0",
                    common_path(before, after, exact=True)),
            Mistake("a function is its name and its file", common_path(_no_file(before), _no_file(after))),
            Mistake("this is the path before; keep only what both share", before),
            Mistake("this is the path after; keep only what both share", after),
            Mistake("beyond the first difference nothing is known: stop there", _zip_all(before, after)),
        ),
        show=_show,
    )  # fmt: skip


def _no_file(path: Path) -> Path:
    return tuple((name, "model.py" if name == "forward" else file, line) for name, file, line in path)


def _zip_all(before: Path, after: Path) -> Path:
    """Goes on behind the first difference."""
    pairs = [(x, y) for x, y in zip(before, after, strict=False) if x[:2] == y[:2]]
    return tuple((x[0], x[1], x[2] if x == y else 0) for x, y in pairs)


def _stack_cases(rng: Rng) -> list[Case]:
    return [
        *(_path_case(name, stack) for name, stack in _frames_of(rng)),
        *(_common_case(*pair) for pair in _pairs(rng)),
    ]


def _stack_exam(captures: CaptureSet) -> list[Case]:
    """Some of the stacks of a capture, and pairs of those that were taken one after the other."""
    frames = _tables_of(captures)[3].sort_values(["backtrace", "depth"], kind="stable")
    columns = (frames[name].tolist() for name in ("backtrace", "function", "file", "line"))
    taken: dict[int, list[Frame]] = {}
    for number, function, file, line in zip(*columns, strict=True):
        taken.setdefault(number, []).append((function, file, line))
    kinds = list(dict.fromkeys(tuple(stack) for stack in taken.values()))
    name = f"of a capture you have not seen ({EXPERIMENT})"
    steps = list(itertools.pairwise(kinds))
    made = [_path_case(name, list(stack)) for stack in kinds[:: max(1, len(kinds) // 6)]]
    made += [_common_case(name, user_path(a), user_path(b)) for a, b in steps[:: max(1, len(steps) // 6)]]
    return [replace(case, exam=True) for case in made]


def _launch_case(name: str, tables: Tables, *, exam: bool = False) -> Case:
    def answer(rules: Rules) -> list[Path | None]:
        return paths(*tables, rules)

    return Case(
        name=name,
        summary=_summary(tables),
        function="launch_paths",
        arguments=tables,
        expected=answer(Rules()),
        mistakes=tuple(Mistake(says, answer(rules)) for says, rules in _WRONG),
        exam=exam,
        show=_show_paths,
        limit_s=120.0 if exam else 10.0,
    )


def _blame_case(name: str, tables: Tables, *, exam: bool = False) -> Case:
    ops = tables[0]
    spent = (ops["end_ns"] - ops["start_ns"]).tolist()
    found = paths(*tables)
    right = blame(found, spent)
    innermost: dict[tuple[str, str], int] = {}
    twice: dict[tuple[str, str], int] = {}
    for path, ns in zip(found, spent, strict=True):
        for frame in (path or ())[-1:]:
            innermost[frame[:2]] = innermost.get(frame[:2], 0) + ns
        for frame in path or ():
            twice[frame[:2]] = twice.get(frame[:2], 0) + ns
    return Case(
        name=f"{name}: whose time",
        summary=_summary(tables),
        function="blame",
        arguments=(ops, found),
        expected=right,
        mistakes=(
            Mistake("what a function calls counts for it, too: all frames of a path", innermost),
            Mistake("a function that stands in a path twice has the time once", twice),
            Mistake(
                "these are numbers of operations; asked for is their time", blame(found, [1] * len(spent))
            ),
        ),
        exam=exam,
        show=_show_blame,
    )


def _show(value: Any) -> str:
    return _text(value)


def _text(path: Any) -> str:
    if path is None:
        return "None"
    return " > ".join(f"{name} ({file}:{line})" for name, file, line in path) or "an empty path"


def _show_paths(value: Any) -> str:
    lines = [f"[{place}] {_text(path)}" for place, path in enumerate(value)]
    more = [f"and {len(lines) - MOST} more"] if len(lines) > MOST else []
    return "; ".join([*lines[:MOST], *more])


def _show_blame(value: Any) -> str:
    rows = sorted(value.items(), key=lambda item: -item[1])[:MOST]
    return "; ".join(f"{name} ({file}): {ns:,.0f} ns" for (name, file), ns in rows)


def _summary(tables: Tables) -> str:
    ops, api, backtraces, _, nvtx = tables
    return (
        f"{len(ops)} operations, {len(api)} calls on {api['tid'].nunique()} thread(s) of "
        f"{api['pid'].nunique()} process(es), {len(backtraces)} stacks, {len(nvtx)} ranges"
    )


def _launch_cases(rng: Rng) -> list[Case]:
    made = scenes(rng)
    recursive = _recursive(rng)
    return [
        *(_launch_case(name, tables) for name, tables in made),
        *(
            _blame_case(name, tables)
            for name, tables in [*made[:2], ("a function that calls itself", recursive), made[-1]]
        ),
    ]


def _recursive(rng: Rng) -> Tables:
    from labcode.exercises.advanced.ex01_scenes import Program, tables

    p = Program(rng, pid=int(rng.integers(400, 900)))
    walk = p.frame("walk", 40)
    for depth in (1, 2, 3):
        p.plain("add", p.stack(p.frame("forward", 12), *[walk] * depth))
    return tables([p])


def _tables_of(captures: CaptureSet) -> Tables:
    with open_run(captures, EXPERIMENT, RUN) as report:
        backtraces = report.python_backtraces()[
            ["backtrace", "start_ns", "pid", "tid", "correlation", "call_name"]
        ]
        return report.gpu_ops(), report.api(), backtraces, report.python_backtrace_frames(), report.nvtx()


def _exam(captures: CaptureSet) -> list[Case]:
    tables = _tables_of(captures)
    name = f"a capture you have not seen ({EXPERIMENT})"
    return [_launch_case(name, tables, exam=True), _blame_case(name, tables, exam=True)]


def _notes(captures: CaptureSet) -> list[str]:
    """Which function of the exam's program launched work for the most time itself."""
    tables = _tables_of(captures)
    ops = tables[0]
    spent = (ops["end_ns"] - ops["start_ns"]).tolist()
    ends = [path[-1:] if path else None for path in paths(*tables)]
    (name, file), ns = max(blame(ends, spent).items(), key=lambda item: item[1])
    count = sum(path is not None and path[0][:2] == (name, file) for path in ends)
    return [
        f"{EXPERIMENT}: {name} ({file}) launched {count:,} of {len(ops):,} operations, "
        f"{ns / sum(spent):.0%} of the GPU time"
    ]


STACKS = Task(_stack_cases, _stack_exam)
LAUNCHES = Task(_launch_cases, _exam, _notes)
