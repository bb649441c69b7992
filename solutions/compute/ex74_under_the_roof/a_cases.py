"""Hidden cases of part a (the lower roof): a generator in, small inputs and boundaries out."""

import numpy as np

from labcode.grading.cases import Case


def cases(rng: np.random.Generator) -> list[Case]:
    """Drawn ones, and the boundaries."""
    bandwidth, peak = float(rng.uniform(1e12, 5e12)), float(rng.uniform(2e13, 1e15))
    ridge = peak / bandwidth
    made = {
        "far left": ridge / 50,
        "left": ridge / 1.1,
        "at the ridge": ridge,
        "right": 1.1 * ridge,
        "nothing": 0.0,
    }
    return [
        Case(name, f"{x:.4g} FLOP a byte", "attainable", (x, bandwidth, peak)) for name, x in made.items()
    ]
