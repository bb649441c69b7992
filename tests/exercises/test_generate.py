import shutil
from pathlib import Path

import pytest

from labcode.errors import LabError
from labcode.grading import generate
from labcode.grading.catalogue import EXERCISES, get
from labcode.grading.generate import starter
from tests.exercises.support import ROOT

BASICS = get("nsys-ex01-timeline-basics")
CODE = [(one, part) for one in EXERCISES for part in one.parts if not part.is_sheet]
SOURCE = '''"""What to do."""


def double(x):
    """Twice x."""
    # [solution]
    y = x + x
    return y
    # [starter]
    # for _ in x:
    #     raise NotImplementedError("add it to itself")
    #
    # return None
    # [end]


# [solution]
def helper():
    return 1


# [end]
if __name__ == "__main__":
    print(double(2))
'''


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for top in ("solutions", "exercises"):
        shutil.copytree(ROOT / top, tmp_path / top, ignore=shutil.ignore_patterns("__pycache__", "*.bak*"))
    generate.generate(tmp_path, check=False)
    return tmp_path


def test_regions_become_their_starter_text() -> None:
    assert (
        starter(SOURCE, "a.py")
        == '''"""What to do."""


def double(x):
    """Twice x."""
    for _ in x:
        raise NotImplementedError("add it to itself")

    return None


if __name__ == "__main__":
    print(double(2))
'''
    )


def test_cuda_files_are_marked_with_slashes() -> None:
    source = "void run() {\n    // [solution]\n    go();\n    // [starter]\n    // stop();\n    // [end]\n}\n"
    assert starter(source, "a.cu") == "void run() {\n    stop();\n}\n"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["# [solution]", "x = 1"], r"a\.py:1: \[solution\] without an \[end\] after it"),
        (["x = 1", "# [end]"], r"a\.py:2: \[end\] without a \[solution\] before it"),
        (["# [starter]", "# [end]"], r"a\.py:1: \[starter\] without a \[solution\] before it"),
        (
            ["# [solution]", "# [solution]", "# [end]"],
            r"a\.py:2: \[solution\] inside the region that begins at line 1",
        ),
        (
            ["# [solution]", "# [starter]", "# [starter]", "# [end]"],
            r"a\.py:3: \[starter\] without a \[solution\]",
        ),
        (
            ["# [solution]", "# [starter]", "x = 1", "# [end]"],
            r"a\.py:3: a line of the starter's text must be a comment",
        ),
        (["x = 1"], r"a\.py: no marked region, so the starter would be the solution"),
        (
            ["if x:", "    # [solution]", "    pass", "    # [end]"],
            r"a\.py: the starter would not be valid Python \(its line 1: expected an indented block",
        ),
    ],
)
def test_unbalanced_markers_are_named(lines: list[str], message: str) -> None:
    with pytest.raises(LabError, match=message):
        starter("\n".join(lines) + "\n", "a.py")


def test_other_files_cannot_be_cut() -> None:
    with pytest.raises(LabError, match=r"a\.txt: only \.py, \.cu, \.sql files"):
        starter(SOURCE, "a.txt")


def test_generating_twice_changes_nothing(home: Path) -> None:
    assert generate.generate(home, check=False) == []
    assert generate.generate(home, check=True) == []


def test_every_starter_is_in_the_repository(home: Path) -> None:
    starters = sorted((home / "exercises").rglob("*.*"))
    assert len(starters) >= sum(len(exercise.parts) for exercise in EXERCISES)
    for path in starters:
        below = path.relative_to(home)
        committed = ROOT / below
        assert committed.is_file(), f"{below} is missing: write the starters with generate(root, check=False)"


def test_check_names_a_starter_that_was_edited(home: Path) -> None:
    path = home / "exercises" / BASICS.path(BASICS.parts[0])
    path.write_text(path.read_text(encoding="utf-8") + "x = 1\n", encoding="utf-8")
    (line,) = generate.generate(home, check=True)
    assert "a_idle.py: differs from what its solution gives in 1 lines" in line
    assert path.read_text(encoding="utf-8").endswith("x = 1\n"), "checking writes nothing"
    assert generate.generate(home, check=False) == [f"exercises/{BASICS.path(BASICS.parts[0])}: written"]
    assert generate.generate(home, check=True) == []


def test_check_names_a_missing_starter_and_a_missing_solution(home: Path) -> None:
    first, second = (BASICS.path(part) for part in BASICS.parts[:2])
    (home / "exercises" / first).unlink()
    (home / "solutions" / second).unlink()
    lines = generate.generate(home, check=True)
    assert any(line.startswith(f"exercises/{first}: missing") for line in lines)
    assert (
        f"solutions/{second}: the catalogue names it (nsys-ex01-timeline-basics:b), and it is not there"
        in lines
    )
    assert f"exercises/{second}: belongs to no exercise" not in lines


def test_stray_files_are_named_and_backups_are_not(home: Path) -> None:
    folder = home / "exercises" / BASICS.folder
    (folder / "notes.txt").write_text("")
    (folder / "a_idle.py.bak").write_text("")
    (folder / "a_idle.py.bak2").write_text("")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "a_idle.pyc").write_text("")
    (home / "solutions" / "old.py").write_text("")
    assert generate.strays(home) == [
        "solutions/old.py: belongs to no exercise of the catalogue; add it there or remove it",
        f"exercises/{BASICS.folder}/notes.txt: belongs to no exercise of the catalogue; "
        "add it there or remove it",
    ]


def test_no_line_of_a_region_is_in_its_starter() -> None:
    for exercise, part in CODE:
        source = (ROOT / "solutions" / exercise.path(part)).read_text(encoding="utf-8")
        sign = generate.SIGNS[Path(part.file).suffix]
        kept = starter(source, part.file)
        inside, hidden = False, []
        for line in source.splitlines():
            marker = line.strip().removeprefix(sign).strip()
            if marker in ("[solution]", "[starter]", "[end]"):
                inside = marker == "[solution]"
            elif inside and len(line.strip()) > 25:
                hidden.append(line.strip())
        assert hidden
        text = {line.strip() for line in kept.splitlines()}
        shared = [line for line in hidden if line in text]
        assert len(shared) <= len(hidden) // 3, (part.file, shared)


def test_every_starter_says_what_is_asked_and_how_to_grade_it() -> None:
    for exercise in EXERCISES:
        for part in exercise.parts:
            text = (ROOT / "exercises" / exercise.path(part)).read_text(encoding="utf-8")
            name = f"Exercise {exercise.short}, part {part.letter}"
            says = (exercise.short, " = ") if part.is_sheet else (name, "worked example")
            assert all(wanted in text for wanted in says), (part.file, says)
            for command in (
                f"labcode exercises {exercise.short}{part.letter}",
                f"nox -s exercises -- {exercise.short}{part.letter}",
            ):
                assert command in text, (part.file, command)


def test_writing_is_atomic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "a.py"
    target.write_text("old\n")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space"):
        generate.write(target, "new\n")
    assert target.read_text() == "old\n"
    assert [p.name for p in tmp_path.iterdir()] == ["a.py"]
