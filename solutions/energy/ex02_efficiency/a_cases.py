"""Hidden cases of part a (the best run, and the best clock): a generator in, runs and models out."""

from typing import Any

import numpy as np
import pandas as pd

from labcode.grading.cases import Case

Rng = np.random.Generator
Row = tuple[str, float, float]


def _runs(rng: Rng, rows: list[Row]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=["name", "seconds", "energy_j"])
    table["flop"] = float(rng.integers(10, 900)) * 1e12
    return table


def _tables(rng: Rng) -> dict[str, pd.DataFrame]:
    s, j = float(rng.integers(2, 9)), float(rng.integers(200, 900))
    return {
        "the fastest is the cheapest": _runs(
            rng, [("naive", 4 * s, 3 * j), ("tiled", 2 * s, 2 * j), ("wide", s, j)]
        ),
        "the fastest is the costliest": _runs(
            rng, [("racing", s, 3 * j), ("steady", 2 * s, 2 * j), ("slow", 6 * s, j)]
        ),
        "the product takes neither end": _runs(
            rng, [("slow", 8 * s, j), ("fast", s, 7 * j), ("middle", 2 * s, 2 * j)]
        ),
        "equal ones": _runs(rng, [("first", 2 * s, 2 * j), ("same", 2 * s, 2 * j), ("worse", 3 * s, 3 * j)]),
        "many": _runs(
            rng, [(f"run {k}", float(rng.uniform(1, 9)), float(rng.uniform(100, 900))) for k in range(7)]
        ),
    }


def _models(rng: Rng) -> dict[str, tuple[Any, ...]]:
    """Whole numbers of seconds where a deadline is met exactly."""
    base, idle = float(rng.integers(90, 140)), float(rng.integers(50, 80))
    cube = float(rng.integers(300, 500))
    return {
        "no hurry": ([500.0, 1000.0, 1500.0, 2000.0], 2e9, 0.0, base, cube, idle, 9.0),
        "a deadline that is just met": ([500.0, 1000.0, 2000.0], 2e9, 1.0, 40.0, 900.0, 30.0, 3.0),
        "a deadline that is just missed": ([500.0, 1000.0, 2000.0], 2e9, 1.0, 40.0, 900.0, 30.0, 2.999),
        "none in time": ([500.0, 1000.0], 4e9, 1.0, base, cube, idle, 3.0),
        "the memory sets the time": ([500.0, 1000.0, 2000.0], 1e8, 5.0, base, cube, idle, 8.0),
        "constant power: race to idle": ([500.0, 1000.0, 2000.0], 4e9, 0.0, 3 * base, 1.0, idle, 10.0),
        "descending clocks": ([1900.0, 1410.0, 1005.0], 3e9, 0.5, base, cube, idle, 6.0),
        "the same clock twice": ([1000.0, 1000.0], 1e9, 0.0, base, cube, idle, 2.0),
        "equal joules": ([1000.0, 2000.0], 2e9, 0.0, 150.0, 160.0, 30.0, 4.0),
    }


def cases(rng: Rng) -> list[Case]:
    """Each function in turn."""
    tables = _tables(rng)
    made = []
    for function in ("per_joule", "winners"):
        made += [Case(n, f"{len(t)} runs", function, (t,), table=t) for n, t in tables.items()]
    made += [
        Case(f"{n}, against the {place}", f"{len(t)} runs", "against", (t, t["name"].iloc[at]), table=t)
        for n, t in tables.items()
        for place, at in (("first", 0), ("last", -1))
    ]
    for name, model in _models(rng).items():
        clocks, cycles, memory_s, base, cube, idle, deadline = model
        summary = (
            f"clocks {', '.join(f'{c:g}' for c in clocks)} MHz, {cycles:.3g} cycles, memory {memory_s:g} s, "
            f"{base:g} W + {cube:g} W · (clock / highest)³, idle {idle:g} W, deadline {deadline:g} s"
        )
        made.append(Case(name, summary, "best_clock", model))
    return made
