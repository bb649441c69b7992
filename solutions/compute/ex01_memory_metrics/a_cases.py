"""Hidden cases of part a (sectors): a generator in, access patterns and counters out."""

import numpy as np
import pandas as pd

from labcode.grading.cases import Case

Rng = np.random.Generator
Addresses = list[int | None]
Row = tuple[str, int, int, int]
COLUMNS = ["kernel", "requests", "sectors", "wanted_bytes"]
SECTOR, LANES = 32, 32


def _patterns(rng: Rng) -> dict[str, tuple[Addresses, int]]:
    base = 128 * int(rng.integers(3, 5000))
    lanes = range(LANES)
    stride = int(rng.integers(2, 8))
    some: Addresses = [base + 4 * lane if rng.random() < 0.4 else None for lane in lanes]
    some[int(rng.integers(0, LANES))] = base + 4 * 40
    late = base + 4 * int(rng.integers(1, 8))
    return {
        "neighboring floats": ([base + 4 * lane for lane in lanes], 4),
        "neighboring floats in reverse": ([base + 4 * (31 - lane) for lane in lanes], 4),
        "words of 16 bytes": ([base + 16 * lane for lane in lanes], 16),
        "single bytes": ([base + lane for lane in lanes], 1),
        f"every {stride + 1}th float": ([base + 4 * (stride + 1) * lane for lane in lanes], 4),
        "a column": ([base + 4 * int(rng.integers(300, 900)) * lane for lane in lanes], 4),
        "words that overlap": ([base + 2 * lane for lane in lanes], 4),
        "one address for all": ([base + 8] * LANES, 4),
        "a start behind a boundary": ([late + 4 * lane for lane in lanes], 4),
        "some lanes only": (some, 4),
        "floats that begin at odd bytes": ([base + 29 + lane % 3 + 64 * lane for lane in lanes], 4),
        "random places": ([4 * int(rng.integers(0, 400)) for _ in lanes], 4),
        "one lane, at address 0": ([None] * 3 + [0] + [None] * 28, 4),
        "no lane at all": ([None] * LANES, 8),
    }


def _rows(rng: Rng, count: int) -> list[Row]:
    rows = []
    for number in rng.permutation(count).tolist():
        requests = int(rng.integers(50, 4000))
        sectors = requests * int(rng.choice([1, 2, 4, 5, 8, 16, 32])) + int(rng.integers(1, requests))
        rows.append((f"kernel_{number:02}", requests, sectors, int(sectors * SECTOR * rng.uniform(0.1, 0.9))))
    return rows


def _tables(rng: Rng) -> dict[str, list[Row]]:
    def changed(rows: list[Row], *new: tuple[int, int, int, int]) -> list[Row]:
        for place, *numbers in new:
            rows[place] = (rows[place][0], *numbers)  # type: ignore[assignment]
        return rows

    names_back = sorted(_rows(rng, 5), reverse=True)
    return {
        "six kernels": _rows(rng, 6),
        "one kernel wants more than was moved": changed(_rows(rng, 5), (2, 100, 400, 50_000)),
        "a kernel without requests": changed(_rows(rng, 4), (1, 0, 0, 0)),
        "two that waste as much": changed(names_back, (0, 100, 400, 3200), (3, 50, 400, 3200)),
        "no kernel": [],
    }


def cases(rng: Rng) -> list[Case]:
    """Each function in turn, the first two on the same patterns."""
    made = []
    for function in ("sectors", "efficiency"):
        for name, (addresses, size) in _patterns(rng).items():
            summary = f"{LANES - addresses.count(None)} of {LANES} lanes, {size} bytes each"
            share = function == "efficiency"
            made.append(Case(name, summary, function, (addresses, size), share=share))
    for name, rows in _tables(rng).items():
        table = pd.DataFrame(rows, columns=COLUMNS)
        made.append(Case(name, f"{len(table)} kernels", "ranking", (table,), table=table))
    return made
