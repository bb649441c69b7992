"""Exercise scaling-ex72, part a: what one sends.

`sent(size, ranks)`: how many bytes each rank sends in a ring all-reduce of a buffer of so many bytes. A
piece is an n-th of the buffer; each rank sends n − 1 pieces while sums are made, and n − 1 while they are
handed out.

A worked example: sent(800, 4) is 1200.0.

Grade it:         labcode exercises scaling-ex72a        (or: nox -s exercises -- scaling-ex72a)
Get a hint:       labcode exercises scaling-ex72a --hint
"""


def sent(size: int, ranks: int) -> float:
    """The bytes that a rank sends."""
    # [solution]
    return 2 * (ranks - 1) * size / ranks
    # [starter]
    # raise NotImplementedError("two rounds of n − 1 pieces")
    # [end]


if __name__ == "__main__":
    for ranks in (1, 2, 4, 8):
        print(ranks, sent(800, ranks))
