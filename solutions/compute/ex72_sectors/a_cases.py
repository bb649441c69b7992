"""Hidden cases of part a (one request): a generator in, small inputs and boundaries out."""

import numpy as np

from labcode.grading.cases import Case


def cases(rng: np.random.Generator) -> list[Case]:
    """Drawn ones, and the boundaries."""
    at = int(rng.integers(0, 1000)) * 32
    made = {
        "in order": ([at + 4 * n for n in range(32)], 4),
        "a sector apart": ([at + 32 * n for n in range(32)], 4),
        "all the same": ([at] * 32, 4),
        "one across the border": ([at + 30], 4),
        "one just across": ([at + 29], 4),
        "one up to the border": ([at + 28], 4),
        "sixteen bytes each": ([at + 16 * n for n in range(32)], 16),
        "a whole sector": ([at], 32),
        "one byte before the border": ([at + 31], 1),
        "scattered": ([at + int(n) for n in rng.integers(0, 4096, 32)], 4),
        "off by four": ([at + 4 + 4 * n for n in range(32)], 4),
        "nobody": ([], 4),
    }
    return [
        Case(name, f"{len(rows)} addresses, {size} bytes each", "sectors", (rows, size))
        for name, (rows, size) in made.items()
    ]
