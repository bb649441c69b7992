"""Hidden cases of part a (a change or noise): a generator or captures in, cases out.

The truth of each pair is known, and pairs on which sound methods may differ are drawn again: two of them, the
interval of the ratio of medians and a rank test, must agree, with room to spare.
"""

from collections.abc import Callable, Sequence
from math import erfc, sqrt

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labcode.analysis.compare.interval import FEWEST, median_ratio
from labcode.analysis.compare.timelines import family_of, periods
from labcode.grading.cases import Case
from labcode.grading.exam import open_run
from labcode.store import CaptureSet

Rng = np.random.Generator
Floats = NDArray[np.float64]
Pair = tuple[Floats, Floats]
EXPERIMENT, BEFORE, AFTER = "timeline_basics", "exam_baseline", "exam_improved"
_MOST_DRAWS = 3000


def step_periods(ranges: pd.DataFrame) -> Floats:
    """ns from the start of each step to the next on its thread, the shortest first."""
    starts = ranges.rename(columns={"name": "label"})
    return np.sort(periods(starts, family_of(starts["label"])).get("step #", np.empty(0)))


def decide(before: Sequence[float], after: Sequence[float], limit: float) -> str:
    """The verdict by the interval of the book."""
    if min(len(before), len(after)) < FEWEST:
        return "too few"
    found = median_ratio(np.asarray(before), np.asarray(after))
    if found.ratio > 1 + limit and found.low > 1:
        return "slower"
    return "faster" if found.ratio < 1 / (1 + limit) and found.high < 1 else "no change"


def rank_test(before: Floats, after: Floats) -> float:
    """The chance of ranks at least as different by luck (Mann, Whitney, 1947), by the normal distribution."""
    one, other = len(before), len(after)
    ranks = pd.Series(np.concatenate([before, after])).rank()
    difference = abs(float(ranks[:one].sum()) - one * (one + 1) / 2 - one * other / 2)
    both, ties = one + other, ranks.value_counts().to_numpy(float)
    spread = np.sqrt(one * other / 12 * (both + 1 - (ties**3 - ties).sum() / (both * (both - 1))))
    return erfc((difference - 0.5) / spread / sqrt(2)) if spread and difference > 0.5 else 1.0


def clear(before: Floats, after: Floats, limit: float) -> bool:
    """Whether any sound method gives the same verdict."""
    found = median_ratio(before, after)
    p = rank_test(before, after)
    verdict = decide(before, after, limit)
    if verdict in ("slower", "faster"):
        near = found.low if verdict == "slower" else 1 / found.high
        far = found.ratio if verdict == "slower" else 1 / found.ratio
        return p < 1e-3 and near > 1.02 and far > 1 + 1.5 * limit
    inside = found.low < 1 < found.high and 0.2 < (1 - found.low) / (found.high - found.low) < 0.8
    small = max(found.high, 1 / found.low) < 1 + 0.7 * limit  # even if it is real, it does not matter
    return small or (inside and p > 0.2)


def _normal(rng: Rng, middle: float, spread: float, count: int) -> Floats:
    return np.asarray(middle * np.exp(rng.normal(0, spread, count)), np.float64)


def _quiet(rng: Rng, factor: float) -> Pair:
    middle = float(rng.uniform(1e6, 9e6))
    counts = rng.integers(15, 40, 2)
    return _normal(rng, middle, 0.02, counts[0]), _normal(rng, middle * factor, 0.02, counts[1])


def _loud(rng: Rng) -> Pair:
    """Few and scattered values whose medians differ by luck."""
    middle = float(rng.uniform(1e6, 9e6))
    return _normal(rng, middle, 0.3, 8), _normal(rng, middle, 0.3, 9)


def _outliers(rng: Rng) -> Pair:
    """The same program twice; in the second run a few steps waited for a disk."""
    before, after = _quiet(rng, 1.0)
    after[rng.choice(len(after), 5, replace=False)] *= rng.uniform(6, 12, 5)
    return before, after


def _slow_in_spite_of_outliers(rng: Rng) -> Pair:
    """Really slower, while a few very long values before hide it from the mean."""
    before, after = _quiet(rng, 1.2)
    before[rng.choice(len(before), 3, replace=False)] *= rng.uniform(6, 12, 3)
    return before, after


def _sure_but_small(rng: Rng) -> Pair:
    """A change that is real beyond doubt, of one percent."""
    middle = float(rng.uniform(1e6, 9e6))
    return _normal(rng, middle, 0.003, 40), _normal(rng, middle * 1.012, 0.003, 40)


def _surely_hardly(rng: Rng) -> Pair:
    """A change that is real beyond doubt, of a third of a percent."""
    middle = float(rng.uniform(1e6, 9e6))
    return _normal(rng, middle, 0.0005, 40), _normal(rng, middle * 1.0033, 0.0005, 40)


def _slow_in_spite_of_one(rng: Rng) -> Pair:
    """Really slower, while one step had nothing to do."""
    before, after = _quiet(rng, 1.25)
    after[int(rng.integers(len(after)))] *= 0.3
    return before, after


def _sure_of_less(rng: Rng, limit: float) -> Pair:
    """Beyond a large limit, by less than the same number of percent off; only that it is longer is sure."""
    for _ in range(_MOST_DRAWS):
        middle = float(rng.uniform(1e6, 9e6))
        pair = _normal(rng, middle, 0.35, 20), _normal(rng, 1.85 * middle, 0.35, 22)
        found = median_ratio(*pair)
        if clear(*pair, limit) and 1 + 1.52 * limit < found.ratio < 1.94 and found.low < 1 + 0.85 * limit:
            return pair
    raise AssertionError("no pair beyond the limit whose interval is not")


