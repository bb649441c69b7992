"""Exercise energy-ex03, part a: the flaw in a log.

    samples   t_ns, energy_j (a counter), instant_w, sm_mhz, reasons (why the clock was not higher, bits),
              ascending in t_ns; one GPU
    begin_ns, end_ns   the window whose joules somebody printed

`flaw(samples, begin_ns, end_ns)` gives the first of these that holds, else 'none'. “In the window” are the
samples with begin_ns <= t_ns <= end_ns.

    'not covered'   the first sample comes after the begin, or the last before the end
    'gap'           more than 0.5 s in the window without a sample; from its begin to the first sample in
                    it, and from the last one to its end, count too
    'reset'         the counter falls from one sample in the window to the next
    'stuck'         the counter shows one value in the whole window
    'too short'     fewer than 10 updates: rises of the counter from a sample in the window to the next
    'throttled'     some sample in the window has one of the bits THROTTLED
    'disagreement'  the integral of instant_w over the samples in the window (trapezoids) is more than 5 %
                    off the rise of the counter from the first of them to the last

A worked example: samples every 20 ms from 0 to 3 s, the counter rises every 100 ms by 50 J, instant_w is 500,
reasons 0. The window 1 s … 2.5 s has 15 updates and 750 J by either: 'none'. From 1 s to 1.5 s it has 5: 'too
short'.

Grade it:         labcode exercises energy-ex03a        (or: nox -s exercises -- energy-ex03a)
Get a hint:       labcode exercises energy-ex03a --hint
"""

import numpy as np
import pandas as pd

THROTTLED = (
    0x4 | 0x8 | 0x20 | 0x40 | 0x80
)  # power cap, hardware, temperature (software, hardware), power brake


def flaw(samples: pd.DataFrame, begin_ns: int, end_ns: int) -> str:
    """The first flaw of a window of a log."""
    # [solution]
    times = samples["t_ns"].to_numpy()
    if times[0] > begin_ns or times[-1] < end_ns:
        return "not covered"
    inside = samples[(samples["t_ns"] >= begin_ns) & (samples["t_ns"] <= end_ns)]
    within = np.concatenate([[begin_ns], inside["t_ns"], [end_ns]])
    if np.diff(within).max() > 500_000_000:
        return "gap"
    steps = np.diff(inside["energy_j"])
    if (steps < 0).any():
        return "reset"
    if (steps == 0).all():
        return "stuck"
    if (steps > 0).sum() < 10:
        return "too short"
    if (inside["reasons"] & THROTTLED).any():
        return "throttled"
    watts, seconds = inside["instant_w"].to_numpy(), np.diff(inside["t_ns"]) / 1e9
    integral = float(((watts[1:] + watts[:-1]) / 2 * seconds).sum())
    return "disagreement" if abs(integral / steps.sum() - 1) > 0.05 else "none"
    # [starter]
    # raise NotImplementedError("one test after another, in the order of the list")
    # [end]


if __name__ == "__main__":
    from labcode.reports.power.log import open_log
    from labcode.store import load_set

    captures = load_set()
    log = open_log(captures.path_of("energy_matmul", "record", ".power.json"))
    for name, window in captures.record("energy_matmul", "record")["results"]["windows"].items():
        print(f"{name:12} {flaw(log.of(0), window['begin_ns'], window['end_ns'])}")
