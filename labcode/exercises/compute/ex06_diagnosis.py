"""Hidden cases of compute-ex06 (diagnosis of kernels): a generator or unseen reports in, cases out."""

from __future__ import annotations

import numpy as np
import pandas as pd

from labcode.exercises.cases import Case, Mistake, Task
from labcode.exercises.compute import ex06_launches as launches
from labcode.exercises.compute.ex06_launches import LANES, STALLS, STATES, Row
from labcode.store import CaptureSet

ENOUGH, BUSY = 0.2, 0.8
EXAMS = ("exam_1", "exam_2", "exam_3", "exam_4")
Found = dict[str, tuple[str, float]]


def evidence(
    row: Row,
    *,
    lanes: int = LANES,
    on: bool = False,
    ratio: bool = False,
    loads_only: bool = False,
    anywhere: bool = False,
    mean: bool = False,
) -> dict[str, float]:
    """The shares of waste; the flags are mistakes."""
    turns, wanted = row["shared_wavefronts"], row["shared_loads"]
    used = row["thread_instructions"] / (lanes * row["instructions"])
    conflicts = (turns / wanted if ratio else 1 - wanted / turns) if turns else 0.0
    local = row["local_loads"] + (0 if loads_only else row["local_stores"])
    adds = anywhere or row["l2_atomics"] >= row["instructions"] / 100
    uneven = 1 - (row["slices_mean_pct"] / row["slices_busiest_pct"] if row["slices_busiest_pct"] else 1.0)
    return {
        "idle lanes": used if on else 1 - used,
        "bank conflicts": conflicts,
        "spills": local / row["instructions"],
        "contention": (row["slices_busiest_pct"] / 100 if mean else uneven) if adds else 0.0,
    }


def diagnosis(
    table: pd.DataFrame,
    *,
    issue_first: bool = False,
    stalls_only: bool = False,
    working: bool = False,
    of_stalls: bool = False,
    any_waste: bool = False,
    anywhere: bool = False,
) -> Found:
    """Cause and proof of each launch; the flags are mistakes."""
    found: Found = {}
    for row in _rows(table):
        waste = evidence(row, anywhere=anywhere)
        worst = max(waste, key=lambda cause: waste[cause])
        enough = waste[worst] >= (1e-9 if any_waste else ENOUGH) and not stalls_only
        full = row["issued"] >= BUSY and not stalls_only
        named = STATES if working else STALLS
        stall = max(named, key=lambda state: row[state])
        whole = sum(row[state] for state in (STALLS if of_stalls else STATES))
        if enough and not (full and issue_first):
            found[row["kernel"]] = worst, waste[worst]
        elif full:
            found[row["kernel"]] = "issue", row["issued"]
        else:
            found[row["kernel"]] = stall, row[stall] / whole
    return found


def _rows(table: pd.DataFrame) -> list[Row]:
    return [{str(key): value for key, value in row.items()} for row in table.to_dict("records")]


def saved(table: pd.DataFrame, *, unbounded: bool = False, issue: bool = False) -> dict[str, float]:
    """The time that each launch could save; the flags are mistakes."""
    causes, times = diagnosis(table), {}
    for row in _rows(table):
        cause, share = causes[row["kernel"]]
        if cause == "issue":
            share = share if issue else 0.0
        elif cause in STALLS and not unbounded:
            share = min(share, 1 - row["issued"])
        times[row["kernel"]] = share * row["duration_ns"]
    return times


def _most(values: dict[str, float]) -> str:
    return max(values, key=lambda kernel: values[kernel])


def _evidence_case(name: str, row: Row, *, exam: bool = False) -> Case:
    wrong = (
        ("a warp has 32 lanes: divide by 32 * instructions", evidence(row, lanes=1)),
        ("these are the lanes that were on; those that were off are asked for", evidence(row, on=True)),
        ("this is turns over loads; the share of the turns beyond one a load is asked for",
         evidence(row, ratio=True)),
        ("spills are stored as well as loaded", evidence(row, loads_only=True)),
        ("without atomics (one for each 100 instructions) uneven slices are no contention",
         evidence(row, anywhere=True)),
        ("how busy the busiest slice is says nothing without the mean: 1 - mean / busiest",
         evidence(row, mean=True)),
    )  # fmt: skip
    shown = {key: row[key] for key in row if key not in STATES}
    return Case(
        name=name,
        summary=", ".join(
            f"{key} {value:.6g}" if key != "kernel" else str(value) for key, value in shown.items()
        ),
        function="evidence",
        arguments=(row,),
        expected=evidence(row),
        mistakes=tuple(Mistake(says, gives) for says, gives in wrong),
        exam=exam,
    )


