"""Exercise compute-ex76, part a: the grid.

`tiles(m, n, tile)`: how many square tiles of side `tile` cover a matrix of m rows and n columns.

A worked example: tiles(5, 4, 2) is 6: three rows of two tiles.

Grade it:         labcode exercises compute-ex76a        (or: nox -s exercises -- compute-ex76a)
Get a hint:       labcode exercises compute-ex76a --hint
"""


def tiles(m: int, n: int, tile: int) -> int:
    """The tiles that cover a matrix."""
    raise NotImplementedError("rows of tiles times columns of tiles, both rounded up")


if __name__ == "__main__":
    print("even:", tiles(4, 4, 2))
    print("odd: ", tiles(5, 4, 2))
