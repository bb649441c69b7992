"""Hidden cases of part a (what one sends): a generator in, small inputs and boundaries out."""

import numpy as np

from labcode.grading.cases import Case


def cases(rng: np.random.Generator) -> list[Case]:
    """Drawn ones, and the boundaries."""
    size = int(rng.integers(1000, 10**9))
    made = [(size, ranks) for ranks in (1, 2, 3, 4, 8, 1000)] + [(10, 3)]
    return [Case(f"{n} bytes, {ranks} ranks", f"{n} bytes", "sent", (n, ranks)) for n, ranks in made]
