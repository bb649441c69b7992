"""Hidden cases of advanced-ex07, part a (a change or noise): a generator or captures in, cases out.

The truth of each pair is known, and pairs on which sound methods may differ are drawn again: two of them, the
interval of the ratio of medians and a rank test, must agree, with room to spare.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from labcode.analysis.compare.interval import FEWEST, median_ratio
from labcode.exercises.advanced.ex07_steps import step_periods
from labcode.exercises.cases import Case, Mistake, Task
from labcode.grading.exam import open_run
from labcode.store import CaptureSet

Rng = np.random.Generator
Floats = NDArray[np.float64]
Pair = tuple[Floats, Floats]
EXPERIMENT, BEFORE, AFTER = "timeline_basics", "exam_baseline", "exam_improved"
_MOST_DRAWS = 3000


def decide(
    before: Floats, after: Floats, limit: float, *, interval: bool = True, matters: bool = True
) -> str:
    """The verdict; the flags leave out one of its two questions."""
    if min(len(before), len(after)) < FEWEST:
        return "too few"
    found = median_ratio(before, after)
    wanted = limit if matters else 0.0
    if found.ratio > 1 + wanted and (found.low > 1 or not interval):
        return "slower"
    if found.ratio < 1 / (1 + wanted) and (found.high < 1 or not interval):
        return "faster"
    return "no change"


def clear(before: Floats, after: Floats, limit: float) -> bool:
    """Whether any sound method gives the same verdict."""
    found = median_ratio(before, after)
    p = float(stats.mannwhitneyu(before, after).pvalue)
    verdict = decide(before, after, limit)
    if verdict in ("slower", "faster"):
        near = found.low if verdict == "slower" else 1 / found.high
        far = found.ratio if verdict == "slower" else 1 / found.ratio
        return p < 1e-3 and near > 1.02 and far > 1 + 1.5 * limit
    inside = found.low < 1 < found.high and 0.2 < (1 - found.low) / (found.high - found.low) < 0.8
    small = max(found.high, 1 / found.low) < 1 + 0.7 * limit  # even if it is real, it does not matter
    return small or (inside and p > 0.2)


def by_means(before: Floats, after: Floats, limit: float) -> str:
    """What the ratio of means against the limit says."""
    if not len(before) or not len(after):
        return "no change"
    ratio = float(after.mean() / before.mean())
    return "slower" if ratio > 1 + limit else "faster" if ratio < 1 / (1 + limit) else "no change"


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
    after[rng.choice(len(after), 3, replace=False)] *= rng.uniform(6, 12, 3)
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


def _lucky(rng: Rng, limit: float) -> Pair:
    """Noise that looks like a change to whoever compares two medians."""
    for _ in range(_MOST_DRAWS):
        pair = _loud(rng)
        looks = decide(*pair, limit, interval=False) != "no change"
        if looks and decide(*pair, limit) == "no change" and clear(*pair, limit):
            return pair
    raise AssertionError("no lucky noise")


def _case(name: str, pair: Pair, limit: float, *, exam: bool = False) -> Case:
    before, after = pair
    few = min(len(before), len(after)) < FEWEST
    hasty = (by_means(before, after, limit), "no change") if few else ()
    return Case(
        name=name,
        summary=_summary(pair, limit),
        function="verdict",
        arguments=(before.tolist(), after.tolist(), limit),
        expected=decide(before, after, limit),
        mistakes=(
            *(Mistake("fewer than six values on a side are no basis: 'too few'", answer) for answer in hasty),
            Mistake("it is sure, and beyond the limit: is the interval that of after ÷ before?", "no change"),
            Mistake("turned round: after ÷ before, and above 1 is slower", decide(after, before, limit)),
            Mistake(
                "the medians differ, but such a difference comes about by luck: ask for an interval",
                decide(before, after, limit, interval=False),
            ),
            Mistake(
                "it is real, and too small to matter: the ratio must be beyond the limit, too",
                decide(before, after, limit, matters=False),
            ),
            Mistake("the mean follows a few long values: compare medians", by_means(before, after, limit)),
        ),
        exam=exam,
        limit_s=20.0,
    )


def _summary(pair: Pair, limit: float) -> str:
    def words(side: Floats) -> str:
        if not len(side):
            return "no values"
        return f"{len(side)} values, median {np.median(side):.4g} ns, mean {side.mean():.4g} ns"

    return f"before: {words(pair[0])}; after: {words(pair[1])}; limit = {limit:g}"


def _cases(rng: Rng) -> list[Case]:
    limit = float(rng.choice((0.05, 0.08)))
    kinds: Sequence[tuple[str, Pair]] = (
        ("a slower program", _drawn(rng, lambda r: _quiet(r, 1.25), "slower", limit)),
        ("a faster program", _drawn(rng, lambda r: _quiet(r, 0.75), "faster", limit)),
        ("the same program twice", _drawn(rng, lambda r: _quiet(r, 1.0), "no change", limit)),
        ("noise that looks like a change", _lucky(rng, limit)),
        ("noise that looks like a change, once more", _lucky(rng, limit)),
        ("a few very long steps", _drawn(rng, _outliers, "no change", limit)),
        ("slower, and very long steps before", _drawn(rng, _slow_in_spite_of_outliers, "slower", limit)),
        ("sure, and too small to matter", _drawn(rng, _sure_but_small, "no change", limit)),
        (
            "faster for sure, and too small to matter",
            _drawn(rng, lambda r: _sure_but_small(r)[::-1], "no change", limit),
        ),
        ("no scatter at all, and no change", _ticks(rng, 1.0)),
        ("no scatter at all, and slower", _ticks(rng, 1.3)),
        ("five values before", (_quiet(rng, 1.0)[0][:5], _quiet(rng, 1.4)[1])),
        ("two values after", (_quiet(rng, 1.0)[0], _quiet(rng, 1.4)[1][:2])),
        ("nothing after", (_quiet(rng, 1.0)[0], np.empty(0))),
    )
    # The first two are plain; the others come in any order, so that no list of answers passes.
    order = [0, 1, *(2 + rng.permutation(len(kinds) - 2)).tolist()]
    return [_case(name, pair, limit) for name, pair in (kinds[place] for place in order)]


def _exam(captures: CaptureSet) -> list[Case]:
    sides = []
    for run in (BEFORE, AFTER):
        with open_run(captures, EXPERIMENT, run) as report:
            sides.append(np.asarray(step_periods(report.nvtx())))
    name = f"steps of captures you have not seen ({EXPERIMENT})"
    pairs = [(sides[0], sides[1]), (sides[1], sides[0]), (sides[0], sides[0])]
    return [_case(name, pair, 0.05, exam=True) for pair in pairs]


DECIDE = Task(_cases, _exam)
