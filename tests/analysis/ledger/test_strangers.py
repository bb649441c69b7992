"""Made-up programs of strangers: the first verdict names the cause, without any mark, with its line."""

from pathlib import Path

import pytest

from labcode import reports
from labcode.analysis.rules import Verdict
from labcode.analysis.rules.driver import diagnose, tables_of
from tests.support import exports as x
from tests.support import strangers
from tests.support.command import labcode

LINES = {
    "data-loading": "train.py",
    "host-code": "in `save_checkpoint`, train.py:61",
    "sync-in-loop": "in `train`, train.py:40",
    "pageable-copies": "in `train`, train.py:20",
    "allocation-in-loop": "in `train`, train.py:40",
    "compiling-in-loop": "in `train`, train.py:50",
}


def judged(path: Path) -> list[Verdict]:
    with reports.open_timeline(path, "diagnose") as report:
        found = diagnose(report)
    assert not [one.message for one in found if one.status == "failed"]
    return [one for one in found if one.status == "found"]


@pytest.mark.parametrize("fault", sorted(strangers.FAULTS))
def test_the_first_verdict_names_the_cause(tmp_path: Path, fault: str) -> None:
    first, *rest = judged(strangers.program(fault, tmp_path / "a.sqlite"))
    assert first.rule == fault
    if fault == "good":
        assert first.severity == "info" and "next bounds it the rate of the tensor cores" in first.message
        assert not [one.rule for one in rest if one.severity in ("medium", "high")]
    else:
        assert first.severity in ("medium", "high") and first.predicted
        assert first.low is not None and first.high is not None and first.gain is not None
        assert first.low <= first.gain <= first.high


@pytest.mark.parametrize("fault", sorted(LINES))
def test_verdicts_name_the_line(tmp_path: Path, fault: str) -> None:
    first, *_ = judged(strangers.program(fault, tmp_path / "a.sqlite", stacks=True))
    assert first.rule == fault and LINES[fault] in first.message


def test_one_rank_is_late(tmp_path: Path) -> None:
    first, *_ = judged(strangers.ranks(tmp_path / "a.sqlite"))
    assert first.rule == "late-rank" and "GPU 1 is last in" in first.message
    assert "more of “idle: the program's own code on the CPU”" in first.message


def test_start_up_and_symptoms_are_facts(tmp_path: Path) -> None:
    found = {one.rule: one for one in judged(strangers.program("data-loading", tmp_path / "a.sqlite"))}
    for rule in ("start-up", "idle-gaps", "low-utilization"):
        assert found[rule].severity == "info"


def test_iterations_are_found_and_told(tmp_path: Path) -> None:
    with reports.open_timeline(strangers.program("good", tmp_path / "a.sqlite"), "diagnose") as report:
        tables = tables_of(report)
        assert tables.count == 29 and "updates by the optimizer" in tables.judged.told


def test_validation_is_another_kind_of_iteration(tmp_path: Path) -> None:
    def validates(m: strangers.Machine, step: int) -> None:
        if step % 10 == 9:
            for _ in range(60):
                strangers.layer(m, 900 * strangers.US, strangers.TENSOR)

    machine = strangers.train(strangers.started(), steps=40, after=validates)
    with reports.open_timeline(machine.export(tmp_path / "a.sqlite"), "diagnose") as report:
        tables = tables_of(report)
        (note,) = tables.judged.notes
        assert "of 39 iterations have other numbers of kernels (validation, for one)" in note
        assert tables.judged.rows["ops"].max() < 100


def test_a_checkpoint_now_and_then_is_no_other_kind(tmp_path: Path) -> None:
    with reports.open_timeline(strangers.program("host-code", tmp_path / "a.sqlite"), "diagnose") as report:
        tables = tables_of(report)
        assert tables.judged.notes == () and tables.count == 29


def test_processes_with_different_periods(tmp_path: Path) -> None:
    long = strangers.train(strangers.started(pid=100), steps=12)
    short = strangers.train(strangers.started(pid=200, device=1), steps=12, layers=2)
    with reports.open_timeline(long.export(tmp_path / "a.sqlite", short), "diagnose") as report:
        tables = tables_of(report)
        (note,) = tables.judged.notes
        assert note.startswith("2 processes have iterations of different lengths; judged is process 100")


def test_a_recording_that_begins_in_the_middle_of_an_iteration(tmp_path: Path) -> None:
    machine = strangers.train(strangers.started(), steps=12)
    begin = machine.tables["kernels"][100]["start"]
    for rows in machine.tables.values():
        rows[:] = [row for row in rows if row["start"] >= begin]
    with reports.open_timeline(machine.export(tmp_path / "a.sqlite"), "diagnose") as report:
        tables = tables_of(report)
        assert 7 <= tables.count <= 10
        assert int(tables.ledger.table["total_ns"].sum()) == tables.ledger.whole_ns


def test_stacks_without_names(tmp_path: Path) -> None:
    machine = strangers.started(stacks=True)
    machine.place = strangers.HERE
    strangers.train(machine, batch=strangers.loads(15 * strangers.MS))
    machine.stacks = [(at, [("[unknown]", "[unknown]", 0)]) for at, _ in machine.stacks]
    first, *_ = judged(machine.export(tmp_path / "a.sqlite"))
    assert first.rule == "data-loading" and "in `" not in first.message


# ---- windows


def told(path: Path, *words: str) -> str:
    done = labcode("diagnose", path, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[0]


def test_windows_that_somebody_chose(tmp_path: Path) -> None:
    path = strangers.program("good", tmp_path / "a.sqlite")
    assert "29 iterations, found by updates by the optimizer" in told(path)
    assert told(path) == told(path, "--window", "steady")
    assert "s judged (all of the capture)" in told(path, "--window", "all")
    assert "100 ms judged (the window 500ms..600ms)" in told(path, "--window", "500ms..600ms")


@pytest.mark.parametrize(
    ("window", "message"),
    [
        ("900s..901s", "the window 900s..901s is empty; the capture's goes from 0 ms to "),
        ("5ms..4ms", "the window 5ms..4ms is empty"),
        ("epoch", "no NVTX range 'epoch'; give one of those there are (there is none)"),
    ],
)
def test_windows_outside_of_the_capture(tmp_path: Path, window: str, message: str) -> None:
    path = strangers.program("good", tmp_path / "a.sqlite")
    for command in ("diagnose", "report"):
        done = labcode(command, path, "--window", window)
        assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1


def test_a_gpu_without_tensor_cores_gets_no_advice_on_them(tmp_path: Path) -> None:
    machine = strangers.train(strangers.started(), gemm=strangers.SIMT)
    for name, major, minor, wanted in (
        ("Tesla P100-SXM2-16GB", 6, 0, "no tensor cores"),
        ("Tesla V100-SXM2-16GB", 7, 0, "neither TF32 nor bf16"),
    ):
        gpus = [x.gpu(0, name, computeMajor=major, computeMinor=minor)]
        with reports.open_timeline(machine.export(tmp_path / "a.sqlite", gpus=gpus), "diagnose") as report:
            verdict = next(one for one in diagnose(report) if one.rule == "no-tensor-cores")
        assert wanted in verdict.message + verdict.advice and "TF32), or bf16" not in verdict.advice * (
            major > 6
        )
