"""What pages say of where they are published: an address in; links, descriptions, files for servers out.

The one setting is ``repository-code`` of ``CITATION.cff``. Without it nothing here makes an address up: pages
have a description and no more. Pages on GitHub have an address that follows from the repository's; where they
lie elsewhere, ``url`` of ``CITATION.cff`` says it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.builders.html import StandaloneHTMLBuilder

from labcode.book.sphinx.card import SIZE, card
from labcode.book.sphinx.directives import stamp_box
from labcode.outputs import whole
from labcode.show import html

if TYPE_CHECKING:
    from sphinx.application import Sphinx

FEED = "feed.xml"
# Pages on this copy of the book and on whole sets of captures, which a notebook elsewhere does not have.
OF_THIS_COPY = frozenset({"reference/licenses", "reference/two-gpus", "start/instructor"})
CARD = "card.png"
_BRANCH = "main"
_HOSTS = re.compile(r"https://(?:www\.)?git(?:hub|lab)\.com/")  # those whose links the theme knows
_ON_GITHUB = re.compile(r"https://(?:www\.)?github\.com/([\w.-]+)/([\w.-]+)")
_RELEASE = re.compile(r"^## \[([^\]]+)\] - (\d{4}-\d{2}-\d{2})$\n(.*?)(?=^## |^\[[^\]]+\]: |\Z)", re.M | re.S)
_LONGEST = 200  # characters of a description; search pages cut longer ones


@dataclass(frozen=True)
class Place:
    """Where the repository is and where its pages are, with a slash at their end; empty where unknown."""

    repository: str = ""
    pages: str = ""


@dataclass(frozen=True)
class Release:
    """A version that the changelog dates, and what it says of it, in Markdown."""

    version: str
    date: str
    text: str


def place_of(citation: str, edition: str = "") -> Place:
    """Where the text of a ``CITATION.cff`` puts the book; ``edition`` is a folder of the published pages."""
    repository = _field(citation, "repository-code").removesuffix(".git").rstrip("/")
    if not repository:
        return Place()
    pages = _field(citation, "url") or _pages_on_github(repository)
    if pages:
        pages = pages.rstrip("/") + "/" + (f"{edition}/" if edition else "")
    return Place(repository, pages)


def other_edition(place: Place, edition: str, found: Iterable[Release]) -> tuple[str, str]:
    """The edition beside ``edition`` (of ``stable`` and ``dev``) and where its pages are.

    Nothing before there is an address and a release: until then there is one edition.
    """
    other = {"stable": "dev", "dev": "stable"}.get(edition, "")
    if not other or not any(found) or not place.pages.endswith(f"/{edition}/"):
        return "", ""
    return other, place.pages.removesuffix(f"{edition}/") + f"{other}/"


def theme_options(place: Place) -> dict[str, Any]:
    """The theme's buttons that lead to the repository, on hosts whose addresses it knows how to make."""
    known = _HOSTS.match(place.repository) is not None
    buttons = dict.fromkeys(("use_repository_button", "use_edit_page_button", "use_issues_button"), known)
    where = {"repository_url": place.repository, "repository_branch": _BRANCH, "path_to_docs": "book"}
    return {**buttons, **(where if known else {})}


def citation_entry(citation: str, version: str, place: Place, page: str = "", title: str = "") -> str:
    """How to cite the book, or a page of it, as BibTeX, with the fields that are known."""
    address = place.pages or place.repository
    if page and place.pages:
        address = f"{place.pages}{page}.html"
    fields = {
        "title": "{" + (title or _field(citation, "title")) + "}",
        "howpublished": "In: " + _field(citation, "title") if title else "",
        "author": "{" + _field(citation, "  - name") + "}",
        "version": version,
        "year": _field(citation, "date-released")[:4],
        "url": address,
    }
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items() if value.strip("{}")]
    key = "-".join(["profiling-lab", *filter(None, page.split("/"))])
    return "\n".join([f"@misc{{{key},", *lines, "}"])


