"""What executed pages showed, kept for the next build: a folder and a page's cells in, their outputs out.

Each page has a file, named after its cells and written whole or not at all: any number of processes may keep
and look up pages at once, and need not wait for one another. A file that is damaged counts as none.
"""

import hashlib
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

from labcode.errors import LabError, describe_os_error
from labcode.outputs import whole

_TAGS = {"raises-exception", "skip-execution"}  # those that change what comes of a cell


class Kept(NamedTuple):
    """When a page was executed (as `time.time` counts), and the seconds that it took."""

    executed: float
    seconds: float


def keep(folder: Path, notebook: Any, seconds: float) -> Kept:
    """Keep the outputs of a notebook that was executed just now."""
    kept = Kept(time.time(), seconds)
    content = kept._asdict() | {
        "language_info": notebook.metadata.get("language_info", {}),
        "cells": [[cell.execution_count, cell.outputs] for cell in _code(notebook)],
    }
    try:
        with whole(_place(folder, notebook)) as part:
            part.write_text(json.dumps(content), encoding="utf-8")
    except OSError as error:
        raise _unusable(folder, error) from None
    return kept


def fill(folder: Path, notebook: Any) -> Kept | None:
    """Put the outputs that are kept of its cells into a notebook; ``None`` where none are."""
    from nbformat import from_dict

    try:
        text = _place(folder, notebook).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable(folder, error) from None
    try:
        content = json.loads(text)
        kept = Kept(float(content["executed"]), float(content["seconds"]))
        language = from_dict(content["language_info"])  # type: ignore[no-untyped-call]
        cells = [(count, list(map(from_dict, outputs))) for count, outputs in content["cells"]]
        filled = list(zip(_code(notebook), cells, strict=True))
    except (ValueError, KeyError, TypeError):
        return None
    notebook.metadata["language_info"] = language
    for cell, (count, outputs) in filled:
        cell.execution_count, cell.outputs = count, outputs
    return kept


def _place(folder: Path, notebook: Any) -> Path:
    cells = [[cell.source, sorted(_TAGS & set(cell.metadata.get("tags", ())))] for cell in _code(notebook)]
    known = json.dumps([notebook.metadata.get("kernelspec", {}).get("name"), cells])
    return folder / f"{hashlib.sha256(known.encode()).hexdigest()[:32]}.json"


def _code(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def _unusable(folder: Path, error: OSError) -> LabError:
    return LabError(
        f"{describe_os_error(error)}; what was executed is kept in {folder}: if nothing else helps, remove it"
    )
