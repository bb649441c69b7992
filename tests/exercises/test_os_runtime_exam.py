"""The unseen capture of advanced-ex06 has another cause than the one on the page, and it is clear."""

from __future__ import annotations

import pandas as pd
import pytest

from labcode import store
from labcode.analysis.timeline.os_runtime import classified, during_gaps
from labcode.analysis.timeline.utilization import idle_gaps
from labcode.reports.nsys.report import open_report
from tests.exercises.support import names_of, solution

pytestmark = pytest.mark.skipif(
    store.SHIPPED_SET not in store.list_sets()
    or "os_runtime" not in store.load_set(store.SHIPPED_SET).experiments,
    reason="the shipped captures are not here",
)


def seen(run: str) -> tuple[pd.DataFrame, pd.DataFrame, tuple[int, int]]:
    report = open_report(store.load_set(store.SHIPPED_SET).path_of("os_runtime", run))
    window = report.window()
    return classified(report.osrt()), idle_gaps(report.gpu_ops(), window, 1_000_000), window


def test_the_causes_differ_and_no_run_without_gaps_has_one() -> None:
    cause = names_of(solution("advanced-ex06b"))["cause"]
    page, unseen = (cause(*seen(run)) for run in ("baseline", "exam_baseline"))
    assert (page["call"], page["behind"]) == ("flock", "fsync")
    assert (unseen["call"], unseen["behind"]) == ("clock_nanosleep", None)
    assert min(page["share"], unseen["share"]) > 0.5, "no second call can have as much"
    assert cause(*seen("improved")) is None


def test_waits_are_those_of_the_book() -> None:
    calls, gaps, window = seen("exam_baseline")
    found = during_gaps(classified(calls, window), gaps, window)
    slept = found[found["call_class"] == "sleep"].set_index(["pid", "tid"])["overlap_ns"].to_dict()
    waits = names_of(solution("advanced-ex06a"))["waits"](calls, gaps, window)
    assert {(pid, tid): ns for pid, tid, kind, ns in waits if kind == "sleep"} == slept
