"""Hidden cases of part a (slow attentions): a generator or unseen reports in, tables of launches out."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from labcode.grading.cases import Case
from labcode.reports.ncu.report import NcuReport
from labcode.store import CaptureSet
from solutions.compute._shared import open_ncu

Rng = np.random.Generator
Row = dict[str, Any]
EXPERIMENT, RUNS = "ncu_attention", ("exam_slow", "exam_few")
LOCAL = "l1tex__t_requests_pipe_lsu_mem_local_op_{}.sum"


def launch_table(report: NcuReport) -> pd.DataFrame:
    """A row for each launch, the last first, named K1, K2, …: nothing says which kernel it was."""
    rows = []
    for number, one in enumerate(reversed(report.list), start=1):
        counted = {
            "duration_ns": int(one.number("duration_ns")),
            "blocks": one.grid[0] * one.grid[1],
            "sms": int(one.metric("device__attribute_multiprocessor_count")),
            "matrix_loads": int(one.metric("smsp__inst_executed_op_ldsm.sum")),
            "shared_turns": int(one.metric("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum")),
            "local_requests": int(sum(one.metric(LOCAL.format(op)) for op in ("ld", "st"))),
            "tensor_pct": one.metric("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"),
        }
        rows.append({"kernel": f"K{number}", **counted})
    return pd.DataFrame(rows)


def _healthy(rng: Rng, **changed: float) -> Row:
    loads = int(rng.integers(10**4, 10**7))
    row: Row = {
        "duration_ns": int(rng.integers(50_000, 500_000)),
        "blocks": int(rng.integers(200, 5000)),
        "sms": 132,
        "matrix_loads": loads,
        "shared_turns": 4 * loads,
        "local_requests": 0,
        "tensor_pct": float(rng.uniform(30, 75)),
    }
    return {**row, **changed}


def _scenes(rng: Rng) -> dict[str, Row]:
    plain = _healthy(rng)
    conflicts, spilled, both = _healthy(rng), _healthy(rng), _healthy(rng)
    conflicts["shared_turns"] *= int(rng.integers(2, 9))
    spilled["local_requests"] = 2 * spilled["matrix_loads"]
    both |= {"blocks": 40, "shared_turns": 5 * both["matrix_loads"]}
    second = _healthy(rng, blocks=90)
    second["shared_turns"] *= 4
    few, wgmma = _healthy(rng, blocks=20), _healthy(rng, matrix_loads=0, shared_turns=0)
    slight = _healthy(rng, blocks=131)
    slight |= {"shared_turns": int(4.4 * slight["matrix_loads"])}
    slight["local_requests"] = slight["matrix_loads"] // 10
    third = _healthy(rng, blocks=int(rng.integers(80, 95)))
    sixth = _healthy(rng, blocks=109)
    return {
        "nothing wasted": plain,
        "rows that share their banks": conflicts,
        "values in local memory": spilled,
        "hardly any blocks": few,
        "as many blocks as multiprocessors": _healthy(rng, blocks=132),
        "no matrix loads at all": wgmma,
        "a little of everything": slight,
        "two wastes, one larger": both,
        "two wastes, the second larger": second,
        "a sixth, which is not enough": sixth,
        "a third, beyond what is enough": third,
        "exactly a fifth": _healthy(rng, matrix_loads=4000, shared_turns=16000, local_requests=1000),
    }


def _cases(name: str, rows: Sequence[Row]) -> list[Case]:
    table = pd.DataFrame(rows)
    summary = f"{len(table)} launches"
    return [Case(name, summary, function, (table,), table=table) for function in ("diagnosis", "first")]


def _evidence(name: str, row: Row) -> Case:
    return Case(name, ", ".join(f"{key} {value}" for key, value in row.items()), "evidence", (row,))


def cases(rng: Rng) -> list[Case]:
    """One launch at a time, then all of them."""
    rows = {name: {"kernel": f"K{n}", **row} for n, (name, row) in enumerate(_scenes(rng).items(), start=1)}
    made = [_evidence(name, row) for name, row in rows.items()]
    for name, row in rows.items():
        made += _cases(name, [row])
    made += _cases("all of them", list(rows.values()))
    short = {"kernel": "K1", **_healthy(rng, duration_ns=1000, tensor_pct=5.0)}
    long = {"kernel": "K2", **_healthy(rng, duration_ns=90_000, tensor_pct=70.0)}
    longest = {"kernel": "K3", **_healthy(rng, duration_ns=95_000, tensor_pct=95.0)}
    made += _cases("the idlest is short", [short, long, longest])
    rest = {"kernel": "K4", **_healthy(rng, duration_ns=90_000, tensor_pct=90.0)}
    wait = {"kernel": "K5", **_healthy(rng, duration_ns=95_000, tensor_pct=20.0)}
    made += _cases("the longest is the idlest, not the busiest", [rest, wait])
    for name, busy in (("hardly less idle", 75.1), ("hardly more idle", 74.9)):
        one, other = ({**_healthy(rng), "duration_ns": 1000 * n} for n in (1, 2))
        pair = [{"kernel": "K1", **one, "tensor_pct": 50.0}, {"kernel": "K2", **other, "tensor_pct": busy}]
        made += _cases(name, pair)
    return made


def exam(captures: CaptureSet) -> list[Case]:
    """The same questions to two reports."""
    made = []
    for number, run in enumerate(RUNS, start=1):
        table = launch_table(open_ncu(captures, EXPERIMENT, run))
        rows = [{str(key): value for key, value in row.items()} for row in table.to_dict("records")]
        made += [_evidence(f"unseen report {number}", row) for row in rows]
        made += _cases(f"unseen report {number}", rows)
    return made