def captured(doctree: nodes.document) -> str:
    """When a page's captures were made, machine by machine; empty where it shows none."""
    days: dict[str, list[str]] = {}
    for box in doctree.findall(stamp_box):
        for machine, day in box["captured"]:
            days.setdefault(machine, []).append(day)
    spans = {machine: sorted(found) for machine, found in days.items()}
    return "; ".join(
        f"{machine}, {found[0]}" + (f" to {found[-1]}" if found[-1] != found[0] else "")
        for machine, found in spans.items()
    )


def releases(changelog: str) -> list[Release]:
    """The dated sections of a changelog, in its order; what is not released has no date."""
    return [Release(version, date, text.strip()) for version, date, text in _RELEASE.findall(changelog)]


def description_of(doctree: nodes.document) -> str:
    """A page's first paragraph, cut at the end of a sentence or word; empty where it has none."""
    for paragraph in doctree.findall(nodes.paragraph):
        if isinstance(paragraph.parent, nodes.section) and "lab-lacking" not in paragraph["classes"]:
            return _cut(" ".join(paragraph.astext().split()))
    return ""


def head(page: str, title: str, description: str, place: Place, *, feed: bool) -> str:
    """The tags that say what a page is about, and of published ones what a link to them shows."""
    tags = [f'<meta name="description" content="{html(description)}">'] if description else []
    if place.pages:
        told = {"og:type": "article", "og:title": title, "og:url": f"{place.pages}{page}.html"}
        if description:
            told["og:description"] = description
        told |= {"og:image": place.pages + CARD, "og:image:width": str(SIZE[0])}
        told |= {"og:image:height": str(SIZE[1]), "og:image:alt": "The title of the book above two timelines"}
        tags.append('<meta name="twitter:card" content="summary_large_image">')
        tags += [f'<meta property="{name}" content="{html(text)}">' for name, text in told.items()]
    if place.pages and feed:
        address = html(place.pages + FEED)
        tags.append(f'<link rel="alternate" type="application/atom+xml" title="Releases" href="{address}">')
    return "\n    ".join(tags)


def sitemap(place: Place, pages: Iterable[str]) -> str:
    """The list of all pages for search engines."""
    lines = [f"  <url><loc>{html(place.pages + page)}.html</loc></url>" for page in sorted(pages)]
    start = (
        '<?xml version="1.0" encoding="utf-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
    )
    return "\n".join([start, *lines, "</urlset>", ""])


def feed(place: Place, title: str, author: str, found: Iterable[Release]) -> str:
    """The releases as an Atom feed; dates are the changelog's."""
    found = list(found)
    entries = [
        f"  <entry>\n    <title>{html(f'{title} {one.version}')}</title>\n"
        f"    <id>{html(place.repository)}#{html(one.version)}</id>\n"
        f'    <link href="{html(place.pages)}"/>\n    <updated>{one.date}T00:00:00Z</updated>\n'
        f'    <content type="text">{html(one.text)}</content>\n  </entry>'
        for one in found
    ]
    start = [
        '<?xml version="1.0" encoding="utf-8"?>',
        '<feed xmlns="http://www.w3.org/2005/Atom">',
        f"  <title>{html(title)}</title>",
        f"  <id>{html(place.repository)}</id>",
        f'  <link href="{html(place.pages)}"/>',
        f'  <link rel="self" href="{html(place.pages + FEED)}"/>',
        f"  <author><name>{html(author)}</name></author>",
        f"  <updated>{max(one.date for one in found)}T00:00:00Z</updated>",
    ]
    return "\n".join([*start, *entries, "</feed>", ""])


