"""Builds beside one another, builds that were cut off, and pages that several processes keep at once."""

import contextlib
import errno
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from labcode.book.build import build
from labcode.book.sphinx import execution, extension, failing, kept
from labcode.errors import LabError
from tests.book import test_build
from tests.book.test_build import HEADER, PAGE, html, text_of, write_page

house = test_build.house
pytestmark = pytest.mark.filterwarnings("ignore:.*HandleFootnoteTransform")  # the theme's own affair
REPOSITORY = Path(__file__).parents[2]
READERS, PAGES = 8, 40


def read_page(folder: Path, reader: int, number: int) -> str:
    """Have MyST-NB ask for the outputs of a page of one cell."""
    import nbformat
    from myst_nb.core.config import NbParserConfig
    from myst_nb.core.execute import create_client

    execution.install()
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(f"page {number} of {reader}")],
        metadata={"kernelspec": {"name": "python3", "display_name": "python3"}},
    )
    config = NbParserConfig(execution_mode="cache", execution_cache_path=str(folder))
    with create_client(notebook, __file__, config, logging.getLogger("quiet")) as client:
        return str(client.notebook.cells[0].outputs[0].text)


def executed(client: Any) -> Any:
    import nbformat

    for count, cell in enumerate(client.nb.cells, 1):
        cell.execution_count = count
        cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text=cell.source)]
    return client.nb


def read_pages(folder: Path, reader: int, same: bool) -> None:
    for number in range(PAGES):
        read_page(folder, 0 if same else reader, number)


