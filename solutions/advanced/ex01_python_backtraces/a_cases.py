"""Hidden cases of part a (what a stack says): a generator or captures in, cases out."""

import itertools
from collections.abc import Sequence

import numpy as np

from labcode.grading.cases import Case
from labcode.store import CaptureSet
from solutions.advanced.ex01_python_backtraces.a_stacks import user_path
from solutions.advanced.ex01_python_backtraces.b_cases import EXPERIMENT, Frame, stacks_of, tables_of, text

Rng = np.random.Generator
Path = tuple[Frame, ...]
_LIBRARIES = (
    "site-packages/torch/nn/functional.py",
    "/opt/venv/lib/python3.12/site-packages/numpy/_core/numeric.py",
    "/usr/lib/python3/dist-packages/yaml/loader.py",
    "dist-packages/yaml/nodes.py",
    "lib/python3.13/runpy.py",
    "lib/python3/site.py",
    "<frozen runpy>",
    "<string>",
)
_OWN = ("train.py", "src/model.py", "tools/lib/python_tools/heads.py", "my-site-packages-check/run.py")


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
        ("a function that calls itself on one line", [("walk", "src/tree.py", 30)] * 3 + [own()]),
        ("no frames", []),
    ]


def _path_case(name: str, stack: list[Frame]) -> Case:
    return Case(
        name=f"a stack: {name}",
        summary="stack = " + (", ".join(f"{f} ({file}:{line})" for f, file, line in stack) or "empty"),
        function="user_path",
        arguments=(stack,),
        show=text,
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
        ("another function of the same file", (a, b), (a, other)),
        ("one is the other's caller", (a, b), (a, b, c)),
        ("functions of one name in two files", (a, b), (a, named_alike)),
        ("nothing in common", (b,), (c,)),
        ("an empty one", (), (a, b)),
    ]


def _common_case(name: str, before: Sequence[Frame], after: Sequence[Frame]) -> Case:
    return Case(
        name=f"two paths: {name}",
        summary=f"before = {text(before)}; after = {text(after)}",
        function="common_path",
        arguments=(list(before), list(after)),
        show=text,
    )


def cases(rng: Rng) -> list[Case]:
    """Stacks, then pairs of paths."""
    return [
        *(_path_case(name, stack) for name, stack in _frames_of(rng)),
        *(_common_case(*pair) for pair in _pairs(rng)),
    ]


def exam(captures: CaptureSet) -> list[Case]:
    """Some of the stacks of a capture, and pairs of those that were taken one after the other."""
    kinds = list(dict.fromkeys(tuple(stack) for stack in stacks_of(tables_of(captures)[3]).values()))
    name = f"of a capture you have not seen ({EXPERIMENT})"
    steps = list(itertools.pairwise(kinds))
    made = [_path_case(name, list(stack)) for stack in kinds[:: max(1, len(kinds) // 6)]]
    made += [_common_case(name, user_path(a), user_path(b)) for a, b in steps[:: max(1, len(steps) // 6)]]
    return made
