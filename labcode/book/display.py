"""What a page's cell shows: a bundle of representations in, an output of the running notebook out.

Outputs carry a representation of the book's own (``application/vnd.labcode.*+json``), which
`labcode.book.sphinx.render` turns into a part of the page, and plain ones for readers of the notebook: HTML
or an image, and text.
"""

import sys
from typing import Any

CLAIM_MIME = "application/vnd.labcode.claim+json"
TABLE_MIME = "application/vnd.labcode.table+json"
FIGURE_MIME = "application/vnd.labcode.figure+json"
ANSWER_MIME = "application/vnd.labcode.answer+json"
CALCULATOR_MIME = "application/vnd.labcode.calculator+json"
INTERACTIVE_MIME = "application/vnd.labcode.interactive+json"
GLUE_PREFIX = "application/papermill.record/"
WEB_ALONE = "LABCODE_WEB"  # set where pages are built for the web alone, where figures are SVG


def show(bundle: dict[str, Any]) -> None:
    """Show a MIME bundle in the notebook, but what is ``None``; outside of one, print its ``text/plain``."""
    if _in_notebook():
        from IPython.display import display

        made = {mime: content for mime, content in bundle.items() if content is not None}
        display(made, raw=True)  # type: ignore[no-untyped-call]
    else:
        print(bundle["text/plain"])


def glue(key: str, text: str) -> None:
    """Keep a text under a key of the page, for the role ``{glue:text}``; nothing is shown.

    It is kept as a quoted literal: the role reads what looks like one, and “1.000” unquoted would become 1.0.
    """
    if _in_notebook():
        from IPython.display import display

        metadata = {"scrapbook": {"name": key, "mime_prefix": GLUE_PREFIX}}
        display({f"{GLUE_PREFIX}text/plain": repr(text)}, raw=True, metadata=metadata)  # type: ignore[no-untyped-call]


def _in_notebook() -> bool:
    """Whether this is a Jupyter kernel (a plain IPython terminal prints)."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")
