"""Exercise compute-ex08, part a: the step “squares” of the fp32 ladder, for one thread.

A block computes a tile of C. For each part along k it copies a tile of A (as high as the tile of C) and a
tile of B (as wide) into shared memory, and every thread then adds to its own square of sums. Write what one
thread does. Tiles are lists of rows; rows and columns count from 0 in the block's tile.

`copied(thread, threads, height, width)`: the elements (row, column) of a tile that a thread copies, in their
order. The threads together take the tile row by row: in each turn neighbors take neighboring elements.

`square(thread, tile_columns, rows, columns)`: (row, column) of the first of a thread's sums. Each thread has
rows × columns of them; threads lie side by side along a row of squares, then in the next row.

`loads(row, column, rows, columns, depth)`: what a thread whose square starts at (row, column) loads from the
two tiles, each word once, as ('A', row, place along k) and ('B', place along k, column): for each place along
k first A's from top to bottom, then B's from left to right.

`multiply(sums, tile_a, tile_b, row, column)`: the sums after this part of k, as new lists.

`words(rows, columns, vector)`: shared loads for each multiply-add when a load brings up to `vector` words
that belong to the same matrix and the same place along k.

`best(squares, registers, other, vector)`: of a list of (rows, columns) the one with the fewest shared loads
for each multiply-add, of equal ones the first. A square takes a register for each sum, one for each word of A
and of B at one place along k, and `other` more; at most `registers` are there. None if none fits.

A worked example: a tile 4 wide, squares of 2 × 2:

    copied(1, 4, 3, 2)            ->  [(0, 1), (2, 1)]        elements 1 and 5 of 6
    square(3, 4, 2, 2)            ->  (2, 2)
    loads(2, 2, 2, 2, 1)          ->  [('A', 2, 0), ('A', 3, 0), ('B', 0, 2), ('B', 0, 3)]
    words(2, 2, 1)                ->  1.0                     4 words for 4 multiply-adds
    best([(8, 8), (2, 2)], 60, 20, 1)   ->  (2, 2)            8 × 8 takes 64 + 16 + 20 registers

Grade it:         labcode exercises compute-ex08a        (or: nox -s exercises -- compute-ex08a)
Get a hint:       labcode exercises compute-ex08a --hint
"""

import math

Tile = list[list[float]]


def copied(thread: int, threads: int, height: int, width: int) -> list[tuple[int, int]]:
    """The elements of a tile that a thread copies into shared memory."""
    # [solution]
    return [divmod(i, width) for i in range(thread, height * width, threads)]
    # [starter]
    # raise NotImplementedError("number the elements row by row; a thread takes its own and every …th after")
    # [end]


def square(thread: int, tile_columns: int, rows: int, columns: int) -> tuple[int, int]:
    """Where a thread's sums begin."""
    # [solution]
    down, across = divmod(thread, tile_columns // columns)
    return down * rows, across * columns
    # [starter]
    # raise NotImplementedError("how many squares lie side by side?")
    # [end]


def loads(row: int, column: int, rows: int, columns: int, depth: int) -> list[tuple[str, int, int]]:
    """What a thread loads from the tiles in shared memory."""
    # [solution]
    found = []
    for place in range(depth):
        found += [("A", row + r, place) for r in range(rows)]
        found += [("B", place, column + c) for c in range(columns)]
    return found
    # [starter]
    # raise NotImplementedError("rows + columns words for each place along k, not rows × columns")
    # [end]


def multiply(sums: Tile, tile_a: Tile, tile_b: Tile, row: int, column: int) -> Tile:
    """A thread's sums after one part of k."""
    # [solution]
    return [
        [
            sums[r][c] + sum(a * b[column + c] for a, b in zip(tile_a[row + r], tile_b, strict=True))
            for c in range(len(sums[r]))
        ]
        for r in range(len(sums))
    ]
    # [starter]
    # raise NotImplementedError("for each place along k: every word of A with every word of B")
    # [end]


def words(rows: int, columns: int, vector: int) -> float:
    """Shared loads for each multiply-add."""
    # [solution]
    return (math.ceil(rows / vector) + math.ceil(columns / vector)) / (rows * columns)
    # [starter]
    # raise NotImplementedError("loads of A and of B for one place along k, over the multiply-adds there")
    # [end]


def best(squares: list[tuple[int, int]], registers: int, other: int, vector: int) -> tuple[int, int] | None:
    """The square with the fewest shared loads for each multiply-add that fits the registers."""
    # [solution]
    fit = [(r, c) for r, c in squares if r * c + r + c + other <= registers]
    return min(fit, key=lambda one: words(*one, vector), default=None)
    # [starter]
    # raise NotImplementedError("drop what does not fit, then take the least")
    # [end]


if __name__ == "__main__":
    for rows, columns in ((1, 1), (8, 1), (8, 8), (8, 16), (16, 16)):
        one, four = words(rows, columns, 1), words(rows, columns, 4)
        print(f"{rows:2} × {columns:2}: {one:.4f} words, {four:.4f} loads of four for a multiply-add")
