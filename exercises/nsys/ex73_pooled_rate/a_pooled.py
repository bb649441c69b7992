"""Exercise nsys-ex73, part a: all copies together.

`rate(copies)`: copies are (bytes, ns); all bytes over all time, in GB/s (10⁹ bytes a second). None if there
are none.

A worked example: rate([(1000, 100), (9000, 200)]) is 33.3: 10,000 bytes in 300 ns.

Grade it:         labcode exercises nsys-ex73a        (or: nox -s exercises -- nsys-ex73a)
Get a hint:       labcode exercises nsys-ex73a --hint
"""


def rate(copies: list[tuple[int, int]]) -> float | None:
    """All bytes over all time, in GB/s."""
    raise NotImplementedError("all bytes over all time")


if __name__ == "__main__":
    print("two copies:", rate([(1000, 100), (9000, 200)]))
    print("none:      ", rate([]))
