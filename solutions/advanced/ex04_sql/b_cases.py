"""Hidden cases of part b (ranges, with those that never ended): a generator or captures in, cases out."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from labcode.grading.cases import Case
from labcode.reports.nsys.report import open_report
from labcode.store import CaptureSet
from solutions.advanced.ex04_sql.a_cases import Rows, asked, asked_of_captures, rows_of

COLUMNS = ("range", "instances", "open", "total_ns")


def cases(rng: np.random.Generator) -> list[Case]:
    """A case an export."""
    return asked(rng, COLUMNS)


def exam(captures: CaptureSet) -> list[Case]:
    """The same of a capture."""
    return asked_of_captures(captures, COLUMNS)


def _ranges(export: Path, _columns: Sequence[str]) -> Rows:
    with open_report(export) as report:
        nvtx = report.nvtx()
    nvtx = nvtx[nvtx["event_type"].isin(["push_pop", "start_end"])]
    nvtx = nvtx.assign(ns=(nvtx["end_ns"] - nvtx["start_ns"]).fillna(0), open=nvtx["end_ns"].isna())
    table = nvtx.groupby("name").agg(n=("ns", "size"), open=("open", "sum"), ns=("ns", "sum")).reset_index()
    return rows_of(table.sort_values(["ns", "name"], ascending=[False, True]))


AGREES_WITH = {"answer": _ranges}
