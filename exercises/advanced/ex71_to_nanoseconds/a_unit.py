"""Exercise advanced-ex71, part a: one cell.

`to_ns(header, value)`: a column's header, which ends in a unit in parentheses (ns, us, µs, ms, s), and a
value; the value in ns.

A worked example: to_ns('Total Time (us)', 2.5) is 2500.0.

Grade it:         labcode exercises advanced-ex71a        (or: nox -s exercises -- advanced-ex71a)
Get a hint:       labcode exercises advanced-ex71a --hint
"""


def to_ns(header: str, value: float) -> float:
    """A value in ns."""
    raise NotImplementedError("the unit at the end, and its factor")


if __name__ == "__main__":
    print(to_ns("Total Time (us)", 2.5))
    print(to_ns("Avg (ms)", 1.0))
