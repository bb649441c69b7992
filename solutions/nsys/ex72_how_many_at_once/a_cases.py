"""Hidden cases of part a (at a moment): a generator in, small inputs and boundaries out."""

import numpy as np

from labcode.grading.cases import Case


def cases(rng: np.random.Generator) -> list[Case]:
    """Drawn ones, and the boundaries."""
    begins = [int(n) for n in rng.integers(0, 50, 4)]
    kernels = [(b, b + int(n)) for b, n in zip(begins, rng.integers(5, 40, 4), strict=True)]
    made = [("before all", kernels, -1), ("none", [], 5), ("two, one has ended", [(0, 9), (2, 30)], 20)]
    made += [("an empty one", [(7, 7)], 7)]
    made += [(f"at the begin of {n}", kernels, b) for n, (b, _) in enumerate(kernels)]
    made += [(f"at the end of {n}", kernels, e) for n, (_, e) in enumerate(kernels)]
    made += [("one alone, within", [(3, 9)], 4), ("one alone, at its begin", [(3, 9)], 3)]
    made += [
        ("one alone, at its end", [(3, 9)], 9),
        ("two alike", [(3, 9), (3, 9)], 5),
    ]
    return [Case(name, f"{rows} at {t}", "running", (rows, t)) for name, rows, t in made]
