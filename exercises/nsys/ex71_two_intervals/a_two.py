"""Exercise nsys-ex71, part a: the time of two.

`busy(a, b)`: two intervals (begin, end) in ns; the time in which at least one of them runs.

A worked example: busy((0, 10), (4, 12)) is 12; busy((0, 10), (20, 25)) is 15.

Grade it:         labcode exercises nsys-ex71a        (or: nox -s exercises -- nsys-ex71a)
Get a hint:       labcode exercises nsys-ex71a --hint
"""


def busy(a: tuple[int, int], b: tuple[int, int]) -> int:
    """The time in which at least one of two intervals runs."""
    raise NotImplementedError("both lengths, less what they share")


if __name__ == "__main__":
    print("they overlap:", busy((0, 10), (4, 12)))
    print("they do not: ", busy((0, 10), (20, 25)))
