"""Why warps wait: a launch in; its warp states ranked, with what each means and what to try, out.

Two sources count the same thing. The counters give, for each state, the warps that were in it while an
instruction was issued: cycles of a warp between two of its instructions, summing to the whole latency.
Samples look at one warp of an SM every some thousand cycles and also say at which instruction it was. A stall
costs nothing while other warps can issue; how often the scheduler found none is the share to read first.

The two agree on waits for memory. In short kernels of arithmetic the samples see fewer warps that are ready
than the counters do: read the counters there, and the samples for the place in the code.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from labcode.errors import InputError
from labcode.reports.ncu.names import STALL_ENDINGS, stall_names
from labcode.reports.ncu.report import Launch, NcuReport


@dataclass(frozen=True)
class State:
    """A state of a warp: what it waits for, and what to try."""

    title: str
    meaning: str
    remedy: str


def _states() -> dict[str, State]:
    with Path(__file__).with_name("stalls.csv").open(encoding="utf-8", newline="") as table:
        return {row.pop("state"): State(**row) for row in csv.DictReader(table)}


STATES: Mapping[str, State] = _states()
WORKING = ("selected", "not_selected")  # not stalls

COLUMNS = {
    "launch": "int64",
    **dict.fromkeys(("kernel", "state"), "str"),
    "stall": "bool",
    **dict.fromkeys(("cycles", "latency_cycles", "share"), "float64"),
    **dict.fromkeys(("samples", "all_samples"), "Int64"),
    "sample_share": "float64",
    **dict.fromkeys(("meaning", "remedy"), "str"),
}


def stalls(report: NcuReport) -> pd.DataFrame:
    """The states of every launch, the longest first, with the columns `COLUMNS`.

    ``share`` is ``cycles`` ÷ ``latency_cycles`` (cycles of a warp between two of its instructions);
    ``sample_share`` is ``samples`` ÷ ``all_samples``. Either is missing where its section was not
    collected; `InputError` names the section when both are.
    """
    rows = [row for one in report.list for row in _rows(one)]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(COLUMNS)


def _rows(one: Launch) -> list[tuple[object, ...]]:
    cycles = {state: _first(one, stall_names(state)[0]) for state in STALL_ENDINGS}
    counted = {state: _first(one, stall_names(state)[1]) for state in STALL_ENDINGS}
    if all(value is None for value in cycles.values()):
        if all(value is None for value in counted.values()):
            raise InputError(
                f"{one.path}: launch {one.id} ({one.function}) has no warp states; collect them with "
                "`ncu --section WarpStateStats --section SourceCounters` (or --set full)"
            )
        latency = float("nan")
    else:
        latency = sum(value for value in cycles.values() if value is not None)
    samples = sum(value for value in counted.values() if value is not None)
    have_samples = any(value is not None for value in counted.values())
    rows = []
    for state in STALL_ENDINGS:
        spent, seen = cycles[state], counted[state]
        if spent is None and seen is None:
            continue
        about = STATES[state]
        rows.append(
            (
                one.id,
                one.function,
                about.title,
                state not in WORKING,
                np.nan if spent is None else spent,
                latency,
                np.nan if spent is None or not latency else spent / latency,
                None if seen is None else int(seen),
                int(samples) if have_samples else None,
                np.nan if seen is None or not samples else seen / samples,
                about.meaning,
                about.remedy,
            )
        )
    return sorted(rows, key=lambda row: -_rank(row))


def _rank(row: tuple[object, ...]) -> float:
    share, sampled = float(row[6]), float(row[9])  # type: ignore[arg-type]
    return sampled if np.isnan(share) else share


def _first(one: Launch, names: tuple[str, ...]) -> float | None:
    for name in names:
        reading = one.readings.get(name)
        if reading is not None and isinstance(reading.value, int | float):
            return float(reading.value)
    return None


def main_stall(one: Launch) -> tuple[str, float]:
    """The state that takes most of the time between two instructions, and its share; '' where none stalls."""
    rows = [row for row in _rows(one) if row[3]]
    return (str(rows[0][2]), _rank(rows[0])) if rows else ("", 0.0)


HOT_COLUMNS = {
    "offset": "int64",
    "sass": "str",
    "file": "str",
    "line": "int64",
    "samples": "int64",
    "share": "float64",
    "state": "str",
    "state_samples": "int64",
}


def hot_instructions(report: NcuReport, launch: int, count: int = 10) -> pd.DataFrame:
    """The instructions with the most samples: offset, sass, file, line, samples, share of the launch's
    samples, and the state most of them were in. A warp waits at the instruction that needs the value, not
    at the one that loads it. `InputError` where there are no samples.
    """
    table = report.source(launch)
    if "samples" not in table or not table["samples"].sum():
        raise InputError(
            f"{report.path}: launch {launch} has no samples; collect them with `ncu --section SourceCounters`"
        )
    states = {
        column: state
        for state in STALL_ENDINGS
        for ending in STALL_ENDINGS[state][1]
        if (column := f"stall_{ending}") in table
    }
    top = table.nlargest(count, "samples")
    top = top[top["samples"] > 0]
    names = top[list(states)].idxmax(axis=1)
    found = top[["offset", "sass", "file", "line", "samples"]].assign(
        share=top["samples"] / table["samples"].sum(),
        state=[STATES[states[str(name)]].title for name in names],
        state_samples=top[list(states)].max(axis=1),
    )
    return found.reset_index(drop=True).astype(HOT_COLUMNS)
