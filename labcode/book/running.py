"""One run of Sphinx: folders and a builder in, an exit code out; what fails is told in a few lines."""

from __future__ import annotations

import multiprocessing
import re
import sys
import traceback
from pathlib import Path

from labcode.errors import LabError
from labcode.terminal import raw

_PAGE = re.compile(r"ExecutionError: (?P<page>\S+\.(?:md|ipynb))")
_COLOR = re.compile(r"\x1b\[[0-9;]*m")
_CELL_ERROR = re.compile(
    r"nbclient\.exceptions\.Cell\w+Error: (?P<message>.*?)"
    r"(?=\n\s*\n(?:The above exception|During handling)|\Z)",
    re.DOTALL,
)


def run_sphinx(root: Path, builder: str, source: Path, out: Path, doctrees: Path, *, strict: bool) -> int:
    """Build once and return 0, or 1 when there was an error or, in a strict build, a warning.

    A cell that fails, and whatever else Sphinx gives up on, raises `labcode.errors.LabError` after the
    details have gone to stderr.
    """
    from sphinx.application import Sphinx
    from sphinx.errors import SphinxError, SphinxParallelError
    from sphinx.util.console import nocolor
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    if not sys.stderr.isatty():
        nocolor()
    try:
        with patch_docutils(str(root)), docutils_namespace():
            app = Sphinx(
                srcdir=source,
                confdir=root,
                outdir=out,
                doctreedir=doctrees,
                buildername=builder,
                status=None,
                warning=raw(sys.stderr),
                warningiserror=strict,
                parallel=multiprocessing.cpu_count(),
            )
            app.build()
            return 1 if app.statuscode else 0
    except SphinxParallelError as error:
        raise _page_error(error.traceback, str(error)) from None
    except SphinxError as error:
        raise LabError(f"book: {error}") from None
    except Exception as error:
        text = "".join(traceback.format_exception(error))
        if _PAGE.search(text) is None:
            raise
        raise _page_error(text, str(error)) from None


def _page_error(text: str, fallback: str) -> LabError:
    """Print the failing cell and its traceback; the error to raise names the page."""
    page = _PAGE.search(text)
    cell = _CELL_ERROR.search(text)
    if page is None:
        print(text, file=sys.stderr)
        return LabError(f"book: {fallback}")
    message = (cell["message"] if cell else text).strip()
    print(message if sys.stderr.isatty() else _COLOR.sub("", message), file=raw(sys.stderr))
    return LabError(
        f"{page['page']}: a cell of this page failed (see above); no page is published with an error on it"
    )
