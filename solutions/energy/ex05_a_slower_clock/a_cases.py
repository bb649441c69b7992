"""Hidden cases of part a (a slower clock): a generator in, kernels and clocks out; powers of two, so that
what is just fast enough is so exactly.
"""

import numpy as np

from labcode.grading.cases import Case


def cases(rng: np.random.Generator) -> list[Case]:
    """Kernels of each kind, alone and together."""
    first, second = (float(n) for n in rng.integers(2, 40, 2))
    still, moving = 64.0 + int(rng.integers(0, 64)), 256.0 + int(rng.integers(0, 128))
    given = {
        "compute alone": [(first, "compute", still, moving)],
        "memory alone": [(first, "memory", still, moving)],
        "the host alone": [(first, "host", still, 0.0)],
        "compute and memory": [(first, "compute", still, moving), (second, "memory", still, moving / 4)],
        "all three": [
            (first, "compute", still, moving),
            (first, "memory", 32.0, 64.0),
            (second, "host", still, 8.0),
        ],
        "nothing": [],
    }
    made = []
    for name, kernels in given.items():
        said = "; ".join(f"{s:g} s {limit}, {a:g} + {b:g} W" for s, limit, a, b in kernels) or "no kernel"
        for clock in (1.0, 0.5, 0.25):
            for function in ("seconds", "joules"):
                made.append(Case(f"{name} at {clock:g}", said, function, (kernels, clock)))
    half = [(8.0, "compute", 128.0, 256.0), (8.0, "memory", 128.0, 256.0)]
    clocks = [0.25, 0.5, 1.0]
    few = [(2.0, "compute", 128.0, 256.0), (62.0, "memory", 128.0, 256.0)]
    short = [(0.25, "compute", 16.0, 512.0), (0.25, "memory", 16.0, 512.0)]
    chosen = {
        "kernels of a quarter of a second": (short, clocks, 0.5),
        "kernels of a quarter of a second, twice the time": (short, clocks, 1.0),
        "memory alone, much time": ([(first, "memory", still, moving)], clocks, 1.0),
        "few that compute, much time": (few, clocks, 8.0),
        "compute alone, much time": ([(32.0, "compute", 16.0, 512.0)], clocks, 8.0),
        "few that compute": (few, clocks, 0.125),
        "just fast enough": (half, clocks, 0.5),
        "a little too slow": (half, clocks, 0.4375),
        "not the full clock": (few, clocks[:2], 0.0625),
        "slow does not matter": ([(8.0, "compute", 512.0, 8.0)], clocks, 8.0),
        "memory alone": (given["memory alone"], clocks, 0.0),
        "the same energy at any clock": (given["the host alone"], [0.5, 1.0, 0.25], 0.0),
        "none is fast enough": (given["compute alone"], [0.25, 0.5], 0.5),
        "no clock": (half, [], 1.0),
    }
    for name, (kernels, some, slower) in chosen.items():
        said = f"{len(kernels)} kernels, clocks {some}, at most {slower:g} slower"
        made.append(Case(name, said, "best", (kernels, some, slower)))
    return made
