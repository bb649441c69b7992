import io
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from labcode.errors import LabError
from labcode.grading import catalogue, execution, generate, grade, needs, predictions, progress, run
from labcode.grading.records import Exercise, Part, Verdict
from tests.exercises.support import ROOT, WITH_GPU, WITHOUT_GPU, part

PARTS = len(WITH_GPU) + len(WITHOUT_GPU)

IDLE = "exercises/nsys/ex01_timeline_basics/a_idle.py"
NEXT = catalogue.EXERCISES[0]  # what a fresh checkout begins with: a step before the first long exercise


class Desk:
    """A learner's checkout and console."""

    def __init__(self, home: Path) -> None:
        self.home, self.out = home, io.StringIO()
        self.console = Console(file=self.out, width=200, force_terminal=False)

    def __call__(self, *ids: str, reset: str | None = None, **flags: Any) -> int:
        self.out.truncate(0)
        self.out.seek(0)
        switches = {name: flags.get(name, False) for name in ("hint", "watch", "solutions")}
        files = {name: flags[name] for name in ("export", "beside") if name in flags}
        return run.main(list(ids), **switches, **files, reset=reset, console=self.console, root=self.home)

    @property
    def text(self) -> str:
        return self.out.getvalue()

    def solve(self, short: str) -> Path:
        exercise, found = part(short)
        target = self.home / "exercises" / exercise.path(found)
        shutil.copy(ROOT / "solutions" / exercise.path(found), target)
        return target


@pytest.fixture(scope="session")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with the solutions and the starters cut from them."""
    home = tmp_path_factory.mktemp("fresh")
    shutil.copytree(ROOT / "solutions", home / "solutions", ignore=shutil.ignore_patterns("__pycache__"))
    generate.generate(home, check=False)
    return home


@pytest.fixture
def desk(fresh: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    shutil.copytree(fresh, tmp_path, dirs_exist_ok=True)
    monkeypatch.setattr(needs, "has", lambda need: False)
    return Desk(tmp_path)


@pytest.fixture
def graded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replaces grading: a file passes when it says PASS; what was graded is listed."""
    seen: list[str] = []

    def fake(exercise: Exercise, found: Part, file: Path, **_: Any) -> Verdict:
        seen.append(f"{exercise.short}{found.letter}")
        if found.needs:
            return grade.not_run("needs a GPU")
        text = file.read_text(encoding="utf-8")
        return (
            Verdict("passed", "passed: all") if "PASS" in text else Verdict("failed", "wrong", ("because",))
        )

    monkeypatch.setattr(grade, "grade", fake)
    return seen


def test_bad_use(desk: Desk) -> None:
    with pytest.raises(LabError, match="--hint, --watch, --reset and --solutions exclude one another"):
        desk("nsys-ex01", hint=True, watch=True)
    with pytest.raises(LabError, match="--solutions takes no exercise, and --reset takes one"):
        desk("nsys-ex01", solutions=True)
    with pytest.raises(LabError, match="--reset takes one"):
        desk("nsys-ex01", reset="nsys-ex01")
    with pytest.raises(LabError, match=r"no exercise 'ex9x'"):
        desk("ex9x")


def test_away_from_a_checkout(tmp_path: Path) -> None:
    with pytest.raises(
        LabError, match="no exercises here; clone the book's repository and run this there, or set"
    ):
        Desk(tmp_path)()


def test_a_fresh_checkout_lists_everything_and_grades_nothing(desk: Desk, graded: list[str]) -> None:
    assert desk() == 0, "what was not begun is not failed"
    assert graded == []
    assert f"0 of {PARTS} parts passed; {PARTS} to do" in desk.text
    assert (
        f"next: edit exercises/{NEXT.path(NEXT.parts[0])}, then `labcode exercises {NEXT.short}a`"
        in desk.text
    )
    assert len(desk.text.splitlines()) <= 40
    assert "Timeline basics" in desk.text and "Power" not in desk.text, "of the part that is next, no other"


