"""Hidden cases of compute-ex05, part a (access patterns): a generator, or a capture set, in; counters of
launches without names out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from labcode.errors import LabError
from labcode.exercises.cases import Case, Mistake, Task
from labcode.reports.ncu.report import Launch, NcuReport, open_report
from labcode.store import CaptureSet

Rng = np.random.Generator
SECTOR = 32
EXPERIMENT = "ncu_memory"
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
WAITS = "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio"


def rows_of(table: pd.DataFrame) -> list[Any]:
    """The launches, their counters as attributes."""
    return list(table.itertuples())


def evidence(table: pd.DataFrame, *, none: float | None = None) -> dict[int, tuple[Any, Any, Any]]:
    """Sectors a request, the wanted share of their bytes, DRAM reads over wanted reads; ``none`` without a
    divisor.
    """
    return {
        int(row.launch): (
            row.load_sectors / row.load_requests if row.load_requests else none,
            row.wanted_read_bytes / (SECTOR * row.load_sectors) if row.load_sectors else none,
            row.dram_read_bytes / row.wanted_read_bytes if row.wanted_read_bytes else none,
        )
        for row in rows_of(table)
    }


def patterns(
    table: pd.DataFrame,
    *,
    bulk: bool = True,
    stores: bool = True,
    dram: bool = True,
    by_sectors: bool = False,
) -> dict[int, str]:
    """The pattern of each launch. The switches leave out what typical mistakes leave out; ``by_sectors``
    judges sectors a request alone."""
    found = {}
    for row in rows_of(table):
        each, share, more = evidence(table[table["launch"] == row.launch], none=None)[int(row.launch)]
        written = row.wanted_write_bytes / (SECTOR * row.store_sectors) if row.store_sectors else 1.0
        if more is None:
            name = "no reads"
        elif each is None or share is None:
            name = "bulk copy" if bulk else "coalesced"
        elif by_sectors and each > 8:
            name = "strided"
        elif share < 0.7:
            name = "strided" if written < 0.7 or not stores else "gather"
        elif share < 0.9:
            name = "misaligned"
        elif more > 1.2 and dram:
            name = "scattered sectors"
        else:
            name = "wide" if each > 8 else "coalesced"
        found[int(row.launch)] = name
    return found


def waits(table: pd.DataFrame) -> dict[int, float | None]:
    """Cycles of a warp's wait for memory, a load."""
    return {
        int(row.launch): row.stall_cycles * row.instructions / row.load_requests
        if row.load_requests
        else None
        for row in rows_of(table)
    }


# ---- made-up launches ------------------------------------------------------------------------------------


