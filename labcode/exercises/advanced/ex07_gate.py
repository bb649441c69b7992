"""Hidden cases of advanced-ex07, part b (a gate for CI): a generator or captures in, cases out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labcode.exercises.advanced.ex07_decide import AFTER, BEFORE, EXPERIMENT, by_means, clear, decide
from labcode.exercises.advanced.ex07_steps import step_lengths, step_periods
from labcode.exercises.cases import Case, Mistake, Task, brief
from labcode.grading.exam import open_run
from labcode.grading.inputs import Row, table
from labcode.store import CaptureSet

Rng = np.random.Generator
Pair = tuple[pd.DataFrame, pd.DataFrame]
_CODES = {"slower": 1, "too few": 2}
_MOST_DRAWS = 2000


def gate(before: Sequence[float], after: Sequence[float], limit: float) -> int:
    """The exit code for two lists of periods."""
    return _CODES.get(decide(np.asarray(before), np.asarray(after), limit), 0)


def _ranges(
    rng: Rng, *, period: float, busy: float, steps: int = 20, pids: Sequence[int] = (71,), stall: int = 0
) -> pd.DataFrame:
    """The ranges of a loop: steps with phases in them, and other ranges whose names begin alike.

    ``busy`` is the share of a period that the step's own range lasts; ``stall`` steps are followed by a
    checkpoint, between two of them.
    """
    rows: list[Row] = []
    stalls = set(rng.choice(np.arange(1, steps), stall, replace=False).tolist()) if stall else set()
    for rank, pid in enumerate(pids):
        now = float(rng.integers(10**6, 10**7)) + rank * period / (len(pids) + 0.5)
        where = {"pid": pid, "tid": pid, "event_type": "push_pop"}
        for early, late, name in ((9, 1, "step 0 warm-up"), (5, 4, "stepping 1")):
            begin, end = int(now - early * period), int(now - late * period)
            rows.append({"start_ns": begin, "end_ns": end, "name": name, **where})
        for number in range(steps):
            own = period * float(np.exp(rng.normal(0, 0.02)))
            until = int(now + busy * own)
            rows.append({"start_ns": int(now), "end_ns": until, "name": f"step {number}", **where})
            for place, phase in enumerate(("forward", "backward")):
                begin = int(now + (0.1 + 0.4 * place) * busy * own)
                end = int(begin + 0.3 * busy * own)
                rows.append({"start_ns": begin, "end_ns": end, "name": phase, **where})
            now += own * (9 if number in stalls else 1)
    rows = [rows[i] for i in rng.permutation(len(rows))]
    return table(rows, "nvtx")


def _pairs(rng: Rng, limit: float) -> list[tuple[str, Pair]]:
    base = float(rng.uniform(2e6, 9e6))
    pids = (310, 77, 1200)

    def pair(one: Row, other: Row) -> Pair:
        for _ in range(_MOST_DRAWS):
            drawn = _ranges(rng, **one), _ranges(rng, **other)
            times = [np.asarray(step_periods(side)) for side in drawn]
            if min(len(side) for side in times) < 6 or clear(times[0], times[1], limit):
                return drawn
        raise AssertionError("no clear pair of loops")

    same: Row = {"period": base, "busy": 0.5}
    return [
        ("nothing changed", pair(same, same)),
        ("a real regression", pair(same, {"period": 1.25 * base, "busy": 0.5})),
        ("an improvement", pair(same, {"period": 0.75 * base, "busy": 0.5})),
        (
            "an improvement that moves work into the step's range",
            pair({"period": base, "busy": 0.4}, {"period": 0.8 * base, "busy": 0.95}),
        ),
        (
            "a regression outside of the step's range",
            pair({"period": base, "busy": 0.9}, {"period": 1.3 * base, "busy": 0.3}),
        ),
        (
            "three ranks, each with steps of its own",
            pair({**same, "pids": pids}, {"period": 1.3 * base, "busy": 0.5, "pids": pids}),
        ),
        (
            "three ranks, of which the first is alone before",
            pair({**same, "pids": pids[:1]}, {**same, "pids": pids}),
        ),
        (
            "checkpoints between a few steps after",
            pair({**same, "steps": 40}, {**same, "steps": 40, "stall": 4}),
        ),
        ("six steps, which make five periods", pair({**same, "steps": 6}, {"period": 2 * base, "busy": 0.5})),
        ("no steps after", (_ranges(rng, **same), _ranges(rng, **same).iloc[:0])),
    ]


def _period_case(name: str, ranges: pd.DataFrame, *, exam: bool = False) -> Case:
    right = step_periods(ranges)
    return Case(
        name=name,
        summary=f"{len(ranges)} ranges of {ranges['pid'].nunique()} process(es)",
        function="periods",
        arguments=(ranges,),
        expected=right,
        mistakes=(
            Mistake(
                "steps of other processes stand between: take differences within each thread",
                step_periods(ranges, threads=()),
            ),
            Mistake(
                "other names begin with `step`, too: a step is the word, a blank and a number, no more",
                step_periods(ranges, pattern=r"step.*"),
            ),
            Mistake(
                "other names begin alike: the name ends with the number",
                step_periods(ranges, pattern=r"step \d.*"),
            ),
            Mistake(
                "these are the lengths of the steps' ranges; asked for is from start to start",
                step_lengths(ranges),
            ),
            Mistake("every range counts here: choose the steps", step_periods(ranges, pattern=r".*")),
        ),
        exam=exam,
        show=lambda value: f"{len(value)} periods: {brief(value, 120)}",
    )


def _gate_case(name: str, pair: Pair, limit: float, *, exam: bool = False) -> Case:
    before, after = pair
    one, other = (np.asarray(step_periods(side)) for side in pair)
    right = gate(one.tolist(), other.tolist(), limit)
    lengths = [step_lengths(side) for side in pair]
    pooled = [step_periods(side, threads=()) for side in pair]
    said = {
        "the length of the step's range is compared; what counts is start to start": gate(
            lengths[0], lengths[1], limit
        ),
        "steps of other processes stand between: take differences within each thread": gate(
            pooled[0], pooled[1], limit
        ),
        "the mean follows a few very long periods: compare medians": int(
            by_means(one, other, limit) == "slower"
        ),
        "1 is a regression and 0 lets the change in: turned round": {0: 1, 1: 0}.get(right, right),
    }
    if right == 2:
        said["too few periods (or none) are no answer: 2, which is neither a pass nor a regression"] = 0
        said["too few periods are no regression: 2 says that there is no answer"] = 1
    return Case(
        name=name,
        summary=f"{_text(one)} before, {_text(other)} after; limit = {limit:g}",
        function="gate",
        arguments=(before, after, limit),
        expected=right,
        mistakes=tuple(Mistake(says, gives) for says, gives in said.items()),
        exam=exam,
        limit_s=20.0,
    )


def _text(times: NDArray[np.float64]) -> str:
    return f"{len(times)} periods" + (f" around {np.median(times) / 1e6:.3g} ms" if len(times) else "")


def _cases(rng: Rng) -> list[Case]:
    limit = float(rng.choice((0.05, 0.08)))
    pairs = _pairs(rng, limit)
    pairs = [*pairs[:2], *(pairs[place] for place in 2 + rng.permutation(len(pairs) - 2))]
    return [
        *(_period_case(name, after) for name, (_, after) in pairs),
        *(_gate_case(name, pair, limit) for name, pair in pairs),
    ]


def _exam(captures: CaptureSet) -> list[Case]:
    sides = []
    for run in (BEFORE, AFTER):
        with open_run(captures, EXPERIMENT, run) as report:
            sides.append(report.nvtx())
    name = f"captures you have not seen ({EXPERIMENT})"
    one, other = sides
    return [
        _period_case(name, one, exam=True),
        *(_gate_case(name, pair, 0.05, exam=True) for pair in ((one, other), (other, one), (one, one))),
    ]


GATE = Task(_cases, _exam)
