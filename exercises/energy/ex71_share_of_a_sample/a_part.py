"""Exercise energy-ex71, part a: one interval.

`part(joules, interval, span)`: between two updates, (begin, end) in ns, a GPU used so many joules; how many
of them fall to a range, (begin, end), if the power was even.

A worked example: part(50.0, (0, 100), (20, 60)) is 20.0.

Grade it:         labcode exercises energy-ex71a        (or: nox -s exercises -- energy-ex71a)
Get a hint:       labcode exercises energy-ex71a --hint
"""


def part(joules: float, interval: tuple[int, int], span: tuple[int, int]) -> float:
    """The joules that fall to a range."""
    raise NotImplementedError("the overlap over the interval, times the joules")


if __name__ == "__main__":
    print("within:", part(50.0, (0, 100), (20, 60)))
    print("apart: ", part(50.0, (0, 100), (200, 300)))
