"""Exercise scaling-ex73, part a: after the first.

`lateness(arrivals)`: by rank, when it began a collective, in ns; by rank, how much later than the first.

A worked example: lateness({0: 500, 1: 530, 2: 500}) is {0: 0, 1: 30, 2: 0}.

Grade it:         labcode exercises scaling-ex73a        (or: nox -s exercises -- scaling-ex73a)
Get a hint:       labcode exercises scaling-ex73a --hint
"""


def lateness(arrivals: dict[int, int]) -> dict[int, int]:
    """How much later than the first."""
    # [solution]
    first = min(arrivals.values(), default=0)
    return {rank: at - first for rank, at in arrivals.items()}
    # [starter]
    # raise NotImplementedError("less the earliest of them")
    # [end]


if __name__ == "__main__":
    print(lateness({0: 500, 1: 530, 2: 500}))
    print(lateness({}))
