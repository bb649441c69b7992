"""Exercise compute-ex07, part a: which roof binds? Launches of a `.ncu-rep` under the roofline, by counters.

The input is the table that `labcode.reports.ncu.report` gives for a report, `report.metrics()`: a row for
each metric of each launch, with the columns

    launch, name, label, unit, value, text

Below stand the names you need; there are others in the table. What is executed is counted *in a cycle of the
SMs*, by all threads of the GPU together. A derived metric with `_x2` or `_x4` in its name counts operations
already: a multiply-add of two numbers as four (`_x4`). The others count additions and multiplications, one
each. Every memory level has a clock of its own, and every launch of a report has its own clocks.

A worked example, launch 0, with an SM clock of 2e9, a DRAM clock of 3e9, and values of 0 where none is given:

    fadd 100, derived ffma 400        ->  500 operations per cycle, 1e12 FLOP/s in fp32
    derived peak of ffma 30000        ->  6e13 FLOP/s
    DRAM: 2e12 bytes/s, peak 1500     ->  intensity 0.5, bandwidth 4.5e12 bytes/s
    L1, L2: 1e12 bytes/s, peak 10000  ->  intensity 1, bandwidth 2e13 bytes/s (clocks of 2e9)

    bounds(metrics)    ->  {0: (2.25e12, 'DRAM')}     0.5 × 4.5e12 < 1 × 2e13 < 6e13
    verdicts(metrics)  ->  {0: 'none'}                1e12 is less than 0.6 of it

Grade it:         labcode exercises compute-ex07a        (or: nox -s exercises -- compute-ex07a)
Get a hint:       labcode exercises compute-ex07a --hint
"""

import math

import pandas as pd

SM_CLOCK = "smsp__cycles_elapsed.avg.per_second"
LEVELS = {  # bytes a second, the most bytes in a cycle, the clock of those cycles
    "L1": (
        "derived__l1tex__lsu_writeback_bytes_mem_lgds.sum.per_second",
        "derived__l1tex__lsu_writeback_bytes_mem_lgds.sum.peak_sustained",
        "l1tex__cycles_elapsed.avg.per_second",
    ),
    "L2": (
        "derived__lts__lts2xbar_bytes.sum.per_second",
        "derived__lts__lts2xbar_bytes.sum.peak_sustained",
        "lts__cycles_elapsed.avg.per_second",
    ),
    "DRAM": (
        "dram__bytes.sum.per_second",
        "dram__bytes.sum.peak_sustained",
        "dram__cycles_elapsed.avg.per_second",
    ),
}
_EXECUTED = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum.per_cycle_elapsed"
_DERIVED = "derived__smsp__sass_thread_inst_executed_op_{}_pred_on_{}"
_PEAK = "derived__sm__sass_thread_inst_executed_op_{}_pred_on_{}"
PRECISIONS = {  # what was executed in a cycle, the most operations in a cycle
    "fp64": (
        (_EXECUTED.format("dadd"), _EXECUTED.format("dmul"), _DERIVED.format("dfma", "x2")),
        _PEAK.format("dfma", "x2"),
    ),
    "fp32": (
        (_EXECUTED.format("fadd"), _EXECUTED.format("fmul"), _DERIVED.format("ffma", "x2")),
        _PEAK.format("ffma", "x2"),
    ),
    "fp16": (
        (_DERIVED.format("hadd", "x2"), _DERIVED.format("hmul", "x2"), _DERIVED.format("hfma", "x4")),
        _PEAK.format("hfma", "x4"),
    ),
}
Point = tuple[str, float, dict[str, float]]


def roofs(metrics: pd.DataFrame) -> dict[int, dict[str, float]]:
    """For each launch six roofs at its own clocks: 'L1', 'L2', 'DRAM' in bytes/s, precisions in FLOP/s."""
    # [solution]
    found = {}
    for launch, value in _by_launch(metrics).items():
        found[launch] = {level: value[peak] * value[clock] for level, (_, peak, clock) in LEVELS.items()}
        found[launch] |= {name: value[peak] * value[SM_CLOCK] for name, (_, peak) in PRECISIONS.items()}
    return found
    # [starter]
    # raise NotImplementedError("the most in a cycle, times that unit's cycles in a second")
    # [end]


