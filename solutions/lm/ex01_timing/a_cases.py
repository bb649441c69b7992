"""Hidden cases of part a (the forward pass by two clocks): a generator or a capture in, cases out."""

from typing import Any

import numpy as np
import pandas as pd

from labcode.grading.cases import Case
from labcode.grading.exam import open_run
from labcode.store import CaptureSet
from solutions.lm._shared import EXPERIMENT

Rng = np.random.Generator
_RANGES = {"start_ns": "int64", "end_ns": "int64", "name": "str"}


def _case(name: str, given: tuple[Any, ...]) -> Case:
    ranges, results, window, warm_up, steps = given
    measured = len(results["forward_host_ms"])
    summary = f"{len(ranges)} ranges, {measured} measured steps; warm_up = {warm_up}, steps = {steps}"
    return Case(name, summary, "forward_time", (ranges, results, list(window), warm_up, steps))


def _scene(
    rng: Rng,
    warm_up: int,
    *,
    window_steps: int = 2,
    drift: bool = False,
    slow: float = 3.0,
    exact: bool = False,
    cut: bool = False,
) -> tuple[Any, ...]:
    """A program with five warm-up steps of which the first are slow, and its last steps recorded.

    ``exact``: the window begins as the first range in it does, and ends as one more begins. ``cut``: it ends
    within the last one.
    """
    base = float(rng.uniform(5, 60))
    early = [base * slow * float(rng.uniform(1, 1.5)), *(base * float(x) for x in rng.uniform(1.0, 1.3, 4))]
    measured = [base * float(x) * (1 + 0.02 * i * drift) for i, x in enumerate(rng.uniform(0.97, 1.05, 10))]
    now, last, rows, start = 10**9, 0, [], 0
    total = [*early, *measured]
    for number, ms in enumerate(total):
        if number == len(total) - window_steps:
            start = now - (0 if exact else 500)
        ns = int(ms * 1e6)
        rows.append((now, now + ns - int(rng.integers(1000, 30_000)), "forward"))
        rows.append((now + ns // 4, now + ns // 3, "feed-forward"))
        rows.append((now + ns + 2000, now + 3 * ns, "backward"))
        last, now = now, now + 3 * ns + 10_000
    if exact:
        rows.append((now, now + int(base * 2e6), "forward"))
    ranges = pd.DataFrame([rows[i] for i in rng.permutation(len(rows))], columns=list(_RANGES)).astype(
        _RANGES
    )
    results = {"warmup_forward_host_ms": early, "forward_host_ms": measured}
    return ranges, results, (start, last + 1000 if cut else now), warm_up, int(rng.choice([5, 8, 10]))


def cases(rng: Rng) -> list[Case]:
    """Programs with different warm-ups, the last steps of which were recorded."""
    return [
        _case("five warm-up steps", _scene(rng, 5)),
        _case("no warm-up", _scene(rng, 0)),
        _case("one warm-up step, three recorded steps", _scene(rng, 1, window_steps=3)),
        _case("a program that becomes slower", _scene(rng, 2, drift=True)),
        _case("a first step that is very slow", _scene(rng, 0, window_steps=1, slow=20.0)),
        _case("a window that ends within a forward pass", _scene(rng, 1, cut=True)),
        _case("ranges that begin just as the window begins and ends", _scene(rng, 3, exact=True)),
    ]


def exam(captures: CaptureSet) -> list[Case]:
    """A training step of the large model, after two warm-ups."""
    record = captures.record(EXPERIMENT, "train")
    with open_run(captures, EXPERIMENT, "train") as report:
        ranges = report.nvtx()[list(_RANGES)].dropna().astype(_RANGES).reset_index(drop=True)
        given = (ranges, record["results"], report.window())
    return [_case(f"the large model after {n} warm-up steps", (*given, n, 10)) for n in (0, 5)]
