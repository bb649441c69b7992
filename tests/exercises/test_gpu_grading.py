"""Verdicts of the parts for a GPU, from records a GPU machine might give; their CUDA files compile."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from labcode.grading import gpu, grade
from labcode.grading.records import Verdict
from tests.exercises.support import ROOT, part, solution

COMPUTE, TALK = "gemm", "ncclDevKernel_AllReduce"


def graded(monkeypatch: pytest.MonkeyPatch, short: str, record: dict[str, Any]) -> Verdict:
    for measure in ("measure_python", "measure_cuda"):
        monkeypatch.setattr(gpu, measure, lambda *_, **__: record)
    verdict = grade.on_gpu(*part(short), "grade", Path("answer"))
    assert isinstance(verdict, Verdict)
    return verdict


def test_idle_share() -> None:
    assert gpu.idle_share([]) is None
    operations = [["a", 0, 40, 0], ["b", 20, 50, 0], ["c", 80, 100, 0]]
    assert gpu.idle_share(operations) == pytest.approx(0.3)


def test_hidden_share() -> None:
    assert gpu.hidden_share([[COMPUTE, 0, 10, 0]]) is None
    operations = [[TALK, 0, 100, 0], [COMPUTE, 50, 70, 0], ["NCCL_old", 90, 110, 0], [COMPUTE, 60, 75, 0]]
    assert gpu.hidden_share(operations) == pytest.approx(25 / 110)


def training(time: float, idle: int) -> dict[str, Any]:
    busy, gap = [["k", 0, 50, 0], ["k", 100, 150, 0]], [["k", 0, 50, 0], ["k", 50 + idle, 100 + idle, 0]]
    return {"baseline_ms": 10.0, "learner_ms": time, "baseline_operations": busy, "learner_operations": gap}


def test_a_fast_training_loop_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = graded(monkeypatch, "nsys-ex01c", training(5.0, 2))
    assert verdict.status == "passed"
    assert verdict.details[0] == "✔ time: 0.5 × that of the plain loop (at most 0.67 is asked for)"
    assert verdict.details[1].startswith("✔ GPU idle share: 0.020, 0.333 in the plain loop")


@pytest.mark.parametrize(("time", "idle", "failing"), [(10.0, 50, 2), (9.0, 2, 1), (5.0, 40, 1)])
def test_a_slow_or_idle_training_loop_fails(
    monkeypatch: pytest.MonkeyPatch, time: float, idle: int, failing: int
) -> None:
    verdict = graded(monkeypatch, "nsys-ex01c", training(time, idle))
    assert (verdict.status, verdict.headline) == ("failed", "right, but not fast enough")
    assert sum(line.startswith("✘") for line in verdict.details) == failing


def test_what_the_profiler_did_not_see_does_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (
        graded(monkeypatch, "nsys-ex01c", {**training(5.0, 2), "learner_operations": []}).status == "not run"
    )
    silent = {"baseline_ms": 1.0, "learner_ms": 1.0, "baseline_operations": [], "learner_operations": []}
    verdict = graded(monkeypatch, "nsys-ex04c", silent)
    assert verdict.status == "not run" and "the communication could not be measured" in verdict.headline


@pytest.mark.parametrize(("us", "status"), [(400.0, "passed"), (500.0, "passed"), (510.0, "failed")])
def test_overlap(monkeypatch: pytest.MonkeyPatch, us: float, status: str) -> None:
    assert graded(monkeypatch, "nsys-ex02c", {"baseline_us": 1000.0, "learner_us": us}).status == status


@pytest.mark.parametrize(("us", "status"), [(1200.0, "passed"), (1300.0, "failed"), (2700.0, "failed")])
def test_pipeline(monkeypatch: pytest.MonkeyPatch, us: float, status: str) -> None:
    record = {"h2d_us": 900.0, "kernel_us": 1000.0, "d2h_us": 800.0, "baseline_us": 2700.0, "learner_us": us}
    verdict = graded(monkeypatch, "nsys-ex03c", record)
    assert verdict.status == status
    assert "that of the slowest stage alone (kernel)" in verdict.details[0]
    assert verdict.details[0].endswith("one after another takes 2.70 ×")


@pytest.mark.parametrize(
    ("compute", "ms", "status"), [(60, 10.0, "passed"), (40, 10.0, "failed"), (60, 10.6, "failed")]
)
def test_reduction(monkeypatch: pytest.MonkeyPatch, compute: int, ms: float, status: str) -> None:
    operations = [[TALK, 0, 100, 0], [COMPUTE, 0, compute, 0]]
    record = {"baseline_ms": 10.0, "learner_ms": ms, "learner_operations": operations}
    assert graded(monkeypatch, "nsys-ex04c", {**record, "baseline_operations": operations}).status == status


def test_a_stopped_measurement_is_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = Verdict("failed", "a wrong answer", ("slice 3: …",))

    def stop(*_: object, **__: object) -> None:
        raise gpu.StoppedError(stopped)

    for measure in ("measure_python", "measure_cuda"):
        monkeypatch.setattr(gpu, measure, stop)
    for short in ("nsys-ex01c", "nsys-ex02c", "nsys-ex03c", "nsys-ex04c"):
        assert grade.on_gpu(*part(short), "grade", Path("answer")) == stopped


NSYS = ROOT / "solutions" / "nsys"
CUDA = [
    (NSYS / "ex02_kernel_overlap" / "c_harness.cu", "nsys-ex02c"),
    (NSYS / "ex03_memory_timeline" / "c_harness.cu", "nsys-ex03c"),
]


def compile_cuda(program: Path, file: Path, binary: Path, *flags: str) -> str:
    """Compile a measuring program with a learner's file, here; what nvcc said."""
    return gpu._compile(program, gpu.Place(file.resolve(), binary.parent, binary.parent), binary, *flags)


