"""Hidden cases of part a (the grid): a generator in, small inputs and boundaries out."""

import numpy as np

from labcode.grading.cases import Case


def cases(rng: np.random.Generator) -> list[Case]:
    """Drawn ones, and the boundaries."""
    side = int(rng.integers(3, 30))
    m, n = (int(x) for x in rng.integers(31, 400, 2))
    made = [
        (2 * side, 3 * side, side),
        (2 * side + 1, 3 * side, side),
        (2 * side, 3 * side - 1, side),
        (1, 1, side),
    ]
    made += [(m, n, side), (side, side, side), (side + 1, side + 1, side)]
    return [Case(f"{a} × {b} in tiles of {c}", f"{a} × {b}, {c}", "tiles", (a, b, c)) for a, b, c in made]
