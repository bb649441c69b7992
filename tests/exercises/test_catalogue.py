import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from labcode.errors import LabError
from labcode.grading.catalogue import EXERCISES, OTHER_NAMES, find, get
from labcode.grading.records import Exercise, Part, read
from tests.exercises.support import ROOT

BASICS = get("nsys-ex01-timeline-basics")
NSYS = tuple(exercise for exercise in EXERCISES if exercise.book_part == "nsys")
# What older labs call exercises: a module's number in front, or all of a week's with numbers from 30 on.
OF_MODULES = {
    "nsys": "timeline-basics kernel-overlap memory-timeline multi-gpu-timeline",
    "compute": "memory-metrics compute-metrics roofline-practice optimization-loop",
    "pytorch": "basic-profiling memory-profiling distributed-profiling",
    "energy": "power-measurement energy-efficiency",
    "scaling": "single-gpu-baseline multi-gpu-scaling communication-overhead",
    "advanced": "python-backtrace io-dataloader nsys-stats-cli sqlite-analysis cpu-sampling osrt-tracing "
    "comparison-reports expert-systems",
}
OF_A_WEEK = "nsight_systems nsight_compute pytorch_profiler bottleneck_analysis end_to_end_optimization"


@pytest.mark.parametrize(
    "text",
    [
        "nsys-ex01-timeline-basics",
        "nsys-ex01",
        "ex01-timeline-basics",
        "ex01",
        "timeline-basics",
        "NSYS_EX01",
        "exercises/nsys/ex01_timeline_basics",
        "exercises/nsys/ex01_timeline_basics/",
    ],
)
def test_an_exercise_has_many_names(text: str) -> None:
    assert find(text, NSYS) == (BASICS, None)


@pytest.mark.parametrize(
    "text",
    [
        "nsys-ex01-timeline-basics:b",
        "nsys-ex01:b",
        "nsys-ex01b",
        "ex01b",
        "ex01/b",
        "timeline-basics:b",
        "exercises/nsys/ex01_timeline_basics/b_cause.py",
        "/somewhere/exercises/nsys/ex01_timeline_basics/b_cause.py",
        "ex01_timeline_basics/b_cause.py",
    ],
)
def test_a_part_has_many_names(text: str) -> None:
    exercise, part = find(text, NSYS)
    assert exercise == BASICS
    assert part is not None and part.letter == "b"


@pytest.mark.parametrize("shape", ["{}", "{}.py", "{}/", "03-some-module/{}", "./05-other/{}/"])
def test_names_of_older_labs_are_taken(shape: str) -> None:
    named = [
        (f"ex{number:02d}-{name}", f"{part}-ex{number:02d}")
        for part, names in OF_MODULES.items()
        for number, name in enumerate(names.split(), start=1)
    ]
    assert len(named) == 24
    assert [find(shape.format(name))[0].short for name, _ in named] == [short for _, short in named]
    assert find(shape.format("ex_01_basic_profiling"))[0].short == "pytorch-ex01"


def test_names_of_a_week_of_profiling_are_taken() -> None:
    for number, name in enumerate(OF_A_WEEK.split(), start=30):
        for text in (f"ex_{number}_{name}", f"practice_exercises/ex_{number}_{name}.py"):
            assert find(text)[0].short == f"serving-ex{number}"


def test_the_table_of_other_names_is_whole() -> None:
    assert set(OTHER_NAMES) <= {exercise.id for exercise in EXERCISES}
    names = [name for some in OTHER_NAMES.values() for name in some]
    assert len(names) == len(set(names)) == 29
    topics = (ROOT / "book/guides/where-topics-live.md").read_text(encoding="utf-8")
    of_modules = re.findall(r"\| `(ex\d\d-[\w-]+)` \|.*\{exercise\}`([a-z]+-ex\d\d)", topics)
    assert len(of_modules) == 24
    assert all(find(name)[0].short == short for name, short in of_modules)


def test_a_part_of_an_older_name() -> None:
    exercise, part = find("ex04-sqlite-analysis:b")
    assert exercise.short == "advanced-ex04" and part is not None and part.letter == "b"


def test_an_older_name_that_is_nearly_right_suggests_today_s() -> None:
    with pytest.raises(
        LabError, match=r"no exercise 'ex06-osrt-trace'; did you mean advanced-ex06-os-runtime\?"
    ):
        find("ex06-osrt-trace")
    with pytest.raises(
        LabError, match="did you mean compute-ex01-memory-metrics or nsys-ex03-memory-timeline"
    ):
        find("memory-metric")


def test_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(
        LabError, match=r"no exercise 'timeline-basic'; did you mean nsys-ex01-timeline-basics\?"
    ):
        find("timeline-basic")


def test_a_part_of_the_book_suggests_its_long_exercises() -> None:
    shorts = " or ".join(f"nsys-ex0{number}" for number in range(1, 5))
    with pytest.raises(LabError, match=rf"no exercise 'nsys'; did you mean {shorts}\?"):
        find("nsys")


def test_unknown_name_without_anything_near() -> None:
    with pytest.raises(LabError, match=r"no exercise 'zebra' \(`labcode exercises` lists them all\)"):
        find("zebra")


def test_unknown_part() -> None:
    with pytest.raises(LabError, match=r"nsys-ex01-timeline-basics has no part 'z' \(it has a, b, c\)"):
        find("nsys-ex01z")


