"""Hidden cases of pytorch-ex01, part a (a profiler's schedule): a generator in, schedules and answers out."""

from __future__ import annotations

import numpy as np

from labcode.exercises.cases import Case, Mistake, Task, brief

Rng = np.random.Generator
Plan = tuple[int, int, int, int, int]  # wait, warmup, active, repeat, skip_first
RECORDED = ("record", "hand over")


def phase(
    step: int,
    plan: Plan,
    *,
    skips: bool = True,
    ends: bool = True,
    again: bool = True,
    one_more: bool = False,
) -> str:
    """The phase of a step; the flags are the typical mistakes."""
    wait, warmup, active, repeat, skip_first = plan
    if step < skip_first:
        return "off"
    length = wait + warmup + active
    cycle, place = divmod(step - (skip_first if skips else 0), length)
    if ends and repeat and cycle >= repeat + one_more:
        return "off"
    if cycle and not again:
        place = wait + warmup + place % active  # wait and warm up once only
    if place < wait:
        return "off"
    if place < wait + warmup:
        return "warm-up"
    return "hand over" if place == length - 1 else "record"


def phases(steps: int, plan: Plan, **flags: bool) -> list[str]:
    """The phases of all steps."""
    return [phase(step, plan, **flags) for step in range(steps)]


def traces(
    steps: int, plan: Plan, *, cut_short: bool = True, warm: bool = False, last_left_out: bool = False
) -> list[list[int]]:
    """The steps in each trace; the flags are the typical mistakes."""
    found: list[list[int]] = []
    current: list[int] = []
    for step, what in enumerate(phases(steps, plan)):
        if what == "record" or (what == "hand over" and not last_left_out) or (warm and what == "warm-up"):
            current.append(step)
        if what == "hand over":
            found.append(current)
            current = []
    return [*found, current] if current and cut_short else found


def without_step(steps: int, plan: Plan) -> list[list[int]]:
    """The traces of a loop that never calls `prof.step()`."""
    return [list(range(steps))] if steps and phase(0, plan) in RECORDED else []


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
        ("no warm-up", 2 * (wait + active), (wait, 0, active, 0, skip)),
        ("one active step", 3 * (wait + warmup + 1), (wait, warmup, 1, 2, 0)),
        ("recorded from the first step on, once", active + 2, (0, 0, active, 1, 0)),
        ("no step at all", 0, (wait, warmup, active, 0, 0)),
    ]


def _case(name: str, function: str, steps: int, plan: Plan) -> Case:
    words = dict(zip(("wait", "warmup", "active", "repeat", "skip_first"), plan, strict=True))
    right: list[str] | list[list[int]]
    mistakes: tuple[tuple[str, list[str] | list[list[int]]], ...]
    if function == "phases":
        right = phases(steps, plan)
        mistakes = (
            ("the cycles begin after the skipped steps: count from there", phases(steps, plan, skips=False)),
            ("after `repeat` cycles the profiler is off", phases(steps, plan, ends=False)),
            ("`repeat` cycles in all, not so many more", phases(steps, plan, one_more=True)),
            ("each cycle waits and warms up anew", phases(steps, plan, again=False)),
            (
                "the last active step of a cycle is the one that hands over",
                ["record" if what == "hand over" else what for what in right],
            ),
            (
                "the hand-over is in the last active step, not in one that follows",
                [
                    "record" if what == "hand over" else
                    "hand over" if place and right[place - 1] == "hand over" else what
                    for place, what in enumerate(right)
                ],
            ),
        )  # fmt: skip
    elif function == "traces":
        right = traces(steps, plan)
        every = [step for trace in right for step in trace]
        mistakes = (
            (
                "a cycle that the loop's end cuts short is handed over, too",
                traces(steps, plan, cut_short=False),
            ),
            ("what is recorded while warming up is thrown away", traces(steps, plan, warm=True)),
            ("the step that hands over is recorded as well", traces(steps, plan, last_left_out=True)),
            ("each cycle is a trace of its own: the next one clears the events", [every] if every else []),
            ("a trace without any step does not count", [*right, []]),
        )
    else:
        right = without_step(steps, plan)
        mistakes = (
            ("without `prof.step()` the profiler stays in step 0 and never comes to another phase",
             traces(steps, plan)),
            ("step 0 is off or warm-up: nothing is recorded and nothing handed over",
             [list(range(steps))] if steps else []),
            ("nothing tells the steps apart: all are in one trace", [[step] for step in range(steps)]),
            ("this is recorded: step 0 is an active one, and it lasts as long as the loop", []),
            ("this is recorded: step 0 is an active one, and it lasts as long as the loop", [[0]]),
        )  # fmt: skip
    return Case(
        name=name,
        summary=f"{steps} steps, " + ", ".join(f"{key} = {value}" for key, value in words.items()),
        function=function,
        arguments=(steps, *plan),
        expected=right,
        mistakes=tuple(Mistake(says, gives) for says, gives in mistakes),
        show=lambda answer: brief(answer, 300),
    )


def _cases(rng: Rng) -> list[Case]:
    scenes = _scenes(rng)
    return [
        _case(name, function, steps, plan)
        for function in ("phases", "traces", "traces_without_step")
        for name, steps, plan in scenes
    ]


SCHEDULE = Task(_cases)
