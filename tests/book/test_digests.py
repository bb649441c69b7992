import os
from pathlib import Path

import pytest

from labcode.book import digests
from labcode.book.sphinx import extension


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in (
        "labcode/store.py",
        "labcode/cli/main.py",
        "labcode/analysis/timeline/overlap.py",
        "labcode/experiments/nsys/loop/expected.py",
        "labcode/experiments/nsys/loop/program.py",
        "cuda/common/timing.cuh",
        "captures/h200/manifest.json",
        "captures/h100/manifest.json",
        "captures/h200/claims.json",
        "captures/h100/claims.json",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name, encoding="utf-8")
    return tmp_path


def reading(root: Path) -> str:
    return digests.reading_digest(root, root / "captures" / "h200")


def building(root: Path) -> str:
    return digests.build_digest(root, root / "captures", "h200")


@pytest.mark.parametrize(
    ("changed", "executes_again", "reads_again"),
    [
        ("labcode/analysis/timeline/overlap.py", True, True),
        ("labcode/store.py", True, True),
        ("cuda/common/timing.cuh", True, True),
        ("captures/h200/manifest.json", True, True),
        ("labcode/experiments/nsys/loop/expected.py", True, True),
        ("labcode/experiments/nsys/loop/picture.py", True, True),
        ("labcode/experiments/nsys/loop/program.py", False, True),
        ("labcode/cli/main.py", False, True),
        ("captures/h100/manifest.json", True, True),
        ("captures/h100/claims.json", False, True),
        ("captures/h200/claims.json", False, False),
        ("labcode/analysis/__pycache__/overlap.py", False, False),
        ("labcode/analysis/notes.txt", False, False),
    ],
)
def test_what_a_change_sets_in_motion(root, changed, executes_again, reads_again):
    before = reading(root), building(root)
    path = root / changed
    path.parent.mkdir(exist_ok=True)
    path.write_text("changed", encoding="utf-8")
    assert (reading(root) != before[0], building(root) != before[1]) == (executes_again, reads_again)


def test_a_renamed_file_is_a_change(root):
    before = reading(root)
    (root / "labcode/analysis/timeline/overlap.py").rename(root / "labcode/analysis/concurrency.py")
    assert reading(root) != before


def test_sets_have_caches_of_their_own(root):
    assert digests.reading_digest(root, root / "captures/h200") != digests.reading_digest(
        root, root / "captures/h100"
    )


def test_a_set_that_may_be_thin_shows_what_it_recorded(root):
    before = digests.build_digest(root, root / "captures", "h100")
    (root / "captures/h100/claims.json").write_text("changed", encoding="utf-8")
    assert digests.build_digest(root, root / "captures", "h100") != before


def test_static_files_of_any_kind_count(tmp_path):
    before = digests.folder_digest(tmp_path)
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    assert digests.folder_digest(tmp_path) != before


def test_old_caches_are_pruned_and_other_folders_stay(tmp_path):
    names = [f"{letter * 16}-h200" for letter in "2b0a"]  # the most recently used first
    for age, name in enumerate(names):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    (tmp_path / "not-a-cache").mkdir()
    extension.prune(tmp_path, keep=2)
    assert {path.name for path in tmp_path.iterdir()} == {*names[:2], "not-a-cache"}


def test_a_folder_that_is_prepared_is_the_last_to_be_pruned(tmp_path):
    names = [f"{letter * 16}-h200" for letter in "abcde"]  # the least recently used first
    for age, name in enumerate(names):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (1000 + age, 1000 + age))
    extension.prepare(tmp_path / names[0])
    assert sorted(path.name for path in tmp_path.iterdir()) == [names[0], *names[2:]]
