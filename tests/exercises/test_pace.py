"""How fast an answer is on a GPU: the pace beside the pass, the personal best, the drawing of accesses."""

from pathlib import Path

import pytest
from rich.console import Console

from labcode.grading import accesses, gpu, grade, progress, run
from labcode.grading.records import Pace, Verdict
from labcode.reports.ncu.report import open_report
from tests.exercises.support import ROOT, part

KERNEL = {"elements": 1 << 26, "outputs": 1 << 26, "baseline_us": 3200.0}
H100 = {"memory_bytes_us": 3.35e6, "fp32_operations_us": 6.7e7}


def kernel_verdict(monkeypatch: pytest.MonkeyPatch, us: float, **more: object) -> Verdict:
    record = {**KERNEL, "learner_us": us, "no_counters": "none here", **more}
    monkeypatch.setattr(gpu, "measure_kernel", lambda *_, **__: record)
    verdict = grade.on_gpu(*part("compute-ex03b"), "grade", Path("answer"))
    assert verdict is not None
    return verdict


def test_a_pass_says_how_fast_and_how_near_to_the_roof(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = kernel_verdict(monkeypatch, 200.0, **H100)  # 2^29 bytes take 160 µs at 3.35 TB/s
    said = "16.0 × as fast as the kernel you began with, 0.80 of the roof (memory)"
    assert verdict.headline == f"passed: right, and fast enough; {said}"
    assert verdict.pace is not None and verdict.pace.roof == pytest.approx(160.26 / 200, rel=1e-3)


def test_the_nearer_roof_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pace = kernel_verdict(monkeypatch, 200.0, memory_bytes_us=3.35e6, fp32_operations_us=1.2e7).pace
    assert pace is not None and pace.roof_of == "FP32" and pace.roof == pytest.approx(0.895, rel=1e-3)


def test_without_its_attributes_no_roof_is_told_and_a_slow_answer_has_its_pace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    verdict = kernel_verdict(monkeypatch, 1600.0)
    assert (verdict.status, verdict.headline) == ("failed", "right, but not fast enough")
    assert "as it is: 2.00 × as fast as the kernel you began with" in verdict.details


def test_only_a_faster_pass_is_a_personal_best(tmp_path: Path) -> None:
    done: progress.Progress = {}
    for times, passed in ((2.0, True), (9.0, False), (1.5, True)):
        done = progress.graded(done, "x:a", passed, "0", "h", None, Pace(times, "the loop", 0.5, "memory"))
    assert (done["x:a"].best, done["x:a"].tries) == (2.0, 3)
    assert done["x:a"].best_text == "2.00 × as fast as the loop, 0.50 of the roof (memory)"
    assert progress.save(tmp_path, done) == ""
    assert progress.load(tmp_path) == (done, "")
    assert progress.reopened(done, "x:a")["x:a"].best == 2.0


def test_the_result_tells_a_new_best_and_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exercise, one = part("compute-ex03b")
    (tmp_path / "solutions").mkdir()
    (tmp_path / "solutions" / exercise.folder).mkdir(parents=True)
    file = tmp_path / "exercises" / exercise.path(one)
    file.parent.mkdir(parents=True)
    file.write_text("// mine", encoding="utf-8")
    console = Console(record=True, width=200)
    for us in (400.0, 200.0, 300.0):
        verdict = kernel_verdict(monkeypatch, us, **H100)
        monkeypatch.setattr(grade, "grade", lambda *_, verdict=verdict, **__: verdict)
        run._grade_one(tmp_path, (exercise, one), console)
    said = console.export_text()
    assert "a new personal best: 16.0 ×" in said and "(before: 8.00 ×)" in said
    assert "your personal best: 16.0 ×" in said.partition("(before")[2]


def test_the_drawing_has_a_cell_for_each_sector_of_a_warp() -> None:
    report = open_report(ROOT / "captures" / "h200" / "ncu_memory" / "copies.ncu-rep.xz")
    lines = accesses.drawn(accesses.accesses(report))
    place = next(n for n, line in enumerate(lines) if line.startswith("strided: load of 4 bytes"))
    assert lines[place].endswith("32 sectors, 12 % asked for") and lines[place + 1].count("▁") == 32
    place = next(n for n, line in enumerate(lines) if line.startswith("coalesced: load of 4 bytes"))
    assert lines[place].endswith("4 sectors, 100 % asked for") and lines[place + 1] == "  |█|█|█|█|"
    assert accesses.drawn([]) == []
