"""Filing into a set: all or nothing, and repaired after a crash between any two steps."""

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from labcode.capture import filing
from labcode.capture.filing import Staged, file_experiments, files_record, open_set, repair, staging_folder
from labcode.errors import InputError
from labcode.store import parse_manifest


class Crash(BaseException):
    """The power went out."""


def stage(folder: Path, name: str, text: str) -> Staged:
    place = staging_folder(folder, name)
    (place / "run.json").write_text(json.dumps(text))
    run = {"argv": ["python"], "tool_args": [], "files": files_record(place, ["run.json"]), "warnings": []}
    entry: dict[str, Any] = {
        "title": name,
        "tool": "bench",
        "captured": "2026-01-01",
        "sources": {},
        "wall_s": 1.0,
        "runs": {"run": run},
    }
    return Staged(name, place, entry, {"gpu_count": 1})


def state(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A set with one experiment in its first version."""
    path = tmp_path / "set"
    with open_set(path) as manifest:
        file_experiments(path, manifest, [stage(path, "alpha", "old")])
    return path


def crash_at(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Let the ``step``-th change of the file system during a filing fail, and repairing with it."""
    count = 0

    def counted(change: Any) -> Any:
        def wrapper(*arguments: Any, **options: Any) -> Any:
            nonlocal count
            count += 1
            if count == step:
                monkeypatch.setattr(filing, "repair", _no_repair)
                raise Crash
            return change(*arguments, **options)

        return wrapper

    def _no_repair(folder: Path) -> list[str]:
        raise Crash

    for owner, name in ((Path, "rename"), (Path, "replace"), (Path, "unlink"), (filing.shutil, "rmtree")):
        monkeypatch.setattr(owner, name, counted(getattr(owner, name)))


@pytest.mark.parametrize("step", range(1, 11))
def test_a_crash_at_any_step_leaves_the_old_or_the_new_experiments(
    folder: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    before = state(folder)
    with open_set(folder) as manifest:
        staged = [stage(folder, "alpha", "new"), stage(folder, "beta", "first")]
        with monkeypatch.context() as patch:
            crash_at(patch, step)
            try:
                file_experiments(folder, manifest, staged)
                crashed = False
            except Crash:
                crashed = True
        assert crashed == (step < 10)
    repair(folder)
    after = state(folder)
    if after != before:  # then it is all there
        record = parse_manifest(json.loads(after["manifest.json"]), folder)
        assert set(record.experiments) == {"alpha", "beta"}
        assert json.loads(after["alpha/run.json"]) == "new"
        assert set(after) == {"manifest.json", "alpha/run.json", "beta/run.json"}
    assert step > 4 or after == before


def test_an_error_while_filing_undoes_it_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = state(folder)
    with open_set(folder) as manifest:
        staged = [stage(folder, "alpha", "new")]
        monkeypatch.setattr(filing, "write_json", _fail)
        with pytest.raises(OSError, match="full"):
            file_experiments(folder, manifest, staged)
    assert state(folder) == before


def _fail(*_: object) -> None:
    raise OSError("full")


def test_leftovers_of_a_capture_that_was_killed_are_cleared_at_the_next_start(folder: Path) -> None:
    before = state(folder)
    stage(folder, "beta", "half")
    (folder / ".labcode-x").mkdir()
    (folder / ".labcode-x/manifest.json").write_text("{")
    with open_set(folder):
        pass
    assert state(folder) == before


def test_an_unknown_folder_in_a_set_is_never_removed(folder: Path) -> None:
    (folder / "notes").mkdir()
    (folder / "notes/mine.txt").write_text("keep")
    with open_set(folder) as manifest:
        file_experiments(folder, manifest, [stage(folder, "alpha", "new")])
    assert (folder / "notes/mine.txt").read_text() == "keep"


def test_a_new_set_without_a_filing_leaves_no_folder(tmp_path: Path) -> None:
    with open_set(tmp_path / "set") as manifest:
        assert manifest["experiments"] == {}
    assert not (tmp_path / "set").exists()


def test_a_damaged_manifest_is_named(folder: Path) -> None:
    (folder / "manifest.json").write_text("{")
    with pytest.raises(InputError, match=r"manifest\.json: not valid JSON"), open_set(folder):
        pass


def test_lists_of_numbers_are_on_one_line(tmp_path: Path) -> None:
    value = {"a": [1, -2.5, 3e-07], "b": ["x\n[\n 1\n]"], "c": [], "d": [[1, 2], [3]], "e": [1, None]}
    filing.write_json(tmp_path / "r.json", value)
    text = (tmp_path / "r.json").read_text()
    assert json.loads(text) == value
    assert '"a": [1, -2.5, 3e-07],\n' in text and "  [1, 2],\n" in text and "\n  null\n" in text


def test_large_records_are_compressed_small_ones_and_other_files_are_not(tmp_path: Path) -> None:
    large = json.dumps({"results": list(range(10_000))})
    assert len(large) > filing.LARGEST_PLAIN
    (tmp_path / "a.json").write_text(large)
    (tmp_path / "a.clean.json").write_text("{}")
    (tmp_path / "a.sqlite.xz").write_bytes(b"x" * 2 * filing.LARGEST_PLAIN)
    names = filing.packed(tmp_path, ["a.json", "a.clean.json", "a.sqlite.xz"])
    assert names == ["a.json.xz", "a.clean.json", "a.sqlite.xz"]
    assert not (tmp_path / "a.json").exists()
    assert lzma.decompress((tmp_path / "a.json.xz").read_bytes()).decode() == large