def not_found(place: Place, title: str) -> str:
    """The page for addresses that lead nowhere; it may be shown at any depth, so it brings all it needs."""
    front, search = html(place.pages), html(f"{place.pages}search.html")
    return f"""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="robots" content="noindex">
<title>No such page – {html(title)}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ max-width: 36rem; margin: 15vh auto; padding: 0 1rem; font: 1.1rem/1.5 system-ui, sans-serif; }}
</style>
</head>
<body>
<h1>No such page</h1>
<p>It may have moved. <a href="{search}">Search the book</a>, or begin at its
<a href="{front}">front page</a>.</p>
</body>
</html>
"""


def register(app: Sphinx) -> None:
    """Connect to the pages as they are written, and to the end of a build."""
    app.add_config_value("labcode_place", Place(), "html", [Place])
    app.add_config_value("labcode_edition", "", "html", str)
    app.add_config_value("labcode_files", "", "html", str)
    app.add_config_value("labcode_releases", [], "html", [list])
    app.add_config_value("labcode_citation", "", "html", str)
    app.connect("html-page-context", _describe)
    app.connect("build-finished", _write)


def _field(citation: str, name: str) -> str:
    found = re.search(rf"(?m)^{re.escape(name)}: *(\S.*)$", citation)
    return found[1].strip().strip("\"'") if found else ""


def _pages_on_github(repository: str) -> str:
    found = _ON_GITHUB.fullmatch(repository)
    if found is None:
        return ""
    host = f"{found[1].lower()}.github.io"
    return f"https://{host}" if found[2].lower() == host else f"https://{host}/{found[2]}"


def _cut(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    sentence = max(text.rfind(mark, 0, _LONGEST) for mark in (". ", "? ", "! "))
    if sentence >= _LONGEST // 3:
        return text[: sentence + 1]
    return text[: text.rfind(" ", 0, _LONGEST - 1)].rstrip(",;:–") + "…"


def _describe(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    if doctree is None:
        return
    config = app.config
    tags = str(context.get("metatags", ""))
    description = "" if 'name="description"' in tags else description_of(doctree)
    title = unescape(re.sub(r"<[^>]+>", "", str(context.get("title", config.project))))
    own = head(pagename, title, description, config.labcode_place, feed=bool(config.labcode_releases))
    context["metatags"] = f"{tags}{own}\n"
    context["lab_captured"] = captured(doctree)
    source = Path(app.env.doc2path(pagename))
    has_cells = source.is_file() and "{code-cell}" in source.read_text(encoding="utf-8")
    context["lab_notebook"] = bool(config.labcode_files) and has_cells and pagename not in OF_THIS_COPY
    name, address = other_edition(config.labcode_place, config.labcode_edition, config.labcode_releases)
    if name:
        context["lab_edition"] = config.labcode_edition
        context["lab_other_edition"] = {"name": name, "address": f"{address}{pagename}.html"}
    context["lab_cite"] = citation_entry(
        config.labcode_citation, config.version, config.labcode_place, pagename, title
    )


def _write(app: Sphinx, exception: Exception | None) -> None:
    if exception is not None or not isinstance(app.builder, StandaloneHTMLBuilder):
        return
    config, place = app.config, app.config.labcode_place
    names = ("404.html", "sitemap.xml", "robots.txt", FEED)
    files: dict[str, str | None] = {".nojekyll": "", **dict.fromkeys(names)}
    if place.pages:
        files["404.html"] = not_found(place, config.project)
        files["sitemap.xml"] = sitemap(place, app.env.found_docs)
        files["robots.txt"] = f"User-agent: *\nAllow: /\nSitemap: {place.pages}sitemap.xml\n"
        if config.labcode_releases:
            files[FEED] = feed(place, config.project, config.author, config.labcode_releases)
    picture = Path(app.outdir) / CARD
    if place.pages:
        with whole(picture) as part:
            part.write_bytes(card(config.project))
    else:
        picture.unlink(missing_ok=True)
    for name, text in files.items():
        path = Path(app.outdir) / name
        if text is None:
            path.unlink(missing_ok=True)  # of a build that knew an address
        else:
            with whole(path) as part:
                part.write_text(text, encoding="utf-8")
