"""Hidden cases of part a (which roof moved): a generator in, kernels and pairs of GPUs out."""

import numpy as np

from labcode.grading.cases import Case

OLD = {"flop": 1024.0, "bytes": 4.0, "exponentials": 4.0}
NEW = {"flop": 2048.0, "bytes": 8.0, "exponentials": 5.0}


def cases(rng: np.random.Generator) -> list[Case]:
    """Each function on kernels whose limit stays, and whose limit moves."""
    size = 4.0 * int(rng.integers(2, 100))
    works = {
        "a matmul": {"flop": 4096 * size, "bytes": size, "exponentials": 0.0},
        "a copy": {"bytes": 16 * size, "flop": 0.0},
        "attention": {"flop": 1024 * size, "bytes": size, "exponentials": 3 * size},
        "mostly exponentials": {"flop": 512 * size, "exponentials": 8 * size},
        "as long as each other on the old": {"flop": 1024 * size, "exponentials": 4 * size, "bytes": 1.0},
        "as long as each other on both": {"flop": 1024 * size, "bytes": 4 * size},
        "most of one, least time": {"flop": 2048 * size, "bytes": 64 * size},
        "nothing but zeros": {"flop": 0.0, "bytes": 0.0},
        "nothing": {},
    }
    made = []
    for name, work in works.items():
        said = ", ".join(f"{kind} {amount:g}" for kind, amount in work.items()) or "no work"
        for gpu, rates in (("the old GPU", OLD), ("the new one", NEW)):
            made += [Case(f"{name}, {gpu}", said, one, (work, rates)) for one in ("least", "limit")]
        for one in ("gain", "held_back"):
            made += [
                Case(name, said, one, (work, OLD, NEW)),
                Case(f"{name}, back", said, one, (work, NEW, OLD)),
            ]
    return made
