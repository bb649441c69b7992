"""The unseen capture of advanced-ex06 has another cause than the one on the page, and it is clear."""

from __future__ import annotations

import pytest

from labcode import store
from labcode.analysis.timeline.os_runtime import classified, during_gaps
from labcode.analysis.timeline.utilization import idle_gaps
from labcode.exercises.advanced import ex06_cause, ex06_scenes, ex06_waits
from labcode.reports.nsys.report import open_report

pytestmark = pytest.mark.skipif(
    store.SHIPPED_SET not in store.list_sets()
    or "os_runtime" not in store.load_set(store.SHIPPED_SET).experiments,
    reason="the shipped captures are not here",
)


def seen(run: str) -> ex06_scenes.Seen:
    report = open_report(store.load_set(store.SHIPPED_SET).path_of("os_runtime", run))
    window = report.window()
    return ex06_scenes.Seen(classified(report.osrt()), idle_gaps(report.gpu_ops(), window, 1_000_000), window)


def test_the_causes_differ_and_no_run_without_gaps_has_one() -> None:
    page, unseen = (ex06_cause.cause(seen(run)) for run in ("baseline", "exam_baseline"))
    assert page is not None and unseen is not None
    assert (page["call"], page["behind"]) == ("flock", "fsync")
    assert (unseen["call"], unseen["behind"]) == ("clock_nanosleep", None)
    assert min(page["share"], unseen["share"]) > 0.5, "no second call can have as much"
    assert ex06_cause.cause(seen("improved")) is None


def test_waits_are_those_of_the_book() -> None:
    scene = seen("exam_baseline")
    found = during_gaps(classified(scene.calls, scene.window), scene.gaps, scene.window)
    workers = {(pid, tid) for pid, tid, kind, _ in ex06_waits.waits(scene) if kind == "sleep"}
    slept = found[found["call_class"] == "sleep"].set_index(["pid", "tid"])["overlap_ns"].to_dict()
    assert workers == set(slept)
    for pid, tid, kind, ns in ex06_waits.waits(scene):
        if kind == "sleep":
            assert ns == slept[pid, tid]
