"""What built pages hold of other projects: the packages that are installed in, their licenses out."""

from importlib import metadata

import pandas as pd

from labcode.errors import ToolError

EMBEDDED = {  # each package and what of it goes into pages
    "sphinx": "Scripts and style sheets of every page; the search",
    "sphinx-book-theme": "The look of pages: style sheets, scripts",
    "pydata-sphinx-theme": "The same; in it Bootstrap, and Font Awesome's icons and fonts",
    "sphinx-design": "Cards, tabs, grids; Material icons and Octicons",
    "sphinx-copybutton": "The button that copies code, with the icon and clipboard.js",
    "sphinx-togglebutton": "What folds code and answers",
    "myst-nb": "Style sheets of cells and their output",
    "pygments": "The colors of code",
    "matplotlib": "Pictures: the outlines of DejaVu's letters",
    "bokeh": "Interactive timelines and flame graphs: BokehJS, in each of those pages",
}
_NAMES = {  # as classifiers call them
    "License :: OSI Approved :: BSD License": "BSD-3-Clause",
    "License :: OSI Approved :: MIT License": "MIT",
    "License :: OSI Approved :: Python Software Foundation License": "Matplotlib (of PSF's kind)",
}
_TEXTS = ("license", "licence", "notice")
_ONLY = {"matplotlib": "license_dejavu"}  # pages hold nothing else of it


def table() -> pd.DataFrame:
    """Package, version, license and what of it pages hold; `ToolError` where one is not installed."""
    rows = []
    for name, what in EMBEDDED.items():
        about = _of(name).metadata
        stated = (about.get_all("License-Expression") or [""])[0] or next(
            (_NAMES[one] for one in about.get_all("Classifier") or [] if one in _NAMES), ""
        )
        rows.append({"package": name, "version": about["Version"], "license": stated, "in pages": what})
    return pd.DataFrame(rows)


def texts() -> str:
    """The texts of their licenses, as the packages carry them, each once."""
    parts: dict[str, str] = {}
    for name in EMBEDDED:
        for file in _of(name).files or ():
            called = file.name.lower()
            if any(word in called for word in _TEXTS) and called.startswith(_ONLY.get(name, "")):
                text = file.read_text(encoding="utf-8").strip()
                parts.setdefault(text, f"{name}: {file.name}")
    return "\n\n".join(f"{'=' * 72}\n{title}\n{'=' * 72}\n\n{text}" for text, title in parts.items())


def _of(name: str) -> metadata.Distribution:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        raise ToolError(f"{name} is not installed; pip install -c constraints.txt -e '.[book]'") from None
