"""The index of the book's search from its sources alone: ``python -m tests.book.search_index FOLDER``.

Nothing is executed and no page is written, so values are lacking; nor is the reference of the package there,
which takes longer than all else. The index lies in FOLDER.
"""

import os
import sys
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace, patch_docutils

from labcode.book.sphinx import searching

REPOSITORY = Path(__file__).parents[2]
BOOK = REPOSITORY / "book"


def main(folder: Path) -> None:
    """Read all pages and write the index."""
    os.environ["IPYTHONDIR"] = str(folder / "ipython")
    without = {
        "nb_execution_mode": "off",
        "nb_execution_cache_path": str(folder / "cache"),
        "exclude_patterns": ["_static", "_templates", "reference/api/*"],
    }
    with patch_docutils(str(REPOSITORY)), docutils_namespace(), (folder / "warnings.txt").open("w") as told:
        app = Sphinx(
            srcdir=BOOK,
            confdir=REPOSITORY,
            outdir=folder / "build" / "html",
            doctreedir=folder / "build" / "doctrees",
            buildername="html",
            status=None,
            warning=told,
            confoverrides=without,
        )
        app.builder.read()
        pages = [
            searching.page_of(name, app.env.get_and_resolve_doctree(name, app.builder))
            for name in sorted(app.env.found_docs)
        ]
    script = searching.index_script(pages, BOOK / searching.WORDS)
    (folder / searching.INDEX).write_text(script, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
