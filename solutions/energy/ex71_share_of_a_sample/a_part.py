"""Exercise energy-ex71, part a: one interval.

`part(joules, interval, span)`: between two updates, (begin, end) in ns, a GPU used so many joules; how many
of them fall to a range, (begin, end), if the power was even.

A worked example: part(50.0, (0, 100), (20, 60)) is 20.0.

Grade it:         labcode exercises energy-ex71a        (or: nox -s exercises -- energy-ex71a)
Get a hint:       labcode exercises energy-ex71a --hint
"""


def part(joules: float, interval: tuple[int, int], span: tuple[int, int]) -> float:
    """The joules that fall to a range."""
    # [solution]
    shared = max(0, min(interval[1], span[1]) - max(interval[0], span[0]))
    return joules * shared / (interval[1] - interval[0])
    # [starter]
    # raise NotImplementedError("the overlap over the interval, times the joules")
    # [end]


if __name__ == "__main__":
    print("within:", part(50.0, (0, 100), (20, 60)))
    print("apart: ", part(50.0, (0, 100), (200, 300)))
