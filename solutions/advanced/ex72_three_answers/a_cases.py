"""Hidden cases of part a (a verdict): a generator in, small inputs and boundaries out."""

import numpy as np

from labcode.grading.cases import Case


def cases(rng: np.random.Generator) -> list[Case]:
    """Drawn ones, and the boundaries."""
    whole = 4 * int(rng.integers(100, 1000))
    made = {
        "all of it": (whole, whole, 0.25),
        "nothing of it": (0, whole, 0.25),
        "one of many": (1, whole, 0.25),
        "a tenth of it": (whole // 10, whole, 0.25),
        "just above": (whole // 4 + 1, whole, 0.25),
        "just below": (whole // 4 - 1, whole, 0.25),
        "a threshold between two percent": (127, 1000, 0.125),
        "at the threshold": (whole // 4, whole, 0.25),
        "nothing was seen": (0, 0, 0.25),
        "a whole of one": (1, 1, 0.5),
        "of one, nothing": (0, 1, 0.5),
    }
    return [
        Case(name, f"{a} of {b}, threshold {c}", "verdict", (a, b, c)) for name, (a, b, c) in made.items()
    ]