@pytest.mark.parametrize("same", [False, True])
def test_many_processes_keep_their_pages_at_once(tmp_path: Path, monkeypatch: Any, same: bool) -> None:
    folder = tmp_path / "caches" / "0123456789abcdef-h200"
    extension.prepare(folder)
    monkeypatch.setattr("nbclient.NotebookClient.execute", executed)
    forking = multiprocessing.get_context("fork")
    readers = [forking.Process(target=read_pages, args=(folder, n, same)) for n in range(READERS)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert [reader.exitcode for reader in readers] == [0] * READERS
    monkeypatch.setattr("nbclient.NotebookClient.execute", None)  # from now on they have to be there
    for reader in range(1 if same else READERS):
        for number in range(PAGES):
            assert read_page(folder, reader, number) == f"page {number} of {reader}"
    assert len(list(folder.iterdir())) == PAGES * (1 if same else READERS)


@pytest.mark.parametrize("damage", ["", '{"cells": [', "[]", '{"executed": 1, "seconds": 1, "cells": []}'])
def test_a_page_that_is_kept_in_part_is_executed_again(tmp_path: Path, monkeypatch: Any, damage: str) -> None:
    monkeypatch.setattr("nbclient.NotebookClient.execute", executed)
    read_page(tmp_path, 1, 1)
    (file,) = tmp_path.iterdir()
    whole = file.read_text(encoding="utf-8")
    file.write_text(damage, encoding="utf-8")
    assert read_page(tmp_path, 1, 1) == "page 1 of 1"
    assert len(file.read_text(encoding="utf-8")) == pytest.approx(len(whole), abs=10)


def test_where_pages_cannot_be_kept_the_message_says_what_to_remove(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("nbclient.NotebookClient.execute", executed)
    (tmp_path / "kept").touch()  # no folder
    with pytest.raises(LabError, match=rf"kept in {tmp_path}/kept: if nothing else helps, remove it"):
        read_page(tmp_path / "kept", 1, 1)

    def full(_: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(kept, "whole", full)
    with pytest.raises(LabError, match=rf"No space left.*kept in {tmp_path}/other: if nothing else helps"):
        read_page(tmp_path / "other", 1, 1)


BUILD = """
import multiprocessing, sys
from labcode.book import build
multiprocessing.cpu_count = lambda: 2
sys.exit(build.build(None, "html"))
"""
WAITING = """
import os, pathlib
from time import sleep
pathlib.Path("{began}").write_text(str(os.getpid()))
while not pathlib.Path("{goes_on}").exists():
    sleep(0.01)
book.value("""


@pytest.fixture
def waiting(house: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A book of which a page says that it began by one file, and waits for another one."""
    monkeypatch.setenv("MARK", str(house))
    began, goes_on = house.parent / "began", house.parent / "goes-on"
    cell = WAITING.format(began=began, goes_on=goes_on).lstrip()
    write_page(house, "page", PAGE.replace("book.value(", cell))
    return began, goes_on


def start() -> subprocess.Popen[str]:
    """Begin to build in a process of its own."""
    words = [sys.executable, "-c", BUILD]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(words, text=True, start_new_session=True, **pipes)


def until(holds: Callable[[], object], what: str) -> None:
    limit = time.monotonic() + 600
    while not holds():
        assert time.monotonic() < limit, what
        time.sleep(0.02)


def running(mark: Path) -> list[str]:
    """The processes whose environment has the mark, but for this one: a build and what it started."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"MARK={mark}\0".encode() in (path / "environ").read_bytes() and path.name != str(os.getpid()):
                found.append((path / "cmdline").read_text().replace("\0", " "))
    return found


@pytest.mark.parametrize(
    "way",
    [pytest.param("killed", marks=pytest.mark.slow), "interrupted"],  # `test_forking.py` kills one
)
def test_a_build_that_is_cut_off_leaves_no_process_and_the_next_one_is_right(
    house: Path, waiting: tuple[Path, Path], way: str
) -> None:
    with start() as building:
        until(lambda: waiting[0].exists() or building.poll() is not None, "no page was begun")
        assert len(running(house)) > 2  # the build, what reads the page, its kernel
        if way == "killed":
            building.kill()
        else:  # as a terminal does it
            os.killpg(building.pid, signal.SIGINT)
        until(lambda: not running(house), "they still run")
        assert building.wait() != 0
    waiting[1].touch()
    assert build(None, "html") == 0
    assert "10.0\u202fµs" in html(house, "page")


def test_pages_that_a_build_left_in_part_are_written_again(house: Path) -> None:
    assert build(None, "html") == 0
    for name in ("html/captures.html", "doctrees/captures.doctree", "doctrees/environment.pickle"):
        file = house / "_build" / name
        file.write_bytes(file.read_bytes()[:1000])
    (house / "_build" / extension.UNFINISHED).touch()
    assert build(None, "html") == 0
    assert "MY-L4" in html(house, "captures")
    assert not (house / "_build" / extension.UNFINISHED).exists()


def test_a_build_beside_another_one_waits_and_says_so(house: Path, waiting: tuple[Path, Path]) -> None:
    with start() as first:
        until(lambda: waiting[0].exists() or first.poll() is not None, "no page was begun")
        with start() as second:
            assert second.stderr is not None
            said = second.stderr.readline()
            waiting[1].touch()
            assert f"book: process {first.pid} builds in {house / '_build'}; waiting until it is done" in said
            (one, _), (other, errors) = first.communicate(timeout=600), second.communicate(timeout=600)
    assert (first.returncode, second.returncode, errors) == (0, 0, "")
    assert one.startswith("the book is in") and other.startswith("the book is in")
    assert "10.0\u202fµs" in html(house, "page")


def test_a_capture_that_was_changed_stops_its_pages_alone(
    house: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (house / "_build/.jupyter_cache").unlink()  # what other tests executed
    other = "# Another\n\n```{code-cell} python\nprint('one' 'two')\n```\n"
    write_page(house, "claims", HEADER + other)
    (file,) = (house / "captures/h200/measuring").glob("record.json")
    file.write_text(file.read_text().replace("10.0", "11.0"))
    with pytest.raises(LabError, match=r"book/page\.md: a cell of this page failed \(see above\); the other"):
        build(None, "html", strict=True)
    assert "record.json: changed since it was captured" in capsys.readouterr().err
    assert failing._SAYS in text_of(html(house, "page"))
    assert "onetwo" in html(house, "claims")


def test_pages_that_failed_are_all_named_and_read_again(
    house: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = PAGE.replace("book.value(", "1 / 0\nbook.value(")
    write_page(house, "claims", broken)
    write_page(house, "page", broken)
    for _ in range(2):
        with pytest.raises(LabError, match=r"2 pages failed .*/claims\.md, .*/page\.md; the other"):
            build(None, "html")
        assert capsys.readouterr().err.count("ZeroDivisionError: division by zero") >= 2


def test_a_reader_that_is_killed_is_missed(house: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multiprocessing.cpu_count", lambda: 2)
    killing = 'import os\nos.kill(int(os.environ["JPY_PARENT_PID"]), 9)\nbook.value('
    write_page(house, "page", PAGE.replace("book.value(", killing))
    with pytest.raises(LabError, match=r"the process with page ended before it was done \(signal 9\)"):
        build(None, "html")


def test_in_place_of_a_page_stands_what_others_need() -> None:
    page = """---
file_format: mystnb
---

(first-label)=
(second)=
# The title

Text with (parentheses)=none.

```{code-cell} python
# Not the title
```

(below)=
## More

```{toctree}
:hidden:
a
b
```
"""
    assert failing.in_place_of(page) == (
        "(first-label)=\n(second)=\n(below)=\n\n# The title\n\n"
        f":::{{warning}}\n{failing._SAYS}\n:::\n\n```{{toctree}}\n:hidden:\na\nb\n```\n"
    )
