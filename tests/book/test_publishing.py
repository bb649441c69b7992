"""Where the book is published: what pages and servers are told once there is an address, not before."""

import re
import shutil
import struct
from pathlib import Path
from xml.etree import ElementTree

import pytest
from docutils import nodes
from docutils.frontend import get_default_settings
from docutils.parsers.rst import Parser
from docutils.utils import new_document

from labcode.book.build import run_sphinx
from labcode.book.sphinx import publishing
from labcode.book.sphinx.publishing import Place, Release
from tests.book.sets import write_set

pytestmark = pytest.mark.filterwarnings("ignore:.*HandleFootnoteTransform")  # the theme's own affair

REPOSITORY = Path(__file__).parents[2]
CITATION = 'title: "A lab: a book"\nauthors:\n  - name: "Its authors"\nversion: 1.0.0\n'
PUBLISHED = CITATION + 'repository-code: "https://github.com/Some-One/lab"\n'
CHANGELOG = """\
# Changelog

## [Unreleased]

- not yet

## [1.1.0] - 2027-03-04

- a < b

## [1.0.0] - 2027-01-02

### Added

- all

[1.1.0]: https://example.org/
"""
FILES = ("404.html", "card.png", "feed.xml", "robots.txt", "sitemap.xml")


@pytest.mark.parametrize(
    ("more", "edition", "place"),
    [
        ("", "stable", Place()),
        ("url: https://lab.example.org\n", "", Place()),
        (
            "repository-code: https://github.com/Me/lab.git\n",
            "",
            Place("https://github.com/Me/lab", "https://me.github.io/lab/"),
        ),
        (
            "repository-code: https://github.com/me/me.github.io\n",
            "",
            Place("https://github.com/me/me.github.io", "https://me.github.io/"),
        ),
        (
            "repository-code: 'https://github.com/me/lab/'\n",
            "dev",
            Place("https://github.com/me/lab", "https://me.github.io/lab/dev/"),
        ),
        ("repository-code: https://gitlab.com/me/lab\n", "dev", Place("https://gitlab.com/me/lab", "")),
        (
            "repository-code: https://git.example.org/lab\nurl: https://lab.example.org\n",
            "stable",
            Place("https://git.example.org/lab", "https://lab.example.org/stable/"),
        ),
    ],
)
def test_one_setting_says_where_the_book_is(more, edition, place):
    assert publishing.place_of(CITATION + more, edition) == place


def test_buttons_lead_to_hosts_whose_addresses_are_known():
    assert publishing.theme_options(Place("https://github.com/me/lab", ""))["use_edit_page_button"] is True
    for place in (Place(), Place("https://git.example.org/lab", "https://lab.example.org/")):
        assert not any(publishing.theme_options(place).values())


def test_editions_stand_beside_each_other_once_there_is_an_address_and_a_release():
    found = publishing.releases(CHANGELOG)
    place = publishing.place_of(PUBLISHED, "dev")
    address = "https://some-one.github.io/lab/"
    assert publishing.other_edition(place, "dev", found) == ("stable", f"{address}stable/")
    stable = publishing.place_of(PUBLISHED, "stable")
    assert publishing.other_edition(stable, "stable", found) == ("dev", f"{address}dev/")
    for nothing in (
        publishing.other_edition(place, "dev", []),
        publishing.other_edition(publishing.place_of(PUBLISHED), "", found),
        publishing.other_edition(publishing.place_of(CITATION, "dev"), "dev", found),
    ):
        assert nothing == ("", "")


def test_releases_are_the_dated_sections():
    assert publishing.releases(CHANGELOG) == [
        Release("1.1.0", "2027-03-04", "- a < b"),
        Release("1.0.0", "2027-01-02", "### Added\n\n- all"),
    ]


def test_the_changelog_of_this_book_keeps_the_form():
    """`.ci/notes` and the feed read it."""
    text = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert headings[0] == "## [Unreleased]"
    assert len(publishing.releases(text)) == len(headings) - 1


def test_the_feed_is_atom_with_an_entry_a_release():
    place = Place("https://github.com/me/lab", "https://me.github.io/lab/")
    text = publishing.feed(place, "A & B", "we", publishing.releases(CHANGELOG))
    root = ElementTree.fromstring(text)
    atom = "{http://www.w3.org/2005/Atom}"
    assert [entry.findtext(f"{atom}title") for entry in root.iter(f"{atom}entry")] == [
        "A & B 1.1.0",
        "A & B 1.0.0",
    ]
    assert root.findtext(f"{atom}updated") == "2027-03-04T00:00:00Z"
    assert "- a < b" in (root.find(f"{atom}entry").findtext(f"{atom}content") or "")


def test_how_to_cite_says_what_is_known():
    assert publishing.citation_entry(CITATION, "1.0.0", Place()) == (
        "@misc{profiling-lab,\n  title = {{A lab: a book}},\n"
        "  author = {{Its authors}},\n  version = {1.0.0},\n}"
    )
    dated = PUBLISHED + "date-released: 2027-01-02\n"
    text = publishing.citation_entry(dated, "1.0.0", publishing.place_of(PUBLISHED))
    assert text.endswith("  year = {2027},\n  url = {https://some-one.github.io/lab/},\n}")


def page(*paragraphs: str) -> nodes.document:
    document = new_document("a page", get_default_settings(Parser))
    document += nodes.note("", nodes.paragraph(text="An aside."))
    section = nodes.section(
        "", nodes.title(text="A title"), nodes.paragraph(text="Lacks.", classes=["lab-lacking"])
    )
    document += section
    section += [nodes.paragraph(text=text) for text in paragraphs]
    return document


