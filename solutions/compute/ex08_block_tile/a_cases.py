"""Hidden cases of part a (a square of sums a thread): a generator in, tiles, threads and squares out."""

from typing import Any

import numpy as np

from labcode.grading.cases import Case

Rng = np.random.Generator


def _tile(rng: Rng, height: int, width: int) -> list[list[float]]:
    return [[float(x) for x in row] for row in rng.integers(-9, 10, (height, width))]


def _multiplied(rng: Rng, rows: int, columns: int, depth: int, down: int, across: int) -> tuple[Any, ...]:
    a, b = _tile(rng, down * rows, depth), _tile(rng, depth, across * columns)
    row, column = int(rng.integers(down)) * rows, int(rng.integers(across)) * columns
    return _tile(rng, rows, columns), a, b, row, column


def cases(rng: Rng) -> list[Case]:
    """Each function in turn."""

    def some(low: int, high: int) -> int:
        return int(rng.integers(low, high))

    made = [
        Case(name, f"thread {a[0]} of {a[1]}, a tile of {a[2]} × {a[3]}", "copied", a)
        for name, a in {
            "the first thread": (0, some(3, 9), some(5, 9), some(5, 9)),
            "a thread in the middle": (some(1, 6), some(7, 12), some(6, 9), some(3, 5)),
            "a tile that no turn divides": (some(1, 3), 7, 5, some(3, 5)),
            "the last element": (5, 6, 3, 2),
            "more threads than elements": (12, 16, 2, 6),
            "one column": (some(1, 4), 4, some(9, 13), 1),
        }.items()
    ]
    made += [
        Case(name, f"thread {a[0]}, a tile {a[1]} wide, squares of {a[2]} × {a[3]}", "square", a)
        for name, a in {
            "the first row of squares": (some(1, 4), 32, 8, 8),
            "a later row": (some(9, 40), 32, 4, 8),
            "a strip": (some(70, 200), 64, 8, 1),
            "wider than high": (some(5, 60), 64, 2, 16),
            "one square a row": (some(2, 9), 8, 4, 8),
            "the last square of a row": (15, 128, 8, 8),
        }.items()
    ]
    made += [
        Case(name, f"({a[0]}, {a[1]}), {a[2]} × {a[3]}, depth {a[4]}", "loads", a)
        for name, a in {
            "one sum": (some(1, 9), some(1, 9), 1, 1, 2),
            "a strip": (8 * some(1, 4), some(1, 9), 8, 1, 2),
            "a square": (4 * some(1, 4), 4 * some(5, 8), 4, 4, 3),
            "wider than high": (2 * some(1, 4), 3 * some(3, 6), 2, 3, 2),
            "no depth": (some(1, 4), some(1, 4), 2, 2, 0),
        }.items()
    ]
    made += [
        Case(name, f"{len(a[0])} × {len(a[0][0])} sums, depth {len(a[2])}", "multiply", a)
        for name, a in {
            "one sum": _multiplied(rng, 1, 1, 4, 2, 2),
            "a square": _multiplied(rng, 3, 3, 4, 3, 3),
            "higher than wide": _multiplied(rng, 4, 2, 3, 3, 3),
            "one place along k": _multiplied(rng, 2, 3, 1, 3, 3),
        }.items()
    ]
    made += [
        Case(name, f"{a[0]} × {a[1]}, {a[2]} words a load", "words", a)
        for name, a in {
            "one sum": (1, 1, 1),
            "a square, word by word": (some(3, 9), some(3, 9), 1),
            "fours": (8, 4 * some(1, 5), 4),
            "no multiple of four": (4 * some(1, 4) + 1, 4 * some(1, 4) + 2, 4),
            "a strip": (some(9, 16), 1, 4),
        }.items()
    ]
    listed = [(1, 1), (8, 1), (4, 4), (8, 8), (8, 16), (16, 8), (16, 16)]
    fits = 8 * 8 + 16
    made += [
        Case(name, f"{len(a[0])} squares, {a[1]} registers, {a[2]} for other things", "best", a)
        for name, a in {
            "all fit": (listed, some(400, 500), some(20, 40), 1),
            "equal ones": (listed, some(200, 255), some(20, 30), 4),
            "equal ones, the other way round": (listed[::-1], some(200, 255), some(20, 30), 4),
            "exactly enough": (listed, fits + 30, 30, 1),
            "one too few": (listed, fits + 29, 30, 1),
            "one too few, and nothing else": (listed, fits - 1, 0, 1),
            "none fits": (listed[3:], some(40, 60), some(20, 40), 1),
            "a long strip against a square": ([(30, 1), (4, 3), (5, 5)], 80, some(1, 15), 1),
            "in fours the larger is not the better": ([(9, 9), (8, 8)], some(140, 200), 20, 4),
        }.items()
    ]
    return made
