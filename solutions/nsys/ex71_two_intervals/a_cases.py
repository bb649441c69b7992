"""Hidden cases of part a (the time of two): a generator in, small inputs and boundaries out."""

import numpy as np

from labcode.grading.cases import Case


def cases(rng: np.random.Generator) -> list[Case]:
    """Drawn ones, and the boundaries."""
    at, one, two = (int(n) for n in rng.integers(10, 90, 3))
    made = {
        "apart": ((at, at + one), (at + one + 7, at + one + 7 + two)),
        "apart, the later one first": ((at + one + 7, at + one + 7 + two), (at, at + one)),
        "they touch": ((at, at + one), (at + one, at + one + two)),
        "one within the other": ((at, at + one + two), (at + 3, at + 4)),
        "the other within the one": ((at + 3, at + 4), (at, at + one + two)),
        "they overlap": ((at, at + one + 5), (at + one, at + one + 5 + two)),
        "they overlap, the later one first": ((at + one, at + one + 5 + two), (at, at + one + 5)),
        "the same": ((at, at + one), (at, at + one)),
    }
    return [Case(name, f"{a} and {b}", "busy", (a, b)) for name, (a, b) in made.items()]