def _table_cases(name: str, table: pd.DataFrame, *, exam: bool = False) -> list[Case]:
    causes = (
        ("look for waste before you look at the schedulers: useless instructions keep them busy, too",
         diagnosis(table, issue_first=True)),
        ("only the states are looked at: waste comes first, then the schedulers",
         diagnosis(table, stalls_only=True)),
        ("'selected' and 'not_selected' are no stalls", diagnosis(table, working=True)),
        ("this is a share of the stalls; the share of all states is asked for",
         diagnosis(table, of_stalls=True)),
        ("a waste below ENOUGH is no cause", diagnosis(table, any_waste=True)),
        ("uneven slices without atomics are no contention", diagnosis(table, anywhere=True)),
    )  # fmt: skip
    times = dict(zip(table["kernel"], table["duration_ns"], strict=True))
    shares = {kernel: share for kernel, (_, share) in diagnosis(table).items()}
    firsts = (
        ("this is the longest kernel; the time that could be saved is asked for", _most(times)),
        ("this is the largest share; a share of a short kernel is little time", _most(shares)),
        ("a stall cannot save more than the cycles without an issue: min(share, 1 - issued)",
         _most(saved(table, unbounded=True))),
        ("a scheduler that issues nearly always has nothing to save", _most(saved(table, issue=True))),
    )  # fmt: skip
    summary = f"{len(table)} launches"
    right, kernel = diagnosis(table), _most(saved(table))
    return [
        Case(name, summary, "diagnosis", (table,), right, tuple(Mistake(*m) for m in causes), exam=exam),
        Case(name, summary, "first", (table,), kernel, tuple(Mistake(*m) for m in firsts), exam=exam),
    ]


_SCENES = {
    "nothing wasted, waits for memory": launches.healthy,
    "lanes that are off": launches.idle_lanes,
    "loads that take several turns": launches.conflicts,
    "values in local memory": launches.spilling,
    "additions to one address": launches.contended,
    "uneven slices without atomics": launches.uneven,
    "warps that wait for themselves": launches.chained,
    "a pipe that is full": launches.throttled,
    "busy schedulers": launches.busy,
    "a little of every waste": launches.slight,
}


def _named(rows: list[Row]) -> pd.DataFrame:
    return pd.DataFrame([{"kernel": f"K{number}", **row} for number, row in enumerate(rows, start=1)])


def _time_decides(rng: np.random.Generator, full_ns: int, bounded_ns: int) -> pd.DataFrame:
    """Busy schedulers, a short launch of much waste, a stall that few free cycles bound, a chain."""
    full, short, bounded, chain = (
        make(rng) for make in (launches.busy, launches.conflicts, launches.healthy, launches.chained)
    )
    short |= {"duration_ns": 20_000, "shared_wavefronts": short["shared_loads"] * 200}
    bounded |= {"duration_ns": bounded_ns, "issued": 0.75, "long_scoreboard": 80.0}
    chain |= {"duration_ns": 900_000, "issued": 0.45}
    return _named([{**full, "duration_ns": full_ns}, short, bounded, chain])


def _generated(rng: np.random.Generator) -> list[Case]:
    alone = {name: {"kernel": "K1", **make(rng)} for name, make in _SCENES.items()}
    cases = [_evidence_case(name, row) for name, row in alone.items()]
    for name, row in alone.items():
        cases += _table_cases(name, pd.DataFrame([row]))[:1]
    order = rng.permutation(len(_SCENES)).tolist()
    makers = list(_SCENES.values())
    cases += _table_cases("all of them", _named([makers[i](rng) for i in order]))
    cases += _table_cases("time decides", _time_decides(rng, 2_000_000, 1_050_000))
    cases += _table_cases("the busy one is not the longest", _time_decides(rng, 1_500_000, 2_000_000))
    return cases


def _exam(captures: CaptureSet) -> list[Case]:
    cases = []
    for number, run in enumerate(EXAMS, start=1):
        table = launches.launch_table(launches.open_run(captures, run))
        cases += [_evidence_case(f"unseen report {number}", row, exam=True) for row in _rows(table)]
        cases += _table_cases(f"unseen report {number}", table, exam=True)
    return cases


def _notes(captures: CaptureSet) -> list[str]:
    lines = []
    for number, run in enumerate(EXAMS, start=1):
        report = launches.open_run(captures, run)
        found = diagnosis(launches.launch_table(report))
        kernels = [one.function for one in reversed(report.list)]
        told = (
            f"{kernel}: {cause} ({share:.0%})"
            for kernel, (cause, share) in zip(kernels, found.values(), strict=True)
        )
        lines.append(f"report {number}: " + "; ".join(told))
    return lines


DIAGNOSIS = Task(generated=_generated, exam=_exam, notes=_notes)
