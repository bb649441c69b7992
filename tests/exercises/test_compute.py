"""The exercises on Nsight Compute: verdicts from made-up records, what nvcc says."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from labcode import store
from labcode.errors import LabError
from labcode.grading import gpu, grade, needs
from labcode.grading.records import Verdict
from labcode.grading.task import beside
from tests.exercises.support import ROOT, names_of, part, solution
from tests.support.programs import program

KERNELS = {
    short: beside(*part(short), "gpu").KERNEL
    for short in ("compute-ex01b", "compute-ex02b", "compute-ex03b", "compute-ex04b")
}
PATTERNS = beside(*part("compute-ex05a"), "cases")
ENOUGH = {"compute-ex01b": 1.1, "compute-ex02b": 30.0, "compute-ex03b": 40.0, "compute-ex04b": 90.0}
TOO_FEW = {"compute-ex01b": 8.0, "compute-ex02b": 17.0, "compute-ex03b": 500.0, "compute-ex04b": 5000.0}
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")


OF_KERNELS = {
    "strided": {"strided"},
    "coalesced": {"coalesced"},
    "vectorized": {"wide"},
    "in_flight": {"wide"},
    "bulk_ring": {"bulk copy"},
    "bulk": {"bulk copy"},
    "gather": {"coalesced", "scattered sectors", "gather"},
    "gather_in_flight": {"coalesced", "scattered sectors", "gather"},
}


@pytest.mark.parametrize("run", ["exam_copies", "exam_gathers"])
def test_unseen_launches_have_the_patterns_of_their_kernels(run: str) -> None:
    table, names = PATTERNS.unnamed(store.load_set(store.SHIPPED_SET), run)
    found = names_of(solution("compute-ex05a"))["patterns"](table)
    assert all(pattern in OF_KERNELS[names[launch]] for launch, pattern in found.items())
    assert set().union(*(OF_KERNELS[name] for name in names)) == set(found.values())


def test_access_patterns_say_what_a_set_lacks() -> None:
    empty = store.CaptureSet(name="mine", path=ROOT, machines={}, experiments={})
    with pytest.raises(LabError, match="the capture set 'mine' has no run exam_copies of ncu_memory"):
        PATTERNS.unnamed(empty, "exam_copies")


def record(short: str, time: float, value: float | None) -> dict[str, Any]:
    """A record with this share of the baseline's time and this value of what is counted."""
    found: dict[str, Any] = {"elements": 1000, "outputs": 320, "baseline_us": 100.0, "learner_us": 100 * time}
    metrics = KERNELS[short].counted.metrics
    if value is None:
        return {**found, "no_counters": "ncu was not found here"}
    if short == "compute-ex01b":
        counts = [value * 4 * found["elements"] / 32]
    elif short == "compute-ex02b":
        counts = [value * 50, 50.0]
    else:
        counts = [value * found["outputs"] / 32]
    return {**found, "counters": dict(zip(metrics, counts, strict=True))}


def graded(monkeypatch: pytest.MonkeyPatch, short: str, found: dict[str, Any]) -> Verdict:
    monkeypatch.setattr(gpu, "measure_kernel", lambda *_, **__: found)
    verdict = grade.on_gpu(*part(short), "grade", Path("answer.cu"))
    assert isinstance(verdict, Verdict)
    return verdict


@pytest.mark.parametrize("short", KERNELS)
def test_time_counts_and_then_counters(monkeypatch: pytest.MonkeyPatch, short: str) -> None:
    limit = KERNELS[short].most_time
    assert graded(monkeypatch, short, record(short, 0.9 * limit, ENOUGH[short])).status == "passed"
    slow = graded(monkeypatch, short, record(short, 1.1 * limit, ENOUGH[short]))
    wasteful = graded(monkeypatch, short, record(short, 0.9 * limit, TOO_FEW[short]))
    for verdict, failing in ((slow, 0), (wasteful, 1)):
        assert (verdict.status, verdict.headline) == ("failed", "right, but not fast enough")
        assert [line[0] == "✘" for line in verdict.details[:2]] == [failing == 0, failing == 1]


