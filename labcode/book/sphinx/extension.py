"""The Sphinx side of the book: an application in, the extension's nodes, directives and checks connected to
it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sphinx.errors import ExtensionError

from labcode import __version__
from labcode.book import frames
from labcode.book.sphinx import caching, calculator, collecting, mathml, paper, render
from labcode.book.sphinx.directives import register as register_directives

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect everything; called by Sphinx."""
    _require_plugin()
    app.add_config_value("labcode_digest", "", "env", str)
    app.add_config_value("labcode_static_digest", "", "html", str)
    app.add_config_value("labcode_set", "", "env", str)
    app.add_config_value("labcode_strict", False, "", bool)
    app.add_config_value("labcode_update_claims", False, "", bool)
    app.connect("builder-inited", _prepare_cache)
    mathml.register(app)
    frames.register(app)
    register_directives(app)
    calculator.register(app)
    collecting.register(app)
    paper.register(app)
    return {"version": __version__, "parallel_read_safe": True, "parallel_write_safe": True}


def _prepare_cache(app: Sphinx) -> None:
    caching.prepare(Path(app.config.nb_execution_cache_path))
    caching.write_profile(Path(os.environ["IPYTHONDIR"]))


def _require_plugin() -> None:
    """MyST-NB finds its plugins among installed packages; without ours, pages lose tables and claims."""
    from myst_nb.core.render import load_mime_renders

    if render.LabRenderer not in load_mime_renders():
        raise ExtensionError(
            "labcode is not installed (its MyST-NB plugin is missing): pip install -e '.[book]'"
        )
