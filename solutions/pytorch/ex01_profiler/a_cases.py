"""Hidden cases of part a (a profiler's schedule): a generator in, cases out."""

from functools import partial

import numpy as np

from labcode.grading.cases import Case, brief

Rng = np.random.Generator
Plan = tuple[int, int, int, int, int]
PLAN = ("wait", "warmup", "active", "repeat", "skip_first")


def _scenes(rng: Rng) -> list[tuple[str, int, Plan]]:
    wait, warmup, active = (int(rng.integers(low, high)) for low, high in ((1, 4), (1, 3), (2, 5)))
    length = wait + warmup + active
    more = int(rng.integers(1, active))
    skip = int(rng.integers(2, 9))
    return [
        ("one cycle", length + 3, (wait, warmup, active, 1, 0)),
        ("two cycles", 2 * length + 2, (wait, warmup, active, 2, 0)),
        ("far more steps than cycles", 4 * length, (wait, warmup, active, 2, 0)),
        ("cycles without end", 3 * length, (wait, warmup, active, 0, 0)),
        ("steps are skipped first", skip + 2 * length, (wait, warmup, active, 2, skip)),
        ("the loop ends while recording", length + wait + warmup + more, (wait, warmup, active, 0, 0)),
        ("the loop ends while warming up", length + wait + 1, (wait, warmup + 1, active, 0, 0)),
        ("no wait and no warm-up", 2 * active + 1, (0, 0, active, 0, 0)),
        ("no warm-up", skip + 2 * (wait + active) + active, (wait, 0, active, 0, skip)),
        ("one active step", 3 * (wait + warmup + 1), (wait, warmup, 1, 2, 0)),
        ("recorded from the first step on, once", active + 2, (0, 0, active, 1, 0)),
        ("no wait: step 0 warms up", 2 * (warmup + active), (0, warmup, active, 0, 0)),
        ("one active step, nothing before it", 4, (0, 0, 1, 0, 0)),
        ("no step at all", 0, (wait, warmup, active, 0, 0)),
        ("no step at all, though the first would be recorded", 0, (0, 0, active, 0, 0)),
    ]


def _case(name: str, function: str, steps: int, plan: Plan) -> Case:
    words = ", ".join(f"{key} = {value}" for key, value in zip(PLAN, plan, strict=True))
    return Case(name, f"{steps} steps, {words}", function, (steps, *plan), show=partial(brief, limit=300))


def cases(rng: Rng) -> list[Case]:
    """Each function in turn, on the same scenes."""
    scenes = _scenes(rng)
    return [
        _case(name, function, steps, plan)
        for function in ("phases", "traces", "traces_without_step")
        for name, steps, plan in scenes
    ]