def test_a_description_is_the_first_paragraph_cut_where_a_sentence_ends():
    assert publishing.description_of(page("What\nis it?", "More.")) == "What is it?"
    assert publishing.description_of(page()) == ""
    long = "It is a sentence of some length, which goes on for a while until it has an end. " + "word " * 50
    assert publishing.description_of(page(long)) == long[: long.index(".") + 1]
    cut = publishing.description_of(page("word, " * 50))
    assert cut.endswith("word…") and len(cut) <= 200


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with two pages that run nothing."""
    root = tmp_path / "house"
    (root / "_build").mkdir(parents=True)
    (root / "book" / "_static").mkdir(parents=True)
    shutil.copytree(REPOSITORY / "book" / "_templates", root / "book" / "_templates")
    shutil.copy(REPOSITORY / "conf.py", root / "conf.py")
    looks = ("custom.css", "icons.css", "search.css")
    for name in ("logo.svg", "favicon.svg", *looks, "search.js", "pictures.js"):
        shutil.copy(REPOSITORY / "book" / "_static" / name, root / "book" / "_static" / name)
    (root / "book" / "references.bib").touch()
    for path in (REPOSITORY / "book" / "_static").glob("switches.*"):
        shutil.copy(path, root / "book" / "_static" / path.name)
    (root / "book" / "index.md").write_text("# A book\n\nWhat is it?\n\n```{toctree}\npart/page\n```\n")
    (root / "book" / "part").mkdir()
    text = '# Q & A\n\nIt says "so".\n\nMore. {{ address }}\n\n{{ cite }}\n'
    (root / "book" / "part" / "page.md").write_text(text)
    (root / "CITATION.cff").write_text(CITATION)
    (root / "CHANGELOG.md").write_text(CHANGELOG)
    write_set(root / "captures", "h200", 10.0)
    monkeypatch.setattr("multiprocessing.cpu_count", lambda: 1)
    monkeypatch.setenv("LABCODE_HOME", str(root))
    monkeypatch.setenv("LABCODE_SETS", str(root / "captures"))
    for name in ("CAPTURES", "STRICT", "UPDATE_CLAIMS", "WEB", "EDITION"):
        monkeypatch.setenv(f"LABCODE_{name}", "")
    monkeypatch.setenv("IPYTHONDIR", "")
    return root


def built(root: Path) -> Path:
    out = root / "_build"
    assert run_sphinx(root, "html", root / "book", out / "html", out / "doctrees", strict=True) == 0
    return out / "html"


def test_pages_say_where_they_are_once_they_are_published_and_nothing_before(house, monkeypatch):
    out = built(house)
    text = (out / "part" / "page.html").read_text(encoding="utf-8")
    assert '<meta name="description" content="It says &quot;so&quot;.">' in text.replace(
        "“", "&quot;"
    ).replace("”", "&quot;")
    for absent in (
        "canonical",
        "og:",
        "twitter:",
        "application/atom+xml",
        "source-repository-button",
        "/edit/",
        "github",
        "Edition of the book",
    ):
        assert absent not in text, absent
    cited = "  title = {{Q &amp; A}},\n  howpublished = {In: A lab: a book},\n"
    assert f"@misc{{profiling-lab-part-page,\n{cited}" in text
    assert "Captures of this page" not in text
    assert "<p>More. </p>" in text or "<p>More.</p>" in text
    assert [name for name in FILES if (out / name).exists()] == []
    assert (out / ".nojekyll").is_file()

    (house / "CITATION.cff").write_text(PUBLISHED)
    monkeypatch.setenv("LABCODE_EDITION", "stable")
    out = built(house)
    text = (out / "part" / "page.html").read_text(encoding="utf-8")
    address = "https://some-one.github.io/lab/stable/"
    assert f'<link rel="canonical" href="{address}part/page.html" />' in text
    assert f'<meta property="og:url" content="{address}part/page.html">' in text
    assert '<meta property="og:title" content="Q &amp; A">' in text
    assert f'<meta property="og:image" content="{address}card.png">' in text
    assert f"  url = {{{address}part/page.html}}," in text
    picture = (out / "card.png").read_bytes()
    assert picture.startswith(b"\x89PNG") and struct.unpack(">2I", picture[16:24]) == (1200, 630)
    assert f'href="{address}feed.xml"' in text
    assert '<span class="btn btn-sm disabled" aria-current="true">stable</span>' in text
    assert 'href="https://some-one.github.io/lab/dev/part/page.html" rel="alternate"' in text
    assert 'href="https://github.com/Some-One/lab/edit/main/book/part/page.md"' in text
    assert 'href="https://github.com/Some-One/lab"' in text
    assert re.search(r'More. Its code: <a [^>]*href="https://github.com/Some-One/lab">', text)
    listed = ElementTree.parse(out / "sitemap.xml").getroot()
    assert [one[0].text for one in listed] == [f"{address}index.html", f"{address}part/page.html"]
    assert f"Sitemap: {address}sitemap.xml\n" in (out / "robots.txt").read_text()
    assert f'<a href="{address}">' in (out / "404.html").read_text()
    assert (out / "feed.xml").is_file()

    (house / "CITATION.cff").write_text(CITATION)
    out = built(house)
    assert [name for name in FILES if (out / name).exists()] == []
