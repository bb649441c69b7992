"""The right answers on the captures of the book against what the book's own analysis prints."""

import runpy
import sys
from pathlib import Path

import pandas as pd
import pytest

from labcode import store
from labcode.analysis.timeline.os_runtime import classified, during_gaps
from labcode.analysis.timeline.utilization import explain_gaps, idle_gaps
from labcode.grading import sql
from labcode.grading.task import read
from labcode.reports.nsys.report import NsysReport, open_report
from tests.exercises.support import CODE, ROOT, names_of, part, solution


def report(experiment: str, run: str) -> NsysReport:
    return open_report(store.load_set(store.SHIPPED_SET).path_of(experiment, run))


@pytest.mark.parametrize("run", ["baseline", "exam_baseline"])
def test_what_the_cpu_did_in_long_gaps(run: str) -> None:
    """The range in a gap's middle is nearly always the one that fills most of it."""
    opened = report("timeline_basics", run)
    ops, api, nvtx, window = opened.gpu_ops(), opened.api(), opened.nvtx(), opened.window()
    s = names_of(solution("nsys-ex01b"))
    gaps = explain_gaps(idle_gaps(ops, window, min_gap_ns=100_000), api, nvtx, ops)
    assert len(gaps) > 5
    by_middle = []
    for gap in gaps.itertuples():
        thread = s["launching_thread"](ops, api, gap.device, gap.end_ns)
        assert thread is None or thread == (gap.pid, gap.tid)
        if thread is not None:
            by_middle.append(s["range_at"](nvtx, *thread, (gap.start_ns + gap.end_ns) // 2) == gap.range)
    assert sum(by_middle) >= 0.8 * len(by_middle)


def test_the_diagnosis_of_the_exam_is_clear() -> None:
    """The largest entry leads by far, so that no sensible way of counting gives another answer."""
    task = read(*part("nsys-ex01b"))
    assert task.exam is not None
    (case,) = (c for c in task.exam(store.load_set(store.SHIPPED_SET)) if c.function == "idle_by_range")
    idle = sorted(task.expect(case).values())
    assert idle[-1] > 2 * idle[-2]


def test_the_exam_of_the_overlap_differs_from_the_page() -> None:
    diagnose, found = names_of(solution("nsys-ex02b"))["diagnose"], {}
    for run in ("streams", "exam_streams"):
        opened = report("kernel_overlap", run)
        found[run] = diagnose(opened.kernels(), opened.api())
    assert found == {"streams": "launch", "exam_streams": "stream"}


def test_the_model_predicts_the_pipelined_capture() -> None:
    predict_ns = names_of(solution("nsys-ex03b"))["predict_ns"]
    captures = store.load_set(store.SHIPPED_SET)
    for pinned, pipelined in (("pinned", "pipelined"), ("exam_pinned", "exam_pipelined")):
        ops = report("memory_timeline", pinned).gpu_ops()
        repetitions = captures.record("memory_timeline", pinned)["parameters"]["repetitions"]
        record = captures.record("memory_timeline", pipelined, clean=True)
        model = predict_ns(ops, repetitions, record["parameters"]["chunks"])
        assert 0.98 < 1e3 * record["results"]["total_us"] / model < 1.15


@pytest.mark.parametrize("short", CODE)
def test_trying_a_file_by_hand_works(
    short: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The main part of each file, as its text says to run it, with the functions of the solution."""
    exercise, found = part(short)
    file = str(ROOT / "solutions" / exercise.path(found))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(Path(file).parent))
    monkeypatch.setattr(sys, "argv", [file])
    before = set(sys.modules)
    if file.endswith(".sql"):
        captures = store.load_set(store.SHIPPED_SET)
        assert sql.main([file, str(captures.stored("timeline_basics", "baseline", ".sqlite"))]) == 0
    else:
        runpy.run_path(file, run_name="__main__")
    for name in set(sys.modules) - before:  # other exercises have files of the same names
        if str(ROOT / "solutions") in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
    assert len(capsys.readouterr().out.splitlines()) >= 2


def seen(run: str) -> tuple[pd.DataFrame, pd.DataFrame, tuple[int, int]]:
    opened = report("os_runtime", run)
    window = opened.window()
    return classified(opened.osrt()), idle_gaps(opened.gpu_ops(), window, 1_000_000), window


def test_the_causes_of_long_waits_differ_and_no_run_without_gaps_has_one() -> None:
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
