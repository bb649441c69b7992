"""Hidden cases of compute-ex04, part a (what a profile says to do next): a generator in, warp states out."""

from __future__ import annotations

import numpy as np
import pandas as pd

from labcode.analysis.kernel.stalls import STATES, WORKING
from labcode.exercises.cases import Case, Mistake, Task

Rng = np.random.Generator
States = dict[str, float]
ISSUE_FROM = 0.8


def _ranked(states: States, *, working: bool = False, of_stalls: bool = False) -> list[tuple[str, float]]:
    """The stalls and their shares; the flags are mistakes."""
    kept = {k: v for k, v in states.items() if v > 0 and (working or k not in WORKING)}
    total = sum(kept.values()) if of_stalls else sum(states.values())
    return sorted(((k, v / total) for k, v in kept.items()), key=lambda entry: (-entry[1], entry[0]))


def _limited(states: States, issued: float) -> str:
    ranked = _ranked(states)
    return "issue" if issued >= ISSUE_FROM or not ranked else ranked[0][0]


def _bound(states: States, issued: float) -> float:
    ranked = _ranked(states)
    if not ranked:
        return 1.0
    remaining = 1 - ranked[0][1]
    return min(1 / remaining, 1 / issued)


def _scenes(rng: Rng) -> dict[str, tuple[States, float]]:
    stalls = [name for name in STATES if name not in WORKING]

    def some(count: int, most: float, ready: float) -> States:
        names = rng.choice(stalls, count, replace=False).tolist()
        found = {str(name): float(round(rng.uniform(0.1, most), 3)) for name in names}
        found |= {"selected": 1.0, "not_selected": ready}
        order = rng.permutation(len(found)).tolist()
        return {name: found[name] for name in (list(found)[i] for i in order)}

    def share(low: float, high: float) -> float:
        return float(round(rng.uniform(low, high), 3))

    waiting = some(5, 2.0, 0.1)
    waiting["long_scoreboard"] = share(20, 60)
    tied = {
        "wait": 2.5,
        "barrier": 2.5,
        "selected": 1.0,
        "short_scoreboard": share(0.1, 2),
        "not_selected": 0.3,
    }
    return {
        "waiting for memory": (waiting, share(0.05, 0.2)),
        "many warps ready": (some(6, 1.5, share(6, 9)), share(0.85, 0.98)),
        "a bit of everything": (some(8, 5.0, share(0.2, 0.8)), share(0.3, 0.6)),
        "the scheduler is nearly full": (some(5, 6.0, 2.0), share(0.81, 0.9)),
        "not quite full": (some(5, 9.0, 1.0), share(0.6, 0.79)),
        "two that are equal": (tied, share(0.3, 0.5)),
        "a state of no cycles": ({**some(4, 4.0, 0.4), "membar": 0.0}, share(0.2, 0.5)),
        "no stall": ({"selected": 1.0, "not_selected": share(1, 3)}, share(0.5, 0.7)),
        "one warp alone": ({"wait": share(3, 5), "selected": 1.0, "not_selected": 0.0}, share(0.15, 0.25)),
    }


def _generated(rng: Rng) -> list[Case]:
    scenes = _scenes(rng)
    tables = {
        name: pd.DataFrame({"state": list(states), "cycles": list(states.values())})
        for name, (states, _) in scenes.items()
    }
    cases = []
    for name, (states, _) in scenes.items():
        mistakes = (
            Mistake("'selected' and 'not_selected' are no stalls", _ranked(states, working=True)),
            Mistake(
                "these are shares of the stalls; those of all cycles are asked for",
                _ranked(states, of_stalls=True),
            ),
            Mistake("these are cycles; shares are asked for", [(k, states[k]) for k, _ in _ranked(states)]),
        )
        table = tables[name]
        right = _ranked(states)
        cases.append(Case(name, f"{len(table)} states", "shares", (table,), right, mistakes, table=table))
    for name, (states, issued) in scenes.items():
        ranked = _ranked(states)
        working = _ranked(states, working=True)
        causes = (
            Mistake(
                "the scheduler issues nearly always: no stall costs anything", ranked[0][0] if ranked else ""
            ),
            Mistake("'selected' and 'not_selected' are no stalls", working[0][0] if working else ""),
        )
        summary = f"{len(states)} states, issued in {issued:.3f} of the cycles"
        arguments = (tables[name], issued)
        cases.append(
            Case(name, summary, "limited_by", arguments, _limited(states, issued), causes, table=tables[name])
        )
        alone = 1 / (1 - ranked[0][1]) if ranked else 1.0
        gains = (
            Mistake("a scheduler issues at most once a cycle: no more than 1 / issued", alone),
            Mistake("only the scheduler is looked at", 1 / issued),
            Mistake("this is the share that would be left; the factor is asked for", 1 / alone),
        )
        cases.append(
            Case(name, summary, "bound", arguments, _bound(states, issued), gains, table=tables[name])
        )
    return cases


STALLS = Task(generated=_generated)
