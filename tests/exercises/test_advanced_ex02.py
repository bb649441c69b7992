"""advanced-ex02: the worked examples, typical mistakes, and the answers on the unseen captures."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from labcode import store
from labcode.exercises.advanced import ex02_cause, ex02_scenes, ex02_schedule
from tests.exercises.support import cases, check_told, names_of, solution

SEEDS = (0, 1, 2)
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


def test_the_reference_of_part_a_is_the_model_of_the_book() -> None:
    asked = [case for case in cases(A, 3) if case.function == "taken"]
    assert len(asked) > 5
    for case in asked:
        assert np.allclose(ex02_schedule.taken(*case.arguments), case.expected)


_CLASS = 'made = made[[thread in feeders for thread in zip(made["pid"], made["tid"], strict=True)]]'
MISTAKES = [
    (
        A,
        "begin = max(order, free[i % workers])\n            free[i % workers] = begin + cost",
        "w = free.index(min(free)); begin = max(order, free[w]); free[w] = begin + cost",
        "worker i % workers",
    ),
    (
        A,
        "had.append(max(asks, begin + cost))",
        "ready = sorted([*had, begin + cost]); had.append(max(asks, begin))",
        "",
    ),
    (
        A,
        "order = had[i - first_ordered] if i >= first_ordered else 0.0",
        "order = 0.0",
        "has to be ordered first",
    ),
    (A, "first_ordered = workers * ahead", "first_ordered = ahead", "counts for each worker|Error"),
    (
        A,
        "had[i - first_ordered] if i",
        "had[i - first_ordered] + step if i",
        "when the loop takes a batch, not when its step",
    ),
    (A, "max(order, free[i % workers])", "order", "one batch at a time"),
    (A, "asks = had[-1] + step", "asks = had[-1]", "works for `step`"),
    (A, "had.append(max(asks, begin + cost))", "had.append(asks + cost)", "do not add up"),
    (A, "had.append(max(asks, begin + cost))", "had.append(max(asks, begin + cost) + step)", ""),
    (
        A,
        "        asks = had[-1] + step\n    return had",
        "        asks = had[-1] + step\n    return [at + step for at in had]",
        "one step before",
    ),
    (
        A,
        "    return had\n",
        "    return [b - a - step for a, b in zip([-step, *had], had)]\n",
        "these are the waits",
    ),
    (A, "for workers in range(1, most + 1):", "for workers in range(1, most):", "`most` itself may be"),
    (A, "for workers in range(1, most + 1):", "for workers in range(most, 0, -1):", "the fewest that do"),
    (
        A,
        "            return workers\n    return None",
        "            return workers\n    return most",
        "no number up to `most` is enough",
    ),
    (
        A,
        "        if not waits(taken(costs, step, workers, ahead), step):\n            return workers",
        "        if workers >= sum(costs) / len(costs) / step:\n            return workers",
        "mean cost / step",
    ),
    (
        A,
        "            return ahead\n    return None",
        "            return ahead\n    return most",
        "however far ahead",
    ),
    (A, "return any(times[i]", "return times[0] > 0 or any(times[i]", "the first batch is always waited for"),
    (A, "for ahead in range(1, most + 1):", "for ahead in range(most, 0, -1):", "the smallest that does"),
    (B, _CLASS, "made = made", "ranges of all three stages"),
    (B, 'made.groupby(["pid", "tid"])', 'made.assign(pid=made["tid"]).groupby(["pid", "tid"])', ""),
    (
        B,
        "len(feeders)",
        "len({tid for _, tid in feeders})",
        "a thread is pid and tid",
    ),
    (B, 'of_loop & (ranges["name"] == "data wait")', 'ranges["name"] == "data wait"', "another one waits"),
    (
        B,
        'made[(made["start_ns"] >= begin) & (made["end_ns"] <= end)]',
        "made",
        "only whole ones count",
    ),
    (
        B,
        "intervals.total(*inside) / steps",
        "float((inside[1] - inside[0]).sum()) / steps",
        "counts twice",
    ),
    (
        B,
        'intervals.clip(ops["start_ns"].to_numpy(), ops["end_ns"].to_numpy(), window)',
        '(ops["start_ns"].to_numpy(), ops["end_ns"].to_numpy())',
        "not cut to the window",
    ),
    (B, "/ len(feeders)", "", "divide by their number"),
    (B, "batch * ", "", "takes a batch of them"),
    (B, "fed + gpu_ns if loop in feeders else max(fed, gpu_ns)", "max(fed, gpu_ns)", "the times add up"),
    (B, "math.ceil", "round", "round up"),
    (B, "else max(fed, gpu_ns)", "else fed", "no shorter than the GPU's own time"),
    (B, '.groupby(made["name"]).mean()', '.groupby(made["name"]).max()', "take the mean"),
    (
        B,
        "step(feed_ns) / ((end - begin) / steps)",
        "((end - begin) / steps) / step(feed_ns)",
        "predicted / measured",
    ),
    (B, "        return None\n", "        return {}\n", "None"),
]


@pytest.mark.parametrize("number", range(len(MISTAKES)), ids=lambda n: f"{MISTAKES[n][0]}-{n}")
def test_no_mistake_passes_and_typical_ones_are_told_so(number: int) -> None:
    check_told(*MISTAKES[number], SEEDS)


needs_captures = pytest.mark.skipif(
    store.SHIPPED_SET not in store.list_sets()
    or "dataloader" not in store.load_set(store.SHIPPED_SET).experiments,
    reason="the shipped captures are not here",
)


@needs_captures
def test_the_causes_of_the_unseen_captures_are_clear_and_not_the_pages() -> None:
    captures = store.load_set(store.SHIPPED_SET)
    found = {run: ex02_cause.bound(ex02_scenes.exam(captures, run)) for run in ("exam_baseline", "exam_disk")}
    page = ex02_cause.bound(ex02_scenes.exam(captures, "improved"))
    assert page is not None and page["bound"] == "gpu"
    for run, stage in (("exam_baseline", "transform"), ("exam_disk", "read")):
        answer = found[run]
        assert answer is not None
        assert (answer["bound"], answer["stage"]) == ("feed", stage)
        assert answer["gain"] > 1.4 and answer["feed_ns"] > 1.3 * answer["gpu_ns"]
        assert answer["wait_share"] > 0.3


@needs_captures
def test_the_model_predicts_the_unseen_captures_as_far_as_it_says() -> None:
    """It knows nothing of handing over, so a step takes longer than it says, but not twice as long."""
    notes = ex02_schedule.SCHEDULE.notes
    assert notes is not None
    lines = notes(store.load_set(store.SHIPPED_SET))
    assert lines
    for line in lines:
        match = re.search(r"says ([\d.]+) ms a step, the program took ([\d.]+)", line)
        assert match is not None
        said, took = map(float, match.groups())
        assert 0.9 * said <= took <= 2 * said
