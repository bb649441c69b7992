"""Hidden cases of part a (what a profile says to do next): a generator in, warp states out."""

import numpy as np
import pandas as pd

from labcode.analysis.kernel.stalls import STATES, WORKING
from labcode.grading.cases import Case

Rng = np.random.Generator
States = dict[str, float]


def _scenes(rng: Rng) -> dict[str, tuple[States, float]]:
    """The cycles in each state, and the share of cycles with an instruction issued."""
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
        "the scheduler is nearly full, and a stall has more than half": (
            {**some(3, 0.5, 2.0), "long_scoreboard": share(8, 12)},
            share(0.81, 0.9),
        ),
        "issues in 0.8 of the cycles": (some(5, 6.0, 2.0), 0.8),
        "two that are equal": (tied, share(0.3, 0.5)),
        "a state of no cycles": ({**some(4, 4.0, 0.4), "membar": 0.0}, share(0.2, 0.5)),
        "no stall": ({"selected": 1.0, "not_selected": share(1, 3)}, share(0.5, 0.7)),
        "one warp alone": ({"wait": share(3, 5), "selected": 1.0, "not_selected": 0.0}, share(0.15, 0.25)),
    }


def cases(rng: Rng) -> list[Case]:
    """The first function on all scenes, then the other two on each."""
    shares, others = [], []
    for name, (states, issued) in _scenes(rng).items():
        table = pd.DataFrame({"state": list(states), "cycles": list(states.values())})
        shares.append(Case(name, f"{len(table)} states", "shares", (table,), table=table))
        summary = f"{len(table)} states, issued in {issued:.3f} of the cycles"
        for function in ("limited_by", "bound"):
            others.append(Case(name, summary, function, (table, issued), table=table))
    return [*shares, *others]
