"""advanced-ex02: the worked examples and the answers on the unseen captures."""

import re
from typing import Any

import pandas as pd
import pytest

from labcode import store
from labcode.grading.task import read
from solutions.advanced.ex02_dataloader import b_cases
from tests.exercises.support import names_of, part, solution

A, B = "advanced-ex02a", "advanced-ex02b"


def test_the_model() -> None:
    s = names_of(solution(A))
    assert s["taken"]([10, 10, 30, 10, 10], 8, 2, 1) == [10, 18, 40, 48, 56]
    assert s["fewest_workers"]([10] * 20, 4, 2, 8) == 3
    assert s["fewest_workers"]([10] * 20, 4, 2, 2) is None
    assert s["least_ahead"]([4] * 9 + [30] + [4] * 9, 7, 1, 8) == 5
    assert s["least_ahead"]([9] * 20, 7, 1, 8) is None


def test_what_bounds_the_run() -> None:
    rows = [
        (0, 1000, 1, 1, "lab:measured"),
        (0, 300, 1, 1, "data wait"),
        (500, 800, 1, 1, "data wait"),
        (0, 20, 2, 2, "read"),
        (20, 60, 2, 2, "decode"),
        (60, 200, 2, 2, "transform"),
        (100, 140, 3, 3, "read"),
        (140, 180, 3, 3, "decode"),
        (180, 280, 3, 3, "transform"),
    ]
    ranges = pd.DataFrame(rows, columns=["start_ns", "end_ns", "pid", "tid", "name"])
    ops = pd.DataFrame({"start_ns": [300, 350, 800], "end_ns": [400, 450, 900], "stream": [7, 13, 7]})
    found = names_of(solution(B), B)["bound"](ranges, ops, (0, 1000), 2)
    assert found == {
        "wait_share": 0.6,
        "feed_ns": pytest.approx(190),
        "gpu_ns": 125,
        "bound": "feed",
        "stage": "transform",
        "explained": pytest.approx(0.38),
        "gain": pytest.approx(1.52),
        "enough": 4,
    }


def test_the_causes_of_the_unseen_captures_are_clear_and_not_the_pages() -> None:
    captures = store.load_set(store.SHIPPED_SET)
    bound = names_of(solution(B), B)["bound"]

    def bound_of(run: str) -> dict[str, Any]:
        asked = b_cases.run_of(captures, run)
        found: dict[str, Any] = bound(asked.ranges, asked.ops, asked.window, asked.batch)
        return found

    assert bound_of("improved")["bound"] == "gpu"
    for run, stage in (("exam_baseline", "transform"), ("exam_disk", "read")):
        answer = bound_of(run)
        assert (answer["bound"], answer["stage"]) == ("feed", stage)
        assert answer["gain"] > 1.4 and answer["feed_ns"] > 1.3 * answer["gpu_ns"]
        assert answer["wait_share"] > 0.3


def test_the_model_predicts_the_unseen_captures_as_far_as_it_says() -> None:
    """It knows nothing of handing over, so a step takes longer than it says, but not twice as long."""
    task, captures = read(*part(A)), store.load_set(store.SHIPPED_SET)
    assert task.exam is not None and task.notes is not None
    for case in task.exam(captures):
        task.expect(case)
    lines = task.notes(captures)
    assert lines
    for line in lines:
        match = re.search(r"says ([\d.]+) ms a step, the program took ([\d.]+)", line)
        assert match is not None
        said, took = map(float, match.groups())
        assert 0.9 * said <= took <= 2 * said
