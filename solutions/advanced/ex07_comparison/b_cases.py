"""Hidden cases of part b (a gate for CI): a generator or captures in, cases out."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from labcode.grading.cases import Case, brief
from labcode.grading.exam import open_run
from labcode.grading.inputs import Row, table
from labcode.store import CaptureSet
from solutions.advanced.ex07_comparison.a_cases import (
    AFTER,
    BEFORE,
    EXPERIMENT,
    Floats,
    Rng,
    clear,
    decide,
    step_periods,
)

Thread = tuple[int, int]  # pid, tid
Pair = tuple[pd.DataFrame, pd.DataFrame]
_MOST_DRAWS = 2000
_ONE: tuple[Thread, ...] = ((71, 71),)


def _ranges(
    rng: Rng,
    *,
    period: float,
    busy: float,
    steps: int = 20,
    threads: Sequence[Thread] = ((71, 71),),
    stall: int = 0,
    spread: float = 0.02,
) -> pd.DataFrame:
    """The ranges of a loop: steps with phases in them, and other ranges whose names begin alike.

    ``busy`` is the share of a period that the step's own range lasts; ``stall`` steps are followed by a
    checkpoint, between two of them.
    """
    rows: list[Row] = []
    stalls = set(rng.choice(np.arange(1, steps), stall, replace=False).tolist()) if stall else set()
    for rank, (pid, tid) in enumerate(threads):
        now = float(rng.integers(10**6, 10**7)) + rank * period / (len(threads) + 0.5)
        where = {"pid": pid, "tid": tid, "event_type": "push_pop"}
        for early, late, name in ((9, 1, "step 0 warm-up"), (5, 4, "stepping 1")):
            begin, end = int(now - early * period), int(now - late * period)
            rows.append({"start_ns": begin, "end_ns": end, "name": name, **where})
        for number in range(steps):
            own = period * float(np.exp(rng.normal(0, spread)))
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
    ranks = ((310, 310), (77, 77), (1200, 1200))
    alike = ((310, 7), (77, 7), (1200, 7))
    both = ((71, 71), (71, 72))

    def pair(before: Row, after: Row) -> Pair:
        for _ in range(_MOST_DRAWS):
            drawn = _ranges(rng, **before), _ranges(rng, **after)
            one, other = map(step_periods, drawn)
            if min(len(one), len(other)) < 6 or clear(one, other, limit):
                return drawn
        raise AssertionError("no clear pair of loops")

    def lucky() -> Pair:
        """Noise that looks slower to whoever compares two medians."""
        noise: Row = {"period": base, "busy": 0.5, "spread": 0.3}
        for _ in range(_MOST_DRAWS):
            drawn = _ranges(rng, **noise, steps=9), _ranges(rng, **noise, steps=10)
            one, other = map(step_periods, drawn)
            looks = np.median(other) > (1 + limit) * np.median(one)
            if looks and decide(one, other, limit) == "no change" and clear(one, other, limit):
                return drawn
        raise AssertionError("no lucky noise")

    same: Row = {"period": base, "busy": 0.5}
    return [
        ("nothing changed", pair(same, same)),
        ("a real regression", pair(same, {"period": 1.25 * base, "busy": 0.5})),
        (
            "a little slower, within the limit",
            pair({**same, "steps": 60}, {"period": 1.025 * base, "busy": 0.5, "steps": 60}),
        ),
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
            pair({**same, "threads": ranks}, {"period": 1.3 * base, "busy": 0.5, "threads": ranks}),
        ),
        (
            "three ranks, of which the first is alone before",
            pair({**same, "threads": ranks[:1]}, {**same, "threads": ranks}),
        ),
        ("threads of the same number in three processes", pair(same, {**same, "threads": alike})),
        ("two threads of one process", pair(same, {**same, "threads": both})),
        (
            "checkpoints between a few steps after",
            pair({**same, "steps": 40}, {**same, "steps": 40, "stall": 4}),
        ),
        ("few steps of very different lengths", lucky()),
        ("six steps, which make five periods", pair({**same, "steps": 6}, {"period": 2 * base, "busy": 0.5})),
        ("no steps after", (_ranges(rng, **same), _ranges(rng, **same).iloc[:0])),
    ]


def _period_case(name: str, ranges: pd.DataFrame) -> Case:
    summary = f"{len(ranges)} ranges of {ranges['pid'].nunique()} process(es)"
    return Case(name, summary, "periods", (ranges,), show=_show)


def _show(value: object) -> str:
    return f"{len(value)} periods: {brief(value, 120)}" if isinstance(value, list) else brief(value)


def _gate_case(name: str, pair: Pair, limit: float) -> Case:
    one, other = (_text(step_periods(side)) for side in pair)
    summary = f"{one} before, {other} after; limit = {limit:g}"
    return Case(name, summary, "gate", (*pair, limit), limit_s=20.0)


def _text(times: Floats) -> str:
    return f"{len(times)} periods" + (f" around {np.median(times) / 1e6:.3g} ms" if len(times) else "")


def cases(rng: Rng) -> list[Case]:
    """Periods of each loop, then the gate on each pair of them."""
    limit = float(rng.choice((0.05, 0.08)))
    pairs = _pairs(rng, limit)
    pairs = [*pairs[:2], *(pairs[place] for place in 2 + rng.permutation(len(pairs) - 2))]
    return [
        *(_period_case(name, after) for name, (_, after) in pairs),
        *(_gate_case(name, pair, limit) for name, pair in pairs),
    ]


def exam(captures: CaptureSet) -> list[Case]:
    """The ranges of captures that no page shows."""
    one, other = (open_run(captures, EXPERIMENT, run).nvtx() for run in (BEFORE, AFTER))
    name = f"captures you have not seen ({EXPERIMENT})"
    pairs = ((one, other), (other, one), (one, one))
    return [_period_case(name, one), *(_gate_case(name, pair, 0.05) for pair in pairs)]


def _periods(ranges: pd.DataFrame) -> list[float]:
    return [float(ns) for ns in step_periods(ranges)]


def _gate(before: pd.DataFrame, after: pd.DataFrame, limit: float) -> int:
    answer = decide(step_periods(before), step_periods(after), limit)
    return {"slower": 1, "too few": 2}.get(answer, 0)


AGREES_WITH = {"periods": _periods, "gate": _gate}
