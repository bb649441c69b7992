"""Hidden cases of part a (joules with bounds): a generator in, samples of a counter and windows out."""

import numpy as np
import pandas as pd

from labcode.grading.cases import Case
from solutions.energy import _shared as energy

Rng = np.random.Generator


def _logs(rng: Rng) -> dict[str, tuple[pd.DataFrame, int, int]]:
    """Logs with windows; the ends of some on an update, on a sample, and between samples."""

    def log(phase_ms: int, most_w: int = 700) -> pd.DataFrame:
        busy, idle = int(rng.integers(most_w // 2, most_w)), int(rng.integers(2, most_w // 2))
        stretches = ((idle, 500), (busy, 2400), (idle, 500))
        return energy.samples(rng, stretches, phase_ms=phase_ms, every_ms=20)

    made = {}
    for name, begin, end, phase in (
        ("two seconds", 611, 2611, 40),
        ("ends between samples", 527, 1993, 60),
        ("begins and ends with an update", 600, 2600, 0),
        ("begins with an update before the work", 400, 2600, 0),
        ("begins with a sample", 620, 2620, 0),
        ("ten updates", 610, 1610, 0),
        ("nine updates", 610, 1510, 0),
        ("three updates", 610, 900, 0),
        ("two updates", 610, 890, 0),
        ("one update", 610, 750, 0),
        ("no update", 610, 650, 0),
        ("ends with the last sample", 1010, 3400, 0),
    ):
        one = log(phase)
        made[name] = one, energy.at_ms(one, begin), energy.at_ms(one, end)
    late = log(0)
    unseen = late["t_ns"].between(energy.at_ms(late, 701), energy.at_ms(late, 1299))
    late = late[~unseen].reset_index(drop=True)
    made["some updates not seen"] = late, energy.at_ms(late, 390), energy.at_ms(late, 2610)
    little = log(0, most_w=10)
    made["hardly any power"] = little, energy.at_ms(little, 610), energy.at_ms(little, 2610)
    return made


def cases(rng: Rng) -> list[Case]:
    """Each function in turn on the same logs."""
    logs = _logs(rng)
    small = energy.samples(rng, ((int(rng.integers(100, 400)), 260),), every_ms=40)
    made = [Case("a short log", "7 samples", "updates", (small,), table=small)]
    made += [
        Case(name, energy.describe(one, begin, end), "updates", (one,))
        for name, (one, begin, end) in list(logs.items())[:2]
    ]
    for name, (one, begin, end) in logs.items():
        for place, at in (("begin", begin), ("end", end)):
            made.append(Case(f"{name}: {place}", energy.describe(one, begin, end), "bounds", (one, at)))
    for function in ("energy", "mean_power"):
        made += [
            Case(name, energy.describe(one, begin, end), function, (one, begin, end))
            for name, (one, begin, end) in logs.items()
        ]
    return made
