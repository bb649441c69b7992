"""Hidden cases of part a (access patterns): a generator, or a capture set, in; counters of launches without
names out.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from labcode.grading.cases import Case
from labcode.reports.ncu.report import Launch
from labcode.store import CaptureSet
from solutions.compute._shared import open_ncu

Rng = np.random.Generator
Row = dict[str, Any]
SECTOR = 32
EXPERIMENT, RUNS = "ncu_memory", ("exam_copies", "exam_gathers")
COLUMNS = {
    "launch": "int64",
    "wanted_read_bytes": "int64",
    "wanted_write_bytes": "int64",
    "load_requests": "int64",
    "load_sectors": "int64",
    "store_requests": "int64",
    "store_sectors": "int64",
    "dram_read_bytes": "int64",
    "instructions": "int64",
    "stall_cycles": "float64",
}
_COUNTERS = {
    "load_requests": "global_ld_requests",
    "load_sectors": "global_ld_sectors",
    "store_requests": "global_st_requests",
    "store_sectors": "global_st_sectors",
    "dram_read_bytes": "dram_read_bytes",
    "instructions": "instructions",
}
_WAITS = "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio"


def _row(rng: Rng, pattern: str) -> Row:
    """Counters of a launch that copies whole warps' floats in some way."""
    warps = int(rng.integers(2_000, 60_000))
    wanted = 128 * warps
    row: Row = {
        "wanted_read_bytes": wanted,
        "wanted_write_bytes": wanted,
        "load_requests": warps,
        "load_sectors": 4 * warps,
        "store_requests": warps,
        "store_sectors": 4 * warps,
        "dram_read_bytes": int(wanted * rng.uniform(1.0, 1.04)),
        "instructions": warps * int(rng.integers(14, 40)),
        "stall_cycles": float(np.round(rng.uniform(5, 900), 3)),
    }
    if pattern == "wide":
        row |= {"load_requests": warps // 4, "store_requests": warps // 4, "load_sectors": 16 * (warps // 4)}
        row |= {"wanted_read_bytes": 512 * (warps // 4), "store_sectors": 16 * (warps // 4)}
        row |= {"wanted_write_bytes": 512 * (warps // 4), "dram_read_bytes": 513 * (warps // 4)}
    elif pattern == "strided":
        each = int(rng.choice([8, 16, 32]))
        row |= {"load_sectors": each * warps, "store_sectors": each * warps}
        row |= {"dram_read_bytes": int(wanted * rng.uniform(1.5, 12.0))}
    elif pattern == "every fourth float":  # as many sectors a request as whole words of 16 bytes
        row |= {"load_sectors": 16 * warps, "store_sectors": 16 * warps}
    elif pattern == "gather":
        row |= {"wanted_read_bytes": 2 * wanted, "load_requests": 2 * warps}  # indices and values
        row |= {"load_sectors": (4 + int(rng.integers(24, 33))) * warps}
        row |= {"dram_read_bytes": int(wanted * rng.uniform(2.0, 16.0))}
    elif pattern == "misaligned":
        row |= {"load_sectors": 5 * warps, "store_sectors": int(rng.choice([4, 5])) * warps}
    elif pattern == "scattered sectors":
        row |= {"wanted_read_bytes": 2 * wanted, "load_requests": 2 * warps, "load_sectors": 8 * warps}
        row |= {"dram_read_bytes": int(2 * wanted * rng.uniform(1.3, 2.0))}
    elif pattern == "bulk copy":
        row |= {"load_requests": 0, "load_sectors": 0, "store_requests": 0, "store_sectors": 0}
    elif pattern == "no reads":
        row |= {"wanted_read_bytes": 0, "load_requests": 0, "load_sectors": 0, "dram_read_bytes": 0}
    elif pattern == "no writes":
        row |= {"load_sectors": 32 * warps, "wanted_write_bytes": 0, "store_requests": 0, "store_sectors": 0}
    return row


def _at(rng: Rng, share: int, stores: int, more: int, halves: int) -> Row:
    """A launch of these shares and of this traffic of the DRAM, in percent, and half sectors a request."""
    requests = 20_000 * int(rng.integers(1, 9))
    sectors = requests // 2 * halves
    read, written = (SECTOR * sectors // 100 * percent for percent in (share, stores))
    row = _row(rng, "coalesced") | {"load_requests": requests, "load_sectors": sectors}
    row |= {"store_requests": requests, "store_sectors": sectors, "dram_read_bytes": read // 100 * more}
    return row | {"wanted_read_bytes": read, "wanted_write_bytes": written}


_LIMITS = [
    *((69, 69, 300, 32), (69, 70, 300, 32), (70, 50, 100, 8), (89, 100, 130, 8)),
    *((90, 100, 120, 8), (90, 100, 121, 8), (100, 100, 119, 16), (100, 100, 100, 17)),
    (100, 100, 130, 20),
]


def _table(rows: Sequence[Row]) -> pd.DataFrame:
    """Launches in this order, numbered."""
    numbered = [{"launch": number, **row} for number, row in enumerate(rows)]
    return pd.DataFrame(numbered, columns=list(COLUMNS)).astype(COLUMNS)


def _scenes(rng: Rng) -> dict[str, list[Row]]:
    def some(*names: str) -> list[Row]:
        return [_row(rng, name) for name in names]

    every = ["coalesced", "wide", "strided", "gather", "misaligned"]
    every += ["scattered sectors", "bulk copy", "no reads"]
    mixed = [str(name) for name in rng.permutation(every)]
    cached, near, scattered = some("coalesced", "strided", "scattered sectors")
    cached["dram_read_bytes"], near["dram_read_bytes"] = 0, near["wanted_read_bytes"]
    return {
        "a copy and a strided copy": some("coalesced", "strided"),
        "one of each": some(*mixed),
        "16 sectors a request, twice": some("wide", "every fourth float"),
        "loads of one request, and what scattered them": some("gather", "strided"),
        "what the caches hold": [cached, near, scattered],
        "at the limits of the list": [_at(rng, *limits) for limits in _LIMITS],
        "a launch that stores nothing": some("no writes"),
        "no launch": [],
    }


def _cases_of(name: str, table: pd.DataFrame) -> list[Case]:
    """The three questions about one table."""
    summary = f"{len(table)} launches"
    return [
        Case(name, summary, function, (table,), table=table) for function in ("evidence", "patterns", "waits")
    ]


def cases(rng: Rng) -> list[Case]:
    """Each scene in turn, the three functions on it."""
    return [case for name, rows in _scenes(rng).items() for case in _cases_of(name, _table(rows))]


def unnamed(captures: CaptureSet, run: str) -> tuple[pd.DataFrame, list[str]]:
    """The launches of a run in another order, and their names; `LabError` when the set lacks the run."""
    report = open_ncu(captures, EXPERIMENT, run)
    record = captures.record(EXPERIMENT, run)
    gathers = record["variant"] == "gather"
    count = (record["parameters"]["mebibytes"] << 20) // 4
    if gathers:
        count = 1 << (count.bit_length() - 1)
    order = np.random.default_rng(7).permutation(len(report.list))
    chosen = [report.list[place] for place in order]
    rows = [_counts(one, (8 if gathers else 4) * count, 4 * count) for one in chosen]
    return _table(rows), [one.function for one in chosen]


def _counts(launch: Launch, read: int, written: int) -> Row:
    counted = {column: int(launch.number(meaning)) for column, meaning in _COUNTERS.items()}
    row = {"wanted_read_bytes": read, "wanted_write_bytes": written, **counted}
    return {**row, "stall_cycles": launch.metric(_WAITS)}


def exam(captures: CaptureSet) -> list[Case]:
    """The same questions to two captures."""
    return [
        case
        for run in RUNS
        for case in _cases_of(f"launches you have not seen ({EXPERIMENT}, {run})", unnamed(captures, run)[0])
    ]


def notes(captures: CaptureSet, answered: Sequence[tuple[Case, Any]]) -> list[str]:
    """What the launches were called."""
    found = []
    patterns = [right for case, right in answered if case.function == "patterns"]
    for run, right in zip(RUNS, patterns, strict=True):
        names = unnamed(captures, run)[1]
        found += [f"{run}: {names[launch]} is {pattern}" for launch, pattern in right.items()]
    return found
