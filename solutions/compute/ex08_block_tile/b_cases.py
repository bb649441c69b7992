"""Hidden cases of part b (the next rung): a generator or an unseen report in, tables of launches out."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from labcode.grading.cases import Case
from labcode.store import CaptureSet
from solutions.compute._shared import open_ncu

Rng = np.random.Generator
Row = dict[str, Any]
EXPERIMENT, RUN = "ncu_gemm", "exam_fp32"
WAITS = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"


def launch_table(captures: CaptureSet) -> pd.DataFrame:
    """A row for each launch of the unseen report, the last first, named K1, K2, …."""
    size = captures.record(EXPERIMENT, RUN)["parameters"]
    report = open_ncu(captures, EXPERIMENT, RUN)
    return pd.DataFrame(
        {
            "kernel": f"K{number}",
            "duration_ns": int(one.number("duration_ns")),
            "multiply_adds": size["m"] * size["n"] * size["k"] // 32,
            "shared_loads": int(one.metric("smsp__sass_inst_executed_op_shared_ld.sum")),
            "shared_turns": int(one.metric("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum")),
            "wait_memory": one.metric(WAITS.format("long_scoreboard")),
            "wait_barrier": one.metric(WAITS.format("barrier")),
        }
        for number, one in enumerate(reversed(report.list), start=1)
    )


def _launch(rng: Rng, products: float, turns: float, memory: float, barrier: float) -> Row:
    loads = 64 * int(rng.integers(1000, 100_000))
    return {
        "duration_ns": int(rng.integers(100_000, 10_000_000)),
        "multiply_adds": int(products * loads),
        "shared_loads": loads,
        "shared_turns": int(turns * loads),
        "wait_memory": memory,
        "wait_barrier": barrier,
    }


def _scenes(rng: Rng) -> dict[str, Row]:
    return {
        "straight from memory": {**_launch(rng, 1, 1, 12.0, 0.0), "shared_loads": 0, "shared_turns": 0},
        "a load for each multiply-add": _launch(rng, 1, 1.25, 3.5, 3.5),
        "a strip of sums": _launch(rng, 2.5, 1.75, 3.5, 1.25),
        "banks that are asked in turn": _launch(rng, 16, 5, 1.25, 0.5),
        "words, and waiting": _launch(rng, 16, 3, 1.75, 0.75),
        "waiting for both, a little": _launch(rng, 16, 3, 0.75, 0.75),
        "waiting at barriers only": _launch(rng, 16, 3, 0.125, 1.5),
        "two buffers": _launch(rng, 16, 3, 0.125, 0.5),
        "hardly any waiting": _launch(rng, 21, 3.5, 0.0625, 0.03125),
        "exactly four multiply-adds": _launch(rng, 4, 2, 0.125, 0.25),
        "five multiply-adds, nearly four turns": _launch(rng, 5, 3.75, 0.125, 0.25),
        "a little fewer than four": _launch(rng, 3.75, 5, 2.0, 0.25),
        "exactly four turns": _launch(rng, 16, 4, 0.125, 0.25),
        "a little more than four turns": _launch(rng, 16, 4.25, 2.0, 0.25),
        "one cycle from both together": _launch(rng, 16, 3, 0.5, 0.5),
        "a little less than one cycle": _launch(rng, 16, 3, 0.5, 0.46875),
        "less than one multiply-add a load": _launch(rng, 0.5, 1, 0.0, 0.0),
    }


def _climb(name: str, rows: Sequence[Row]) -> Case:
    table = pd.DataFrame(rows)
    return Case(name, f"{len(table)} launches", "climb", (table,), table=table)


def _alone(name: str, row: Row) -> list[Case]:
    summary = ", ".join(f"{key} {value}" for key, value in row.items())
    return [Case(name, summary, function, (row,)) for function in ("uses", "next_step")]


def cases(rng: Rng) -> list[Case]:
    """One launch at a time, then all of them in random order."""
    scenes = _scenes(rng)
    names = rng.permutation(len(scenes)) + 1
    rows = {name: {"kernel": f"K{n}", **row} for n, (name, row) in zip(names, scenes.items(), strict=True)}
    made = [case for name, row in rows.items() for case in _alone(name, row)]
    for _ in range(2):
        made.append(_climb("all of them", [list(rows.values())[i] for i in rng.permutation(len(rows))]))
    short = {"kernel": "K1", **scenes["a strip of sums"], "duration_ns": 1000}
    long = {"kernel": "K2", **scenes["two buffers"], "duration_ns": 9000}
    longer = {"kernel": "K3", **scenes["a strip of sums"], "duration_ns": 9001}
    return [
        *made,
        _climb("a low rung on a short day", [long, short]),
        _climb("two on a rung", [short, longer]),
    ]


def exam(captures: CaptureSet) -> list[Case]:
    """The same questions to a report."""
    table = launch_table(captures)
    rows = [{str(key): value for key, value in row.items()} for row in table.to_dict("records")]
    made = [case for row in rows for case in _alone("an unseen report", row)]
    return [*made, _climb("an unseen report", rows)]
