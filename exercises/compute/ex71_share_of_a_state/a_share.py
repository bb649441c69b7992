"""Exercise compute-ex71, part a: a state's share.

`share(cycles, state)`: cycles for each instruction by warp state; the share of the state among all stalls,
that is among all states but 'selected'. 0.0 where there is no stall, and for a state that is not there.

A worked example: of {'selected': 1.0, 'wait': 1.0, 'barrier': 3.0} the share of 'barrier' is 0.75.

Grade it:         labcode exercises compute-ex71a        (or: nox -s exercises -- compute-ex71a)
Get a hint:       labcode exercises compute-ex71a --hint
"""


def share(cycles: dict[str, float], state: str) -> float:
    """A state's share of all stalls."""
    raise NotImplementedError("the state over all that are not selected")


if __name__ == "__main__":
    states = {"selected": 1.0, "wait": 1.0, "barrier": 3.0}
    print("barrier", share(states, "barrier"))
    print("wait   ", share(states, "wait"))
