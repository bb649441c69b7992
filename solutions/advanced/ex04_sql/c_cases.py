"""Hidden cases of part c (how long kernels waited): a generator or captures in, cases out."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from labcode.grading.cases import Case
from labcode.reports.nsys.report import open_report
from labcode.store import CaptureSet
from solutions.advanced.ex04_sql.a_cases import Rows, asked, asked_of_captures, rows_of

COLUMNS = ("kernel", "kernels", "launched", "mean_wait_ns")


def cases(rng: np.random.Generator) -> list[Case]:
    """A case an export."""
    return asked(rng, COLUMNS)


def exam(captures: CaptureSet) -> list[Case]:
    """The same of a capture."""
    return asked_of_captures(captures, COLUMNS)


def _waits(export: Path, _columns: Sequence[str]) -> Rows:
    with open_report(export) as report:
        kernels, api = report.kernels(), report.api()
    calls = api[["pid", "correlation", "start_ns"]].rename(columns={"start_ns": "called_ns"})
    joined = kernels.merge(calls.astype({"called_ns": "Int64"}), on=["pid", "correlation"], how="left")
    joined["wait_ns"] = (joined["start_ns"] - joined["called_ns"]).astype("Float64")
    grouped = joined.groupby("short_name")["wait_ns"].agg(["size", "count", "mean"]).reset_index()
    return rows_of(grouped.sort_values("short_name"))


AGREES_WITH = {"answer": _waits}
