import shutil
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from labcode import store
from labcode.errors import LabError
from labcode.grading import execution, grade, needs
from labcode.grading.cases import Case
from labcode.grading.grade import grade_cases
from labcode.grading.records import ALWAYS_FORBIDDEN, Part, Verdict
from labcode.grading.task import Task, read
from tests.exercises.support import ROOT, SHEETS, WITH_GPU, part, solution, task


def double_cases(rng: np.random.Generator) -> list[Case]:
    numbers = [int(n) for n in rng.integers(2, 1000, 3)]
    return [Case(f"number {k}", f"x = {n}", "double", (n,)) for k, n in enumerate(numbers)]


# `labcode exercises --solutions`, which CI calls too, grades every solution and every starter
ONE_OF_EACH_KIND = ("nsys-ex01a", "advanced-ex04a")  # in Python, a query
RIGHT = "def double(x):\n    return x + x\n"
PART = Part("a", "twice", "a_double.py", ("add", "to", "itself"))


def made(folder: Path, **module: Any) -> Task:
    """A task with what a module ``a_cases`` has, beside its solution in a folder."""
    file = folder / "solution.py"
    file.write_text(RIGHT, encoding="utf-8")
    (folder / "a_mistakes.toml").touch()
    return Task(PART, file, SimpleNamespace(**{"cases": double_cases, **module}))


def verdict(tmp_path: Path, source: str, seed: int = 1, **module: Any) -> Verdict:
    file = tmp_path / "a_double.py"
    file.write_text(source, encoding="utf-8")
    if hiding := grade._forbidden_import((*PART.forbidden, *ALWAYS_FORBIDDEN), file):
        return Verdict("failed", hiding)
    with execution.Execution(file) as ran:
        return grade_cases(made(tmp_path, **module), ran, seed)


def test_a_right_answer_passes(tmp_path: Path) -> None:
    assert verdict(tmp_path, RIGHT) == Verdict("passed", "passed: 3 hidden cases", ())


def test_a_wrong_answer_names_case_input_expected_and_got(tmp_path: Path) -> None:
    found = verdict(tmp_path, "def double(x):\n    print('hm')\n    return x + 2\n")
    assert found.status == "failed"
    assert found.headline == "double: a wrong answer on case 1 of 3, “number 0”"
    n = int(np.random.default_rng(1).integers(2, 1000, 3)[0])
    assert found.details == (
        f"input:    x = {n}",
        f"expected: {2 * n}",
        f"got:      {n + 2}",
        "your file printed (the end of it):",
        "    hm",
        "inputs are drawn anew each time; LABCODE_EXERCISE_SEED=1 repeats these",
    )


