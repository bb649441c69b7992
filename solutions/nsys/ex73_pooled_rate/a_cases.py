"""Hidden cases of part a (all copies together): a generator in, small inputs and boundaries out."""

import numpy as np

from labcode.grading.cases import Case


def cases(rng: np.random.Generator) -> list[Case]:
    """Drawn ones, and the boundaries."""
    drawn = [
        (int(size), int(ns))
        for size, ns in zip(rng.integers(1000, 10**9, 5), rng.integers(900, 10**6, 5), strict=True)
    ]
    made = {
        "none": [],
        "one": drawn[:1],
        "several": drawn,
        "a small and a large one": [(4, 1000), (int(drawn[0][0]), 9000)],
    }
    return [Case(name, f"{len(rows)} copies", "rate", (rows,)) for name, rows in made.items()]
