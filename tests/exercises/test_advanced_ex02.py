"""advanced-ex02: the answers on the unseen captures."""

import re
from typing import Any

from labcode import store
from labcode.grading.task import read
from solutions.advanced.ex02_dataloader import b_cases
from tests.exercises.support import names_of, part, solution

A, B = "advanced-ex02a", "advanced-ex02b"


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