def test_a_solution_that_warns_shows_nothing(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    case = double_cases(np.random.default_rng(1))[0]
    found = made(tmp_path)
    found._namespace["double"] = lambda x: warnings.warn("a line of the solution", stacklevel=1) or 2 * x
    assert found.expect(case) == 2 * case.arguments[0] and not recwarn.list


def test_an_error_is_told_from_a_wrong_answer(tmp_path: Path) -> None:
    found = verdict(tmp_path, "def double(x):\n    return [x][2]\n")
    assert found.headline == "double: an error on case 1 of 3, “number 0”"
    assert "a_double.py, line 2, in double:  return [x][2]" in found.details
    assert "IndexError: list index out of range" in found.details


def test_a_starter_is_not_written_yet(tmp_path: Path) -> None:
    found = verdict(tmp_path, "def double(x):\n    raise NotImplementedError('x twice')\n")
    assert found == Verdict("to do", "double: not written yet: x twice")


def test_a_file_that_cannot_be_loaded(tmp_path: Path) -> None:
    found = verdict(tmp_path, "def double(x)\n")
    assert found.headline == "the file cannot be loaded"
    assert found.details[0].startswith("a_double.py, line 1: SyntaxError")
    found = verdict(tmp_path, f"x = {'-' * 100_000}1\n")  # too deep for the parser
    assert found.headline == "the file cannot be loaded"


def test_an_endless_loop_is_too_slow(tmp_path: Path) -> None:
    def cases(rng: np.random.Generator) -> list[Case]:
        return [replace(case, limit_s=0.5) for case in double_cases(rng)]

    found = verdict(tmp_path, "def double(x):\n    while True:\n        pass\n", cases=cases)
    assert found.headline == "double: too slow on case 1 of 3, “number 0”"
    assert "took longer than 0.5 s" in found.details


def test_a_program_that_ends_itself_never_passes(tmp_path: Path) -> None:
    source = (
        "import os\nseen = []\n\ndef double(x):\n    seen.append(x)\n"
        "    if len(seen) == 3:\n        os._exit(0)\n    return 2 * x\n"
    )
    found = verdict(tmp_path, source)
    assert found.status == "failed"
    assert found.headline == "double: it ended on case 3 of 3, “number 2”"


def test_captures_that_are_not_there_are_not_run(tmp_path: Path) -> None:
    def exam(captures: store.CaptureSet) -> list[Case]:
        raise LabError(f"the capture set {captures.name!r} has no run exam of it")

    found = verdict(tmp_path, RIGHT, exam=exam)
    assert found.status == "not run"
    assert found.headline == "not run: the capture set 'h200' has no run exam of it"
    assert found.details == ("all 3 generated cases pass; the unseen capture is still to come",)


def test_without_any_capture_set_it_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABCODE_SETS", str(tmp_path / "nothing"))
    found = verdict(tmp_path, RIGHT, exam=lambda _: [])
    assert found.status == "not run"
    assert "no capture set of this name" in found.headline


def test_a_wrong_answer_is_told_before_a_missing_capture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LABCODE_SETS", str(tmp_path / "nothing"))
    assert verdict(tmp_path, "def double(x):\n    return x\n", exam=lambda _: []).status == "failed"


def test_exam_cases_count_and_notes_follow(tmp_path: Path) -> None:
    def exam(_: store.CaptureSet) -> list[Case]:
        return [Case("a capture", "real", "double", (21,))]

    def notes(_: store.CaptureSet, answered: list[tuple[Case, Any]]) -> list[str]:
        return [f"it is {answered[0][1]}"]

    found = verdict(tmp_path, RIGHT, exam=exam, notes=notes)
    assert found.headline == "passed: 4 hidden cases, 1 of them on captures you have not seen"
    assert found.details == ("it is 42",)


def test_a_slow_answer_on_a_capture_gets_advice(tmp_path: Path) -> None:
    def exam(_: store.CaptureSet) -> list[Case]:
        return [Case("a capture", "real", "double", (10**6,), limit_s=0.5)]

    source = "def double(x):\n    while x > 1000:\n        pass\n    return 2 * x\n"
    found = verdict(tmp_path, source, exam=exam)
    assert any("compare neighbors after one sort, not every pair" in line for line in found.details)


@pytest.mark.parametrize(
    "statement",
    [
        "import labcode.analysis.timeline.intervals",
        "from labcode.analysis import intervals",
        "from labcode import analysis",
        "from labcode.grading import task",
        "from solutions.nsys.ex01_timeline_basics import a_idle",
    ],
)
def test_modules_that_do_the_work_are_named(tmp_path: Path, statement: str) -> None:
    found = verdict(tmp_path, f"{statement}\n\n{RIGHT}")
    assert found.status == "failed"
    assert found.headline.startswith("line 1 imports ")
    assert found.headline.endswith("write it yourself, this is the exercise")


def test_reading_captures_in_the_main_part_is_fine(tmp_path: Path) -> None:
    source = RIGHT + "\nif __name__ == '__main__':\n    from labcode.analysis import intervals\n"
    assert verdict(tmp_path, source).status == "passed"


def test_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert grade.seed_from_environment() != grade.seed_from_environment()
    monkeypatch.setenv("LABCODE_EXERCISE_SEED", "17")
    assert grade.seed_from_environment() == 17
    monkeypatch.setenv("LABCODE_EXERCISE_SEED", "many")
    with pytest.raises(LabError, match="LABCODE_EXERCISE_SEED=many: the seed is a whole number"):
        grade.seed_from_environment()


def test_a_missing_file_says_how_to_get_it_back(tmp_path: Path) -> None:
    exercise, found = part("nsys-ex01a")
    result = grade.grade(exercise, found, tmp_path / "a_idle.py")
    assert result == Verdict(
        "failed",
        "a_idle.py is not there",
        ("put the starter back with `labcode exercises --reset nsys-ex01a`",),
    )


@pytest.mark.parametrize("short", sorted({*WITH_GPU} - {*SHEETS}))
def test_parts_for_a_gpu_are_not_run_without_one(short: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As far as it can be said without one, starters are right: their kernels compile and spill nothing.

    Those of solutions are compiled by `labcode exercises --solutions`.
    """
    here = ("torch", "nvcc") if shutil.which("nvcc") else ("torch",)
    monkeypatch.setattr(needs, "has", lambda need: need in here)
    exercise, found = part(short)
    for top in ("solutions", "exercises"):
        file = ROOT / top / exercise.path(found)
        result = grade.grade(exercise, found, file, compiling=top == "exercises")
        assert result.status == "not run"
        what = "PyTorch (for the CPU is enough)" if "any torch" in found.needs else "a GPU"
        what = "2 GPUs" if "2 gpus" in found.needs else what
        what += " and nvcc" if "nvcc" in found.needs and "nvcc" not in here else ""
        assert result.headline == f"not run: needs {what} (`labcode doctor` says what is missing)"


@pytest.mark.parametrize("short", ONE_OF_EACH_KIND)
def test_solutions_pass_whole(short: str) -> None:
    exercise, found = part(short)
    result = grade.grade(exercise, found, ROOT / "solutions" / exercise.path(found))
    assert result.status == "passed", (result.headline, result.details)
    if read(exercise, found).exam is not None:  # a model has nothing to read from a capture
        assert "on captures you have not seen" in result.headline


@pytest.mark.parametrize("short", ONE_OF_EACH_KIND)
def test_starters_fail(short: str, tmp_path: Path) -> None:
    from labcode.grading.generate import starter

    file = tmp_path / part(short)[1].file
    file.write_text(starter(solution(short), file.name), encoding="utf-8")
    with execution.Execution(file) as ran:
        result = grade_cases(task(short), ran, 0)
    assert result.status == "to do"
    assert "not written yet" in result.headline