def test_a_part_of_the_book_is_listed_whole(desk: Desk, graded: list[str]) -> None:
    for name in ("nsys", "energy"):
        assert desk(name) == 0
        for exercise in catalogue.EXERCISES:
            assert (exercise.title in desk.text) == (exercise.book_part == name)
            if exercise.book_part == name:
                assert "★" * exercise.stars + "☆" * (5 - exercise.stars) in desk.text
                assert all(found.title in desk.text for found in exercise.parts)
    assert desk("nsys") == 0 and "a GPU and nvcc" in desk.text
    first = next(exercise for exercise in catalogue.EXERCISES if exercise.book_part == "energy")
    assert desk("energy") == 0
    assert f"next: edit exercises/{first.path(first.parts[0])}" in desk.text, "of what is listed"
    assert graded == []


def test_the_list_grades_what_was_begun(desk: Desk, graded: list[str]) -> None:
    (desk.home / IDLE).write_text("PASS")
    cause = desk.home / "exercises/nsys/ex01_timeline_basics/b_cause.py"
    cause.write_text("not yet")
    assert desk() == 1
    assert graded == ["nsys-ex01a", "nsys-ex01b"]
    assert f"1 of {PARTS} parts passed; 1 failed, {PARTS - 2} to do" in desk.text
    assert f"next: edit exercises/{NEXT.path(NEXT.parts[0])}" in desk.text, "which comes before it"
    done, _ = progress.load(desk.home)
    assert done["nsys-ex01-timeline-basics:a"].passed
    failed = done["nsys-ex01-timeline-basics:b"]
    assert (failed.passed, failed.tries, failed.failed_headline) == (False, 1, "wrong")
    (desk.home / IDLE).write_text("broken again")
    assert desk() == 1
    assert "(an earlier version passed)" in desk.text


def test_all_that_ran_passed(desk: Desk, graded: list[str]) -> None:
    for exercise in catalogue.EXERCISES:
        for found in exercise.parts:
            (desk.home / "exercises" / exercise.path(found)).write_text("PASS")
    assert desk() == 0, "what could not be run is not failed"
    assert f"{len(WITHOUT_GPU)} of {PARTS} parts passed; {len(WITH_GPU)} not run" in desk.text


def test_grading_one_part(desk: Desk, graded: list[str]) -> None:
    assert desk("nsys-ex01a") == 1
    assert graded == ["nsys-ex01a"], "a named part is graded even when it was not touched"
    assert "nsys-ex01a  Timeline basics: idle share and longest gaps" in desk.text
    assert "wrong" in desk.text and "because" in desk.text
    assert f"edit {IDLE}; `labcode exercises nsys-ex01a --hint` helps" in desk.text
    (desk.home / IDLE).write_text("PASS")
    assert desk("nsys-ex01a") == 0
    assert desk("nsys-ex01", "nsys-ex01a") == 1, "an exercise is all of its parts, each graded once"
    assert graded[-3:] == ["nsys-ex01a", "nsys-ex01b", "nsys-ex01c"]


def test_a_part_that_cannot_run_does_not_fail(desk: Desk, graded: list[str]) -> None:
    assert desk("nsys-ex01c") == 0
    assert "not run: needs a GPU" in desk.text
    assert progress.load(desk.home)[0] == {}


def test_grading_for_real(desk: Desk) -> None:
    assert desk("nsys-ex04b") == 0, "what is not written yet is not failed"
    assert "buckets: not written yet: add to the open bucket" in desk.text
    desk.solve("nsys-ex04b")
    assert desk("nsys-ex04b") == 0
    assert "passed: 24 hidden cases" in desk.text
    assert sorted(p.name for p in desk.home.iterdir()) == [progress.FILE_NAME, "exercises", "solutions"]


