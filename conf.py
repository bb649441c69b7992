"""Sphinx configuration of the Profiling Lab: pages in ``book/``, outputs in ``_build/``.

``python -m labcode book`` (or ``nox -s book``) calls Sphinx with the right folders; it sets LABCODE_CAPTURES,
LABCODE_STRICT and LABCODE_UPDATE_CLAIMS, which the pages' kernels inherit.
"""

import os
import sys
from pathlib import Path

from sphinx.ext.autodoc.mock import _MockObject

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))

from labcode import __version__, store  # noqa: E402
from labcode.book import digests, display, notebooks  # noqa: E402
from labcode.book.sphinx import execution, publishing  # noqa: E402

project = "The Profiling Lab"
author = "The Profiling Lab authors"
copyright = "the Profiling Lab authors. Text: CC BY 4.0. Code: Apache 2.0"
version = release = __version__
language = "en"

# Where the book is published: `repository-code` of CITATION.cff, once there is one; LABCODE_EDITION names
# a folder there.
citation, changelog = (
    path.read_text(encoding="utf-8") if path.is_file() else ""
    for path in (ROOT / "CITATION.cff", ROOT / "CHANGELOG.md")
)
labcode_edition = os.environ.get("LABCODE_EDITION", "")
labcode_place = publishing.place_of(citation, labcode_edition)
labcode_citation = citation
labcode_releases = publishing.releases(changelog)
html_baseurl = labcode_place.pages
labcode_files = os.environ.get(notebooks.FILES, "")  # where a release's wheel and captures lie

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_togglebutton",
    "sphinxcontrib.bibtex",
    "labcode.book.sphinx.extension",
]
root_doc = "index"
exclude_patterns = ["_static", "_templates", "**/.ipynb_checkpoints"]
templates_path = ["book/_templates"]
highlight_language = "python"

# The book and its captures.
labcode_set = store.current_set()
labcode_strict = bool(os.environ.get("LABCODE_STRICT"))
labcode_update_claims = bool(os.environ.get("LABCODE_UPDATE_CLAIMS"))
labcode_digest = digests.build_digest(ROOT, store.sets_root(), labcode_set)
labcode_static_digest = digests.folder_digest(ROOT / "book" / "_static")

# Execution: once a page, kept until the page, the code it can see, or the captures change.
nb_execution_mode = "cache"
nb_execution_timeout = execution.TIMEOUT_S
nb_execution_cache_path = str(
    ROOT / "_build" / ".jupyter_cache" / digests.reading_digest(ROOT, store.sets_root() / labcode_set)
) + ("-web" if os.environ.get(display.WEB_ALONE) else "")
nb_merge_streams = True
nb_output_stderr = "warn"  # readers would see it: what a cell warns of, with paths of whoever built the book
nb_ipywidgets_js = {}  # no page uses widgets, and their scripts would come from another host
os.environ.update(execution.settings(ROOT))

# Text.
myst_enable_extensions = [
    "attrs_block",
    "attrs_inline",
    "colon_fence",
    "deflist",
    "dollarmath",
    "fieldlist",
    "substitution",
]
myst_substitutions = {
    "cite": f"```bibtex\n{publishing.citation_entry(citation, __version__, labcode_place)}\n```",
    "address": f"Its code: <{labcode_place.repository}>." if labcode_place.repository else "",
    "clone": (
        f"`git clone {labcode_place.repository} profiling-lab`"
        if labcode_place.repository
        else "clone the repository of this book"
    ),
}
myst_heading_anchors = 3
bibtex_bibfiles = ["book/references.bib"]
bibtex_default_style = bibtex_reference_style = "author_short_title_year"
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp, .go"

# API reference: from docstrings, without the packages that only a GPU machine has.
autodoc_mock_imports = ["cuda", "cupy", "nvtx", "pynvml", "tilelang", "torch", "triton"]
# Unions such as ``torch.Tensor | Quantized`` are made when a module is imported; the stand-ins take part.
_MockObject.__or__ = _MockObject.__ror__ = lambda self, other: self  # type: ignore[attr-defined]
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autodoc_use_type_comments = False  # there are none, and each function would be parsed for them
default_role = "py:obj"
python_use_unqualified_type_names = True
add_module_names = False

# HTML: nothing from other hosts.
html_theme = "sphinx_book_theme"
html_title = project
html_logo = "book/_static/logo.svg"
html_favicon = "book/_static/favicon.svg"
html_static_path = ["book/_static"]
html_css_files = ["custom.css", "icons.css", "search.css", "switches.css", "terms.css"]
html_js_files = [
    (name, {"defer": "defer"}) for name in ("search.js", "pictures.js", "switches.js", "terms.js")
]
html_math_renderer = "mathml"
html_show_sphinx = False
html_copy_source = True
html_context = {"default_mode": "auto"}
html_theme_options = {
    "logo": {"text": project, "alt_text": f"{project}: front page"},
    "show_toc_level": 2,
    "show_navbar_depth": 0,  # parts fold
    "collapse_navbar": True,  # Sphinx would make the whole tree anew for every page, at half a second each
    "navigation_with_keys": False,
    "use_download_button": True,
    "use_fullscreen_button": False,
    **publishing.theme_options(labcode_place),
    "navbar_persistent": [],
    "article_header_start": ["toggle-primary-sidebar.html", "page-switches.html"],
    "article_footer_items": ["page-facts.html"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}

linkcheck_timeout = 20
linkcheck_anchors = False

latex_engine = "xelatex"
latex_documents = [(root_doc, "profiling-lab.tex", project, author, "manual", True)]
latex_use_xindy = False
latex_domain_indices = False
latex_show_urls = "footnote"
latex_elements = {
    "extraclassoptions": "openany",  # no empty pages before chapters
    "figure_align": "H",  # where the text speaks of it; beside floats, long code runs off its page
    "preamble": r"""
\makeatletter
\AtBeginDocument{\spx@image@maxheight0.85\textheight} % below a tall figure its caption has room
\AtBeginDocument{\MakeRobust\hyperlink} % captions have citations
\setlength{\tymin}{50pt} % of a column of a table, if its texts are as long
% texts of tables are not stretched to the edge of their narrow columns
\usepackage{etoolbox}
\AtBeginEnvironment{tabulary}{\appto\@arrayparboxrestore{\rightskip\@flushglue}}
\AtBeginEnvironment{longtable}{\appto\@arrayparboxrestore{\rightskip\@flushglue}}
% long names of counters and options may break in the narrow columns of tables, after _ and -
\newcommand*{\labbreak}{\ifmmode\else\discretionary{}{}{}\fi}
\DeclareRobustCommand{\_}{\textunderscore\labbreak}
\pdfstringdefDisableCommands{\def\_{\textunderscore}}
% labels of the bibliography are as long as citations; its texts begin beside them
\AtBeginEnvironment{sphinxthebibliography}{\renewcommand*{\settowidth}[2]{}}
\renewcommand*{\sphinxhyphenininlineliteral}[1]{-\@ifnextchar\sphinxhyphen{}{\labbreak}}
\makeatother
""",
}
