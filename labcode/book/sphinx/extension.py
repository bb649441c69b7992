"""The Sphinx side of the book: an application in, the extension's nodes, directives and checks connected to
it.
"""

from __future__ import annotations

import builtins
import logging
import os
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import FileSystemBytecodeCache
from myst_nb.sphinx_ext import OUTPUT_FOLDER
from sphinx.addnodes import pending_xref
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.errors import ExtensionError
from sphinx.jinja2glue import BuiltinTemplateLoader
from sphinx.util.nodes import find_pending_xref_condition

from labcode import __version__
from labcode.book.sphinx import (
    api,
    calculator,
    citations,
    collecting,
    execution,
    failing,
    folding,
    forking,
    framing,
    glossary,
    lighter,
    mathml,
    paper,
    predicting,
    publishing,
    render,
    roles,
    searching,
    teaching,
    turns,
)
from labcode.book.sphinx.directives import register as register_directives
from labcode.outputs import whole

UNFINISHED = "unfinished"
_KEPT = 4
_NAMED_AFTER_DIGEST = re.compile(r"[0-9a-f]{16}-.+")
_KERNEL_CONFIG = """\
c = get_config()
c.IPKernelApp.log_level = "ERROR"  # no advice about transports on every page
c.HistoryManager.enabled = False  # kernels that start at once would wait for one history file
"""
_DASHES = re.compile(r'(?<=<span class="pre">)--?\w')
_FOREIGN = {*dir(builtins), *sys.stdlib_module_names, "numpy", "pandas", "torch", "matplotlib"}
if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx


def prepare(folder: Path) -> None:
    """Make the folder that executed pages are kept in, or mark it as used now; remove all but the last few
    beside it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    os.utime(folder)
    prune(folder.parent, keep=_KEPT)


def prune(parent: Path, keep: int) -> None:
    """Remove all but the ``keep`` most recently used folders that are named after a digest."""
    kept = [path for path in parent.iterdir() if _NAMED_AFTER_DIGEST.fullmatch(path.name) and path.is_dir()]
    for path in sorted(kept, key=lambda path: path.stat().st_mtime, reverse=True)[keep:]:
        shutil.rmtree(path, ignore_errors=True)


def write_profile(folder: Path) -> None:
    """Write the IPython profile that pages run under: it is the book's own, so nobody's start-up files reach
    the pages.
    """
    profile = folder / "profile_default"
    profile.mkdir(parents=True, exist_ok=True)
    path = profile / "ipython_kernel_config.py"
    if not path.is_file() or path.read_text(encoding="utf-8") != _KERNEL_CONFIG:
        with whole(path) as part:  # kernels may start meanwhile
            part.write_text(_KERNEL_CONFIG, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect everything; called by Sphinx."""
    _require_plugin()
    _begin(app)
    execution.install()
    logging.getLogger("traitlets").setLevel(logging.WARNING)  # what kernels do is not worth a line
    logging.getLogger("sphinx").setLevel(
        logging.INFO
    )  # else it writes each event for a log that nobody keeps
    app.add_config_value("labcode_digest", "", "env", str)
    app.add_config_value("labcode_static_digest", "", "html", str)
    app.add_config_value("labcode_set", "", "env", str)
    app.add_config_value("labcode_strict", False, "", bool)
    app.add_config_value("labcode_update_claims", False, "", bool)
    app.connect("builder-inited", _prepare_caches)
    forking.register(app)
    app.connect("doctree-read", _leave_foreign_names)
    app.connect("html-page-context", _keep_dashes)
    mathml.register(app)
    api.register(app)
    framing.register(app)
    register_directives(app)
    roles.register(app)
    glossary.register(app)
    teaching.register(app)
    calculator.register(app)
    predicting.register(app)
    citations.register()
    collecting.register(app)
    paper.register(app)
    failing.register(app)
    folding.register(app)
    searching.register(app)
    lighter.register(app)
    publishing.register(app)
    return {"version": __version__, "parallel_read_safe": True, "parallel_write_safe": True}


def _begin(app: Sphinx) -> None:
    """Wait until no other build goes on; after one that was cut off, all pages are read and written again.

    Such a build may have left half a file, or pages of another set beside those that it had written. What it
    executed is kept.
    """
    out = Path(app.outdir).parent
    mine = turns.take(out)
    unfinished = out / UNFINISHED
    if unfinished.exists():
        for folder in (Path(app.doctreedir), out / OUTPUT_FOLDER):
            shutil.rmtree(folder, ignore_errors=True)
    unfinished.touch()

    def end(_: Sphinx, exception: Exception | None) -> None:
        if exception is None:
            unfinished.unlink(missing_ok=True)
        if mine:
            turns.leave(out)

    app.connect("build-finished", end, priority=900)  # after all else


def _prepare_caches(app: Sphinx) -> None:
    prepare(Path(app.config.nb_execution_cache_path))
    write_profile(Path(os.environ["IPYTHONDIR"]))
    if isinstance(app.builder, StandaloneHTMLBuilder) and isinstance(
        app.builder.templates, BuiltinTemplateLoader
    ):
        environment = app.builder.templates.environment
        if environment.bytecode_cache is None:  # tests have one for all of their builds
            folder = Path(app.doctreedir) / ".templates"
            folder.mkdir(exist_ok=True)
            environment.bytecode_cache = FileSystemBytecodeCache(str(folder))


def _leave_foreign_names(app: Sphinx, doctree: nodes.document) -> None:
    """Names of other packages become plain text, which Sphinx would compare with all names of the book."""
    for name in list(doctree.findall(pending_xref)):
        if name.get("refdomain") == "py" and name["reftarget"].split(".")[0] in _FOREIGN:
            unresolved = find_pending_xref_condition(name, "*")
            name.replace_self((unresolved or name).children)


def with_dashes(markup: str) -> str:
    """A page's markup in which no option of a command loses its dashes to the line above."""
    return _DASHES.sub(r'<span class="lab-spec">\g<0></span>', markup)


def _keep_dashes(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object
) -> None:
    if "body" in context:
        context["body"] = with_dashes(str(context["body"]))


def _require_plugin() -> None:
    """MyST-NB finds its plugins among installed packages; without ours, pages lose tables and claims."""
    from myst_nb.core.render import load_mime_renders

    if render.LabRenderer not in load_mime_renders():
        raise ExtensionError(
            "profiling-lab is not installed (its MyST-NB plugin is missing): pip install -e '.[book]'"
        )
