"""Hidden cases of part d (the busy and idle time of each GPU): a generator or captures in, cases out."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from labcode.analysis.timeline.utilization import device_busy
from labcode.grading.cases import Case
from labcode.reports.nsys.report import open_report
from labcode.store import CaptureSet
from solutions.advanced.ex04_sql.a_cases import Rows, asked, asked_of_captures

COLUMNS = ("device", "busy_ns", "idle_ns")


def cases(rng: np.random.Generator) -> list[Case]:
    """A case an export."""
    return asked(rng, COLUMNS)


def exam(captures: CaptureSet) -> list[Case]:
    """The same of a capture."""
    return asked_of_captures(captures, COLUMNS)


def _busy(export: Path, _columns: Sequence[str]) -> Rows:
    with open_report(export) as report:
        ops, (begin, end) = report.gpu_ops(), report.window()
    within = ops[(ops["end_ns"] > begin) & (ops["start_ns"] < end)]
    busy = device_busy(within, (begin, end))
    times = zip(busy["device"].tolist(), busy["busy_ns"].tolist(), strict=True)
    return [[device, ns, end - begin - ns] for device, ns in times]


AGREES_WITH = {"answer": _busy}
