"""Executed notebooks: pages and the cache of their outputs in, a folder of notebooks to hand on out."""

import ast
import re
import shutil
from pathlib import Path
from typing import Any

from labcode.book import display
from labcode.book.sphinx import kept

_OWN_MIME = "application/vnd.labcode."
_GLUED = re.compile(r"\{glue:text\}`([^`]+)`")


def export(pages: Path, cache: Path, target: Path) -> list[Path]:
    """Write every page with cells as an executed notebook to ``target``, which is replaced; returns the
    files.

    ``cache`` is the execution cache that the last build filled. Measured numbers stand in the text; the
    book's own representations are left out, since the plain ones beside them are what a notebook program can
    show.
    """
    import nbformat
    from myst_nb.core.read import read_myst_markdown_notebook
    from myst_parser.config.main import MdParserConfig

    shutil.rmtree(target, ignore_errors=True)
    config = MdParserConfig(enable_extensions={"attrs_block", "colon_fence", "dollarmath"})
    written = []
    for page in sorted(pages.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        if "{code-cell}" not in text:
            continue
        notebook = read_myst_markdown_notebook(text, config=config, path=page)
        if kept.fill(cache, notebook) is None:  # a page that is executed whenever it is read
            last = cache.parents[1] / "jupyter_execute" / page.relative_to(pages).with_suffix(".ipynb")
            notebook = nbformat.read(last, as_version=4)  # type: ignore[no-untyped-call]
        _plain(notebook)
        path = target / page.relative_to(pages).with_suffix(".ipynb")
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, path)  # type: ignore[no-untyped-call]
        written.append(path)
    return written


def _plain(notebook: Any) -> None:
    """Take the book's own representations out of a notebook, and put glued values into its text."""
    values: dict[str, str] = {}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if not _take_value(output, values)]
            for output in cell.outputs:
                data = output.get("data", {})
                for mime in [name for name in data if name.startswith(_OWN_MIME)]:
                    del data[mime]
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = _GLUED.sub(lambda match: values.get(match[1], match[0]), cell.source)


def _take_value(output: Any, values: dict[str, str]) -> bool:
    """Keep the value of an output that only glues one; whether it was such an output."""
    name = output.get("metadata", {}).get("scrapbook", {}).get("name")
    text = output.get("data", {}).get(f"{display.GLUE_PREFIX}text/plain")
    if name is None or text is None:
        return False
    values[name] = str(ast.literal_eval(text))
    return True
