"""What makes the book be built again, and what does not."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from labcode.book import unchanged


@pytest.fixture
def house(tmp_path: Path) -> Path:
    for name in (
        "conf.py",
        "book/index.md",
        "book/_static/logo.png",
        "labcode/store.py",
        "solutions/part/exercise.toml",
        "tests/test_one.py",
        "captures/h200/manifest.json",
        "captures/h200/loop/baseline.sqlite.xz",
        "_build/html/index.html",
        "_build/html/_static/logo.png",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name, encoding="utf-8")
    return tmp_path


def digest(house: Path, current: str = "h200") -> str:
    return unchanged.inputs(house, house / "captures", current)


def remembered(house: Path, *included: Path) -> bool:
    """Whether a build that begins now, ends at once and is followed by another one spares that."""
    html = house / "_build" / "html"
    unchanged.remember(house, html, digest(house), included, house / "captures")
    return unchanged.is_current(html, digest(house))


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("conf.py", True),
        ("book/index.md", True),
        ("book/_static/logo.png", True),
        ("book/new/page.md", True),
        ("labcode/store.py", True),
        ("solutions/part/exercise.toml", True),
        ("tests/test_one.py", True),
        ("constraints.txt", True),
        ("captures/h200/manifest.json", True),
        ("captures/h200/loop/baseline.sqlite.xz", True),
        ("captures/my-l4/manifest.json", True),
        ("_build/html/index.html", True),
        ("_build/html/_static/new.png", True),
        ("_build/doctrees/index.doctree", False),
        ("labcode/__pycache__/store.cpython-311.pyc", False),
        (".exercises-progress.json", False),
        ("notes/ideas.md", False),
    ],
)
def test_what_counts(house: Path, name: str, counts: bool) -> None:
    assert remembered(house)
    path = house / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("something else", encoding="utf-8")
    assert unchanged.is_current(house / "_build/html", digest(house)) is not counts


def test_a_source_of_the_same_size_and_time_is_told_apart(house: Path) -> None:
    page = house / "book/index.md"
    before, state = digest(house), page.stat()
    page.write_text(page.read_text()[::-1], encoding="utf-8")
    os.utime(page, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert page.stat().st_mtime_ns == state.st_mtime_ns and digest(house) != before


def _remove(house: Path) -> None:
    (house / "_build/html/index.html").unlink()


def _damage(house: Path) -> None:
    (house / "_build" / unchanged.RECORD).write_text("{", encoding="utf-8")


def _list(house: Path) -> None:
    (house / "_build" / unchanged.RECORD).write_text("[]", encoding="utf-8")


def _forget(house: Path) -> None:
    (house / "_build" / unchanged.RECORD).unlink()


@pytest.mark.parametrize("doubt", [_remove, _damage, _list, _forget])
def test_a_doubt_builds(house: Path, doubt: Callable[[Path], None]) -> None:
    assert remembered(house)
    doubt(house)
    assert not unchanged.is_current(house / "_build/html", digest(house))


def test_another_set_or_package_builds(house: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = digest(house)
    assert digest(house, "my-l4") != before
    (house / "site" / "sphinx-99.dist-info").mkdir(parents=True)
    monkeypatch.syspath_prepend(str(house / "site"))
    assert digest(house) != before


def test_pages_that_include_what_is_not_looked_at_are_built_each_time(house: Path) -> None:
    files = ("book/../labcode/store.py", "conf.py", "captures/h200/x", "_build/jupyter_execute/figure.svg")
    assert remembered(house, *(house / name for name in files), Path(os.__file__), Path(pytest.__file__))
    (house / "_build" / unchanged.RECORD).unlink()
    assert not remembered(house, house / "notes/ideas.md")
    assert not remembered(house, Path("/etc/hostname"))


def test_what_cannot_be_read_builds(house: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bytes:
        raise PermissionError(path)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert digest(house) == ""
    assert not remembered(house)
