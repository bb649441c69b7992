"""Exercise nsys-ex74, part a: one beside one.

`exposed(collective, kernel)`: intervals (begin, end) in ns; the time of the collective in which the kernel
does not run.

A worked example: exposed((10, 30), (0, 18)) is 12: from 18 to 30.

Grade it:         labcode exercises nsys-ex74a        (or: nox -s exercises -- nsys-ex74a)
Get a hint:       labcode exercises nsys-ex74a --hint
"""


def exposed(collective: tuple[int, int], kernel: tuple[int, int]) -> int:
    """The time of a collective that a kernel does not cover."""
    # [solution]
    begin, end = collective
    covered = max(0, min(end, kernel[1]) - max(begin, kernel[0]))
    return end - begin - covered
    # [starter]
    # raise NotImplementedError("the collective, less what the kernel covers of it")
    # [end]


if __name__ == "__main__":
    print("its end is exposed:", exposed((10, 30), (0, 18)))
    print("all of it is:      ", exposed((10, 30), (40, 50)))
