"""Hidden cases of part a (the innermost own frame): a generator in, small inputs and boundaries out."""

import numpy as np

from labcode.grading.cases import Case


def cases(rng: np.random.Generator) -> list[Case]:
    """Drawn ones, and the boundaries."""
    names = [f"f{n}" for n in rng.integers(0, 10**6, 4)]
    library, mine = "/lib/torch/nn.py", "/app/train.py"
    made = {
        "one of them": [(names[0], library), (names[1], mine), (names[2], library)],
        "two of them": [(names[0], library), (names[1], mine), (names[2], mine)],
        "the innermost": [(names[0], mine), (names[1], library)],
        "neither yours nor a library's": [(names[0], library), (names[1], "/opt/x/run.py"), (names[2], mine)],
        "none": [(names[0], library)],
        "nothing": [],
        "a folder of the same name elsewhere": [(names[0], "/lib/app/x.py"), (names[1], mine)],
    }
    return [Case(name, f"{len(rows)} frames", "own", (rows, "/app/")) for name, rows in made.items()]
