"""Hidden cases of part a (one number): a generator in, small inputs and boundaries out."""

import numpy as np

from labcode.grading.cases import Case


def cases(rng: np.random.Generator) -> list[Case]:
    """Drawn ones, and the boundaries."""
    one = float(rng.uniform(20, 90))
    made = [(one, one / gpus * slower, gpus, "strong") for gpus in (1, 2, 8) for slower in (1.0, 1.3)]
    made += [(one, one * slower, gpus, "weak") for gpus in (1, 2, 8) for slower in (1.0, 1.3)]
    made += [(one, one / 3, 2, "strong")]
    return [
        Case(
            f"{kind}, {n} GPUs, {m / o:.3f} of the time",
            f"{o:.4g} and {m:.4g} ms",
            "efficiency",
            (o, m, n, kind),
        )
        for o, m, n, kind in made
    ]
