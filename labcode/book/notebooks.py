"""Executed notebooks: the ones a build left behind in, a folder of notebooks to hand on out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

_OWN_MIME = "application/vnd.labcode."


def export(executed: Path, pages: Path, target: Path) -> list[Path]:
    """Write the notebook of every page that still exists to ``target`` and return the files.

    The book's own representations are left out: the plain ones (HTML, images, text) beside them are what a
    notebook program can show. ``target`` is replaced as a whole.
    """
    shutil.rmtree(target, ignore_errors=True)
    written = []
    for source in sorted(executed.rglob("*.ipynb")):
        name = source.relative_to(executed)
        if not (pages / name.with_suffix(".md")).is_file():
            continue
        notebook = json.loads(source.read_text(encoding="utf-8"))
        _plain(notebook)
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        written.append(path)
    return written


def _plain(notebook: dict[str, Any]) -> None:
    for cell in notebook.get("cells", ()):
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            for mime in [name for name in data if name.startswith(_OWN_MIME)]:
                del data[mime]