SM_90 = "-gencode=arch=compute_90a,code=sm_90a"


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
@pytest.mark.parametrize(("program", "short"), CUDA)
@pytest.mark.parametrize("top", ["solutions", "exercises"])
def test_cuda_parts_compile(tmp_path: Path, program: Path, short: str, top: str) -> None:
    exercise, found = part(short)
    quick = [word for tool in ("-Xcompiler", "-Xcicc", "-Xptxas") for word in (tool, "-O0")]
    if top == "exercises":  # on the way to device code, the host's is read and checked, too
        quick.append("-cubin")
    compile_cuda(program, ROOT / top / exercise.path(found), tmp_path / "program", SM_90, *quick)
    assert (tmp_path / "program").is_file()


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
def test_a_cuda_file_that_does_not_compile(tmp_path: Path) -> None:
    program, short = CUDA[0]
    folder = tmp_path / "exercises" / "nsys" / "ex"
    folder.mkdir(parents=True)
    (tmp_path / "cuda").symlink_to(ROOT / "cuda")
    file = folder / "c_answer.cu"
    file.write_text(solution(short).replace("delete plan;", "delete plam;"), encoding="utf-8")
    with pytest.raises(gpu.StoppedError) as stopped:
        compile_cuda(program, file, tmp_path / "program", SM_90)
    verdict = stopped.value.verdict
    assert (verdict.status, verdict.headline) == ("failed", "the file does not compile")
    assert any(line.startswith("c_answer.cu(") and "plam" in line for line in verdict.details)


@pytest.mark.parametrize(
    ("device", "time", "status", "said"),
    [
        ("cuda", 2.0, "passed", "✔ time: 0.2 × that of the slow loop (H200) (at most 0.333333 is asked for)"),
        ("cuda", 4.0, "failed", "✘ time: 0.4 × that of the slow loop (H200) (at most 0.333333 is asked for)"),
        ("cpu", 3.0, "passed", "✔ time: 0.3 × that of the slow loop (H200) (at most 0.5 is asked for)"),
    ],
)
def test_decoding(monkeypatch: pytest.MonkeyPatch, device: str, time: float, status: str, said: str) -> None:
    record = {"device": device, "name": "H200", "baseline_ms": 10.0, "learner_ms": time}
    if device == "cuda":
        record["roof_ms"] = 0.5
    verdict = graded(monkeypatch, "serving-ex32c", record)
    assert (verdict.status, verdict.details[0]) == (status, said)
    if time == 2.0:
        assert str(verdict.pace) == "5.00 × as fast as the slow loop, 0.25 of the roof (memory)"


@pytest.mark.parametrize(
    ("writes", "says"),
    [
        ("json.dumps({'nonce': word, 'ms': 1.5})", ""),
        ("json.dumps({'ms': 1.5})", "the record was not written by what measures"),
        ("json.dumps({'nonce': '0' * 32, 'ms': 1.5})", "the record was not written by what measures"),
        ("json.dumps({'nonce': word})[:-1]", "the measurement's record is damaged"),
        ("''", "the measurement ended with exit code 0"),
        ("json.dumps({'nonce': word, 'wrong': ['not the sum']})", "a wrong answer"),
    ],
)
def test_a_record_counts_with_the_word_that_its_program_was_given(
    tmp_path: Path, writes: str, says: str
) -> None:
    """It comes through a pipe, and no file is left that somebody could have written before."""
    program, answer = tmp_path / "measures.py", tmp_path / "a_answer.py"
    program.write_text(
        "import json, stat, os, sys\n"
        "word = sys.stdin.readline().strip()\n"
        "assert stat.S_ISFIFO(os.stat(sys.argv[2]).st_mode)\n"
        f"open(sys.argv[2], 'w').write({writes})\n",
        encoding="utf-8",
    )
    answer.write_text("def fast():\n    return 1\n", encoding="utf-8")
    if not says:
        assert gpu.measure_python(program, answer) == {"ms": 1.5}
        return
    with pytest.raises(gpu.StoppedError, match=says):
        gpu.measure_python(program, answer)
