"""Hidden cases of part b (a softmax that overflows): a generator in, scores out."""

import math

import numpy as np

from labcode.grading.cases import Case

Rng = np.random.Generator


def cases(rng: Rng) -> list[Case]:
    """Scores small and large, hidden and broken, few and many."""

    def scores(count: int, around: float = 0.0, wide: float = 1.0) -> list[float]:
        return [round(float(x), 3) for x in rng.normal(around, wide, count)]

    inf, nan = math.inf, math.nan
    given = {
        "small": scores(4),
        "one": scores(1),
        "about 90": scores(4, 90.0),
        "thousands": scores(4, 5000.0),
        "far below 0": scores(4, -5000.0),
        "wide apart": [0.0, 2000.0, -2000.0],
        "some hidden": [*scores(2), -inf, *scores(1), -inf],
        "all hidden": [-inf, -inf],
        "a NaN": [*scores(3), nan],
        "+inf": [*scores(2), inf],
        "+inf and -inf": [inf, -inf, 0.0],
    }
    made = [
        Case(name, f"{len(x)} scores", function, (x,))
        for function in ("softmax", "log_sum_exp")
        for name, x in given.items()
    ]
    made.append(Case("many", "5,000 scores", "log_sum_exp", (scores(5000, 95.0, 0.1),)))
    made += [
        Case(name, f"target {target}", "cross_entropy", (x, target))
        for name, (x, target) in {
            "likely": ([5.0, 0.0, 0.0], 0),
            "unlikely": ([0.0, 3000.0, 1.0], 0),
            "thousands": (scores(4, 4000.0, 500.0), 2),
        }.items()
    ]
    made += [
        Case(name, f"{len(x)} scores", "in_half", (x,))
        for name, x in {
            "small": scores(4),
            "near the largest number": [60000.0, 59968.0, 60000.0],
            "as many as a sum in fp16 loses": [0.0] * 3000,
            "hidden": [-inf, 1.0],
        }.items()
    ]
    return made
