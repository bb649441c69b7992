"""Notebooks of pages: pages and the cache of their outputs in, a folder of notebooks to hand on out.

`export` writes them executed. `to_run` writes them to be run anywhere: their first cell installs this version
of the lab and fetches the page's captures, each by its hash, from an address; without one there are none.
"""

import ast
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from labcode import __version__, store
from labcode.book import display, notebook_text, provenance
from labcode.book.sphinx import kept
from labcode.book.sphinx.publishing import OF_THIS_COPY
from labcode.errors import InputError

_OWN_MIME = "application/vnd.labcode."
FILES = "LABCODE_FILES"  # the address of the wheel, and of captures/ and what else pages read
_USED = re.compile(r"^`{3,}\{captures-used\}((?: [\w-]+)+)", re.MULTILINE)
_EVERYWHERE = re.compile(r"\bbook\.(?:recorded|traced|counted|metered)\((?:\"(\w+)\")?")
_JUDGED = '"benchmarks"'  # the folder, as a cell names it
_SET_UP = """\
# Installs labcode {version} and fetches this page's captures, each checked by its hash. It needs no GPU.
import hashlib, importlib.metadata, os, subprocess, sys, urllib.request
from pathlib import Path

files = {files}
try:
    have = importlib.metadata.version("profiling-lab")
except importlib.metadata.PackageNotFoundError:
    have = ""
if have != "{version}":
    wheel = "{address}profiling_lab-{version}-py3-none-any.whl"
    pip = [sys.executable, "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, f"profiling-lab[notebook] @ {{wheel}}"], check=True)
home = Path("profiling-lab-{version}").absolute()
for name, sha256 in files.items():
    path = home / name
    if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == sha256:
        continue
    with urllib.request.urlopen("{address}" + name) as source:
        data = source.read()
    if hashlib.sha256(data).hexdigest() != sha256:
        raise SystemExit(f"{{name}}: not the file that this notebook was made for; fetch the notebook again")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
os.environ.update(LABCODE_HOME=str(home), LABCODE_CAPTURES="{set_name}")
"""


def export(pages: Path, cache: Path, target: Path, set_name: str, published: str = "") -> list[Path]:
    """Write every page with cells as an executed notebook to ``target``, which is replaced; returns the
    files. ``published`` is where the pages are on the web, for links to those without cells.

    ``cache`` is the execution cache that the last build filled. Measured numbers stand in the text; the
    book's own representations are left out, since the plain ones beside them are what a notebook program can
    show.
    """
    return [
        _write(notebook, target / page.relative_to(pages).with_suffix(".ipynb"))
        for page, notebook in _filled(pages, cache, target, set_name, published)
    ]


def to_run(
    pages: Path, cache: Path, target: Path, address: str, set_name: str, published: str = ""
) -> list[Path]:
    """Write every page with cells as a notebook without outputs that fetches what it needs from ``address``.

    There lie the wheel and, as in the repository, ``captures/``, ``cuda/`` and ``benchmarks/``. Pages
    `OF_THIS_COPY` are left out. Returns the files; ``target`` is replaced.
    """
    from nbformat.v4 import new_code_cell

    written = []
    for page, notebook in _filled(pages, cache, target, set_name, published):
        if page.relative_to(pages).with_suffix("").as_posix() in OF_THIS_COPY:
            continue
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
        files = needed(page.read_text(encoding="utf-8"), set_name, pages.parent)
        listed = "{\n" + "".join(f"    {name!r}: {sha!r},\n" for name, sha in sorted(files.items())) + "}"
        cell = _SET_UP.format(version=__version__, files=listed, address=address, set_name=set_name)
        notebook.cells.insert(0, new_code_cell(cell, id="set-up"))  # type: ignore[no-untyped-call]
        written.append(_write(notebook, target / page.relative_to(pages).with_suffix(".ipynb")))
    return written


