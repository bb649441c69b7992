"""Hidden cases of part a (one tile): a generator in, small inputs and boundaries out."""

import numpy as np

from labcode.grading.cases import Case


def cases(rng: np.random.Generator) -> list[Case]:
    """Drawn ones, and the boundaries."""
    drawn = [(int(t), int(s)) for t, s in zip(rng.integers(8, 500, 6), rng.integers(2, 9, 6), strict=True)]
    made = [(0, 4), (3, 4), (4, 4), (7, 4), (8, 4), (11, 4), (5, 1), (6, 1), (9, 3), (2, 5), *drawn]
    return [Case(f"tile {t} of {s} slots", f"tile {t}, {s} slots", "place", (t, s)) for t, s in made]
