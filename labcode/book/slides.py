"""Slides made from a page: the built page in; one HTML file that opens from disk, for keys and print, out.

A section becomes slides: its first sentences, then one figure, table or piece of code on each, with the
claims that follow it. A prediction stands alone, before what answers it. All other text goes into the notes.
"""

from __future__ import annotations

import base64
import mimetypes
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from labcode import store
from labcode.errors import InputError, LabError, ToolError, nearest
from labcode.outputs import whole
from labcode.show import html

if TYPE_CHECKING:
    from bs4 import Tag

_BUILT = Path("_build") / "html"
_LEAD = 260  # characters of a section's first paragraph
_LIST = 1600  # characters of a list, or of all tabs of a set
_CODE_LINES = 24
_TABLE_ROWS, _TABLE_COLUMNS = 12, 8
_CLAIMS = 4  # on a slide of their own; one beside a figure, a table or code
_OPENED = frozenset(("cell", "cell_output", "cell_input"))
_UNSEEN = (
    ".headerlink, .only-dark, .lab-narrow, .lab-interactive, .lab-stamp, details.hide, .lab-code, "
    "details.lab-checks, .lab-claim-what, script, input, .sd-summary-state-marker, .lab-exercise .highlight"
)
_LEFT_OUT = re.compile(r"(?:where to )?read more", re.IGNORECASE)


@dataclass
class Slide:
    """One slide: its heading, what it shows and what is said with it, as HTML; ``kind`` is a CSS class."""

    heading: str
    kind: str = ""
    body: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    big: bool = False
    claims: int = 0


def write(page: str, output: Path) -> int:
    """Write the slides of a page, whole or not at all; how many there are.

    Raises `LabError` for a page that the book does not have or that was not built.
    """
    if output.suffix not in (".html", ".htm"):
        raise LabError(f"{output}: slides are an .html file")
    root = store.repository_root()
    built = root / _BUILT
    name = page.removeprefix("book/").removesuffix(".md").removesuffix(".html")
    if not (built / "index.html").is_file():
        if not (root / "book").is_dir():
            raise LabError(
                f"{root}: no book here; clone the book's repository and run this there, or set LABCODE_HOME"
            )
        raise LabError(
            f"{built}: the book is not built; `nox -s book` builds it, and slides are made from its pages"
        )
    source = built / f"{name}.html"
    if not source.is_file():
        known = [path.relative_to(built).with_suffix("").as_posix() for path in built.glob("[a-z]*/*.html")]
        near = nearest(name, known).rpartition(" There are")[0]
        raise LabError(f"{page}: no page of the built book; {near or 'name one as nsys/timeline-basics'}")
    title, made = of_page(source)
    with whole(output, reads=[source]) as place:
        place.write_text(_document(title, made, built), encoding="utf-8")
    return len(made)


def of_page(source: Path) -> tuple[str, list[Slide]]:
    """The title and the slides of a built page; `InputError` for a file that is none."""
    try:
        from bs4 import BeautifulSoup
    except ImportError:
        raise ToolError(
            "slides: need the book's packages; pip install -c constraints.txt -e '.[book]'"
        ) from None
    soup = BeautifulSoup(source.read_bytes(), "html.parser")
    article = soup.select_one("article.bd-article")
    top = article.find("section", recursive=False) if article else None
    if top is None or top.h1 is None:
        raise InputError(f"{source}: no page of the book; build it again with `nox -s book`")
    machine = top.select_one(".lab-stamp-machine")
    measured = f'<p class="machine">{_inner(machine)}</p>' if machine else ""
    _tidy(top, source)
    slides = [slide for section in [top, *top.find_all("section")] for slide in _of_section(section)]
    slides[0].body.append(measured)
    return _inner(top.h1), [slide for slide in slides if slide.body]


def _tidy(top: Tag, source: Path) -> None:
    """Take out what only a page needs, and put pictures into it."""
    for one in top.select(_UNSEEN):
        one.decompose()
    for link in top.find_all("a"):
        if not str(link.get("href", "")).startswith(("http://", "https://")):
            link.unwrap()
    for image in top.find_all("img"):
        path = source.parent / str(image.get("src", ""))
        if not path.is_file():
            raise InputError(f"{source}: its picture {path.name} is missing; build the book again")
        kind = mimetypes.guess_type(path.name)[0] or "image/svg+xml"
        image["src"] = f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"
    for one in top.find_all(id=True):
        del one["id"]  # the same heading may stand on several slides


