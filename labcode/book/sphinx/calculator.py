"""The occupancy calculator on a page: ``{occupancy-calculator}`` in, a container with its tables as JSON
out.

The computing is done in the browser by ``book/_static/occupancy.js``, from the tables of
`labcode.analysis.kernel.occupancy`; where pages hold no scripts (PDF, notebooks), one sentence stands
instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

from labcode.book.sphinx.noted import add_files
from labcode.show import page_data

if TYPE_CHECKING:
    from sphinx.application import Sphinx

WITHOUT_SCRIPTS = (
    "The calculator computes in the browser: open this page in the HTML edition with scripts allowed."
)


class OccupancyCalculator(SphinxDirective):
    """``{occupancy-calculator}``, with the first values as options: cc, threads, registers, shared."""

    option_spec: ClassVar[Any] = {
        "cc": directives.unchanged,
        "threads": directives.positive_int,
        "registers": directives.nonnegative_int,
        "shared": directives.nonnegative_int,
    }

    def run(self) -> list[nodes.Node]:
        """The container for the script, and the sentence for pages without one."""
        html = calculator_html(
            str(self.options.get("cc", "9.0")),
            threads=self.options.get("threads", 256),
            registers=self.options.get("registers", 64),
            shared_bytes=self.options.get("shared", 0),
        )
        other = nodes.paragraph(text=WITHOUT_SCRIPTS)
        only = nodes.raw("", html, format="html")
        if self.env.app.builder.format == "html":
            return [only]
        return [other]


def calculator_html(cc: str, *, threads: int, registers: int, shared_bytes: int) -> str:
    """The container that ``occupancy.js`` fills, with its tables and first values."""
    from labcode.analysis.kernel.occupancy import tables  # and with it pandas, which other pages do without

    data = page_data(tables())
    return (
        f'<div class="lab-occupancy" data-cc="{cc}" data-threads="{threads}" data-registers="{registers}" '
        f'data-shared="{shared_bytes}"><script type="application/json">{data}</script>'
        f"<noscript><p>{WITHOUT_SCRIPTS}</p></noscript></div>"
    )


def register(app: Sphinx) -> None:
    """Add the directive, and scripts and styles of calculators to the pages that use them."""
    app.add_directive("occupancy-calculator", OccupancyCalculator)
    add_files(app, 'lab-occupancy"', "occupancy.js", "occupancy.css")
    add_files(app, 'lab-calculator"', "calculators.js", "calculators.css")
