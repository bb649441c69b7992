"""Links of reports lead to the sources of the book's pages, whatever is built beside these tests."""

from pathlib import Path

import pytest

from labcode.verbs.report import page

REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sources")
    (root / "book").symlink_to(REPOSITORY / "book")
    return root


@pytest.fixture(autouse=True)
def _unbuilt(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "repository_root", lambda: sources)