def needed(page: str, set_name: str, root: Path) -> dict[str, str]:
    """The files that the cells of a page read, below the repository at ``root``, with their SHA-256.

    They are those of the captures that its text says it uses, of the current set and, where it looks at every
    set, of all of them; the CUDA sources behind these captures; and verdicts that were judged.
    """
    found: dict[str, str] = {}
    names = [name for used in _USED.findall(page) for name in used.split()]
    own = store.load_set(set_name)
    holders = {name: store.holder(set_name, name) for name in names}
    taken = [(captures, name) for name, captures in holders.items()]
    sets = [own, *holders.values()]
    if everywhere := _looked_at_everywhere(page, names):
        others = [store.load_set(name) for name in store.list_sets()]
        taken += [(captures, name) for captures in others for name in everywhere]
        sets += others
    for captures in {one.name: one for one in sets}.values():
        found[f"captures/{captures.name}/manifest.json"] = store.file_sha256(captures.path / "manifest.json")
    for captures, name in taken:
        if name in captures.experiments:
            absent = captures.absent(name)
            for file in captures.experiment(name).files:
                if file not in absent:
                    found[f"captures/{captures.name}/{name}/{file.name}"] = file.sha256
    sources = {source for name in names for source in holders[name].experiment(name).sources}
    folders = {(root / source).parent for source in sources if source.startswith("cuda/")}
    paths = [path for folder in folders for path in folder.glob("*.*")]
    if _JUDGED in page:
        paths += (root / "benchmarks" / "diagnosis").glob("*.*")
    for path in filter(Path.is_file, paths):
        found[path.relative_to(root).as_posix()] = store.file_sha256(path)
    return found


def _looked_at_everywhere(page: str, names: list[str]) -> list[str]:
    """The experiments that a page's cells read of every set: those that a call names, or all of them."""
    called = _EVERYWHERE.findall(page)
    return [name for name in names if name in called or "" in called]


def address_of(text: str) -> str:
    """The address of files to fetch, with a slash at its end; empty without one. Raises `InputError`."""
    if text and not re.fullmatch(r"(?:https|file)://[^\s\"\\{}]+", text):
        raise InputError(f"{FILES}={text[:60]}: no address; give one that begins with https:// or file://")
    return text.rstrip("/") + "/" if text else ""


def _filled(
    pages: Path, cache: Path, target: Path, set_name: str, published: str
) -> Iterator[tuple[Path, Any]]:
    """Each page with cells, and its notebook with plain outputs and plain text, measured numbers in it."""
    import nbformat
    from myst_nb.core.read import read_myst_markdown_notebook
    from myst_parser.config.main import MdParserConfig

    shutil.rmtree(target, ignore_errors=True)
    config = MdParserConfig(enable_extensions={"attrs_block", "colon_fence", "dollarmath"})
    for page in sorted(pages.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        if "{code-cell}" not in text:
            continue
        notebook = read_myst_markdown_notebook(text, config=config, path=page)
        if kept.fill(cache, notebook) is None:  # a page that is executed whenever it is read
            last = cache.parents[1] / "jupyter_execute" / page.relative_to(pages).with_suffix(".ipynb")
            notebook = nbformat.read(last, as_version=4)  # type: ignore[no-untyped-call]
        _plain(notebook, page, pages, set_name, published)
        yield page, notebook


def _write(notebook: Any, path: Path) -> Path:
    import nbformat

    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)  # type: ignore[no-untyped-call]
    return path


def _plain(notebook: Any, page: Path, pages: Path, set_name: str, published: str) -> None:
    """Take the book's own representations out of a notebook, and put what was measured into its text."""
    from nbformat.v4 import new_markdown_cell

    values, answers = dict[str, str](), dict[str, tuple[str, str]]()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [
                output
                for output in cell.outputs
                if not (_take_value(output, values) or _take_answer(output, answers, set_name))
            ]
            for output in cell.outputs:
                data = output.get("data", {})
                for mime in [name for name in data if name.startswith(_OWN_MIME)]:
                    del data[mime]
    known = notebook_text.Page(page, pages, set_name, published, values, answers)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = notebook_text.plain(known, cell.source)
    notebook.cells = [cell for cell in notebook.cells if cell.source]
    if listed := notebook_text.sources(known):
        notebook.cells.append(new_markdown_cell(listed))  # type: ignore[no-untyped-call]
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"  # random otherwise, and another one in each build


def _take_value(output: Any, values: dict[str, str]) -> bool:
    """Keep the value of an output that only glues one; whether it was such an output."""
    name = output.get("metadata", {}).get("scrapbook", {}).get("name")
    text = output.get("data", {}).get(f"{display.GLUE_PREFIX}text/plain")
    if name is None or text is None:
        return False
    values[name] = str(ast.literal_eval(text))
    return True


def _take_answer(output: Any, answers: dict[str, tuple[str, str]], set_name: str) -> bool:
    """Keep a question's answer, with the GPU it is of, of an output that only gives one; whether it does."""
    content = output.get("data", {}).get(display.ANSWER_MIME)
    if content is None:
        return False
    lender = store.holder(set_name, content["borrowed"][0]).name if content["borrowed"] else set_name
    answers[content["key"]] = content["shown"], provenance.set_labels().get(lender, lender)
    return True
