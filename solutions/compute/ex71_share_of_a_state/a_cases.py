"""Hidden cases of part a (a state's share): a generator in, small inputs and boundaries out."""

import numpy as np

from labcode.grading.cases import Case


def cases(rng: np.random.Generator) -> list[Case]:
    """Drawn ones, and the boundaries."""
    drawn = dict(
        zip(("selected", "wait", "barrier", "drain"), map(float, rng.uniform(0.2, 9, 4)), strict=True)
    )
    made = [(f"drawn, {name}", drawn, name) for name in ("wait", "barrier", "drain")]
    ready = {"selected": 1.0, "not_selected": drawn["drain"], "wait": drawn["wait"]}
    made += [("another warp was taken", ready, "wait"), ("ready, and not taken", ready, "not_selected")]
    made += [("a state that is not there", drawn, "sleeping"), ("no stall", {"selected": 1.0}, "wait")]
    return [
        Case(name, f"{state} of {len(rows)} states", "share", (rows, state), share=True)
        for name, rows, state in made
    ]
