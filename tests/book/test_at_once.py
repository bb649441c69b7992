"""Builds beside one another, builds that were cut off, and pages that several processes keep at once."""

import errno
import logging
import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest

from labcode.book import kept
from labcode.book.sphinx import execution, extension
from labcode.errors import LabError
from tests.book.test_build import house

__all__ = ["house"]
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