@pytest.mark.parametrize("short", KERNELS)
def test_without_counters_the_time_decides_and_it_is_said(
    monkeypatch: pytest.MonkeyPatch, short: str
) -> None:
    limit = KERNELS[short].most_time
    passed = graded(monkeypatch, short, record(short, 0.9 * limit, None))
    failed = graded(monkeypatch, short, record(short, 1.1 * limit, None))
    assert (passed.status, failed.status) == ("passed", "failed")
    assert passed.details[-1] == "– counters: not looked at (ncu was not found here)"


def test_a_stopped_measurement_is_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = Verdict("failed", "a wrong answer", ("513 rows of 33: …",))

    def stop(*_: object, **__: object) -> None:
        raise gpu.StoppedError(stopped)

    monkeypatch.setattr(gpu, "measure_kernel", stop)
    for short in KERNELS:
        assert grade.on_gpu(*part(short), "grade", Path("answer.cu")) == stopped


@pytest.mark.parametrize(
    ("said", "code", "message"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM", 1, "the GPU's counters are not permitted here"),
        ("==ERROR== something else", 1, "ncu made no report"),
    ],
)
def test_why_counters_are_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str, code: int, message: str
) -> None:
    ncu = program(tmp_path / "ncu", f"echo '{said}'\nexit {code}")
    monkeypatch.setattr(gpu, "find_ncu", lambda: ncu)
    place = gpu.Place(tmp_path / "a.cu", tmp_path, tmp_path)
    with pytest.raises(LabError, match=message):
        gpu._counted(["program"], ("sm__x.sum",), place)
    monkeypatch.setattr(gpu, "find_ncu", lambda: None)
    with pytest.raises(LabError, match="ncu was not found here"):
        gpu._counted(["program"], ("sm__x.sum",), place)


def answer(tmp_path: Path, short: str, source: str) -> Path:
    exercise, found = part(short)
    file = tmp_path / "exercises" / exercise.path(found)
    file.parent.mkdir(parents=True, exist_ok=True)
    if not (tmp_path / "cuda").exists():
        (tmp_path / "cuda").symlink_to(ROOT / "cuda")
    file.write_text(source, encoding="utf-8")
    return file


@needs_nvcc
def test_what_the_compiler_refuses_fails_without_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = "compute-ex02b"
    exercise, found = part(short)
    monkeypatch.setattr(needs, "missing", lambda wanted: ("gpu",))
    broken = solution(short).replace("if (lane == 0) out[r] = sum;", "if (lane == 0) out[r] = some;")
    verdict = grade.grade(exercise, found, answer(tmp_path, short, broken))
    assert (verdict.status, verdict.headline) == ("failed", "the file does not compile")
    assert "some" in "".join(verdict.details)
    right = grade.grade(exercise, found, answer(tmp_path, short, solution(short)))
    assert right.status == "not run" and right.headline.startswith("not run: needs a GPU")


@needs_nvcc
def test_a_kernel_that_spills_fails_without_a_gpu(tmp_path: Path) -> None:
    short = "compute-ex03b"
    spilling = solution(short).replace("__launch_bounds__(kThreads)", "__launch_bounds__(1024, 2)")
    file = answer(tmp_path, short, spilling.replace("kEach = 4", "kEach = 64"))
    verdict = grade.on_gpu(*part(short), "beforehand", file)
    assert verdict.headline == "a kernel spills registers: keep fewer values at a time"


def test_without_nvcc_nothing_is_said_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short = "compute-ex03b"
    exercise, found = part(short)
    monkeypatch.setattr(needs, "missing", lambda wanted: ("gpu", "nvcc"))
    verdict = grade.grade(exercise, found, answer(tmp_path, short, "no C++ at all"))
    assert verdict.headline.startswith("not run: needs a GPU and nvcc")