def _few(pair: Pair, before: int, after: int) -> Pair:
    """The first values of each side."""
    return pair[0][:before], pair[1][:after]


def _ticks(rng: Rng, factor: float) -> Pair:
    """Values without any scatter, as of a coarse timer."""
    middle = float(rng.integers(2000, 9000))
    return np.full(12, middle), np.full(9, round(middle * factor, 0))


def _drawn(rng: Rng, make: Callable[[Rng], Pair], verdict: str, limit: float) -> Pair:
    """A pair of a kind that is clear and has the verdict that its truth asks for."""
    for _ in range(_MOST_DRAWS):
        pair = make(rng)
        if decide(*pair, limit) == verdict and clear(*pair, limit):
            return pair
    raise AssertionError(f"no clear pair for {verdict}")


def _lucky(rng: Rng, limit: float, *, longer: bool) -> Pair:
    """Noise that looks like a change to whoever compares two medians."""
    for _ in range(_MOST_DRAWS):
        pair = _loud(rng)
        ratio = np.median(pair[1]) / np.median(pair[0])
        looks = ratio > 1 + limit if longer else ratio < 1 / (1 + limit)
        if looks and decide(*pair, limit) == "no change" and clear(*pair, limit):
            return pair
    raise AssertionError("no lucky noise")


def _case(name: str, pair: Pair, limit: float) -> Case:
    before, after = pair
    arguments = before.tolist(), after.tolist(), limit
    return Case(name, _summary(pair, limit), "verdict", arguments, limit_s=20.0)


def _summary(pair: Pair, limit: float) -> str:
    def words(side: Floats) -> str:
        if not len(side):
            return "no values"
        return f"{len(side)} values, median {np.median(side):.4g} ns, mean {side.mean():.4g} ns"

    return f"before: {words(pair[0])}; after: {words(pair[1])}; limit = {limit:g}"


def cases(rng: Rng) -> list[Case]:
    """Pairs that changed, pairs that did not, and pairs that are too short to tell."""
    limit = float(rng.choice((0.05, 0.08)))
    kinds: Sequence[tuple[str, Pair]] = (
        ("a slower program", _drawn(rng, lambda r: _quiet(r, 1.25), "slower", limit)),
        ("a faster program", _drawn(rng, lambda r: _quiet(r, 0.75), "faster", limit)),
        ("the same program twice", _drawn(rng, lambda r: _quiet(r, 1.0), "no change", limit)),
        ("noise that looks like a change", _lucky(rng, limit, longer=True)),
        ("noise that looks like a change, once more", _lucky(rng, limit, longer=False)),
        ("a few very long steps", _drawn(rng, _outliers, "no change", limit)),
        ("slower, and very long steps before", _drawn(rng, _slow_in_spite_of_outliers, "slower", limit)),
        (
            "faster, and very long steps after",
            _drawn(rng, lambda r: _slow_in_spite_of_outliers(r)[::-1], "faster", limit),
        ),
        ("sure, and too small to matter", _drawn(rng, _sure_but_small, "no change", limit)),
        (
            "faster for sure, and too small to matter",
            _drawn(rng, lambda r: _sure_but_small(r)[::-1], "no change", limit),
        ),
        ("slower, and one very short step", _drawn(rng, _slow_in_spite_of_one, "slower", limit)),
        ("no scatter at all, and no change", _ticks(rng, 1.0)),
        ("no scatter at all, and slower", _ticks(rng, 1.3)),
        ("six values before", _drawn(rng, lambda r: _few(_quiet(r, 1.4), 6, 60), "slower", limit)),
        ("six values after", _drawn(rng, lambda r: _few(_quiet(r, 0.6), 60, 6), "faster", limit)),
        ("five values before", _few(_quiet(rng, 1.4), 5, 60)),
        ("two values after", _few(_quiet(rng, 1.4), 60, 2)),
        ("nothing after", _few(_quiet(rng, 1.0), 60, 0)),
    )
    made = [_case(name, pair, limit) for name, pair in kinds]
    tick, quarter = float(rng.integers(2000, 9000)), 0.25  # of which 1 + limit has no error
    steps = np.full(9, 4 * tick), np.full(12, 5 * tick)
    made.append(_case("exactly the limit", steps, quarter))
    made.append(_case("exactly the limit the other way", steps[::-1], quarter))
    half = 0.5
    beyond = _sure_of_less(rng, half)
    made.append(_case("beyond a large limit, which the interval is not", beyond, half))
    made.append(_case("beyond a large limit the other way, which the interval is not", beyond[::-1], half))
    hardly = _drawn(rng, _surely_hardly, "no change", half)
    made.append(_case("sure, and hardly anything of a large limit", hardly, half))
    # The first two are plain; the others come in any order, so that no list of answers passes.
    return [*made[:2], *(made[place] for place in 2 + rng.permutation(len(made) - 2))]


def exam(captures: CaptureSet) -> list[Case]:
    """Steps of captures that no page shows."""
    one, other = (step_periods(open_run(captures, EXPERIMENT, run).nvtx()) for run in (BEFORE, AFTER))
    name = f"steps of captures you have not seen ({EXPERIMENT})"
    return [_case(name, pair, 0.05) for pair in ((one, other), (other, one), (one, one))]


AGREES_WITH = {"verdict": decide}
