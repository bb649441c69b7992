"""Files come whole and together, or not at all."""

import errno
import subprocess
import threading
import time
from pathlib import Path

import pytest

from labcode import outputs
from labcode.errors import LabError, describe_os_error
from labcode.outputs import base_names, staged, whole
from tests.support import histories
from tests.support.command import labcode, one_line
from tests.support.random_export import make_random_export


def test_files_are_there_when_all_is_done(tmp_path: Path) -> None:
    with staged(tmp_path / "a" / "b", force=False) as work:
        (work / "x.csv").write_text("1")
        assert not (tmp_path / "a" / "b" / "x.csv").exists()
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["x.csv"]


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), ValueError("no"), OSError(errno.ENOSPC, "No space left")]
)
def test_nothing_is_left_of_what_was_interrupted(tmp_path: Path, error: BaseException) -> None:
    with pytest.raises(type(error)), staged(tmp_path / "a" / "b", force=False) as work:
        (work / "x.csv").write_text("1")
        raise error
    assert list(tmp_path.iterdir()) == []


def test_a_signal_while_the_work_folder_is_removed_leaves_none_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed, left = outputs.shutil.rmtree, [KeyboardInterrupt]

    def interrupted(*args: object, **options: object) -> None:
        if left:
            raise left.pop()
        removed(*args, **options)

    monkeypatch.setattr(outputs.shutil, "rmtree", interrupted)
    with pytest.raises(KeyboardInterrupt), outputs.private_folder(tmp_path) as work:
        (work / "a").write_text("")
    assert not left and not list(tmp_path.iterdir())


def test_what_a_killed_process_left_goes_with_the_next(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    before = outputs.swept(tmp_path)
    left = tmp_path / f"{before.rsplit('-', 3)[0]}-{ended.pid}-1-abc"
    for folder in (left, tmp_path / f"{before}abc", tmp_path / ".labcode-other"):
        folder.mkdir()
    ended.wait()
    assert outputs.swept(tmp_path) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted((f"{before}abc", ".labcode-other"))


def test_a_folder_that_was_there_stays(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(KeyboardInterrupt), staged(tmp_path, force=False) as work:
        (work / "x.csv").write_text("1")
        raise KeyboardInterrupt
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_full_disk_is_one_line_with_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "tables"
    with pytest.raises(OSError, match="No space left") as raised, staged(folder, force=False):
        raise OSError(errno.ENOSPC, "No space left on device")
    said = describe_os_error(raised.value)
    assert said.startswith(f"{folder}: No space left on device; free some space")


def test_nothing_is_overwritten_without_force(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("old")
    with (
        pytest.raises(LabError, match=r"x\.csv: there already \(and 1 more\); overwrite with --force"),
        staged(tmp_path, force=False) as work,
    ):
        (tmp_path / "y.csv").write_text("old")
        (work / "x.csv").write_text("new")
        (work / "y.csv").write_text("new")
    assert (tmp_path / "x.csv").read_text() == "old"
    with staged(tmp_path, force=True) as work:
        (work / "x.csv").write_text("new")
    assert (tmp_path / "x.csv").read_text() == "new"


def test_files_of_two_that_write_at_once_do_not_mix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, move = threading.Event(), outputs._move

    def halting(made: Path, place: Path) -> None:
        move(made, place)
        if not begun.is_set():  # the first of them halts after its first file
            begun.set()
            time.sleep(0.2)

    def write(text: str) -> None:
        with staged(tmp_path, force=True) as work:
            for name in "xyz":
                (work / name).write_text(text)
            if text == "second":
                begun.wait(600)

    monkeypatch.setattr(outputs, "_move", halting)
    both = [threading.Thread(target=write, args=(text,)) for text in ("first", "second")]
    for one in both:
        one.start()
    for one in both:
        one.join()
    assert {(tmp_path / name).read_text() for name in "xyz"} == {"second"}


def test_of_two_that_write_one_file_at_once_the_last_stays_whole(tmp_path: Path) -> None:
    place = tmp_path / "x.svg"
    with whole(place) as last, whole(place) as first:
        last.write_text("last")
        first.write_text("first")
        assert not place.exists()
    assert place.read_text() == "last"
    assert list(tmp_path.iterdir()) == [place]


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(LabError, match="a file, not a folder"), staged(folder, force=False):
            pass


def test_names_tell_files_apart(tmp_path: Path) -> None:
    files = [
        tmp_path / "a" / "run.sqlite.xz",
        tmp_path / "b" / "run.nsys-rep",
        tmp_path / "b" / "other.sqlite",
    ]
    assert list(base_names([*files, files[0]]).values()) == ["a-run", "b-run", "other"]


def test_names_that_stay_alike_are_refused(tmp_path: Path) -> None:
    files = [tmp_path / "a" / "run.sqlite", tmp_path / "a" / "run.nsys-rep"]
    with pytest.raises(LabError, match=r"run\.nsys-rep: what is made of it would be named a-run, as for"):
        base_names(files)


def test_every_command_leaves_what_is_there_unless_told(tmp_path: Path) -> None:
    export = make_random_export(tmp_path / "run.sqlite", 1)
    history = histories.write(tmp_path, histories.leaking())
    commands: dict[str, tuple[object, ...]] = {
        "a.svg": ("timeline", export, "-o"),
        "b.svg": ("timeline", history, "-o"),
        "a.txt": ("flame", export, "--of", "launches", "-o"),
        "a.md": ("report", export, "-o"),
        "a.sqlite": ("scrub", export, "-o"),
        "c.svg": ("compare", export, export, "--column", "a=1,2", "--plot"),
        "a.ncu.svg": ("roofline", tmp_path / "run.ncu-rep", "-o"),
        "a.tar": ("captures", "pack", "h200", "--archive"),
        "b.tar": ("exercises", "--hand-out"),
        "c.tar": ("kit", "-o"),
        "d.tar": ("capture", "--set", "mine", "--archive"),
        "a.xml": ("exercises", "--grades"),
        "a.html": ("slides", "intro", "-o"),
        "a.power.json": ("energy", "--idle", "0s", "-o"),
        "a.json": ("bench", "products", "--json"),
    }
    for name, words in commands.items():
        place = tmp_path / name
        place.write_text("mine")
        more = ("--", "true") if words[0] == "energy" else ()
        assert f"{name}: there already; overwrite with --force" in one_line(labcode(*words, place, *more)), (
            words
        )
        assert place.read_text() == "mine"
        if words[0] in ("timeline", "report", "scrub"):
            assert labcode(*words, place, "--force").returncode == 0 and place.read_bytes() != b"mine"
        help_text = labcode(*words[: 2 if words[0] in ("captures", "bench") else 1], "--help").stdout
        assert "--force" in help_text, words


def test_a_command_does_not_replace_what_it_reads_even_when_told(tmp_path: Path) -> None:
    export = make_random_export(tmp_path / "run.sqlite", 1)
    for command in ("timeline", "flame", "report", "scrub"):
        assert "is the input itself" in one_line(labcode(command, export, "-o", export, "--force"))