def test_text_of_a_learner_is_not_markup(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def fake(*_: Any, **__: Any) -> Verdict:
        return Verdict("failed", "got [bold]x[/bold]", ("[red]y[/]", "rows[0]"))

    monkeypatch.setattr(grade, "grade", fake)
    assert desk("nsys-ex01a") == 1
    assert "got [bold]x[/bold]" in desk.text and "[red]y[/]" in desk.text and "rows[0]" in desk.text


def test_hints_come_one_at_a_time(desk: Desk) -> None:
    hints = part("nsys-ex01a")[1].hints
    for shown in range(1, len(hints) + 1):
        assert desk("nsys-ex01a", hint=True) == 0
        assert f"hint {shown} of {len(hints)}: {hints[shown - 1]}" in desk.text
        assert f"hint {shown + 1} of" not in desk.text
        assert "the answer is in" not in desk.text
    assert desk("nsys-ex01a", hint=True) == 0
    assert (
        "that was the last hint; the answer is in solutions/nsys/ex01_timeline_basics/a_idle.py" in desk.text
    )


def test_hints_are_for_the_next_part_that_can_run(desk: Desk) -> None:
    done = progress.graded({}, "nsys-ex01-timeline-basics:a", True, "")
    progress.save(desk.home, done)
    assert desk("nsys-ex01", hint=True) == 0
    assert "nsys-ex01b" in desk.text
    progress.save(desk.home, progress.graded(done, "nsys-ex01-timeline-basics:b", True, ""))
    assert desk("nsys-ex01", "nsys-ex02", hint=True) == 0
    assert "nsys-ex01c" in desk.text, "a part that was named is hinted at, GPU or not"
    assert desk(hint=True) == 0
    assert f"{NEXT.short}a" in desk.text


def test_no_hint_left(desk: Desk) -> None:
    done: dict[str, progress.PartProgress] = {}
    for exercise in catalogue.EXERCISES:
        for found in exercise.parts:
            done = progress.graded(done, exercise.part_id(found), True, "")
    progress.save(desk.home, done)
    assert desk(hint=True) == 0
    assert "every part that can run here has passed: no hint left to give" in desk.text


def test_reset_keeps_what_was_written(desk: Desk) -> None:
    file = desk.home / IDLE
    fresh = file.read_text()
    file.write_text("first try")
    assert desk(reset="nsys-ex01a") == 0
    assert "the starter is back, your file is kept as a_idle.py.bak" in desk.text
    assert file.read_text() == fresh
    assert (file.parent / "a_idle.py.bak").read_text() == "first try"
    file.write_text("second try")
    assert desk(reset="nsys-ex01:a") == 0
    assert (file.parent / "a_idle.py.bak").read_text() == "first try"
    assert (file.parent / "a_idle.py.bak2").read_text() == "second try"
    assert desk(reset="nsys-ex01a") == 0
    assert f"{IDLE} is the starter already" in desk.text


def test_reset_brings_back_a_deleted_file_and_all_parts_of_an_exercise(desk: Desk) -> None:
    file = desk.home / IDLE
    fresh = file.read_text()
    file.unlink()
    (file.parent / "b_cause.py").write_text("x")
    assert desk(reset="timeline-basics") == 0
    assert file.read_text() == fresh
    assert (file.parent / "b_cause.py.bak").read_text() == "x"
    assert "c_training_loop.py is the starter already" in desk.text


def test_reset_of_nothing_known(desk: Desk) -> None:
    with pytest.raises(LabError, match="no exercise 'x'"):
        desk(reset="x")


def test_damaged_progress_is_one_line(desk: Desk, graded: list[str]) -> None:
    (desk.home / progress.FILE_NAME).write_text("{")
    assert desk("nsys-ex01a") == 1
    assert (
        desk.text.count(".exercises-progress.json was damaged: it is now .exercises-progress.json.bak") == 1
    )
    assert progress.load(desk.home)[0]["nsys-ex01-timeline-basics:a"].tries == 1


def test_watching_grades_on_every_save(desk: Desk, graded: list[str]) -> None:
    file = desk.home / IDLE
    steps = iter(["", "still wrong", "", "PASS!"])

    def wait(_: float) -> None:
        text = next(steps, None)
        if text is None:
            raise KeyboardInterrupt
        if text:
            file.write_text(text)

    assert run.watch_parts(desk.home, [part("nsys-ex01a")], desk.console, wait=wait) == 0
    assert graded == ["nsys-ex01a"] * 3, "once at first, then once a save"
    assert "stopped watching" in desk.text


def test_watching_a_failing_file_ends_with_1(desk: Desk, graded: list[str]) -> None:
    def wait(_: float) -> None:
        raise KeyboardInterrupt

    assert run.watch_parts(desk.home, [part("nsys-ex01a")], desk.console, wait=wait) == 1


def test_watching_without_a_choice_goes_on_to_the_next(desk: Desk, graded: list[str]) -> None:
    def solver(names: list[str]) -> Callable[[float], None]:
        def wait(_: float) -> None:
            if not names:
                raise KeyboardInterrupt
            exercise, found = part(names.pop(0))
            (desk.home / "exercises" / exercise.path(found)).write_text("PASS")

        return wait

    names = [f"{e.short}{p.letter}" for e in catalogue.EXERCISES for p in e.parts if not p.needs]
    assert run.watch_parts(desk.home, [], desk.console, wait=solver(list(names))) == 0
    assert [name for k, name in enumerate(graded) if graded.index(name) == k] == names
    assert "every part that can run here has passed" in desk.text


def test_a_watched_file_that_disappears(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def fake(exercise: Exercise, found: Part, file: Path, **_: Any) -> Verdict:
        seen.append(str(file.is_file()))
        return Verdict("failed", "x")

    monkeypatch.setattr(grade, "grade", fake)
    steps = iter([True, False])

    def wait(_: float) -> None:
        if not next(steps):
            raise KeyboardInterrupt
        (desk.home / IDLE).unlink()

    assert run.watch_parts(desk.home, [part("nsys-ex01a")], desk.console, wait=wait) == 1
    assert seen == ["True", "False"]


def solutions_check(
    monkeypatch: pytest.MonkeyPatch, passing: Callable[[Path], str], *, cut: bool = False
) -> None:
    """Replaces grading, what sheets compute, and, unless ``cut``, the check that starters are cut so."""

    def fake(exercise: Exercise, found: Part, file: Path, **_: Any) -> Verdict:
        status: Any = passing(file)
        return Verdict(status, f"{status} it", ("why",))

    monkeypatch.setattr(grade, "grade", fake)
    monkeypatch.setattr(generate, "model_of", lambda *_: "computed")
    if not cut:
        monkeypatch.setattr(generate, "generate", lambda home, check: [])


def test_solutions_are_fine(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    solutions_check(monkeypatch, lambda file: "failed" if "exercises" in file.parts else "passed")
    assert desk(solutions=True) == 0
    assert "starters are cut from their solutions, fail as they should, and solutions pass" in desk.text


def test_a_solution_that_fails(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    solutions_check(monkeypatch, lambda _: "failed")
    assert desk(solutions=True) == 1
    assert "nsys-ex01a solution: failed it" in desk.text and "why" in desk.text
    assert f"{PARTS} things are wrong with the exercises" in desk.text


def test_a_starter_that_passes(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    solutions_check(monkeypatch, lambda _: "passed")
    assert desk(solutions=True) == 1
    assert "nsys-ex01a starter: passed it" in desk.text


def test_a_starter_that_does_everything_but_the_capture_passes_too(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    solutions_check(monkeypatch, lambda file: "passed" if "solutions" in file.parts else "not run")
    assert desk(solutions=True) == 1


def test_parts_that_cannot_run_are_counted(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    solutions_check(monkeypatch, lambda _: "not run")
    assert desk(solutions=True) == 0
    assert f"({PARTS} parts could not be run whole here)" in desk.text


def test_an_edited_starter_and_a_stray_file_fail_the_check(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    solutions_check(monkeypatch, lambda file: "failed" if "exercises" in file.parts else "passed", cut=True)
    (desk.home / IDLE).write_text("mine")
    (desk.home / "exercises" / "notes.py").write_text("")
    assert desk(solutions=True) == 1
    assert f"{IDLE}: differs from what its solution gives" in desk.text
    assert "exercises/notes.py: belongs to no exercise of the catalogue" in desk.text
    assert "2 things are wrong with the exercises" in desk.text


def test_what_has_passed_and_is_unchanged_is_not_graded_again(desk: Desk, graded: list[str]) -> None:
    (desk.home / IDLE).write_text("PASS")
    assert desk() == 0 and desk("nsys") == 0
    assert graded == ["nsys-ex01a"]
    assert desk.text.count("passed: all") == 1, "what was said of it is kept"
    (desk.home / IDLE).write_text("PASS!")
    desk()
    mistakes = desk.home / "solutions/nsys/ex01_timeline_basics/a_mistakes.toml"
    mistakes.write_text(mistakes.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    desk()
    assert graded == ["nsys-ex01a"] * 3, "a change of the file or of the exercise is graded"
    assert desk("nsys-ex01a") == 0
    assert graded == ["nsys-ex01a"] * 4, "who names a part has it graded"


def test_what_has_failed_and_is_unchanged_is_not_graded_again_for_the_list(
    desk: Desk, graded: list[str]
) -> None:
    file = desk.home / IDLE
    file.write_text("wrong")
    assert desk() == 1 and desk() == 1 and graded == ["nsys-ex01a"]
    assert "nsys-ex01a  idle share and longest gaps: wrong" in desk.text
    assert desk("nsys-ex01a") == 1 and graded == ["nsys-ex01a"] * 2, "who names a part has it graded"
    file.write_text("PASS")
    assert desk() == 0 and desk() == 0 and graded == ["nsys-ex01a"] * 3
    file.write_text("wrong")
    assert desk() == 1 and graded == ["nsys-ex01a"] * 4


def test_a_part_that_is_put_back_is_open_again(desk: Desk, graded: list[str]) -> None:
    (desk.home / IDLE).write_text("PASS")
    assert desk() == 0
    assert desk(reset="nsys-ex01a") == 0
    assert desk() == 0
    assert f"0 of {PARTS} parts passed" in desk.text
    assert f"next: edit exercises/{NEXT.path(NEXT.parts[0])}" in desk.text


def test_messages_name_commands_that_there_are(
    desk: Desk, graded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOX_CURRENT_SESSION", "exercises")
    assert desk("nsys-ex01a") == 1
    assert "`nox -s exercises -- nsys-ex01a --hint` helps" in desk.text
    desk()
    assert f"then `nox -s exercises -- {NEXT.short}a`" in desk.text


def test_watching_a_starter_goes_on(desk: Desk) -> None:
    turns = iter(range(2))

    def wait(_: float) -> None:
        if next(turns, None) is None:
            raise KeyboardInterrupt

    assert run.watch_parts(desk.home, [], desk.console, wait=wait) == 0
    assert "not written yet" in desk.text and "stopped watching" in desk.text


def test_keys_while_watching(desk: Desk, graded: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    file = desk.home / IDLE
    file.write_text("not yet")
    pressed = iter(["h", "l", "n", "r", "q"])
    assert run.watch_parts(desk.home, [part("nsys-ex01a")], desk.console, wait=lambda _: next(pressed)) == 1
    assert "hint 1 of" in desk.text and f"0 of {PARTS} parts passed" in desk.text
    assert graded == ["nsys-ex01a", f"{NEXT.short}a"], "once, for the list knows it, then the next one"
    assert "is the starter already" in desk.text
    assert "s the model's answer" not in desk.text, "before a pass there is none to be seen"


def test_the_models_answer_is_shown_beside_ones_own_after_a_pass(desk: Desk, graded: list[str]) -> None:
    (desk.home / IDLE).write_text("PASS = 'mine'")
    pressed = iter(["s", "q"])
    run.watch_parts(desk.home, [part("nsys-ex01a")], desk.console, wait=lambda _: next(pressed))
    assert "PASS = 'mine'" in desk.text and "def gpu_idle_share(" in desk.text
    assert "[solution]" not in desk.text and "NotImplementedError" not in desk.text


def test_a_save_interrupts_a_grading(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    file = desk.home / IDLE
    file.write_text("import time\ntime.sleep(8)\n")
    looked = iter([False, False])
    state = run._state

    def saved(place: Path) -> tuple[int, int]:
        if execution.interrupting and next(looked, True) and "sleep" in file.read_text():
            file.write_text("raise NotImplementedError('again')\n")
        return state(place)

    monkeypatch.setattr(run, "_state", saved)
    pressed = iter(["q"])
    run.watch_parts(desk.home, [part("nsys-ex01a")], desk.console, wait=lambda _: next(pressed))
    assert "saved again meanwhile" in desk.text and "the file cannot be loaded" in desk.text
    assert "again" in desk.text and "took longer" not in desk.text


def test_of_predictions_the_first_counts(desk: Desk) -> None:
    exercise, found = part("compute-ex61a")
    file = desk.home / "exercises" / exercise.path(found)
    assert desk("compute-ex61a") == 0 and "still empty: vectorized_us, strided" in desk.text
    file.write_text("vectorized_us = [80, 90]\nstrided = [20, 30]\n")
    assert desk("compute-ex61a") == 1
    assert "perhaps: that is reading alone" in desk.text
    first = progress.load(desk.home)[0][exercise.part_id(found)].score
    assert first is not None and 0 < first < 0.5
    file.write_text("vectorized_us = [180, 190]\nstrided = [20, 30]\n")
    assert desk("compute-ex61a") == 0
    assert f"the first prediction counts: {first:.2f} of 1" in desk.text
    kept = progress.load(desk.home)[0][exercise.part_id(found)]
    assert kept.score == first
    assert [(one.key, one.low, one.high, one.right) for one in kept.predictions] == [
        ("vectorized_us", 80.0, 90.0, False),
        ("strided", 20.0, 30.0, True),
    ]
    assert all(one.at for one in kept.predictions)

    file, theirs = desk.home / "mine.json", desk.home / "page.json"
    assert desk("predict", export=file) == 0 and "mine.json: 2 predictions" in desk.text
    of_a_page = replace(predictions.read(file)[0], id="nsys/a#x", title="A page", predicted=3.0, score=None)
    predictions.write(theirs, [of_a_page, *predictions.read(file)])
    assert desk(beside=theirs) == 0, "one's own are in it as well, and counted once"
    assert "3 predictions (2 of exercises, 1 of pages); 1 right" in desk.text
    assert "✘ A page: " in desk.text and "✔ compute-ex61a" in desk.text
    for wrong in ({"hint": True}, {"watch": True}):
        with pytest.raises(LabError, match="--export and --with go with nothing else, or with the kind: pre"):
            desk(export=file, **wrong)
    with pytest.raises(LabError, match="--export and --with go with nothing else"):
        desk("nsys", beside=theirs)


def test_the_model_of_a_sheet_is_what_it_computes(desk: Desk) -> None:
    text = generate.model_of(desk.home / "solutions", *part("nsys-ex45a"))
    assert 'call = "cudaFree"' in text and text.startswith("# Detective nsys-ex45")
    exercise, found = part("nsys-ex45a")
    (desk.home / "exercises" / exercise.path(found)).write_text(text)
    assert desk("nsys-ex45a") == 0 and "passed: 4 answers" in desk.text


def test_a_kind_is_listed_across_the_book(desk: Desk, graded: list[str]) -> None:
    assert desk("detective") == 0 and graded == []
    for exercise in catalogue.EXERCISES:
        assert (f"{exercise.short}  {exercise.title}" in desk.text) == (exercise.kind == "detective")
    assert "min, detective, nsys/timeline-basics" in desk.text
