"""The reports of `labcode stats` on power logs: a log in; a table out."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import wraps

import pandas as pd

from labcode.analysis.energy import reports, sensor, window
from labcode.analysis.stats.shelf import NOTES, LackingError, Shelf
from labcode.reports.power.log import PowerLog, open_log

Report = Callable[[PowerLog], pd.DataFrame]


def _sampled(report: Report) -> Report:
    """The same report, which says so where a log has no samples."""

    @wraps(report)
    def asked(log: PowerLog) -> pd.DataFrame:
        if not len(log.samples):
            raise LackingError(log.path, "no samples; record for longer with `labcode energy`")
        return report(log)

    return asked


def _throttled(log: PowerLog) -> pd.DataFrame:
    table = reports.clock_reasons(log)
    if not len(table):
        raise LackingError(log.path, "nothing held the clocks down while the command ran")
    return table


def _windows(log: PowerLog) -> pd.DataFrame:
    table = window.windows(log, window.MOST_WINDOWS)
    if len(log.windows) > window.MOST_WINDOWS:
        table.attrs[NOTES] = (f"of {len(log.windows):,} windows the {window.MOST_WINDOWS:,} longest",)
    return table


def range_energy_sum(log: PowerLog) -> pd.DataFrame:
    """Joules of NVTX ranges, from the log and the Nsight Systems capture of the same run (--with CAPTURE).

    The columns are those of `labcode.analysis.energy.ranges.per_range`.
    """
    from labcode.analysis.energy.ranges import per_range
    from labcode.reports.nsys.report import open_report

    if log.beside is None:
        raise LackingError(log.path, "the ranges are in the capture of the same run; name it: --with CAPTURE")
    return per_range(log, open_report(log.beside))


SHELF = Shelf(
    of=" of power logs",
    reports={
        "power_sum": _sampled(reports.power_sum),
        "energy_windows": _sampled(wraps(window.windows)(_windows)),
        "range_energy_sum": _sampled(range_energy_sum),
        "clock_reasons": _sampled(wraps(reports.clock_reasons)(_throttled)),
        "power_sensor": _sampled(sensor.updates),
        "power_trace": _sampled(reports.power_trace),
    },
    default=("power_sum", "energy_windows", "clock_reasons"),
    open=lambda path: nullcontext(open_log(path)),
    notes=lambda log: log.warnings,
    advice="record for longer with `labcode energy`",
    beside=("nsys", lambda log, capture: replace(log, beside=capture)),
)
