"""Hidden cases of part a (one beside one): a generator in, small inputs and boundaries out."""

import numpy as np

from labcode.grading.cases import Case


def cases(rng: np.random.Generator) -> list[Case]:
    """Drawn ones, and the boundaries."""
    at, one, two = (int(n) for n in rng.integers(10, 90, 3))
    made = {
        "the kernel ends within": ((at, at + one + 5), (at - 9, at + 5)),
        "the kernel begins within": ((at, at + one + 5), (at + one, at + one + 5 + two)),
        "the kernel is within": ((at, at + one + two), (at + 2, at + 2 + 5)),
        "the kernel covers all": ((at, at + one), (at - 5, at + one + two)),
        "the kernel came before": ((at, at + one), (at - 9, at - 2)),
        "the kernel comes after": ((at, at + one), (at + one + 4, at + one + 4 + two)),
        "they touch": ((at, at + one), (at + one, at + one + two)),
    }
    return [Case(name, f"{a} beside {b}", "exposed", (a, b)) for name, (a, b) in made.items()]
