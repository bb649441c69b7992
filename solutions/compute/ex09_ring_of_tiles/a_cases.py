"""Hidden cases of part a (swizzle, parity, schedule): a generator in, chunks, stages and latencies out."""

import numpy as np

from labcode.grading.cases import Case

Rng = np.random.Generator
Chunks = list[tuple[int, int]]


def _chunks(rng: Rng) -> dict[str, Chunks]:
    column, row, first = int(rng.integers(8)), int(rng.integers(1, 60)), 8 * int(rng.integers(1, 8))
    scattered = [(int(rng.integers(64)), int(rng.integers(8))) for _ in range(8)]
    return {
        "a column": [(first + r, column) for r in range(8)],
        "a row": [(row, chunk) for chunk in range(8)],
        "every other row": [(2 * r, column) for r in range(8)],
        "rows eight apart": [(row + 8 * r, column) for r in range(4)],
        "the diagonal": [(first + r, r) for r in range(8)],
        "one chunk for all": [(row, column)] * 8,
        "two rows, each four times": [(row, column), (row + 8, column)] * 4,
        "anywhere": scattered,
        "nothing": [],
    }


def cases(rng: Rng) -> list[Case]:
    """Each function in turn."""

    def some(low: int, high: int) -> int:
        return int(rng.integers(low, high))

    made = [
        Case(name, f"row {a[0]}, chunk {a[1]}", "address", a)
        for name, a in {
            "row 0": (0, some(1, 8)),
            "a row among the first eight": (some(1, 8), some(0, 8)),
            "a row further down": (some(9, 16), some(0, 8)),
            "row 8 begins anew": (8 * some(1, 8), some(1, 8)),
            "far down": (some(65, 128), some(0, 8)),
        }.items()
    ]
    made += [
        Case(f"{name}, {'swizzled' if on else 'as in memory'}", f"{len(given)} chunks", "turns", (given, on))
        for name, given in _chunks(rng).items()
        for on in (True, False)
    ]
    made += [
        Case(name, f"stage {a[0]}, {a[1]} slots", "turn", a)
        for name, a in {
            "the first turn": (some(0, 4), 4),
            "the second turn": (4 + some(0, 4), 4),
            "the third turn": (6 + some(0, 3), 3),
            "many turns later": (some(100, 1000), some(3, 8)),
            "the last slot": (4 * some(2, 9) + 3, 4),
            "a ring of one": (some(5, 50), 1),
        }.items()
    ]
    times = {
        "one slot": (some(4, 8), 1, some(5, 20), some(50, 90), some(30, 60)),
        "two slots": (some(5, 9), 2, some(5, 20), some(50, 90), some(30, 60)),
        "products set the pace": (some(6, 9), 4, some(5, 10), some(40, 60), some(70, 90)),
        "requests set the pace": (some(6, 9), 4, some(80, 90), some(30, 60), some(20, 40)),
        "latency sets the pace": (some(8, 12), 3, some(5, 10), some(400, 600), some(20, 40)),
        "more slots than stages": (3, 8, some(5, 20), some(50, 90), some(30, 60)),
        "no latency": (some(4, 8), 2, some(5, 20), 0, some(30, 60)),
        "one stage": (1, 2, some(5, 20), some(50, 90), some(30, 60)),
        "no stage": (0, 4, some(5, 20), some(50, 90), some(30, 60)),
    }
    made += [
        Case(name, "{} stages, {} slots, interval {}, latency {}, multiply {}".format(*a), "schedule", a)
        for name, a in times.items()
    ]
    made += [
        Case(name, "{} stages, interval {}, latency {}, multiply {}".format(*a), "enough", a)
        for name, a in {
            "one stage": (1, some(5, 20), some(50, 90), some(30, 60)),
            "no latency and slow requests": (some(6, 12), some(90, 99), 0, some(20, 40)),
            "products set the pace": (some(20, 30), some(5, 20), some(100, 300), some(80, 120)),
            "requests set the pace": (some(20, 30), some(60, 80), some(200, 500), some(20, 40)),
            "exactly enough": (some(20, 30), 10, 90, 30),
            "one slot less is a little later": (4, 30, 85, 20),
            "a latency that leaves room for a matmul": (30, 20, 85, 10),
            "latency far beyond all": (some(6, 10), some(5, 10), some(2000, 3000), some(20, 40)),
        }.items()
    ]
    return made
