"""Exercise energy-ex04, part a: joules of ranges.

    samples   t_ns, energy_j: an energy counter by the clock of the power meter, ascending
    marks     capture_ns, log_ns, ascending, at least one: moments whose time is known on both clocks
    ranges    name, start_ns, end_ns: NVTX ranges by the clock of the capture, in no order; names may recur

`to_log(marks, t_ns)`: a time of the capture on the meter's clock, a float. The difference of both clocks is
interpolated between marks, and beyond them it is that of the nearest mark.

`counter(samples, t_ns)`: the counter at a moment of the meter's clock: interpolated between the first sample
and the updates (first samples with a new value); after the last update it is the last value, before the first
sample the first.

`joules(samples, marks, ranges)`: {name: joules}, summed over all ranges of a name; None for a name whose
ranges together had fewer than 3 updates (begin < t <= end, on the meter's clock).

A worked example: one mark (100, 1100), so t_ns + 1000. Updates at 1000 (0 J, the first sample), 2000 (4 J),
3000 (6 J), 4000 (8 J): a range from 500 to 3000 is 1500 … 4000 on the meter's clock, from 2 J to 8 J: 6 J,
with 3 updates.

Grade it:         labcode exercises energy-ex04a        (or: nox -s exercises -- energy-ex04a)
Get a hint:       labcode exercises energy-ex04a --hint
Try it yourself:  python exercises/energy/ex04_ranges/a_ranges.py     (runs on a capture of the book)
"""

import numpy as np
import pandas as pd


def to_log(marks: pd.DataFrame, t_ns: float) -> float:
    """A time of the capture on the meter's clock."""
    # [solution]
    return float(t_ns + np.interp(t_ns, marks["capture_ns"], marks["log_ns"] - marks["capture_ns"]))
    # [starter]
    # raise NotImplementedError("interpolate the difference of the clocks")
    # [end]


def counter(samples: pd.DataFrame, t_ns: float) -> float:
    """The counter at a moment, interpolated between updates."""
    # [solution]
    known = samples[samples["energy_j"].diff() != 0]
    return float(np.interp(t_ns, known["t_ns"], known["energy_j"]))
    # [starter]
    # raise NotImplementedError("the updates, and a line between them")
    # [end]


def joules(samples: pd.DataFrame, marks: pd.DataFrame, ranges: pd.DataFrame) -> dict[str, float | None]:
    """Joules by name; None where the counter says nothing."""
    # [solution]
    updates = samples.loc[samples["energy_j"].diff() > 0, "t_ns"].to_numpy()
    used: dict[str, float] = {}
    seen: dict[str, int] = {}
    for name, start, end in zip(ranges["name"], ranges["start_ns"], ranges["end_ns"], strict=True):
        low, high = to_log(marks, start), to_log(marks, end)
        used[name] = used.get(name, 0.0) + counter(samples, high) - counter(samples, low)
        seen[name] = seen.get(name, 0) + int(((updates > low) & (updates <= high)).sum())
    return {name: used[name] if seen[name] >= 3 else None for name in used}
    # [starter]
    # raise NotImplementedError("the counter at both ends of each range, the updates between")
    # [end]


if __name__ == "__main__":
    from labcode.analysis.energy.ranges import clocks
    from labcode.reports.nsys.report import open_report
    from labcode.reports.power.log import open_log
    from labcode.store import load_set

    captures = load_set()
    report = open_report(captures.path_of("energy_ranges", "phases"))
    log = open_log(captures.path_of("energy_ranges", "phases", ".power.json"))
    both = clocks(report)
    nvtx = report.nvtx()
    for name, value in joules(
        log.of(0),
        pd.DataFrame({"capture_ns": both.capture_ns, "log_ns": both.log_ns}),
        nvtx[nvtx["end_ns"].notna() & ~nvtx["name"].str.startswith("lab:")],
    ).items():
        print(f"{name:10} {'none' if value is None else f'{value:8.1f} J'}")
