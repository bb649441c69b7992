"""Hidden cases of part a (efficiency, a law, a deadline): a generator in, times by number of GPUs out."""

import numpy as np

from labcode.grading.cases import Case

Rng = np.random.Generator
Times = dict[int, float]


def _times(rng: Rng) -> dict[str, Times]:
    """Whole numbers and powers of two, so that an efficiency at a bound is so exactly."""
    base = 64.0 * int(rng.integers(1, 5))
    noisy = [base / n * float(1 + rng.uniform(0, 0.3)) for n in (2, 3, 4, 6)]
    return {
        "perfect strong scaling": {1: base, 2: base / 2, 4: base / 4},
        "no gain at all": {1: base, 2: base, 4: base},
        "efficiency of three quarters and a half": {1: 3 * base, 2: 2 * base, 4: 1.5 * base},
        "more GPUs are slower": {1: base, 2: 0.75 * base, 4: 0.875 * base, 8: 1.5 * base},
        "better than perfect": {1: base, 2: 0.375 * base},
        "the numbers out of order": {4: base / 2, 1: base, 2: 0.625 * base},
        "a dip in between": {1: base, 2: 0.75 * base, 4: 0.25 * base, 8: 0.25 * base},
        "six, three and others": {1: base, 2: noisy[0], 3: noisy[1], 4: noisy[2], 6: noisy[3]},
        "twice as slow on two": {1: base, 2: 2 * base},
    }


def cases(rng: Rng) -> list[Case]:
    """Each function in turn."""
    made = []
    tables = _times(rng)

    def words(times: Times) -> str:
        return ", ".join(f"{count}: {time:g} ms" for count, time in times.items())

    for kind in ("strong", "weak"):
        for name, times in tables.items():
            made.append(Case(f"{name}, {kind}", words(times), "scaling", (times, kind)))
    for kind in ("strong", "weak"):
        for name, times in tables.items():
            for least in (0.5, 0.75, 1.0):
                summary = f"{words(times)}; at least {least:g}"
                made.append(Case(f"{name}, {kind}", summary, "drops_at", (times, kind, least)))
    made += [Case(name, words(times), "serial_share", (times,)) for name, times in tables.items()]
    for name, times in tables.items():
        for part, most in ((1.0, 8), (0.5, 8), (0.25, 4), (0.25, 3), (0.1, 1000), (2.0, 1)):
            deadline = part * times[1]
            summary = f"{words(times)}; {deadline:g} ms, at most {most} GPUs"
            made.append(
                Case(f"{name}, {part:g} of one GPU's time", summary, "gpus_for", (times, deadline, most))
            )
    return made
