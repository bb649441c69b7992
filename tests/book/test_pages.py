"""Captures for pages: traces of one process and of several, a memory history, from a set of files."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from labcode import book
from labcode.book import pages
from labcode.capture.filing import files_record
from labcode.errors import InputError
from tests.book.sets import write_set
from tests.support import histories, traces


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A set with runs of torch.profiler: ``one`` process, two ``ranks``, and a memory history ``leak``."""
    folder = write_set(tmp_path / "sets", "mine", 1.0)
    place = folder / "measuring"
    runs = {
        "one": traces.training(place, steps=1, layers=1, packed=True),
        "ranks": traces.training(place, ranks=2, steps=1, layers=1, packed=True),
        "leak": [histories.write(place, histories.leaking())],
    }
    manifest = json.loads((folder / "manifest.json").read_text())
    entry = manifest["experiments"]["measuring"]
    for run, files in runs.items():
        named = [file.rename(place / file.name.replace("run.", f"{run}.", 1)) for file in files]
        held = files_record(place, [file.name for file in named])
        entry["runs"][run] = {**entry["runs"]["record"], "files": held}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    monkeypatch.setenv("LABCODE_SETS", str(tmp_path / "sets"))
    monkeypatch.setenv("LABCODE_CAPTURES", "mine")
    monkeypatch.setenv("LABCODE_CACHE", str(tmp_path / "cache"))
    pages._taken.clear()
    yield place
    pages._taken.clear()


def test_traces_and_histories(shelf: Path) -> None:
    assert book.trace("measuring", "one").ranks == (0,)
    both = book.trace("measuring", "ranks")
    assert both.ranks == (0, 1) and both.world_size == 2 and both.warnings == ()
    assert len(book.memory("measuring", "leak").events) == 41


def test_refusals(shelf: Path) -> None:
    with pytest.raises(InputError, match=r"run 'record' has no \.trace\.json\.gz file"):
        book.trace("measuring", "record")
    with pytest.raises(InputError, match="no run 'two'"):
        book.memory("measuring", "two")
    (shelf / "one.trace.json.gz").write_bytes(b"changed")
    with pytest.raises(InputError, match="changed since it was captured"):
        book.trace("measuring", "one")
