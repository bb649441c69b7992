"""Hidden cases of part a (which roof binds): a generator or captures in, tables of metrics out.

A launch is made as the values of its metrics by name.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from labcode.grading.cases import Case, brief
from labcode.reports.ncu.names import METRICS
from labcode.store import CaptureSet
from solutions.compute._shared import open_ncu

Rng = np.random.Generator
Values = dict[str, float]
EXPERIMENT, RUN = "ncu_roofline", "exam_points"
SM_CLOCK = "smsp__cycles_elapsed.avg.per_second"
_ORDER = ("roofs", "points", "bounds", "verdicts")
_PEAKS = {"L1": 16896.0, "L2": 6016.0, "DRAM": 1504.0, "fp64": 16896.0, "fp32": 33792.0, "fp16": 67584.0}
_COLUMNS = {
    "launch": "int64",
    "name": "str",
    "label": "str",
    "unit": "str",
    "value": "float64",
    "text": "str",
}


def _names(*meanings: str) -> tuple[str, ...]:
    return tuple(METRICS[meaning].names[0] for meaning in meanings)


LEVELS = {  # bytes a second, the most bytes in a cycle, the clock
    level: _names(f"{key}_bytes_per_s", f"{key}_peak_bytes_per_cycle", f"{key}_clock_hz")
    for level, key in (("L1", "l1"), ("L2", "l2"), ("DRAM", "dram"))
}
PRECISIONS = {  # additions, multiplications and multiply-adds in a cycle, the most operations in a cycle
    precision: _names(
        *(f"{letter}add_{single}", f"{letter}mul_{single}"),
        *(f"{letter}fma_flops_per_cycle", f"{letter}fma_peak_per_cycle"),
    )
    for precision, letter, single in (
        ("fp64", "d", "per_cycle"),
        ("fp32", "f", "per_cycle"),
        ("fp16", "h", "flops_per_cycle"),
    )
}


def table_of(launches: Sequence[Values]) -> pd.DataFrame:
    """Launches as `NcuReport.metrics` gives a report, with some metrics that nobody needs here; 0 for what is
    not given.
    """
    rows = []
    known = [name for names in (*LEVELS.values(), *PRECISIONS.values()) for name in names]
    for launch, given in enumerate(launches):
        values = {
            "gpc__cycles_elapsed.avg.per_second": given[SM_CLOCK] * 1.01,
            "sm__throughput.avg.pct_of_peak_sustained_elapsed": 42.0,
            "gpu__time_duration.sum": 1e5,
            **dict.fromkeys(known, 0.0),
            **given,
        }
        values["dram__bytes.sum"] = values[LEVELS["DRAM"][0]] * 1e-4
        rows += [(launch, name, "", "", float(value), str(value)) for name, value in values.items()]
    return pd.DataFrame(rows, columns=list(_COLUMNS)).astype(_COLUMNS)


def _launch(
    rng: Rng,
    precision: str,
    used: Mapping[str, float],
    other: Mapping[str, float] | None = None,
    spread: float = 0.5,
) -> Values:
    """A launch that uses these shares of its roofs, and of the peaks of other precisions.

    ``spread`` is how far its chip is from a known one.
    """
    sm, l2, dram = (float(rng.uniform(*ends)) for ends in ((1.5e9, 1.98e9), (1.3e9, 1.7e9), (2.4e9, 3.3e9)))
    chip = {name: round(peak * float(rng.uniform(1 - spread, 1 + spread))) for name, peak in _PEAKS.items()}
    values = {SM_CLOCK: sm}
    for (level, names), clock in zip(LEVELS.items(), (sm, l2, dram), strict=True):
        moved = used.get(level, 0.0) * chip[level] * clock
        values |= dict(zip(names, (moved, chip[level], clock), strict=True))
    part = float(rng.uniform(0.1, 0.3))
    shares = {precision: used.get("peak", 0.0), **(other or {})}
    for name, names in PRECISIONS.items():
        done = shares.get(name, 0.0) * chip[name]
        parts = 0.75 * part * done, 0.25 * part * done, (1 - part) * done, chip[name]
        values |= dict(zip(names, parts, strict=True))
    return values


def _at(rng: Rng, roof: str) -> Values:
    """A launch that uses exactly 0.6 of a roof, in whole numbers, so that rounding decides nothing."""
    clock, peak = 1_000_000 * int(rng.integers(800, 950)), 400 * int(rng.integers(2, 6))
    values = _launch(rng, "fp32", {"L1": 0.1, "L2": 0.2, "DRAM": 0.2, "peak": 0.2})
    moved, most, own = LEVELS["DRAM"]
    add, mul, fma, fp32 = PRECISIONS["fp32"]
    values |= {SM_CLOCK: 2 * clock, own: 3 * clock, most: peak, moved: 3 * clock * peak * 3 / 5}
    # half an operation for each byte
    operations = 9 * peak // 20
    values |= {add: operations // 4, mul: operations // 4, fma: operations - 2 * (operations // 4)}
    values[fp32] = 20 * operations if roof == "DRAM" else operations // 3 * 5
    if roof == "peak":
        values[moved] /= 4
    return values


def _scenes(rng: Rng) -> dict[str, list[Values]]:
    def some(low: float, high: float) -> float:
        return float(rng.uniform(low, high))

    def one(
        precision: str, binding: str, other: Mapping[str, float] | None = None, share: float = 0.0
    ) -> Values:
        used = {name: some(0.1, 0.5) for name in (*LEVELS, "peak")}
        used[binding] = share or some(0.7, 0.95)
        return _launch(rng, precision, used, other)

    constants = {"fp16": some(0.001, 0.01)}
    copy = _launch(rng, "fp32", {"DRAM": some(0.8, 0.95), "L2": some(0.1, 0.3), "L1": some(0.05, 0.1)})
    moves = _launch(
        rng, "fp32", {"DRAM": some(0.2, 0.4), "L2": some(0.7, 0.9), "L1": some(0.3, 0.6)}, constants
    )
    idle = _launch(
        rng, "fp32", {"DRAM": some(0.05, 0.3), "L2": some(0.02, 0.1), "L1": 0.01, "peak": some(0.3, 0.55)}
    )
    cached = _launch(rng, "fp32", {"L1": some(0.3, 0.5), "peak": some(0.8, 0.95)})
    beside = {"peak": some(0.7, 0.95), "DRAM": some(0.1, 0.5)}, {"fp32": some(0.6, 0.65)}  # more FLOP/s
    mixed = _launch(rng, "fp64", *beside, spread=0.1)
    passing = _launch(rng, "fp32", {"DRAM": some(0.8, 0.95), "L2": some(0.1, 0.3)})
    return {
        "one launch, held by the DRAM": [one("fp32", "DRAM")],
        "one launch, held by the arithmetic": [one("fp32", "peak")],
        "held by the L2, with the DRAM half idle": [one("fp32", "L2"), one("fp32", "DRAM")],
        "held by the L1": [one("fp32", "L1"), one("fp16", "L1")],
        "nothing holds it": [idle, one("fp32", "DRAM", share=0.59), one("fp32", "peak", share=0.61)],
        "exactly 0.6 of a roof": [_at(rng, "DRAM"), _at(rng, "peak")],
        "doubles beside floats": [mixed, one("fp64", "DRAM")],
        "halves": [one("fp16", "peak"), one("fp16", "DRAM")],
        "constants loaded as halves": [one("fp32", "DRAM", constants), one("fp32", "peak", constants)],
        "a copy without operations": [copy, one("fp32", "DRAM")],
        "a copy without operations that does not pass the L1": [passing],
        "a copy whose only operations are constants": [moves],
        "no byte reaches the L2": [cached],
        "several launches, each at its own clocks": [
            *(one("fp32", level) for level in LEVELS),
            *(one(precision, "peak") for precision in PRECISIONS),
            idle,
        ],
    }


def _shown(answer: Any) -> str:
    return brief(answer, 400)


def _case(function: str, name: str, table: pd.DataFrame) -> Case:
    summary = f"metrics of {table['launch'].nunique()} launches"
    return Case(name, summary, function, (table,), show=_shown)


def cases(rng: Rng) -> list[Case]:
    """Each function in turn, on the same scenes."""
    tables = {name: table_of(launches) for name, launches in _scenes(rng).items()}
    return [_case(function, name, table) for function in _ORDER for name, table in tables.items()]


def exam(captures: CaptureSet) -> list[Case]:
    """The same questions to a report; `LabError` where it lacks one of the metrics."""
    report = open_ncu(captures, EXPERIMENT, RUN)
    needed = [name for names in (*LEVELS.values(), *PRECISIONS.values(), (SM_CLOCK,)) for name in names]
    metrics = table_of([{name: one.metric(name) for name in needed} for one in report.list])
    return [_case(function, "a capture you have not seen", metrics) for function in _ORDER]


def notes(captures: CaptureSet, answered: Sequence[tuple[Case, Any]]) -> list[str]:
    """What binds the launches of the exam, in their order."""
    verdicts = next(right for case, right in answered if case.function == "verdicts")
    return [f"{EXPERIMENT}, {RUN}: " + ", ".join(verdicts.values())]
