"""Launches for compute-ex06: a report or a generator in, the table that the exercise hands out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from labcode.analysis.kernel.stalls import stalls
from labcode.errors import LabError
from labcode.reports.ncu.report import Launch, NcuReport, open_report
from labcode.store import CaptureSet

Rng = np.random.Generator
Row = dict[str, Any]
STALLS = (
    *("wait", "long_scoreboard", "short_scoreboard", "mio_throttle", "lg_throttle"),
    *("math_pipe_throttle", "barrier", "other"),
)
STATES = (*STALLS, "not_selected", "selected")
LANES = 32

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


def open_run(captures: CaptureSet, run: str) -> NcuReport:
    """The report of a run of ncu_compute; `LabError` in the grader's words when the set has none."""
    known = captures.experiments.get("ncu_compute")
    if known is None or run not in known.runs:
        raise LabError(f"the capture set {captures.name!r} has no run {run} of ncu_compute")
    return open_report(captures.path_of("ncu_compute", run, ".ncu-rep"))


def launch_table(report: NcuReport) -> pd.DataFrame:
    """A row for each launch, the last first, named K1, K2, …: nothing says which kernel it was."""
    states = stalls(report)
    states["key"] = states["state"].str.lower().str.replace(" ", "_")
    rows = []
    for number, one in enumerate(reversed(report.list), start=1):
        mine = states[states["launch"] == one.id].set_index("key")["cycles"].to_dict()
        known = {state: float(mine.pop(state, 0.0)) for state in STATES if state != "other"}
        row = {**_counters(one), **known, "other": float(sum(mine.values()))}
        rows.append({"kernel": f"K{number}", "duration_ns": int(one.number("duration_ns")), **row})
    return pd.DataFrame(rows)


def _counters(one: Launch) -> Row:
    row: Row = {name: one.metric(metric) for name, metric in _COUNTERS.items()}
    row["thread_instructions"] = one.metric(_THREADS) * row["instructions"]
    return row


def healthy(rng: Rng, **changed: float) -> Row:
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


def idle_lanes(rng: Rng) -> Row:
    """Most lanes are off, and the schedulers are busy with it."""
    row = healthy(rng, issued=float(rng.uniform(0.85, 0.98)), not_selected=float(rng.uniform(5, 12)))
    return {**row, "thread_instructions": int(row["instructions"] * rng.uniform(1, 16))}


def conflicts(rng: Rng) -> Row:
    """Shared loads that take several turns each."""
    row = healthy(rng, mio_throttle=float(rng.uniform(20, 90)))
    loads = int(row["instructions"] * rng.uniform(0.2, 0.4))
    return {**row, "shared_loads": loads, "shared_wavefronts": int(loads * rng.uniform(2, 32))}


def spilling(rng: Rng) -> Row:
    """A third of the instructions or more access local memory."""
    row = healthy(rng, lg_throttle=float(rng.uniform(5, 40)))
    share = float(rng.uniform(0.24, 0.35))
    loads, stores = (int(row["instructions"] * share * part) for part in (1.0, rng.uniform(0.8, 1.0)))
    return {**row, "local_loads": loads, "local_stores": stores}


def contended(rng: Rng) -> Row:
    """Atomics that one slice of the L2 has to do; a few lanes are off, too."""
    row = healthy(rng, lg_throttle=float(rng.uniform(100, 900)), issued=float(rng.uniform(0.001, 0.02)))
    row |= {"l2_atomics": int(row["instructions"] * rng.uniform(0.02, 6)), "slices_mean_pct": 1.5}
    row["slices_busiest_pct"] = float(rng.uniform(40, 90))
    return {**row, "thread_instructions": int(row["instructions"] * rng.uniform(22, 25))}


def uneven(rng: Rng) -> Row:
    """Uneven slices, with hardly an atomic: not contention."""
    row = healthy(rng)
    row |= {"slices_mean_pct": 10.0, "slices_busiest_pct": float(rng.uniform(30, 60))}
    return {**row, "l2_atomics": int(row["instructions"] / rng.integers(500, 5000))}


def chained(rng: Rng) -> Row:
    """Warps wait for the results of their own instructions."""
    issued = float(rng.uniform(0.2, 0.5))
    return healthy(rng, wait=float(rng.uniform(2, 4)), long_scoreboard=0.05, issued=issued)


def throttled(rng: Rng) -> Row:
    """A pipe that takes an instruction every other cycle: warps are ready all at once, or none."""
    waits, issued = float(rng.uniform(9, 12)), float(rng.uniform(0.4, 0.55))
    row = healthy(rng, issued=issued, math_pipe_throttle=waits, long_scoreboard=0.1)
    return {**row, "not_selected": waits + float(rng.uniform(0.1, 1))}


def busy(rng: Rng) -> Row:
    """Schedulers that issue nearly always, with nothing wasted."""
    issued, ready = float(rng.uniform(0.82, 0.99)), float(rng.uniform(5, 12))
    return healthy(rng, issued=issued, not_selected=ready, long_scoreboard=float(rng.uniform(0.1, 0.9)))


def slight(rng: Rng) -> Row:
    """Some waste of each kind, none of it enough."""
    row = conflicts(rng)
    row["shared_wavefronts"] = int(row["shared_loads"] * rng.uniform(1.05, 1.2))
    local = int(row["instructions"] * rng.uniform(0.02, 0.08))
    lanes = int(row["instructions"] * rng.uniform(27, 30))
    return {**row, "local_loads": local, "local_stores": local, "thread_instructions": lanes}
