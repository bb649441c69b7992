"""Hidden cases of part b (a softmax that overflows): a generator in, scores out.

All scores but those for fp16 are multiples of 1/64, which fp32 holds as they are; tolerances are those of an
answer that computes in fp32.
"""

import math

import numpy as np

from labcode.grading.cases import Case

Rng = np.random.Generator
IN_FP32, A_DIFFERENCE = 1e-5, 1e-4  # the latter of two numbers that are far larger


def cases(rng: Rng) -> list[Case]:
    """Scores small and large, hidden and broken, few and many."""

    def scores(count: int, around: float = 0.0, wide: float = 1.0) -> list[float]:
        return [round(64 * float(x)) / 64 for x in rng.normal(around, wide, count)]

    def far_apart(around: float, count: int) -> list[float]:
        return [around + 64.0 * float(x) for x in rng.permutation(4 * count)[:count]]

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
        "a NaN among hidden ones": [-inf, nan, -inf],
        "+inf": [*scores(2), inf],
        "+inf and -inf": [inf, -inf, 0.0],
    }
    made = [
        Case(name, f"{len(x)} scores", function, (x,), relative=IN_FP32)
        for function in ("softmax", "log_sum_exp")
        for name, x in given.items()
    ]
    made.append(Case("many", "5,000 scores", "log_sum_exp", (scores(5000, 95.0, 0.1),), relative=IN_FP32))
    made += [
        Case(name, f"target {target}", "cross_entropy", (x, target), relative=A_DIFFERENCE)
        for name, (x, target) in {
            "likely": ([5.0, 0.0, 0.0], 0),
            "unlikely": ([0.0, 3000.0, 1.0], 0),
            "thousands": (far_apart(4000.0, 4), 2),
        }.items()
    ]
    made += [
        Case(name, f"{len(x)} scores", "in_half", (x,))
        for name, x in {
            "small": scores(4),
            "rounded to halves, as fp16 holds it": [1000.0, 1000.3, 1000.3, 999.8],
            "near the largest number": [60000.0, 59968.0, 60000.0],
            "as many as a sum in fp16 loses": [0.0] * 3000,
            "hidden": [-inf, 1.0],
            "all hidden": [-inf, -inf],
            "more than fp16 holds": [70000.0, 0.0],
            "exponentials that fp16 would round": [2.07, 1.55, -0.48, -1.45, 0.07, -0.57],
        }.items()
    ]
    return made
