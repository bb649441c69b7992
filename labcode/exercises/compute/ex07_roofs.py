"""Hidden cases of compute-ex07 (which roof binds): a generator or captures in, tables of metrics out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from labcode.errors import LabError
from labcode.exercises.cases import Case, Mistake, Task, brief
from labcode.reports.ncu.names import METRICS
from labcode.reports.ncu.report import NcuReport, open_report
from labcode.store import CaptureSet

Rng = np.random.Generator
EXAM = ("ncu_roofline", "exam_points")
NONE_BELOW = 0.6
SM_CLOCK = "smsp__cycles_elapsed.avg.per_second"
LEVELS = ("L1", "L2", "DRAM")
PRECISIONS = ("fp64", "fp32", "fp16")
_LETTER = {"fp64": "d", "fp32": "f", "fp16": "h"}
_PEAKS = {"L1": 16896.0, "L2": 6016.0, "DRAM": 1504.0, "fp64": 16896.0, "fp32": 33792.0, "fp16": 67584.0}
Values = dict[str, float]


@dataclass(frozen=True)
class Scene:
    """A launch: clocks in Hz, the most bytes and operations in a cycle, the bytes of each level in a second,
    and the operations of each precision in a cycle (additions and multiplications; multiply-adds)."""

    clocks: Mapping[str, float]  # 'SM', 'L1', 'L2', 'DRAM'
    peaks: Mapping[str, float]  # of each level and precision
    moved: Mapping[str, float]
    singles: Mapping[str, float]
    fused: Mapping[str, float]

    def executed(self, precision: str, *, fused: float = 1, singles: bool = True) -> float:
        """Operations in a cycle; the arguments are mistakes."""
        return fused * self.fused.get(precision, 0.0) + (self.singles.get(precision, 0.0) if singles else 0.0)


def roofs_of(one: Scene, *, clock: str = "", cycles: bool = True) -> Values:
    """The six roofs; ``clock`` takes one clock for all, ``cycles=False`` leaves the clocks out."""
    found = {}
    for level in LEVELS:
        found[level] = one.peaks[level] * (one.clocks[clock or level] if cycles else 1.0)
    for precision in PRECISIONS:
        found[precision] = one.peaks[precision] * (one.clocks["SM"] if cycles else 1.0)
    return found


def point_of(
    one: Scene,
    *,
    choose: str = "",
    fused: float = 1,
    singles: bool = True,
    cycles: bool = True,
    levels: bool = True,
) -> tuple[str, float, Values]:
    """Precision, FLOP/s and intensities; the arguments are mistakes."""
    clock, peaks = one.clocks["SM"] if cycles else 1.0, roofs_of(one)
    rates = {p: one.executed(p, fused=fused, singles=singles) * clock for p in PRECISIONS}
    order = sorted(PRECISIONS, key=lambda p: p != "fp32")
    by = {p: rates[p] if choose == "most" else rates[p] / peaks[p] for p in order}
    precision = choose if choose in PRECISIONS else max(order, key=lambda p: by[p])
    rate = rates[precision]

    def intensity(level: str) -> float:
        moved = one.moved[level if levels else "DRAM"]
        return rate / moved if moved else math.inf if rate else 0.0

    return precision, rate, {level: intensity(level) for level in LEVELS}


def shares_of(one: Scene) -> Values:
    """What the launch uses of each of its four roofs."""
    precision, rate, _ = point_of(one)
    peaks = roofs_of(one)
    return {level: one.moved[level] / peaks[level] for level in LEVELS} | {precision: rate / peaks[precision]}


def bound_of(one: Scene, *, levels: Sequence[str] = LEVELS, peak: bool = True) -> tuple[float, str]:
    """The most FLOP/s and the roof that binds; the arguments leave roofs out."""
    precision, rate, intensities = point_of(one)
    peaks, used = roofs_of(one), shares_of(one)
    slopes = {level: intensities[level] * peaks[level] for level in levels}
    named = [*levels, *([precision] if peak else [])]
    most = min([*slopes.values(), *([peaks[precision]] if peak else [])])
    return (most if rate else 0.0), max(named, key=lambda name: used[name])


def verdict_of(one: Scene, *, least: float = NONE_BELOW, levels: Sequence[str] = LEVELS) -> str:
    """The roof that binds, or 'none'; the arguments are mistakes."""
    _, roof = bound_of(one, levels=levels)
    return roof if shares_of(one)[roof] >= least else "none"


def names() -> dict[str, tuple[str, ...]]:
    """Names of metrics: of a level its traffic, peak and clock; of a precision what is executed, its peak."""
    found = {
        level: tuple(
            METRICS[meaning].names[0]
            for meaning in (f"{key}_bytes_per_s", f"{key}_peak_bytes_per_cycle", f"{key}_clock_hz")
        )
        for level, key in zip(LEVELS, ("l1", "l2", "dram"), strict=True)
    }
    for precision, letter in _LETTER.items():
        single = "flops_per_cycle" if letter == "h" else "per_cycle"
        meanings = (f"{letter}add_{single}", f"{letter}mul_{single}", f"{letter}fma_flops_per_cycle")
        found[precision] = tuple(METRICS[m].names[0] for m in (*meanings, f"{letter}fma_peak_per_cycle"))
    return found


def table_of(scenes: Sequence[Scene]) -> pd.DataFrame:
    """The scenes as `NcuReport.metrics` gives a report, with some metrics that nobody needs here."""
    known, rows = names(), []
    for launch, one in enumerate(scenes):
        values = {SM_CLOCK: one.clocks["SM"], "gpc__cycles_elapsed.avg.per_second": one.clocks["SM"] * 1.01}
        values |= {"sm__throughput.avg.pct_of_peak_sustained_elapsed": 42.0, "gpu__time_duration.sum": 1e5}
        for level in LEVELS:
            moved, peak, clock = known[level]
            values |= {moved: one.moved[level], peak: one.peaks[level], clock: one.clocks[level]}
        for precision in PRECISIONS:
            add, mul, fma, peak = known[precision]
            single = one.singles.get(precision, 0.0)
            values |= {add: 0.75 * single, mul: 0.25 * single, fma: one.fused.get(precision, 0.0)}
            values[peak] = one.peaks[precision]
        values["dram__bytes.sum"] = one.moved["DRAM"] * 1e-4
        rows += [(launch, name, "", "", float(value), str(value)) for name, value in values.items()]
    columns = {
        "launch": "int64",
        "name": "str",
        "label": "str",
        "unit": "str",
        "value": "float64",
        "text": "str",
    }
    return pd.DataFrame(rows, columns=list(columns)).astype(columns)


def _launch(
    rng: Rng, precision: str, used: Mapping[str, float], other: Mapping[str, float] | None = None
) -> Scene:
    """A launch that uses these shares of its roofs, and of the peaks of other precisions."""
    clocks = {
        "SM": float(rng.uniform(1.5e9, 1.98e9)),
        "L2": float(rng.uniform(1.3e9, 1.7e9)),
        "DRAM": float(rng.uniform(2.4e9, 3.3e9)),
    }
    clocks["L1"] = clocks["SM"]
    chip = {name: round(peak * float(rng.uniform(0.5, 1.5))) for name, peak in _PEAKS.items()}
    blank = Scene(clocks, chip, dict.fromkeys(LEVELS, 0.0), {}, {})
    peaks = roofs_of(blank)
    moved = {level: used.get(level, 0.0) * peaks[level] for level in LEVELS}
    part, singles, fused = float(rng.uniform(0.1, 0.3)), {}, {}
    for name, share in {precision: used.get("peak", 0.0), **(other or {})}.items():
        singles[name], fused[name] = part * share * chip[name], (1 - part) * share * chip[name]
    return replace(blank, moved=moved, singles=singles, fused=fused)


def _scenes(rng: Rng) -> dict[str, list[Scene]]:
    def some(low: float, high: float) -> float:
        return float(rng.uniform(low, high))

    def one(
        precision: str, binding: str, other: Mapping[str, float] | None = None, share: float = 0.0
    ) -> Scene:
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
    mixed = one("fp64", "peak", {"fp32": some(0.4, 0.5)})
    return {
        "one launch, held by the DRAM": [one("fp32", "DRAM")],
        "one launch, held by the arithmetic": [one("fp32", "peak")],
        "held by the L2, with the DRAM half idle": [one("fp32", "L2"), one("fp32", "DRAM")],
        "held by the L1": [one("fp32", "L1"), one("fp16", "L1")],
        "nothing holds it": [idle, one("fp32", "DRAM", share=0.59), one("fp32", "peak", share=0.61)],
        "doubles beside floats": [mixed, one("fp64", "DRAM")],
        "halves": [one("fp16", "peak"), one("fp16", "DRAM")],
        "constants loaded as halves": [one("fp32", "DRAM", constants), one("fp32", "peak", constants)],
        "a copy without operations": [copy, one("fp32", "DRAM")],
        "a copy whose only operations are constants": [moves],
        "no byte reaches the L2": [cached],
        "several launches, each at its own clocks": [
            *(one("fp32", level) for level in LEVELS),
            *(one(precision, "peak") for precision in PRECISIONS),
            idle,
        ],
    }


def _cases_of(name: str, scenes: Sequence[Scene], table: pd.DataFrame, *, exam: bool = False) -> list[Case]:
    summary = f"metrics of {len(scenes)} launches"

    def case(function: str, right: object, *mistakes: Mistake) -> Case:
        return Case(
            *(name, summary, function, (table,), right, mistakes),
            exam=exam,
            show=lambda answer: brief(answer, 400),
        )

    def each(function: object, **flags: object) -> dict[int, object]:
        return {launch: function(one, **flags) for launch, one in enumerate(scenes)}  # type: ignore[operator]

    clocks = {launch: roofs_of(replace(one, clocks=scenes[0].clocks)) for launch, one in enumerate(scenes)}
    return [
        case(
            "roofs",
            each(roofs_of),
            Mistake(
                "L2 and DRAM have clocks of their own: peak bytes in a cycle × the clock of that level",
                each(roofs_of, clock="SM"),
            ),
            Mistake(
                "these are amounts in a cycle: multiply by cycles a second", each(roofs_of, cycles=False)
            ),
            Mistake("each launch ran at its own clocks; these are the first one's for all", clocks),
        ),
        case(
            "points",
            each(point_of),
            Mistake(
                "not every launch computes in fp32: take the precision that uses most of its own peak",
                each(point_of, choose="fp32"),
            ),
            Mistake(
                "this is the precision with the most FLOP/s; compare shares of the peaks",
                each(point_of, choose="most"),
            ),
            Mistake(
                "the derived metrics count a multiply-add as its operations already", each(point_of, fused=2)
            ),
            Mistake("additions and multiplications count, too", each(point_of, singles=False)),
            Mistake(
                "operations are counted in a cycle: multiply by the SMs' cycles in a second",
                each(point_of, cycles=False),
            ),
            Mistake(
                "each level has its own bytes; these are the DRAM's at every level",
                each(point_of, levels=False),
            ),
        ),
        case(
            "bounds",
            each(bound_of),
            Mistake(
                "L1 and L2 are roofs, too: this looks at the DRAM and the arithmetic only",
                each(bound_of, levels=("DRAM",)),
            ),
            Mistake("the peak of the arithmetic is a roof, too", each(bound_of, peak=False)),
            Mistake(
                "the roofs are right, and the numbers are the peaks: intensity × bandwidth may be lower",
                {k: (roofs_of(s)[point_of(s)[0]], bound_of(s)[1]) for k, s in enumerate(scenes)},
            ),
            Mistake(
                "this is the peak of the arithmetic for every launch",
                {k: (roofs_of(s)[point_of(s)[0]], point_of(s)[0]) for k, s in enumerate(scenes)},
            ),
        ),
        case(
            "verdicts",
            each(verdict_of),
            Mistake(
                "a launch that uses less than 0.6 of every roof is held by none of them",
                each(verdict_of, least=0.0),
            ),
            Mistake(
                "L1 and L2 are roofs, too: this looks at the DRAM and the arithmetic only",
                each(verdict_of, levels=("DRAM",)),
            ),
        ),
    ]


def _generated(rng: Rng) -> list[Case]:
    found = [
        case for name, scenes in _scenes(rng).items() for case in _cases_of(name, scenes, table_of(scenes))
    ]
    order = ("roofs", "points", "bounds", "verdicts")
    return sorted(found, key=lambda case: order.index(case.function))


def scenes_of(report: NcuReport) -> list[Scene]:
    """The launches of a report; `LabError` where it lacks one of `names`."""
    found = []
    for one in report.list:
        clocks, peaks, moved = {"SM": one.metric(SM_CLOCK)}, {}, {}
        for level in LEVELS:
            moved[level], peaks[level], clocks[level] = (one.metric(name) for name in names()[level])
        singles, fused = {}, {}
        for precision in PRECISIONS:
            add, mul, fused[precision], peaks[precision] = (one.metric(name) for name in names()[precision])
            singles[precision] = add + mul
        found.append(Scene(clocks, peaks, moved, singles, fused))
    return found


def _exam(captures: CaptureSet) -> list[Case]:
    experiment, run = EXAM
    if experiment not in captures.experiments or run not in captures.experiments[experiment].runs:
        raise LabError(f"the capture set {captures.name!r} has no run {run} of {experiment}")
    report = open_report(captures.path_of(experiment, run, ".ncu-rep"))
    return _cases_of("a capture you have not seen", scenes_of(report), report.metrics(), exam=True)


def _notes(captures: CaptureSet) -> list[str]:
    """What binds the launches of the exam, in their order."""
    experiment, run = EXAM
    report = open_report(captures.path_of(experiment, run, ".ncu-rep"))
    return [
        f"{experiment}, {run}: " + ", ".join(verdict_of(one) for one in scenes_of(report)),
    ]


ROOFS = Task(
    generated=_generated, exam=_exam, notes=_notes, forbidden=("labcode.analysis", "labcode.exercises")
)
