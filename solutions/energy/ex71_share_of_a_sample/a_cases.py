"""Hidden cases of part a (one interval): a generator in, small inputs and boundaries out."""

import numpy as np

from labcode.grading.cases import Case


def cases(rng: np.random.Generator) -> list[Case]:
    """Drawn ones, and the boundaries."""
    begin, length = (int(n) for n in rng.integers(50, 500, 2))
    joules, end = float(rng.uniform(5, 80)), begin + length
    made = {
        "reaches out at the end": (begin + 10, end + 40),
        "within": (begin + 5, end - 5),
        "around": (begin - 7, end + 9),
        "reaches out at the begin": (begin - 40, end - 10),
        "before": (begin - 40, begin - 10),
        "after": (end + 10, end + 50),
        "touches": (end, end + 50),
    }
    return [
        Case(name, f"{span} in {(begin, end)}", "part", (joules, (begin, end), span))
        for name, span in made.items()
    ]
