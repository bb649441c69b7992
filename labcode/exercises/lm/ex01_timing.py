"""Hidden cases of lm-ex01 (forward time by range and by the host's clock): a generator or a capture in, cases
out.
"""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np
import pandas as pd

from labcode.exercises.cases import Case, Mistake, Task
from labcode.exercises.lm.scenes import FORBIDDEN, exam_report
from labcode.store import CaptureSet

Rng = np.random.Generator
Window = tuple[int, int]
_RANGES = {"start_ns": "int64", "end_ns": "int64", "name": "str"}


def answer(
    ranges: pd.DataFrame,
    results: dict[str, Any],
    window: Window,
    warm_up: int,
    steps: int,
    *,
    population: bool = False,
    measured_only: bool = False,
    cut: bool = True,
    inside: bool = True,
    whole_name: bool = True,
    same_steps: bool = True,
    swapped: bool = False,
) -> dict[str, float]:
    """The answer; the flags are the typical mistakes."""
    early, measured = results["warmup_forward_host_ms"], results["forward_host_ms"]
    values = measured[:steps] if measured_only else [*early, *measured][warm_up:]
    values = values[:steps] if cut else values
    named = ranges["name"] == "forward" if whole_name else ranges["name"].str.contains("forward")
    within = (ranges["start_ns"] >= window[0]) & (ranges["start_ns"] < window[1])
    mine = ranges[named & (within if inside else True)]
    range_ms = float((mine["end_ns"] - mine["start_ns"]).mean()) / 1e6
    count = len(mine)
    host_ms = statistics.fmean(measured[-count:] if same_steps else measured)
    spread = statistics.pstdev(values) if population else statistics.stdev(values)
    ratio = host_ms / range_ms if swapped else range_ms / host_ms
    return {
        "mean_ms": statistics.fmean(values),
        "std_ms": spread,
        "range_ms": range_ms,
        "host_ms": host_ms,
        "difference": ratio - 1,
    }


def _case(name: str, given: tuple[Any, ...], *, exam: bool = False) -> Case:
    ranges, results, window, warm_up, steps = given
    mistakes = (
        Mistake(
            "std_ms is that of a whole population; ten steps are a sample: divide by n - 1",
            answer(*given, population=True),
        ),
        Mistake(
            "the steps after fewer warm-up steps begin among those that the program called warm-up",
            answer(*given, measured_only=True),
        ),
        Mistake("more steps are averaged than were asked for", answer(*given, cut=False)),
        Mistake("ranges outside of the window count", answer(*given, inside=False)),
        Mistake("a range whose name only contains forward is none of them", answer(*given, whole_name=False)),
        Mistake(
            "compare the ranges with the host's times of the same steps: the last ones of the list",
            answer(*given, same_steps=False),
        ),
        Mistake(
            "difference is range over host, minus 1; this is host over range", answer(*given, swapped=True)
        ),
    )
    measured = len(results["forward_host_ms"])
    summary = f"{len(ranges)} ranges, {measured} measured steps; warm_up = {warm_up}, steps = {steps}"
    return Case(
        name,
        summary,
        "forward_time",
        (ranges, results, list(window), warm_up, steps),
        answer(*given),
        mistakes,
        exam=exam,
    )


def _scene(
    rng: Rng, warm_up: int, *, window_steps: int = 2, drift: bool = False, slow: float = 3.0
) -> tuple[Any, ...]:
    """A program with five warm-up steps of which the first are slow, and its last steps recorded."""
    base = float(rng.uniform(5, 60))
    early = [base * slow * float(rng.uniform(1, 1.5)), *(base * float(x) for x in rng.uniform(1.0, 1.3, 4))]
    measured = [base * float(x) * (1 + 0.02 * i * drift) for i, x in enumerate(rng.uniform(0.97, 1.05, 10))]
    now, rows, start = 10**9, [], 0
    total = [*early, *measured]
    for number, ms in enumerate(total):
        if number == len(total) - window_steps:
            start = now - 500
        ns = int(ms * 1e6)
        rows.append((now, now + ns - int(rng.integers(1000, 30_000)), "forward"))
        rows.append((now + ns // 4, now + ns // 3, "feed-forward"))
        rows.append((now + ns + 2000, now + 3 * ns, "backward"))
        now += 3 * ns + 10_000
    ranges = pd.DataFrame([rows[i] for i in rng.permutation(len(rows))], columns=list(_RANGES)).astype(
        _RANGES
    )
    results = {"warmup_forward_host_ms": early, "forward_host_ms": measured}
    return ranges, results, (start, now), warm_up, int(rng.choice([5, 8, 10]))


def _cases(rng: Rng) -> list[Case]:
    return [
        _case("five warm-up steps", _scene(rng, 5)),
        _case("no warm-up", _scene(rng, 0)),
        _case("one warm-up step, three recorded steps", _scene(rng, 1, window_steps=3)),
        _case("a program that becomes slower", _scene(rng, 2, drift=True)),
        _case("a first step that is very slow", _scene(rng, 0, window_steps=1, slow=20.0)),
    ]


def _exam(captures: CaptureSet) -> list[Case]:
    report, record = exam_report(captures, "train")
    with report:
        ranges = report.nvtx()[list(_RANGES)].dropna().astype(_RANGES).reset_index(drop=True)
        given = (ranges, record["results"], report.window())
        return [_case(f"the large model after {n} warm-up steps", (*given, n, 10), exam=True) for n in (0, 5)]


TIMING = Task(_cases, _exam, forbidden=FORBIDDEN)
