"""Hidden cases of compute-ex01, part a (sectors): a generator in, access patterns and counters out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from labcode.exercises.cases import Case, Mistake, Task

Rng = np.random.Generator
Addresses = list[int | None]
SECTOR, LANES = 32, 32


def touched(addresses: Sequence[int | None], size: int) -> set[int]:
    """The numbers of the sectors that lanes touch."""
    active = [a for a in addresses if a is not None]
    return {s for a in active for s in range(a // SECTOR, (a + size - 1) // SECTOR + 1)}


def wanted(addresses: Sequence[int | None], size: int) -> int:
    """How many different bytes lanes want."""
    return len({byte for a in addresses if a is not None for byte in range(a, a + size)})


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
        "one address for all": ([base + 8] * LANES, 4),
        "a start behind a boundary": ([late + 4 * lane for lane in lanes], 4),
        "some lanes only": (some, 4),
        "floats that begin at odd bytes": ([base + 30 + 64 * lane for lane in lanes], 4),
        "random places": ([4 * int(rng.integers(0, 400)) for _ in lanes], 4),
        "no lane at all": ([None] * LANES, 8),
    }


def _sector_cases(rng: Rng) -> list[Case]:
    cases = []
    for name, (addresses, size) in _patterns(rng).items():
        active = [a for a in addresses if a is not None]
        mistakes = (
            Mistake(
                "an access may cross into the next sector: its last byte counts, too",
                len({a // SECTOR for a in active}),
            ),
            Mistake("lanes of the same sector share it: count each sector once", len(active)),
            Mistake("these are lines of 128 bytes; a sector has 32", len({a // 128 for a in active})),
            Mistake(
                "the bytes are divided by 32 as if they lay side by side",
                -(-size * len(active) // SECTOR),
            ),
            Mistake(
                "a lane that takes no part touches nothing", len(touched([a or 0 for a in addresses], size))
            ),
        )
        cases.append(
            Case(
                name,
                f"{len(active)} of {LANES} lanes, {size} bytes each",
                "sectors",
                (addresses, size),
                len(touched(addresses, size)),
                mistakes,
            )
        )
    return cases


def _efficiency_cases(rng: Rng) -> list[Case]:
    cases = []
    for name, (addresses, size) in _patterns(rng).items():
        active = [a for a in addresses if a is not None]
        moved = SECTOR * len(touched(addresses, size))
        right = wanted(addresses, size) / moved if moved else 1.0
        mistakes = (
            Mistake("bytes that several lanes want count once", size * len(active) / moved if moved else 1.0),
            Mistake("lanes that take no part want nothing", size * LANES / moved if moved else 1.0),
            Mistake("nothing was moved, so nothing in vain: 1.0", right if moved else 0.0),
        )
        cases.append(
            Case(
                name,
                f"{len(active)} of {LANES} lanes, {size} bytes each",
                "efficiency",
                (addresses, size),
                right,
                mistakes,
                share=True,
            )
        )
    return cases


Row = tuple[str, int, int, int]  # kernel, requests, sectors, wanted bytes
COLUMNS = ["kernel", "requests", "sectors", "wanted_bytes"]


def _rows(rng: Rng, count: int) -> list[Row]:
    rows = []
    for number in rng.permutation(count).tolist():
        requests = int(rng.integers(50, 4000))
        sectors = requests * int(rng.choice([1, 2, 4, 5, 8, 16, 32]))
        rows.append((f"kernel_{number:02}", requests, sectors, int(sectors * SECTOR * rng.uniform(0.1, 0.9))))
    return rows


def _ranked(rows: list[Row], *, least: float = 0) -> list[tuple[str, float, int]]:
    found = [
        (kernel, sectors / requests if requests else 0.0, int(max(least, SECTOR * sectors - bytes_wanted)))
        for kernel, requests, sectors, bytes_wanted in rows
    ]
    return sorted(found, key=lambda entry: (-entry[2], entry[0]))


def _ranking_cases(rng: Rng) -> list[Case]:
    def changed(rows: list[Row], *new: tuple[int, int, int, int]) -> list[Row]:
        for place, *numbers in new:
            rows[place] = (rows[place][0], *numbers)  # type: ignore[assignment]
        return rows

    scenes = {
        "six kernels": _rows(rng, 6),
        "one kernel wants more than was moved": changed(_rows(rng, 5), (2, 100, 400, 50_000)),
        "a kernel without requests": changed(_rows(rng, 4), (1, 0, 0, 0)),
        "two that waste as much": changed(_rows(rng, 5), (0, 100, 400, 3200), (3, 50, 400, 3200)),
        "no kernel": [],
    }
    cases = []
    for name, rows in scenes.items():
        table = pd.DataFrame(rows, columns=COLUMNS)
        right = _ranked(rows)
        mistakes = (
            Mistake(
                "the order is that of the sectors a request; that of the wasted bytes is asked for",
                sorted(right, key=lambda entry: (-entry[1], entry[0])),
            ),
            Mistake(
                "a kernel wastes nothing when it wants more than was moved",
                _ranked(rows, least=float("-inf")),
            ),
        )
        cases.append(Case(name, f"{len(table)} kernels", "ranking", (table,), right, mistakes, table=table))
    return cases


def _generated(rng: Rng) -> list[Case]:
    return [*_sector_cases(rng), *_efficiency_cases(rng), *_ranking_cases(rng)]


SECTORS = Task(generated=_generated)
