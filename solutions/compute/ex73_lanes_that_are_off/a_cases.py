"""Hidden cases of part a (the idle share): a generator in, small inputs and boundaries out."""

import numpy as np

from labcode.grading.cases import Case


def cases(rng: np.random.Generator) -> list[Case]:
    """Drawn ones, and the boundaries."""
    warps = int(rng.integers(10, 10**6))
    made = {
        "all on": (32 * warps, warps),
        "one on": (warps, warps),
        "half": (16 * warps, warps),
        "none": (0, 0),
        "instructions that no lane executed": (0, warps),
    }
    made["drawn"] = int(rng.integers(warps, 32 * warps)), warps
    return [
        Case(name, f"{a} of lanes, {b} of warps", "idle", (a, b), share=True) for name, (a, b) in made.items()
    ]
