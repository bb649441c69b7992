"""Hidden cases of part a (the correction): a generator in, tiles of scores and values out."""

import math

import numpy as np

from labcode.grading.cases import Case

Rng = np.random.Generator
State = tuple[float, float, list[float]]
NOTHING: State = (-math.inf, 0.0, [0.0, 0.0])


def cases(rng: Rng) -> list[Case]:
    """Each function in turn, with scores that rise, fall and are hidden."""

    def scores(count: int, around: float = 0.0) -> list[float]:
        return [round(float(x), 3) for x in rng.normal(around, 1, count)]

    def values(count: int) -> list[list[float]]:
        return [[round(float(x), 3) for x in row] for row in rng.normal(1, 1, (count, 2))]

    def state(base: float) -> State:
        total = float(rng.uniform(1, 9))
        return base, total, [round(float(x), 3) for x in rng.normal(0, 3, 2)]

    tiles = {
        "the first tile": (NOTHING, scores(5)),
        "a larger score": (state(0.0), scores(4, 6.0)),
        "no larger score": (state(9.0), scores(4)),
        "one key": (state(1.0), [2.5]),
        "some keys hidden": (state(0.0), [1.0, -math.inf, 0.5, -math.inf]),
        "all keys hidden": (state(0.0), [-math.inf] * 3),
        "all hidden from the start": (NOTHING, [-math.inf] * 3),
        "an empty tile": (state(2.0), []),
        "scores that would overflow": (state(700.0), scores(3, 1200.0)),
    }
    made = [
        Case(name, f"base {of[0]:.3g}, {len(tile)} scores", "add", (of, tile, values(len(tile))))
        for name, (of, tile) in tiles.items()
    ]
    lazy = {
        "within the slack": (state(0.0), [1.5, 0.2], 2.0),
        "beyond the slack": (state(0.0), [2.5, 0.2], 2.0),
        "exactly at it": (state(1.0), [3.0, 0.0], 2.0),
        "all below": (state(5.0), scores(3), 2.0),
        "the first tile": (NOTHING, scores(3, -4.0), 8.0),
        "hidden": (NOTHING, [-math.inf], 8.0),
    }
    made += [
        Case(name, f"base {of[0]:.3g}, slack {slack}", "add_lazily", (of, tile, values(len(tile)), slack))
        for name, (of, tile, slack) in lazy.items()
    ]
    pairs = {
        "the first is larger": (state(3.0), state(1.0)),
        "the second is larger": (state(-2.0), state(1.0)),
        "the first is empty": (NOTHING, state(1.0)),
        "the second is empty": (state(1.0), NOTHING),
        "both are empty": (NOTHING, NOTHING),
    }
    made += [Case(name, f"bases {a[0]:.3g}, {b[0]:.3g}", "merge", (a, b)) for name, (a, b) in pairs.items()]
    made += [
        Case(name, f"total {of[1]:.3g}", "finish", (of,))
        for name, of in {"some keys": state(2.0), "no key": NOTHING}.items()
    ]
    return made
