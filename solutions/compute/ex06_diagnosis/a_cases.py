"""Hidden cases of part a (diagnosis of kernels): a generator or unseen reports in, cases out."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from labcode.analysis.kernel.stalls import stalls
from labcode.grading.cases import Case
from labcode.reports.ncu.report import NcuReport
from labcode.store import CaptureSet
from solutions.compute._shared import open_ncu

Rng = np.random.Generator
Row = dict[str, Any]
EXPERIMENT, RUNS = "ncu_compute", ("exam_1", "exam_2", "exam_3", "exam_4")
STATES = (
    *("wait", "long_scoreboard", "short_scoreboard", "mio_throttle", "lg_throttle"),
    *("math_pipe_throttle", "barrier", "other", "not_selected", "selected"),
)
_COUNTERS = {
    "instructions": "smsp__inst_executed.sum",
    "shared_loads": "smsp__sass_inst_executed_op_shared_ld.sum",
    "shared_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "local_loads": "smsp__sass_inst_executed_op_local_ld.sum",
    "local_stores": "smsp__sass_inst_executed_op_local_st.sum",
    "l2_atomics": "lts__t_requests_srcunit_tex_op_red.sum",
    "slices_mean_pct": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "slices_busiest_pct": "lts__throughput.max.pct_of_peak_sustained_elapsed",
    "issued": "smsp__issue_active.avg.per_cycle_active",
}
_THREADS = "smsp__thread_inst_executed_per_inst_executed.ratio"


def launch_table(report: NcuReport) -> pd.DataFrame:
    """A row for each launch, the last first, named K1, K2, …: nothing says which kernel it was."""
    states = stalls(report)
    states["key"] = states["state"].str.lower().str.replace(" ", "_")
    rows = []
    for number, one in enumerate(reversed(report.list), start=1):
        mine = states[states["launch"] == one.id].set_index("key")["cycles"].to_dict()
        known = {state: float(mine.pop(state, 0.0)) for state in STATES if state != "other"}
        counted = {name: one.metric(metric) for name, metric in _COUNTERS.items()}
        counted["thread_instructions"] = one.metric(_THREADS) * counted["instructions"]
        row = {**counted, **known, "other": float(sum(mine.values()))}
        rows.append({"kernel": f"K{number}", "duration_ns": int(one.number("duration_ns")), **row})
    return pd.DataFrame(rows)


def _healthy(rng: Rng, **changed: float) -> Row:
    """A launch without waste whose warps mostly wait for memory, with what is given changed."""
    instructions = int(rng.integers(10**6, 10**8))
    mean = float(rng.uniform(20, 60))
    row: Row = {
        "duration_ns": int(rng.integers(50_000, 500_000)),
        "instructions": instructions,
        "thread_instructions": int(instructions * rng.uniform(31, 32)),
        "shared_loads": 0,
        "shared_wavefronts": 0,
        "local_loads": 0,
        "local_stores": 0,
        "l2_atomics": 0,
        "slices_mean_pct": mean,
        "slices_busiest_pct": mean * float(rng.uniform(1.02, 1.1)),
        "issued": float(rng.uniform(0.1, 0.6)),
        **{state: float(rng.uniform(0.05, 0.5)) for state in STATES},
        "selected": 1.0,
    }
    return {**row, "long_scoreboard": float(rng.uniform(5, 30)), **changed}


def _idle_lanes(rng: Rng) -> Row:
    """Most lanes are off, and the schedulers are busy with it."""
    row = _healthy(rng, issued=float(rng.uniform(0.85, 0.98)), not_selected=float(rng.uniform(5, 12)))
    return {**row, "thread_instructions": int(row["instructions"] * rng.uniform(1, 16))}


def _conflicts(rng: Rng) -> Row:
    """Shared loads that take several turns each."""
    row = _healthy(rng, mio_throttle=float(rng.uniform(20, 90)))
    loads = int(row["instructions"] * rng.uniform(0.2, 0.4))
    return {**row, "shared_loads": loads, "shared_wavefronts": int(loads * rng.uniform(2, 32))}


def _spilling(rng: Rng) -> Row:
    """A third of the instructions or more access local memory."""
    row = _healthy(rng, lg_throttle=float(rng.uniform(5, 40)))
    share = float(rng.uniform(0.24, 0.35))
    loads, stores = (int(row["instructions"] * share * part) for part in (1.0, rng.uniform(0.8, 1.0)))
    return {**row, "local_loads": loads, "local_stores": stores}


def _contended(rng: Rng) -> Row:
    """Atomics that one slice of the L2 has to do; a few lanes are off, too."""
    row = _healthy(rng, lg_throttle=float(rng.uniform(100, 900)), issued=float(rng.uniform(0.001, 0.02)))
    row |= {"l2_atomics": int(row["instructions"] * rng.uniform(0.02, 6)), "slices_mean_pct": 1.5}
    row["slices_busiest_pct"] = float(rng.uniform(40, 90))
    return {**row, "thread_instructions": int(row["instructions"] * rng.uniform(22, 25))}


def _uneven(rng: Rng) -> Row:
    """Uneven slices, with hardly an atomic: not contention."""
    row = _healthy(rng)
    row |= {"slices_mean_pct": 10.0, "slices_busiest_pct": float(rng.uniform(30, 60))}
    return {**row, "l2_atomics": int(row["instructions"] / rng.integers(500, 5000))}


def _chained(rng: Rng) -> Row:
    """Warps wait for the results of their own instructions."""
    issued = float(rng.uniform(0.2, 0.5))
    return _healthy(rng, wait=float(rng.uniform(2, 4)), long_scoreboard=0.05, issued=issued)


def _throttled(rng: Rng) -> Row:
    """A pipe that takes an instruction every other cycle: warps are ready all at once, or none."""
    waits, issued = float(rng.uniform(9, 12)), float(rng.uniform(0.4, 0.55))
    row = _healthy(rng, issued=issued, math_pipe_throttle=waits, long_scoreboard=0.1)
    return {**row, "not_selected": waits + float(rng.uniform(0.1, 1))}


def _busy(rng: Rng) -> Row:
    """Schedulers that issue nearly always, with nothing wasted."""
    issued, ready = float(rng.uniform(0.82, 0.99)), float(rng.uniform(5, 12))
    return _healthy(rng, issued=issued, not_selected=ready, long_scoreboard=float(rng.uniform(0.1, 0.9)))


def _slight(rng: Rng) -> Row:
    """Some waste of each kind, none of it enough."""
    row = _conflicts(rng)
    row["shared_wavefronts"] = int(row["shared_loads"] * rng.uniform(1.05, 1.2))
    local = int(row["instructions"] * rng.uniform(0.02, 0.08))
    lanes = int(row["instructions"] * rng.uniform(27, 30))
    return {**row, "local_loads": local, "local_stores": local, "thread_instructions": lanes}


def _at(rng: Rng, **changed: float) -> Row:
    """A launch of a round number of instructions, with what is given changed; counts in percent of them."""
    row = _healthy(rng)
    unit = 1000 * int(rng.integers(100, 1000))
    counts = {
        name: round(value * unit) for name, value in changed.items() if name in ("local_loads", "l2_atomics")
    }
    return {**row, "instructions": 100 * unit, "thread_instructions": 3200 * unit, **changed, **counts}


_SCENES = {
    "nothing wasted, waits for memory": _healthy,
    "lanes that are off": _idle_lanes,
    "loads that take several turns": _conflicts,
    "values in local memory": _spilling,
    "additions to one address": _contended,
    "uneven slices without atomics": _uneven,
    "warps that wait for themselves": _chained,
    "a pipe that is full": _throttled,
    "busy schedulers": _busy,
    "a little of every waste": _slight,
}


def _limits(rng: Rng) -> dict[str, Row]:
    """Launches exactly at a limit, and near it."""
    uneven = {"slices_mean_pct": 10.0, "slices_busiest_pct": 40.0}
    return {
        "an atomic for each 100 instructions": _at(rng, l2_atomics=1, **uneven),
        "hardly fewer atomics": _at(rng, l2_atomics=0.995, **uneven),
        "a fifth of it waste": _at(rng, local_loads=20),
        "hardly less waste": _at(rng, local_loads=19),
        "issued in 0.8 of the cycles": _at(rng, issued=0.8),
        "hardly less issued": _at(rng, issued=0.79),
    }


def _named(rows: Sequence[Row]) -> pd.DataFrame:
    return pd.DataFrame([{"kernel": f"K{number}", **row} for number, row in enumerate(rows, start=1)])


def _time_decides(rng: Rng, full_ns: int, bounded_ns: int) -> pd.DataFrame:
    """Busy schedulers, a short launch of much waste, a stall that few free cycles bound, a chain."""
    full, short, bounded, chain = (make(rng) for make in (_busy, _conflicts, _healthy, _chained))
    short |= {"duration_ns": 20_000, "shared_wavefronts": short["shared_loads"] * 200}
    bounded |= {"duration_ns": bounded_ns, "issued": 0.75, "long_scoreboard": 80.0}
    chain |= {"duration_ns": 900_000, "issued": 0.45}
    return _named([{**full, "duration_ns": full_ns}, short, bounded, chain])


def _busy_with_waste(rng: Rng) -> pd.DataFrame:
    """Lanes that are off keep a scheduler busy, and most of that time could go; a chain."""
    idle, chain = _idle_lanes(rng), _chained(rng)
    idle |= {"duration_ns": 1_000_000, "issued": 0.95, "thread_instructions": 4 * idle["instructions"]}
    return _named([{**chain, "duration_ns": 400_000}, idle])


def _free_cycles(rng: Rng) -> pd.DataFrame:
    """A launch that issues hardly anything, of which its largest stall is no large share; a bounded one."""
    small = _healthy(rng, duration_ns=500_000, issued=0.1, long_scoreboard=1.5)
    return _named([small, _healthy(rng, duration_ns=700_000, issued=0.5, long_scoreboard=80.0)])


def _evidence_case(name: str, row: Row) -> Case:
    shown = [
        f"{key} {value:.6g}" if key != "kernel" else str(value)
        for key, value in row.items()
        if key not in STATES
    ]
    return Case(name, ", ".join(shown), "evidence", (row,))


def _table_cases(name: str, table: pd.DataFrame, *functions: str) -> list[Case]:
    return [Case(name, f"{len(table)} launches", function, (table,)) for function in functions]


def cases(rng: Rng) -> list[Case]:
    """One launch at a time, then several."""
    alone = {name: {"kernel": "K1", **make(rng)} for name, make in _SCENES.items()}
    limits = _limits(rng)
    made = [_evidence_case(name, row) for name, row in alone.items()]
    made += [_evidence_case(name, {"kernel": "K1", **limits[name]}) for name in list(limits)[:2]]
    for name, row in alone.items():
        made += _table_cases(name, pd.DataFrame([row]), "diagnosis")
    made += _table_cases("at the limits", _named(list(limits.values())), "diagnosis")
    makers = list(_SCENES.values())
    mixed = _named([makers[i](rng) for i in rng.permutation(len(makers)).tolist()])
    for name, table in {
        "all of them": mixed,
        "time decides": _time_decides(rng, 2_000_000, 1_050_000),
        "the busy one is not the longest": _time_decides(rng, 1_500_000, 2_000_000),
        "busy with waste": _busy_with_waste(rng),
        "free cycles, and hardly a stall to fill them": _free_cycles(rng),
    }.items():
        made += _table_cases(name, table, "diagnosis", "first")
    return made


def exam(captures: CaptureSet) -> list[Case]:
    """The same questions to four reports."""
    made = []
    for number, run in enumerate(RUNS, start=1):
        name, table = f"unseen report {number}", launch_table(open_ncu(captures, EXPERIMENT, run))
        rows = [{str(key): value for key, value in row.items()} for row in table.to_dict("records")]
        made += [_evidence_case(name, row) for row in rows]
        made += _table_cases(name, table, "diagnosis", "first")
    return made


def notes(captures: CaptureSet, answered: Sequence[tuple[Case, Any]]) -> list[str]:
    """What the kernels of the reports were called."""
    lines = []
    found = [right for case, right in answered if case.function == "diagnosis"]
    for number, (run, causes) in enumerate(zip(RUNS, found, strict=True), start=1):
        kernels = [one.function for one in reversed(open_ncu(captures, EXPERIMENT, run).list)]
        told = (
            f"{kernel}: {cause} ({share:.0%})"
            for kernel, (cause, share) in zip(kernels, causes.values(), strict=True)
        )
        lines.append(f"report {number}: " + "; ".join(told))
    return lines
