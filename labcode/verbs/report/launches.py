"""What a report of Nsight Compute says in a report on a run."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from labcode.analysis.kernel.roofline import roofline as roofline_table
from labcode.analysis.rules.writing_launches import launch_gain_text, launch_measured_text
from labcode.errors import InputError
from labcode.figures.charts.roofline import MOST_LAUNCHES
from labcode.reports.ncu.report import NcuReport
from labcode.verbs.diagnose.verdicts import diagnose
from labcode.verbs.report.document import Chart, Found, Part


def _judged(report: NcuReport, *_: object) -> tuple[list[Found], None]:
    told = []
    for one in report.list:
        for verdict in diagnose(one):
            measured = launch_measured_text(verdict) if verdict.status == "found" else ""
            of = f"launch {one.id}: {one.function}"
            told.append(Found(verdict, Path(report.path).name, of, measured, launch_gain_text(verdict)))
    return told, None


def _charts(report: NcuReport) -> Iterator[Chart]:
    few = type(report)(report.path, tuple(report.list[:MOST_LAUNCHES]), report.extract, report.warnings)
    with suppress(InputError):  # its counters were not collected
        roofline_table(few)
        draw = "labcode.figures.charts.roofline:roofline"
        yield Chart("launches", draw, few, f"Roofline of {len(few.list)} launches")


PART = Part(
    judged=_judged,
    reports={
        "launches": (
            ("speed_of_light", "Share of the peak"),
            ("occupancy", "Occupancy"),
            ("roofline", "Intensity, rate and roof"),
            ("stalls", "What warps wait for, the longest first"),
        )
    },
    changed="labcode.verbs.report.changed:launches",
    charts=_charts,
)
