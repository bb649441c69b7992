"""Hidden cases of part a (blocks by registers): a generator in, small inputs and boundaries out."""

import numpy as np

from labcode.grading.cases import Case


def cases(rng: np.random.Generator) -> list[Case]:
    """Drawn ones, and the boundaries."""
    made = [
        (32, 96),
        (32, 256),
        (33, 256),
        (40, 256),
        (41, 256),
        (33, 100),
        (64, 128),
        (64, 129),
        (255, 1024),
        (255, 256),
        (16, 33),
    ]
    made += [(8, 32), (9, 32), (33, 32), (72, 32)]
    made += [
        (int(r), int(t)) for r, t in zip(rng.integers(16, 200, 7), rng.integers(32, 512, 7), strict=True)
    ]
    return [Case(f"{r} registers, {t} threads", f"{r} and {t}", "blocks", (r, t)) for r, t in made]
