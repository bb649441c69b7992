"""Hidden cases of part a (joules of ranges): a generator or a capture in; a counter, marks, ranges out."""

from typing import Any

import numpy as np
import pandas as pd

from labcode.analysis.energy.ranges import clocks
from labcode.grading.cases import Case
from labcode.grading.exam import open_run
from labcode.reports.power.log import open_log
from labcode.store import CaptureSet
from solutions.energy import _shared as energy

EXPERIMENT, RUN = "energy_ranges_exam", "exam"
Rng = np.random.Generator
Range = tuple[str, float, float]  # name, begin and end in ms after the first sample, on the meter's clock


def _scene(
    rng: Rng,
    ranges: list[Range],
    *,
    marks_ms: tuple[float, ...] = (300.0,),
    drift_ns: int = 0,
    from_ms: float = 0.0,
    less: int = 1,
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """A log, marks, and ranges by a clock that is far from the log's and runs on by ``drift_ns`` each ms
    after ``from_ms``."""
    stretches = [(int(rng.integers(4, 28)) * 25 // less, 500) for _ in range(8)]
    log = energy.samples(rng, stretches)
    offset = int(rng.integers(10**9, 10**11))
    first = int(log["t_ns"].iloc[0])

    def capture(ms: float) -> int:
        """The capture's time of a moment: offset at the first mark, drift from there to the last."""
        begin = max(marks_ms[0], from_ms)
        since = min(max(ms, begin), marks_ms[-1]) - begin
        return first + round(ms * energy.MS) - offset - round(since * drift_ns)

    marks = pd.DataFrame(
        {
            "capture_ns": [capture(ms) for ms in marks_ms],
            "log_ns": [first + round(ms * energy.MS) for ms in marks_ms],
        }
    )
    table = pd.DataFrame(
        [(name, capture(begin), capture(end)) for name, begin, end in ranges],
        columns=["name", "start_ns", "end_ns"],
    )
    return log, marks, table.iloc[rng.permutation(len(table))].reset_index(drop=True)


def _scenes(rng: Rng) -> dict[str, tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]]:
    phases = [("load", 100.0, 700.0), ("train", 700.0, 2300.0), ("save", 2300.0, 2900.0)]
    return {
        "three phases": _scene(rng, phases),
        "ends between updates": _scene(rng, [("a", 333.0, 1777.0), ("b", 1777.0, 3131.0)]),
        "a name that comes again": _scene(
            rng, [("step", 310.0 + 700 * k, 890.0 + 700 * k) for k in range(4)]
        ),
        "three updates together, one in each": _scene(
            rng, [("short", 350.0 + 500 * k, 420.0 + 500 * k) for k in range(3)]
        ),
        "two updates": _scene(rng, [("short", 350.0, 560.0), ("long", 1000.0, 2400.0)]),
        "three updates, the last at its end": _scene(rng, [("edge", 350.0, 600.0)]),
        "two updates behind the first sample": _scene(rng, [("early", -50.0, 230.0)]),
        "an update at its begin is not its own": _scene(rng, [("edge", 400.0, 690.0)]),
        "a clock that drifts": _scene(rng, phases, marks_ms=(50.0, 1500.0, 3500.0), drift_ns=20_000),
        "a clock that drifts from the second mark on": _scene(
            rng, phases, marks_ms=(50.0, 1500.0, 3500.0), drift_ns=20_000, from_ms=1500.0
        ),
        "before the first mark and after the last": _scene(
            rng,
            [("early", 200.0, 1000.0), ("late", 2200.0, 3700.0)],
            marks_ms=(1200.0, 2000.0),
            drift_ns=50_000,
        ),
        "hardly any power": _scene(rng, phases, less=100),
        "past the last update": _scene(rng, [("end", 3000.0, 4000.0)]),
    }


def cases(rng: Rng) -> list[Case]:
    """Each function in turn."""
    scenes = _scenes(rng)
    made: list[Case] = []

    def add(name: str, summary: str, function: str, *arguments: Any) -> None:
        made.append(Case(name, summary, function, arguments))

    for name, (log, marks, ranges) in scenes.items():
        about = f"{len(log)} samples, {len(marks)} marks, {len(ranges)} ranges"
        begin, end = int(ranges["start_ns"].min()), int(ranges["end_ns"].max())
        add(f"{name}: first begin", about, "to_log", marks, begin)
        add(f"{name}: last end", about, "to_log", marks, end)
    log = scenes["three phases"][0]
    for name, ms in (
        ("at an update", 600.0),
        ("between updates", 657.0),
        ("at a sample without news", 640.0),
        ("after the last update", 4090.0),
        ("before the first sample", -5.0),
        ("before the first update", 50.0),
    ):
        add(name, f"{len(log)} samples, {ms:g} ms after the first", "counter", log, energy.at_ms(log, ms))
    for name, (log, marks, ranges) in scenes.items():
        about = f"{len(log)} samples, {len(marks)} marks, {len(ranges)} ranges"
        add(name, about, "joules", log, marks, ranges)
    return made


def exam(captures: CaptureSet) -> list[Case]:
    """The phases of a capture: its counter, the marks of both clocks, its ranges."""
    with open_run(captures, EXPERIMENT, RUN) as report:
        both, nvtx = clocks(report), report.nvtx()
    samples = open_log(captures.path_of(EXPERIMENT, RUN, ".power.json")).of(0)[["t_ns", "energy_j"]]
    marks = pd.DataFrame({"capture_ns": both.capture_ns, "log_ns": both.log_ns})
    own = nvtx[nvtx["end_ns"].notna() & ~nvtx["name"].str.startswith("lab:")]
    ranges = own[["name", "start_ns", "end_ns"]].astype({"name": "str", "end_ns": "int64"})
    about = f"{len(samples)} samples, {len(marks)} marks, {len(ranges)} ranges"
    name = f"phases you have not seen ({EXPERIMENT}, {RUN})"
    return [Case(name, about, "joules", (samples, marks, ranges.reset_index(drop=True)))]
