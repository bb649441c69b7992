"""Building the book: a capture set and a kind of output in, the built book in ``_build/`` and an exit code
out.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

from labcode import store
from labcode.book import display, links
from labcode.book.sphinx import turns
from labcode.errors import LabError, ToolError
from labcode.show.terminal import raw

if TYPE_CHECKING:
    from labcode.book.sphinx import failing

KINDS = ("html", "live", "linkcheck", "notebooks", "pdf")
BUILD_FOLDER = "_build"
_PAGE_FOLDER = "book"
NOTEBOOKS = "_notebooks"  # beside the pages, to be run elsewhere
_PART = 3  # pages that a process reads or writes in a go
_NAMED = 5  # pages in a message


def build(
    captures: str | None, what: str = "html", *, strict: bool = False, update_claims: bool = False
) -> int:
    """Build the book around a set (the current one by default) and return an exit code.

    ``what`` is one of `KINDS`. A strict build starts from nothing and fails (exit code 1) on any warning, on
    stale captures, on a local link of a page that leads nowhere and, for the shipped set, on a false claim or
    one that its ``claims.json`` does not record.
    """
    if what not in KINDS:
        raise LabError(f"book: {what!r} is nothing to build; there are {', '.join(KINDS)}")
    if importlib.util.find_spec("sphinx") is None or importlib.util.find_spec("myst_nb") is None:
        raise ToolError(
            "book: Sphinx is not installed; in a checkout of the lab use `nox -s book`, or "
            "pip install -c constraints.txt -e '.[book]'"
        )
    root = store.repository_root()
    if not (root / "conf.py").is_file():
        raise LabError(
            f"{root}: no conf.py here; run this in a checkout of the repository, or set LABCODE_HOME to one"
        )
    set_name = captures or store.current_set()
    store.load_set(set_name)
    os.environ["LABCODE_CAPTURES"] = set_name  # conf.py and the kernels of the pages read these
    os.environ["LABCODE_STRICT"] = "1" if strict else ""
    os.environ["LABCODE_UPDATE_CLAIMS"] = "1" if update_claims else ""
    os.environ[display.WEB_ALONE] = "1" if what in ("html", "live") else ""
    if what == "live":
        return _live(root)  # each of its builds has a turn
    with turns.turn(root / BUILD_FOLDER):
        return _build(root, set_name, what, strict=strict)


def _build(root: Path, set_name: str, what: str, *, strict: bool) -> int:
    if strict:
        _clean(root / BUILD_FOLDER)
    if what == "pdf":
        return _pdf(root, strict=strict)
    if what == "html":
        return _pages(root, strict=strict)
    code = _sphinx(root, "linkcheck" if what == "linkcheck" else "html", strict=strict)
    if code == 0 and what == "notebooks":
        print(f"{len(_notebooks(root, set_name))} notebooks in {root / BUILD_FOLDER / 'notebooks'}")
    return code


def _pages(root: Path, *, strict: bool) -> int:
    folder = root / BUILD_FOLDER / "html"
    from labcode.book import notebooks

    address = notebooks.address_of(os.environ.get(notebooks.FILES, ""))
    if code := _sphinx(root, "html", strict=strict):
        return code
    target = folder / NOTEBOOKS
    shutil.rmtree(target, ignore_errors=True)  # of a build that knew an address
    if address:
        set_name = store.current_set()
        cache = _cache(root, set_name, web=True)
        notebooks.to_run(root / _PAGE_FOLDER, cache, target, address, set_name, _published(root))
    if strict and (broken := links.broken_links(folder)):
        print("\n".join(broken), file=sys.stderr)
        return 1
    print(f"the book is in {folder / 'index.html'}")
    return 0


def _sphinx(root: Path, builder: str, *, strict: bool) -> int:
    out, source = root / BUILD_FOLDER, root / _PAGE_FOLDER
    return run_sphinx(root, builder, source, out / builder, out / "doctrees", strict=strict)


def _live(root: Path) -> int:
    """Serve the book and build it whenever a file is saved, until Ctrl-C."""
    out = root / BUILD_FOLDER
    folders = ["-c", str(root), "-d", str(out / "doctrees"), str(root / _PAGE_FOLDER), str(out / "html")]
    command = [sys.executable, "-m", "sphinx_autobuild", *_live_options(root), *folders]
    return subprocess.run(command, cwd=root, check=False).returncode


def _live_options(root: Path) -> list[str]:
    watched = [str(root / name) for name in ("labcode", "cuda", "captures") if (root / name).is_dir()]
    ignored = [
        "*/.git/*",
        "*/__pycache__/*",
        f"{root / BUILD_FOLDER}/*",
        "*/.mypy_cache/*",
        "*/.ruff_cache/*",
    ]
    options = [f"--watch={path}" for path in watched] + [f"--ignore={pattern}" for pattern in ignored]
    return [*options, "-j", "auto"]


def _pdf(root: Path, *, strict: bool) -> int:
    if shutil.which("latexmk") is None or shutil.which("xelatex") is None:
        raise ToolError(
            "book: a PDF needs latexmk and xelatex (TeX Live); install them, or read _build/html instead"
        )
    if _sphinx(root, "latex", strict=strict):
        return 1
    folder = root / BUILD_FOLDER / "latex"
    command = ["latexmk", "-xelatex", "-interaction=nonstopmode", "-halt-on-error", "profiling-lab.tex"]
    finished = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    if finished.returncode:
        raise ToolError(f"book: latexmk failed; {folder / 'profiling-lab.log'} says why")
    print(f"the book is in {folder / 'profiling-lab.pdf'}")
    return 0


def _notebooks(root: Path, set_name: str) -> list[Path]:
    """Write the executed notebook of every page into ``_build/notebooks``."""
    from labcode.book import notebooks

    pages, cache = root / _PAGE_FOLDER, _cache(root, set_name, web=False)
    return notebooks.export(pages, cache, root / BUILD_FOLDER / "notebooks", set_name, _published(root))


def _published(root: Path) -> str:
    """Where the pages are on the web, as `conf.py` says it to them; empty where nobody says."""
    from labcode.book.sphinx import publishing

    citation = root / "CITATION.cff"
    text = citation.read_text(encoding="utf-8") if citation.is_file() else ""
    return publishing.place_of(text, os.environ.get("LABCODE_EDITION", "")).pages


def _cache(root: Path, set_name: str, *, web: bool) -> Path:
    """Where the outputs of cells are kept, as `conf.py` says it to the pages."""
    from labcode.book import digests

    name = digests.reading_digest(root, store.sets_root() / set_name) + ("-web" if web else "")
    return root / BUILD_FOLDER / ".jupyter_cache" / name


def _clean(folder: Path) -> None:
    for name in ("html", "latex", "linkcheck", "doctrees", "jupyter_execute", ".jupyter_cache"):
        shutil.rmtree(folder / name, ignore_errors=True)


def run_sphinx(root: Path, builder: str, source: Path, out: Path, doctrees: Path, *, strict: bool) -> int:
    """Build once; the code is 1 when there was an error or, in a strict build, a warning.

    Where pages fail the others are built, and then `labcode.errors.LabError` names them, after the details
    have gone to stderr; so does what Sphinx gives up on.
    """
    from sphinx.application import Sphinx
    from sphinx.builders import Builder
    from sphinx.errors import SphinxError, SphinxParallelError
    from sphinx.util.console import nocolor
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    from labcode.book.sphinx import failing, tasks

    if not sys.stderr.isatty():
        nocolor()
    parts = mock.patch("sphinx.builders.make_chunks", _parts)
    reading_one = mock.patch.object(Builder, "read_doc", failing.read)
    try:
        with parts, reading_one, tasks.watched(), patch_docutils(str(root)), docutils_namespace():
            app = Sphinx(
                srcdir=source,
                confdir=root,
                outdir=out,
                doctreedir=doctrees,
                buildername=builder,
                status=None,
                warning=raw(sys.stderr),
                warningiserror=strict,
                parallel=multiprocessing.cpu_count() + 1,  # one waits for its kernel
            )
            app.build()
            if failed := failing.failed(app.env):
                pages = {Path(app.env.doc2path(name)): failed[name] for name in sorted(failed)}
                raise _pages_error(pages, out)
            return 1 if app.statuscode else 0
    except SphinxParallelError as error:
        print(error.traceback, file=sys.stderr)
        raise LabError(f"book: {error}") from None
    except SphinxError as error:
        raise LabError(f"book: {error}") from None


def _parts(pages: Sequence[str], nproc: int) -> list[Sequence[str]]:
    """What the processes read or write; fewer parts, as Sphinx makes, leave cores idle at the end."""
    return [pages[first : first + _PART] for first in range(0, len(pages), _PART)]


def _pages_error(failed: Mapping[Path, failing.Failure], out: Path) -> LabError:
    """Print the failing cells and their tracebacks; the error to raise names the pages."""
    from labcode.book.sphinx.failing import without_colors

    for page, (reason, details) in failed.items():
        if details:
            print(details if sys.stderr.isatty() else without_colors(details), file=raw(sys.stderr))
        if len(failed) > 1:
            print(f"{page}: {reason}", file=sys.stderr)
    others = f"the other pages are built, in {out}"
    if len(failed) > 1:
        names = ", ".join(map(str, list(failed)[:_NAMED]))
        more = f" and {len(failed) - _NAMED} more" if len(failed) > _NAMED else ""
        return LabError(f"book: {len(failed)} pages failed (see above): {names}{more}; {others}")
    ((page, (reason, _)),) = failed.items()
    return LabError(f"{page}: {reason}; {others}")
