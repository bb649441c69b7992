"""Pages that fail: what went wrong when a page was read in, a page that says so and a note of it out.

The others are built all the same. In its place stands its title, with what links and the table of contents
need of it besides, and it is read again by the next build.
"""

from __future__ import annotations

import re
import traceback
from typing import Any, NamedTuple

from docutils import nodes
from myst_nb.core.execute.base import ExecutionError
from sphinx.application import Sphinx
from sphinx.builders import Builder
from sphinx.errors import SphinxError

from labcode.book.sphinx.noted import Noted, NotingCollector
from labcode.errors import LabError

_SAYS = "This page could not be built. What the build printed says why; the other pages are not concerned."
_FRONT = re.compile(r"\A---\n.*?^---\n", re.DOTALL | re.MULTILINE)
_FENCE = re.compile(r"^(?P<fence>`{3,})(?P<info>[^\n]*)\n.*?^(?P=fence)[ ]*$\n?", re.DOTALL | re.MULTILINE)
_TITLE = re.compile(r"(?m)^# .+$")
_LABEL = re.compile(r"(?m)^\([\w./-]+\)=$")
_COLOR = re.compile(r"\x1b\[[0-9;]*m")
_CELL_ERROR = re.compile(
    r"nbclient\.exceptions\.Cell\w+Error: (?P<message>.*?)"
    r"(?=\n\s*\n(?:The above exception|During handling)|\Z)",
    re.DOTALL,
)


class Failure(NamedTuple):
    """Why a page failed, in one line, and what there is to say besides."""

    reason: str
    details: str


failed = Noted[Failure]("failed")  # pages


class FailureCollector(NotingCollector):
    """Keeps in the environment which pages failed."""

    notes = (failed,)

    def process_doc(self, app: Sphinx, doctree: nodes.document) -> None:
        """See to it that the page is read again by the next build."""
        if app.env.current_document.docname in failed(app.env):
            app.env.note_reread()


def register(app: Sphinx) -> None:
    """Connect it to the application."""
    app.add_env_collector(FailureCollector)
    app.connect("source-read", _replace)


_read = Builder.read_doc


def read(builder: Builder, docname: str, **options: Any) -> None:
    """`Builder.read_doc`; of a page that fails, what stands in its place is read."""
    try:
        _read(builder, docname, **options)
    except Exception as error:
        builder.events.emit("env-purge-doc", builder.env, docname)
        builder.env.clear_doc(docname)
        builder.env.ref_context.clear()
        failed(builder.env)[docname] = failure(error)
        _read(builder, docname, **options)


def failure(error: Exception) -> Failure:
    """What to say of an error: of a failing cell its traceback, of what is said in one line nothing more."""
    if isinstance(error, ExecutionError):
        text = "".join(traceback.format_exception(error))
        cell = _CELL_ERROR.search(text)
        return Failure("a cell of this page failed (see above)", (cell["message"] if cell else text).strip())
    if isinstance(error, LabError | SphinxError):
        return Failure(" ".join(str(error).split()), "")
    details = "".join(traceback.format_exception(error)).strip()
    return Failure(f"{type(error).__name__}: {' '.join(str(error).split())} (see above)", details)


def without_colors(text: str) -> str:
    """A traceback of IPython for what is no terminal."""
    return _COLOR.sub("", text)


def in_place_of(page: str) -> str:
    """What to read instead of a page that failed: its title, all labels, its tables of contents."""
    text = _FRONT.sub("", page)
    fences = list(_FENCE.finditer(text))
    trees = [found[0].strip() for found in fences if found["info"].strip().startswith("{toctree}")]
    plain = _FENCE.sub("", text)
    title = _TITLE.search(plain)
    labels = "\n".join(_LABEL.findall(plain))
    heading = title[0] if title else "# A page that could not be built"
    return "\n\n".join(filter(None, (labels, heading, f":::{{warning}}\n{_SAYS}\n:::", *trees))) + "\n"


def _replace(app: Sphinx, docname: str, source: list[str]) -> None:
    if docname in failed(app.env):
        source[0] = in_place_of(source[0])
