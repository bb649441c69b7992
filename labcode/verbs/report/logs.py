"""What a power log says in a report."""

from collections.abc import Iterator

from labcode.reports.power.log import PowerLog
from labcode.verbs.diagnose.verdicts import diagnose
from labcode.verbs.report.document import Chart, Found, Part, told_of


def _judged(log: PowerLog, *_: object) -> tuple[list[Found], None]:
    return [told_of(verdict, log) for verdict in diagnose(log)], None


def _charts(log: PowerLog) -> Iterator[Chart]:
    if len(log.samples):
        draw = "labcode.figures.charts.power:power_over_time"
        yield Chart("energy", draw, log, "Power of each GPU over time")


PART = Part(
    judged=_judged,
    reports={
        "energy": (
            ("power_sum", "Energy and power of each GPU"),
            ("energy_windows", "Energy of named windows"),
            ("clock_reasons", "What held the clocks down"),
        )
    },
    changed="labcode.verbs.report.changed:energy",
    charts=_charts,
)
