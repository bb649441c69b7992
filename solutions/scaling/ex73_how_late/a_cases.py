"""Hidden cases of part a (after the first): a generator in, small inputs and boundaries out."""

import numpy as np

from labcode.grading.cases import Case


def cases(rng: np.random.Generator) -> list[Case]:
    """Drawn ones, and the boundaries."""
    drawn = {rank: 10**9 + int(n) for rank, n in enumerate(rng.integers(0, 10**6, 6))}
    made = {
        "six ranks": drawn,
        "two at once": {0: 700, 1: 700, 2: 900},
        "one alone": {3: int(rng.integers(1, 10**6))},
    }
    made |= {"none": {}, "the last is first": {0: 90, 1: 80, 2: 20}}
    return [Case(name, f"{len(rows)} ranks", "lateness", (rows,)) for name, rows in made.items()]
