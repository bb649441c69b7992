"""Exercise nsys-ex72, part a: at a moment.

`running(kernels, t)`: how many of the intervals (begin, end) run at the moment t. A kernel runs from its
begin on, and no longer at its end.

A worked example: of [(0, 10), (5, 15)] two run at 5, one at 10, none at 15.

Grade it:         labcode exercises nsys-ex72a        (or: nox -s exercises -- nsys-ex72a)
Get a hint:       labcode exercises nsys-ex72a --hint
"""


def running(kernels: list[tuple[int, int]], t: int) -> int:
    """How many of the intervals run at a moment."""
    # [solution]
    return sum(begin <= t < end for begin, end in kernels)
    # [starter]
    # raise NotImplementedError("count those that have begun and not ended")
    # [end]


if __name__ == "__main__":
    for t in (0, 5, 10, 15):
        print(t, running([(0, 10), (5, 15)], t))