def _of_section(section: Tag) -> Iterator[Slide]:
    """The slides of what a section shows itself, without the sections within; some may be empty."""
    heading = section.find(["h1", "h2", "h3", "h4"], recursive=False)
    title = _inner(heading) if heading else ""
    if _LEFT_OUT.fullmatch(title):
        return
    slide = Slide(title, "title" if section.h1 is not None else "")
    led = False
    for block in _blocks(section):
        kind = _kind(block)
        if kind == "text" and not led and not slide.big:
            led = True
            lead, rest = _lead(block)
            slide.body.append(f'<p class="lead">{lead}</p>')
            slide.notes.append(rest)
        elif kind == "output" and slide.big:
            slide.body.append(str(block))
        elif kind == "text":
            slide.notes.append(str(block))
        elif kind == "answer":
            question = slide.notes.pop() if slide.notes else ""
            yield slide
            slide, led = Slide(title, "", [question, str(block)], big=True), True
        elif kind in ("predict", "exercise"):
            yield slide
            yield Slide(title, kind, [str(block)])
            slide, led = Slide(title), True
        elif kind == "claim" and slide.claims < (1 if slide.big else _CLAIMS) and slide.kind != "title":
            slide.body.append(str(block))
            slide.claims += 1
        elif kind != "dropped":
            if slide.big or slide.claims or slide.kind == "title":
                yield slide
                slide = Slide(title)
            slide.body.append(str(block))
            slide.big, slide.claims = kind in ("big", "list"), int(kind == "claim")
    yield slide


def _blocks(section: Tag) -> Iterator[Tag]:
    """What a section shows, in order, without the sections within; cells are opened."""
    from bs4 import Tag

    for child in section.children:
        if not isinstance(child, Tag) or child.name in ("section", "h1", "h2", "h3", "h4"):
            continue
        if _OPENED.intersection(child.get("class") or []):
            yield from _blocks(child)
        else:
            yield child


def _kind(block: Tag) -> str:
    classes = set(block.get("class") or [])
    asks = "admonition" in classes and "predict" in block.get_text()[:40].lower()
    if asks or "lab-predict" in classes:
        return "predict"
    if "lab-exercise" in classes:
        return "exercise"
    if "lab-claim" in classes:
        return "claim"
    if block.name == "figure" or "lab-formula" in classes:
        return "big"
    table = block if block.name == "table" else block.find("table")
    if table is not None:
        rows = table.find_all("tr")
        widest = max((len(row.find_all(["td", "th"])) for row in rows), default=0)
        return "big" if len(rows) <= _TABLE_ROWS + 1 and widest <= _TABLE_COLUMNS else "dropped"
    if block.find("pre") is not None and block.name == "div":
        if "output" in classes:
            return "output"
        return "big" if len(block.get_text().strip().splitlines()) <= _CODE_LINES else "dropped"
    if block.name == "details":
        return "answer"
    if block.name in ("ul", "ol") or "sd-tab-set" in classes:
        return "list" if len(block.get_text()) < _LIST else "text"
    return "text"


def _lead(block: Tag) -> tuple[str, str]:
    """A paragraph as what is shown and what is left for the notes: as many sentences as fit, at least one."""
    text, inner = block.get_text(), _inner(block)
    if len(text) <= _LEAD:
        return inner, ""
    shown = ""
    for sentence in re.split(r"(?<=[.?!:])\s+(?=[A-Z“])", inner):
        if shown and len(re.sub(r"<[^>]+>", "", shown + sentence)) > _LEAD:
            break
        shown += (" " if shown else "") + sentence
    balanced = shown.count("<") - shown.count("</") * 2 == 0
    return (shown, str(block)) if balanced else (inner, "")


def _inner(tag: Tag) -> str:
    return " ".join(tag.decode_contents().split())


def _document(title: str, slides: list[Slide], built: Path) -> str:
    """The slides as one page, with all that it needs in it."""
    here = Path(__file__).parent
    colors = built / "_static" / "pygments.css"
    style = (here / "slides.css").read_text(encoding="utf-8")
    style += colors.read_text(encoding="utf-8") if colors.is_file() else ""
    script = (here / "slides.js").read_text(encoding="utf-8")
    plain = re.sub(r"<[^>]+>", "", title)
    pieces = []
    for number, slide in enumerate(slides, start=1):
        level = "h1" if slide.kind == "title" else "h2"
        notes = "".join(slide.notes)
        pieces.append(
            f'<section class="slide {slide.kind}" id="s{number}"><{level}>{slide.heading}</{level}>'
            f'<div class="body">{"".join(slide.body)}</div>'
            + (f'<aside class="notes">{notes}</aside>' if notes else "")
            + f"<footer><span>{plain}</span><span>{number} / {len(slides)}</span></footer></section>"
        )
    return (
        f'<!DOCTYPE html>\n<html lang="en" data-theme="light">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html(plain)}</title>\n"
        f"<style>\n{style}</style>\n</head>\n<body>\n"
        + "\n".join(pieces)
        + f"\n<script>\n{script}</script>\n</body>\n</html>\n"
    )
