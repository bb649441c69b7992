r"""Formulas in HTML: LaTeX math nodes in, MathML out, so that pages need no script of another host."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.errors import ExtensionError
from sphinx.util.math import get_node_equation_number

if TYPE_CHECKING:
    from sphinx.application import Sphinx

NAME = "mathml"
_COMMAND = re.compile(r"\\[A-Za-z]+")  # what the converter does not know, it leaves as it is


def register(app: Sphinx) -> None:
    """Offer the renderer under the name `NAME` (``html_math_renderer = "mathml"``)."""
    app.add_html_math_renderer(NAME, (_inline, None), (_block, None))


def to_mathml(latex: str, *, block: bool) -> str:
    """One formula as a ``<math>`` element; `sphinx.errors.ExtensionError` names a formula that cannot be
    read.
    """
    from latex2mathml.converter import convert

    try:
        converted: str = convert(latex, display="block" if block else "inline")
    except Exception as error:  # the converter has no common exception class
        raise ExtensionError(f"formula {latex!r} cannot be read: {type(error).__name__} {error}") from None
    unknown = _COMMAND.search(converted)
    if unknown is not None:
        raise ExtensionError(f"formula {latex!r} cannot be read: there is no {unknown.group()} here")
    return converted


def _inline(self: Any, node: nodes.math) -> None:
    self.body.append(to_mathml(node.astext(), block=False))
    raise nodes.SkipNode


def _block(self: Any, node: nodes.math_block) -> None:
    self.body.append(self.starttag(node, "div", CLASS="lab-formula"))
    if node.get("number"):
        self.body.append(f'<span class="eqno">({get_node_equation_number(self, node)})')
        self.add_permalink_ref(node, "Link to this equation")
        self.body.append("</span>")
    self.body.extend(to_mathml(part, block=True) for part in node.astext().split("\n\n") if part.strip())
    self.body.append("</div>\n")
    raise nodes.SkipNode
