"""Functions of Python made from looks at its stacks."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labcode import reports
from labcode.analysis.timeline import tree
from labcode.reports.kineto import sampled

BASE_NS = 1_790_000_000_000_000_000
FRAMES = ["train.py(9): <module>", "train.py(3): load", "lib.py(5): step", "train.py(4): load"]
PATHS = [[0], [0, 1], [0, 2], [0, 3]]


def trace(path: Path, events: list[tuple[str, int, int]], looks: list[tuple[int, int]], **other: Any) -> Path:
    """Operators (name, start and end in us) of thread 7, and looks at it (us, path)."""
    at = [us for us, _ in looks]
    first = BASE_NS // 1000 + at[0] if at else 0
    steps = [first, *np.diff(at).tolist()] if at else []
    thread = {"tid": 7, "at": steps, "path": [place for _, place in looks]}
    made = {
        "schemaVersion": 1,
        "baseTimeNanoseconds": BASE_NS,
        "samples": {"frames": FRAMES, "paths": PATHS, "threads": [thread], **other},
        "traceEvents": [
            {"ph": "X", "cat": "cpu_op", "name": n, "ts": a, "dur": b - a, "pid": 7, "tid": 7, "args": {}}
            for n, a, b in events
        ],
    }
    path.write_text(json.dumps(made))
    return path


def test_a_function_lasts_from_look_to_look_and_no_operator_lies_across(tmp_path: Path) -> None:
    operators = [("a", 0, 900), ("b", 1_100, 2_900), ("c", 3_300, 3_400), ("in b", 1_200, 2_100)]
    looks = [(500, 1), (2_000, 2), (2_500, 2), (3_600, 0)]
    with reports.open(trace(tmp_path / "a.trace.json", operators, looks)) as report:
        table = report.python_functions()
        rows = {r.name: (r.start_ns // 1000, r.end_ns // 1000) for r in table.itertuples()}
        built = tree.build(report)
    # 900 to 1100 is free, so load ends there, though 1250 would be half way; 2900 to 3300 likewise
    assert rows["train.py(3): load"] == (500 - 550, 1_000)  # half of what usually lies between two looks
    assert rows["lib.py(5): step"] == (1_000, 3_100)
    assert table["python_parent"].isna().tolist() == [True, False, False]
    around = {
        str(name): str(built.events["name"].iloc[parent]) if parent >= 0 else ""
        for name, parent in zip(built.events["name"], built.parent, strict=True)
    }
    assert around["b"] == "lib.py(5): step" and around["in b"] == "b"
    assert around["c"] == "train.py(9): <module>"


def test_a_function_within_an_operator_ends_with_it(tmp_path: Path) -> None:
    """A call back: it begins within a span, and at the next look both are over."""
    looks = [(500, 0), (1_500, 0), (2_500, 3), (3_500, 0)]
    with reports.open(trace(tmp_path / "a.trace.json", [("outer", 1_200, 3_000)], looks)) as report:
        built = tree.build(report)
    names = built.events["name"].tolist()
    inner = built.events.iloc[names.index("train.py(4): load")]
    outer = built.events.iloc[names.index("outer")]
    assert inner.start_ns == outer.start_ns + 800_000 and inner.end_ns == outer.end_ns
    assert built.parent[names.index("train.py(9): <module>")] == -1


def test_random_looks_at_random_operators_nest(tmp_path: Path) -> None:
    """What is known to nest is made; of it looks see a part: nothing lies across anything."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        spans: list[tuple[str, int, int]] = []
        marks: list[tuple[int, int, int]] = []  # start, end, path of functions
        now = 0
        for _ in range(60):
            now += int(rng.integers(1, 400))
            length = int(rng.integers(50, 3_000))
            kind = int(rng.integers(1, 4))
            marks.append((now, now + length, kind))
            inside = now + 5
            while inside + 20 < now + length:
                width = min(int(rng.integers(5, 300)), now + length - inside - 5)
                spans.append(("op", inside, inside + width))
                if width > 12:
                    spans.append(("deep", inside + 3, inside + width - 3))
                inside += width + int(rng.integers(1, 40))
            now += length
        looks = []
        for at in range(100, now, 700):
            kind = next((k for a, b, k in marks if a <= at < b), 0)
            looks.append((at, kind))
        with reports.open(trace(tmp_path / "a.trace.json", spans, looks)) as report:
            parts = [report.python_functions(), report.ops()]
        made, operators = ([*zip(t["start_ns"].tolist(), t["end_ns"].tolist(), strict=True)] for t in parts)
        across = [(one, two) for one in made for two in operators if one[0] < two[0] < one[1] < two[1]]
        assert not across


@pytest.mark.parametrize(
    "other",
    [
        {"frames": [1]},
        {"paths": [[9]]},
        {"paths": [[0] * 300]},
        {"threads": [{"tid": 7, "at": [1, 2], "path": [0]}]},
        {"threads": [{"tid": 7, "at": [1 << 60], "path": [0]}]},
        {"threads": [{"tid": 7, "at": [-1], "path": [0]}]},
        {"threads": [{"tid": 7, "at": [1], "path": [4]}]},
        {"threads": 3},
    ],
)
def test_looks_that_do_not_fit_together_are_none(tmp_path: Path, other: dict[str, Any]) -> None:
    with reports.open(trace(tmp_path / "a.trace.json", [("a", 0, 9)], [(1, 0)], **other)) as report:
        assert sampled.samples(report.metadata()) is None
        assert not len(report.python_functions()) and len(report.ops()) == 1


def test_a_thread_that_was_never_in_a_function_of_the_program_has_none(tmp_path: Path) -> None:
    empty = trace(tmp_path / "a.trace.json", [("a", 0, 9)], [(1, 0), (5, 0)], paths=[[]])
    with reports.open(empty) as report:
        assert not len(report.python_functions())