def test_a_number_that_two_parts_of_the_book_have_is_ambiguous() -> None:
    other = replace(BASICS, id="ncu-ex01-memory-metrics")
    with pytest.raises(
        LabError, match=r"'ex01' may mean nsys-ex01-timeline-basics or ncu-ex01-memory-metrics"
    ):
        find("ex01", (BASICS, other))
    assert find("ncu-ex01", (BASICS, other)) == (other, None)


def test_get_wants_an_exercise() -> None:
    assert get("nsys-ex02-kernel-overlap").stars == 3
    with pytest.raises(LabError, match="names a part; the exercise is nsys-ex01-timeline-basics"):
        get("nsys-ex01a")


def test_ids_files_and_graders_are_unique() -> None:
    parts = [(e, p) for e in EXERCISES for p in e.parts]
    for values in (
        [e.id for e in EXERCISES],
        [e.short for e in EXERCISES],
        [e.path(p) for e, p in parts],
    ):
        assert len(values) == len(set(values))


def test_every_exercise_has_a_part_that_needs_nothing() -> None:
    assert all(e.needs_nothing for e in EXERCISES)


def test_every_exercise_has_its_card_on_its_chapter() -> None:
    for exercise in EXERCISES:
        page = (ROOT / "book" / f"{exercise.chapter}.md").read_text(encoding="utf-8")
        assert f"{{exercise-card}} {exercise.id}\n" in page


def test_hints_are_steps() -> None:
    for exercise in EXERCISES:
        for part in exercise.parts:
            assert len(set(part.hints)) == len(part.hints) >= 3


def _part(**changes: object) -> Part:
    values: dict[str, object] = {
        "letter": "a",
        "title": "t",
        "file": "a_t.py",
        "hints": ("1", "2", "3"),
    }
    return Part(**{**values, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hints": ("1", "2")}, "at least 3 hints"),
        ({"file": "b_t.py"}, "one letter, which also begins the file's name"),
        ({"letter": "ab"}, "one letter"),
        ({"needs": ("tpu",)}, "unknown needs"),
    ],
)
def test_bad_parts_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _part(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"id": "ex01-timeline"}, "is not an exercise's id"),
        ({"id": "nsys-ex1-timeline"}, "is not an exercise's id"),
        ({"stars": 6}, "stars run from 1 to 5"),
        ({"parts": ()}, "lettered in order"),
        ({"parts": (_part(letter="b", file="b_t.py"), _part())}, "lettered in order"),
    ],
)
def test_bad_exercises_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(BASICS, **changes)  # type: ignore[arg-type]


def test_paths() -> None:
    exercise = Exercise("lm-ex12-long-name", "t", "s", "c", 1, 1, (_part(),))
    assert exercise.book_part == "lm"
    assert exercise.short == "lm-ex12"
    assert exercise.path(exercise.parts[0]) == "lm/ex12_long_name/a_t.py"
    assert exercise.part_id(exercise.parts[0]) == "lm-ex12-long-name:a"


def test_needs_of_an_exercise_are_those_of_its_parts_in_a_fixed_order() -> None:
    parts = (_part(needs=("torch", "2 gpus")), _part(letter="b", file="b_t.py", needs=("nvcc", "gpu")))
    assert replace(BASICS, parts=parts).needs == ("gpu", "2 gpus", "nvcc", "torch")


def test_the_catalogue_is_light_to_import() -> None:
    heavy = ("pandas", "numpy", "torch", "rich")
    code = f"import sys, labcode.grading.catalogue; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


TOML = """
id = "lm-ex12-name"
title = "t"
summary = "s"
chapter = "c"
stars = 1
minutes = 5

[[parts]]
letter = "a"
title = "t"
file = "a_t.py"
hints = ["1", "2", "3"]
"""


def write(tmp_path: Path, text: str) -> Path:
    folder = tmp_path / "lm" / "ex12_name"
    folder.mkdir(parents=True)
    (folder / "exercise.toml").write_text(text, encoding="utf-8")
    return folder


def test_a_folder_is_an_exercise(tmp_path: Path) -> None:
    found = read(write(tmp_path, TOML))
    assert (found.id, found.parts[0].hints, found.parts[0].forbidden) == (
        "lm-ex12-name",
        ("1", "2", "3"),
        ("labcode.analysis",),
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("stars = 1", "stars = ", r"exercise\.toml: Invalid value"),
        ("stars = 1", 'stars = "1"', "exercise lm-ex12-name: stars should be a whole number"),
        ("stars = 1", "stars = 9", "stars run from 1 to 5"),
        ("stars = 1\n", "", "exercise lm-ex12-name: stars is missing"),
        ("minutes", "hours", "exercise lm-ex12-name: unknown: hours"),
        ('["1", "2", "3"]', "[1, 2, 3]", "part a: hints should be a list of texts"),
        ('["1", "2", "3"]', '["1"]', "at least 3 hints"),
        ("lm-ex12-name", "lm-ex13-name", "lm-ex13-name belongs in solutions/lm/ex13_name"),
    ],
)
def test_a_damaged_description_is_one_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    folder = write(tmp_path, TOML.replace(old, new))
    with pytest.raises(LabError, match=message):
        read(folder)


def test_a_folder_without_a_description(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"exercise\.toml: No such file"):
        read(tmp_path)