def points(metrics: pd.DataFrame) -> dict[int, Point]:
    """For each launch: its precision, its FLOP/s in that precision, and its intensity at each level.

    The precision of a launch is the one that uses the largest share of its own peak; 'fp32' for a launch
    without any operation, whose rate and intensities are 0. A level that no byte passed has the intensity
    infinity.
    """
    # [solution]
    peaks, found = roofs(metrics), {}
    for launch, value in _by_launch(metrics).items():
        rates = {
            name: sum(value[one] for one in executed) * value[SM_CLOCK]
            for name, (executed, _) in PRECISIONS.items()
        }
        precision = max(rates, key=lambda name: (rates[name] / peaks[launch][name], name == "fp32"))
        rate = rates[precision]
        intensities = {}
        for level, (moved, _, _) in LEVELS.items():
            intensities[level] = rate / value[moved] if value[moved] else math.inf if rate else 0.0
        found[launch] = (precision, rate, intensities)
    return found
    # [starter]
    # raise NotImplementedError("operations in a cycle × cycles in a second; then divide by bytes a second")
    # [end]


def bounds(metrics: pd.DataFrame) -> dict[int, tuple[float, str]]:
    """For each launch the most FLOP/s that its four roofs allow, and the name of the roof that binds.

    The four are its three memory levels and the peak of its precision. The roof that binds is the one that
    the launch uses the largest share of: for a launch with operations that is the lowest roof above its
    point. A launch without operations can do 0 FLOP/s, and one of the memory levels binds it.
    """
    # [solution]
    values, peaks, found = _by_launch(metrics), roofs(metrics), {}
    for launch, (precision, rate, intensities) in points(metrics).items():
        most = peaks[launch][precision]
        for level, intensity in intensities.items():
            most = min(most, intensity * peaks[launch][level])
        used = _shares(values[launch], peaks[launch], precision, rate)
        found[launch] = (most, max(used, key=lambda name: used[name]))
    return found
    # [starter]
    # raise NotImplementedError("the lowest of: intensity × bandwidth at three levels, and the peak")
    # [end]


def verdicts(metrics: pd.DataFrame) -> dict[int, str]:
    """For each launch the roof that binds it, or 'none' where it uses less than 0.6 of that roof."""
    # [solution]
    values, peaks, found = _by_launch(metrics), roofs(metrics), {}
    for launch, (precision, rate, _) in points(metrics).items():
        used = _shares(values[launch], peaks[launch], precision, rate)
        roof = max(used, key=lambda name: used[name])
        found[launch] = roof if used[roof] >= 0.6 else "none"
    return found
    # [starter]
    # raise NotImplementedError("what is used of the roof that binds, against 0.6")
    # [end]


# [solution]
def _by_launch(metrics: pd.DataFrame) -> dict[int, dict[str, float]]:
    """For each launch its metrics by name."""
    columns = (metrics[key].tolist() for key in ("launch", "name", "value"))
    found: dict[int, dict[str, float]] = {}
    for launch, name, value in zip(*columns, strict=True):
        found.setdefault(launch, {})[name] = value
    return found


def _shares(
    value: dict[str, float], peaks: dict[str, float], precision: str, rate: float
) -> dict[str, float]:
    """What a launch uses of each of its four roofs."""
    used = {level: value[moved] / peaks[level] for level, (moved, _, _) in LEVELS.items()}
    return used | {precision: rate / peaks[precision]}


# [end]
if __name__ == "__main__":
    from labcode import store
    from labcode.reports.ncu.report import open_report

    captures = store.load_set()
    shown = (("ncu_memory", "copies"), ("ncu_roofline", "fp32"))  # reports of the book's pages
    for experiment, run in shown:
        if experiment in captures.experiments:
            report = open_report(captures.path_of(experiment, run, ".ncu-rep"))
            print(f"{experiment}, {run}: {len(report.list)} launches")
            for launch, verdict in verdicts(report.metrics()).items():
                print(f"  {launch:2} {report.list[launch].function:12} {verdict}")
