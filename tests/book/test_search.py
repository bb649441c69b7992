"""The search of the book: what is read of pages, how results are ordered, and what users ask."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from docutils import nodes
from sphinx import addnodes

from labcode.book.sphinx import searching
from labcode.book.sphinx.render import claim_box
from tests.book.search_index import BOOK, REPOSITORY

HERE = Path(__file__).parent
RANKING = BOOK / "_static" / "search-rank.js"
QUESTIONS = HERE / "searches.toml"
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="needs node to run the script")


def results(index: Path, questions: list[str]) -> list[list[dict[str, Any]]]:
    """What the ranking in JavaScript answers to each question."""
    asked = index.with_name("questions.json")
    asked.write_text(json.dumps(questions))
    words = ["node", HERE / "search_check.js", RANKING, index, asked]
    found = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return json.loads(found)  # type: ignore[no-any-return]


@needs_node
def test_questions_of_users_lead_to_their_pages(tmp_path: Path) -> None:
    if built := os.environ.get("LABCODE_SEARCH_INDEX"):  # of the book that was built just now
        shutil.copy(built, tmp_path / searching.INDEX)
    else:
        subprocess.run(
            [sys.executable, "-m", "tests.book.search_index", tmp_path], cwd=REPOSITORY, check=True
        )
    wanted = tomllib.loads(QUESTIONS.read_text(encoding="utf-8"))["pages"]
    assert len(wanted) >= 60
    assert [page for pages in wanted.values() for page in pages if not (BOOK / f"{page}.md").is_file()] == []
    places = {}
    for (question, pages), found in zip(
        wanted.items(), results(tmp_path / searching.INDEX, list(wanted)), strict=True
    ):
        names = [result["page"] for result in found]
        places[question] = min((names.index(page) + 1 for page in pages if page in names), default=99)
    beyond = {question: place for question, place in places.items() if place > 3}
    assert 12 * len(beyond) <= len(places), beyond  # five of sixty
    behind = {question: place for question, place in places.items() if place > 1}
    assert 10 * len(behind) <= len(places), behind
    assert 99 not in places.values(), beyond


def section(name: str, heading: str, *parts: nodes.Node) -> nodes.section:
    made = nodes.section(ids=[name])
    made += nodes.title(text=heading)
    made += list(parts)
    return made


def paragraph(text: str, *more: nodes.Node) -> nodes.paragraph:
    made = nodes.paragraph(text=text)
    made += list(more)
    return made


def document(*parts: nodes.Node) -> nodes.document:
    made = nodes.document(None, None)
    made += list(parts)
    return made


def row(*cells: nodes.Node) -> nodes.row:
    made = nodes.row()
    for cell in cells:
        made += nodes.entry("", cell)
    return made


def test_code_claims_and_computed_tables_are_not_read() -> None:
    claim = claim_box()
    claim += paragraph("it holds")
    computed = nodes.table(classes=["lab-table"])
    computed += row(paragraph("12.5"))
    formula = nodes.math(text=r"t \le T")
    first = section(
        "a-page",
        "A page",
        paragraph("It took a while, ", formula, nodes.Text("or less.")),
        nodes.literal_block(text="x = 1"),
        claim,
        computed,
        section("further-down", "Further down", paragraph("More.")),
    )
    page = searching.page_of("nsys/a", document(first))
    assert page["sections"] == [
        ["", "A page", "It took a while, or less."],
        ["further-down", "Further down", "More."],
    ]
    assert page["title"] == "A page" and page["weight"] == 1


def test_what_a_page_says_of_others_is_kept() -> None:
    link = nodes.reference("", "Memory", internal=True, refuri="../pytorch/memory.html#the-fix")
    outside = nodes.reference("", "elsewhere", refuri="https://example.org/x.html")
    itself = nodes.reference("", "here", internal=True, refuri="a.html#b")
    table = nodes.table()
    table += row(paragraph("out of memory"), paragraph("see ", link))
    page = searching.page_of("guides/a", document(section("a", "A", table, paragraph("", outside, itself))))
    assert page["links"] == {"pytorch/memory": ["out of memory · Memory"]}
    assert page["sections"][0][2] == "out of memory · see Memory. elsewherehere"
    claims = searching.page_of("reference/claims", document(section("a", "A", table.deepcopy())))
    assert claims["links"] == {} and claims["weight"] < 0.5


def test_terms_and_names_of_the_package_are_entries() -> None:
    term = nodes.term(text="warp", ids=["term-warp"])
    item = nodes.definition_list_item("", term, nodes.definition("", paragraph("32 threads.")))
    terms = addnodes.glossary("", nodes.definition_list("", item))
    signature = addnodes.desc_signature("", ids=["labcode.copy"])
    signature += addnodes.desc_name(text="copy")
    described = addnodes.desc("", signature, addnodes.desc_content("", paragraph("Copies.")))
    page = searching.page_of("reference/x", document(section("x", "X", terms, described)))
    assert page["sections"][1:] == [["term-warp", "warp", "32 threads."], ["labcode.copy", "copy", ""]]


def test_pages_come_back_from_a_written_index(tmp_path: Path) -> None:
    page = searching.page_of("a", document(section("a", "A “page”", paragraph("Text); </script>"))))
    words = tmp_path / searching.WORDS
    words.write_text('synonyms = [["oom", "out of memory"]]\n')
    script = searching.index_script([page], words)
    assert searching.pages_in(script) == {"a": page}
    assert '["oom","out of memory"]' in script


def test_keywords_are_of_pages_that_there_are_and_each_that_explains_has_some() -> None:
    keywords = tomllib.loads((BOOK / searching.WORDS).read_text(encoding="utf-8"))["keywords"]
    assert [page for page in keywords if not (BOOK / f"{page}.md").is_file()] == []
    assert all(len(set(phrases)) == len(phrases) > 1 for phrases in keywords.values())
    explaining = ("advanced", "compute", "energy", "foundations", "lm", "nsys", "pytorch", "scaling")
    pages = {f"{part}/{page.stem}" for part in explaining for page in (BOOK / part).glob("*.md")}
    assert pages - keywords.keys() == set(), f"add what readers would type to {searching.WORDS}"


def test_no_phrase_stands_twice_in_a_group_of_synonyms() -> None:
    groups = tomllib.loads((BOOK / searching.WORDS).read_text(encoding="utf-8"))["synonyms"]
    assert all(len({phrase.lower() for phrase in group}) == len(group) > 1 for group in groups)


SMALL = [
    ("pytorch/memory", "Memory", "A loop ends with OutOfMemoryError. Which line holds the memory?"),
    ("nsys/a", "Timeline basics", "The GPU is idle while a batch is made. Stalled, it waits for memory."),
    ("serving/b", "Decode", "Bandwidth decides how many tokens are generated."),
    ("reference/api/c", "Memory", "Memory of a loop, memory of all."),
    ("guides/d", "Symptoms", "Something is slow."),
]


@needs_node
def test_words_are_found_by_ending_part_beginning_synonym_and_in_spite_of_a_slip(tmp_path: Path) -> None:
    pages = [
        searching.page_of(name, document(section("top", title, paragraph(text))))
        for name, title, text in SMALL
    ]
    pages[-1]["links"] = {"serving/b": ["answers come too late"]}
    words = tmp_path / searching.WORDS
    words.write_text(
        'synonyms = [["oom", "OutOfMemoryError"], ["gpu utilization", "idle"], ["throughput", "tokens"]]\n'
        '[keywords]\n"serving/b" = ["speculative decoding", "memory of the cache"]\n'
    )
    index = tmp_path / searching.INDEX
    index.write_text(searching.index_script(pages, words), encoding="utf-8")
    expected = {
        "memory": "pytorch/memory",  # by its title, and before the package's reference
        "stalls": "nsys/a",
        "out of memory error": "pytorch/memory",
        "OOM": "pytorch/memory",
        "why is my GPU utilization low": "nsys/a",
        "bandwith": "serving/b",
        "time": "nsys/a",  # the word as it is being typed: timeline
        "late answers": "serving/b",  # what another page says of it
        "speculative": "serving/b",  # a keyword, which stands nowhere on it
        "memory of the cache": "serving/b",
        "[Memory]: answers late": "serving/b",  # the label of an issue's kind says nothing
        "througput is low": "serving/b",  # a slip in a synonym that stands nowhere
    }
    found = results(index, [*expected, "of the", "xyzzy", ""])
    assert {question: hits[0]["page"] for question, hits in zip(expected, found, strict=False)} == expected
    assert found[-2] == found[-1] == []
    excerpt = found[list(expected).index("stalls")][0]["excerpt"]
    assert ["Stalled", True] in excerpt
    assert "".join(piece for piece, _ in excerpt).startswith("Stalled, it waits")