def _row(rng: Rng, pattern: str) -> dict[str, Any]:
    """Counters of a launch that copies whole warps' floats in some way."""
    warps = int(rng.integers(2_000, 60_000))
    wanted = 128 * warps
    row: dict[str, Any] = {
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
    return row


def table_of(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Launches in this order, numbered."""
    numbered = [{"launch": number, **row} for number, row in enumerate(rows)]
    return pd.DataFrame(numbered, columns=list(COLUMNS)).astype(COLUMNS)


def _scenes(rng: Rng) -> dict[str, pd.DataFrame]:
    every = [
        "coalesced",
        "wide",
        "strided",
        "gather",
        "misaligned",
        "scattered sectors",
        "bulk copy",
        "no reads",
    ]
    mixed = [str(name) for name in rng.permutation(every)]
    cached = {**_row(rng, "coalesced"), "dram_read_bytes": 0}
    near = _row(rng, "strided")
    near |= {"dram_read_bytes": near["wanted_read_bytes"]}
    return {
        "a copy and a strided copy": table_of([_row(rng, name) for name in ("coalesced", "strided")]),
        "one of each": table_of([_row(rng, name) for name in mixed]),
        "16 sectors a request, twice": table_of([_row(rng, "wide"), _strided_by_four(rng)]),
        "loads of one request, and what scattered them": table_of(
            [_row(rng, n) for n in ("gather", "strided")]
        ),
        "what the caches hold": table_of([cached, near, _row(rng, "scattered sectors")]),
        "no launch": table_of([]),
    }


def _strided_by_four(rng: Rng) -> dict[str, Any]:
    """Every fourth float: as many sectors a request as whole words of 16 bytes."""
    row = _row(rng, "coalesced")
    warps = row["load_requests"]
    return row | {"load_sectors": 16 * warps, "store_sectors": 16 * warps}


# ---- cases -----------------------------------------------------------------------------------------------


def _evidence_mistakes(table: pd.DataFrame) -> tuple[Mistake, ...]:
    right = evidence(table)

    def changed(place: int, change: Any) -> dict[int, tuple[Any, ...]]:
        return {
            launch: tuple(
                change(launch, v) if i == place and v is not None else v for i, v in enumerate(numbers)
            )
            for launch, numbers in right.items()
        }

    rows = table.set_index("launch")
    return (
        Mistake("sectors a request are sectors ÷ requests", changed(0, lambda _, v: 1 / v)),
        Mistake("a sector has 32 bytes; 128 is a line", changed(1, lambda _, v: v / 4)),
        Mistake(
            "this is how many times the wanted bytes were touched; the share is its inverse",
            changed(1, lambda _, v: 1 / v if v else v),
        ),
        Mistake(
            "the DRAM's bytes are held against those that the loads touched; the wanted ones are asked for",
            changed(
                2,
                lambda launch, v: (
                    rows["dram_read_bytes"][launch] / (SECTOR * rows["load_sectors"][launch])
                    if rows["load_sectors"][launch]
                    else v
                ),
            ),
        ),
        Mistake("what has no divisor is None, not 0", evidence(table, none=0.0)),
        Mistake(
            "what has no divisor is None, not 0: without requests nothing can be said of one",
            {launch: (each or 0.0, share, more) for launch, (each, share, more) in right.items()},
        ),
    )


def _pattern_mistakes(table: pd.DataFrame) -> tuple[Mistake, ...]:
    right = patterns(table)
    return (
        Mistake("no requests, but bytes wanted: that is the copy engine", patterns(table, bulk=False)),
        Mistake(
            "many sectors a request are no proof of a stride: lanes that want 16 bytes need 16",
            patterns(table, by_sectors=True),
        ),
        Mistake(
            "a gather scatters its loads only: look at what the stores waste", patterns(table, stores=False)
        ),
        Mistake(
            "whole sectors in any order look coalesced to the L1; the DRAM reads more than they want",
            patterns(table, dram=False),
        ),
        Mistake(
            "a start behind a boundary costs one sector in five; that is no stride",
            {k: "strided" if v == "misaligned" else v for k, v in right.items()},
        ),
        Mistake(
            "where nothing is wanted, there is nothing to read: 'no reads'",
            {k: "bulk copy" if v == "no reads" else v for k, v in right.items()},
        ),
    )


def _wait_mistakes(table: pd.DataFrame) -> tuple[Mistake, ...]:
    rows = rows_of(table)
    return (
        Mistake(
            "stall_cycles are those of an instruction; a load's are asked for",
            {int(r.launch): r.stall_cycles if r.load_requests else None for r in rows},
        ),
        Mistake(
            "these are the cycles of all loads together; divide by their requests",
            {int(r.launch): r.stall_cycles * r.instructions if r.load_requests else None for r in rows},
        ),
        Mistake(
            "divide by requests: a request is what a warp waits for, whatever sectors it touches",
            {
                int(r.launch): r.stall_cycles * r.instructions / r.load_sectors if r.load_requests else None
                for r in rows
            },
        ),
        Mistake(
            "without loads there is no wait for one: None",
            {k: 0.0 if v is None else v for k, v in waits(table).items()},
        ),
    )


def cases_of(name: str, table: pd.DataFrame, *, exam: bool = False) -> list[Case]:
    """The three questions about one table."""
    answers = (
        ("evidence", evidence(table), _evidence_mistakes(table)),
        ("patterns", patterns(table), _pattern_mistakes(table)),
        ("waits", waits(table), _wait_mistakes(table)),
    )
    return [
        Case(name, f"{len(table)} launches", function, (table,), right, mistakes, table=table, exam=exam)
        for function, right, mistakes in answers
    ]


def _generated(rng: Rng) -> list[Case]:
    return [case for name, table in _scenes(rng).items() for case in cases_of(name, table)]


# ---- the captures ----------------------------------------------------------------------------------------


def _counts(launch: Launch, read: int, written: int) -> dict[str, Any]:
    counted = {
        column: int(launch.number(meaning))
        for column, meaning in (
            ("load_requests", "global_ld_requests"),
            ("load_sectors", "global_ld_sectors"),
            ("store_requests", "global_st_requests"),
            ("store_sectors", "global_st_sectors"),
            ("dram_read_bytes", "dram_read_bytes"),
            ("instructions", "instructions"),
        )
    }
    return {
        "wanted_read_bytes": read,
        "wanted_write_bytes": written,
        **counted,
        "stall_cycles": launch.metric(WAITS),
    }


def unnamed(captures: CaptureSet, run: str) -> tuple[pd.DataFrame, list[str]]:
    """The launches of a run in another order, and their names; `LabError` when the set lacks the run."""
    if EXPERIMENT not in captures.experiments or run not in captures.experiments[EXPERIMENT].runs:
        raise LabError(f"the capture set {captures.name!r} has no run {run} of {EXPERIMENT}")
    report: NcuReport = open_report(captures.path_of(EXPERIMENT, run, ".ncu-rep"))
    record = captures.record(EXPERIMENT, run)
    gathers = record["variant"] == "gather"
    count = (record["parameters"]["mebibytes"] << 20) // 4
    if gathers:
        count = 1 << (count.bit_length() - 1)
    order = np.random.default_rng(7).permutation(len(report.list))
    chosen = [report.list[place] for place in order]
    table = table_of([_counts(one, (8 if gathers else 4) * count, 4 * count) for one in chosen])
    return table, [one.function for one in chosen]


def _exam(captures: CaptureSet) -> list[Case]:
    return [
        case
        for run in ("exam_copies", "exam_gathers")
        for case in cases_of(
            f"launches you have not seen ({EXPERIMENT}, {run})", unnamed(captures, run)[0], exam=True
        )
    ]


def _notes(captures: CaptureSet) -> list[str]:
    """What the launches were called."""
    found = []
    for run in ("exam_copies", "exam_gathers"):
        table, names = unnamed(captures, run)
        found += [f"{run}: {names[launch]} is {pattern}" for launch, pattern in patterns(table).items()]
    return found


PATTERNS = Task(_generated, _exam, _notes)
