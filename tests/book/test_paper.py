"""The printed book: what stays on the web, tables and names that may break, cards, checklists, parts."""

from types import SimpleNamespace
from typing import Any

from docutils import nodes
from docutils.frontend import get_default_settings
from docutils.utils import new_document
from sphinx import addnodes
from sphinx.util import texescape

from labcode.book.sphinx import paper
from tests.book.cells import PAGES


def document(*parts: nodes.Node) -> nodes.document:
    made = new_document("page", get_default_settings())
    made += list(parts)
    return made


def table(*rows: list[nodes.Node | str]) -> nodes.table:
    group = nodes.tgroup("", *[nodes.colspec(colwidth=1) for _ in max(rows, key=len)])
    body = nodes.tbody()
    for row in rows:
        cells = [nodes.paragraph(text=cell) if isinstance(cell, str) else cell for cell in row]
        body += nodes.row("", *[nodes.entry("", cell) for cell in cells])
    if len(rows) > 1 and len(rows[1]) == 1:
        body[1][0]["morecols"] = len(rows[0]) - 1
    return nodes.table("", nodes.tgroup("", *group.children, body))


def widths(found: nodes.table) -> list[int]:
    return [spec["colwidth"] for spec in found.findall(nodes.colspec)]


def test_a_long_table_breaks_and_its_columns_are_as_wide_as_their_texts() -> None:
    short = table(["a name", "1"], ["another", "2"])
    long = table(*[["a name", "1"]] * (paper.MOST_ROWS + 1))
    grouped = table(["a name", "1"], ["a heading over both columns"], *[["a name", "1"]] * paper.MOST_ROWS)
    paper.LetTablesBreak(document(short, long, grouped)).run()
    assert "longtable" not in short["classes"] and widths(short) == [1, 1]
    for found in (long, grouped):  # what a cell over several columns says makes none of them wide
        assert "longtable" in found["classes"]
        assert widths(found) == [len("a name"), 4]


def test_long_names_break_in_tables_and_nowhere_else() -> None:
    name = "MemoryWorkloadAnalysis_Tables"
    prose, cell, short = (nodes.literal(text=text) for text in (name, name, "SpeedOfLight"))
    paper.LetNamesBreak(document(nodes.paragraph("", "", prose), table([cell, short]))).run()
    assert [part.astext() for part in cell.findall(nodes.Text)][::2] == [
        "Memory",
        "Workload",
        "Analysis_Tables",
    ]
    assert [raw.astext() for raw in cell.findall(nodes.raw)] == [r"\labbreak{}"] * 2
    assert list(prose.findall(nodes.raw)) == list(short.findall(nodes.raw)) == []


def test_what_is_only_looked_up_stays_on_the_web() -> None:
    def link(address: str, text: str) -> nodes.reference:
        return nodes.reference("", text, internal=True, refuri=address)

    inner = addnodes.start_of_file("", nodes.paragraph(text="all functions"), docname="reference/api/verbs")
    api = addnodes.start_of_file(
        "", nodes.paragraph(text="the package"), inner, docname="reference/api/index"
    )
    status = addnodes.start_of_file("", nodes.paragraph(text="seconds"), docname="reference/status")
    links = [link("%reference/api/verbs#labcode.open", "open()"), link("%nsys/patterns", "patterns")]
    page = addnodes.start_of_file("", nodes.paragraph("", "", *links), docname="nsys/patterns")
    whole = document(page, status, api)
    paper.LeaveOnTheWeb(whole).run()
    app: Any = SimpleNamespace(builder=SimpleNamespace(format="latex"))
    paper.leave_links(app, whole, "index")
    assert whole.astext() == "open()patterns"
    assert [one.astext() for one in whole.findall(nodes.reference)] == ["patterns"]


def test_each_page_that_is_not_printed_is_one_of_the_book() -> None:
    for name in paper.ON_THE_WEB:
        assert (PAGES / name).is_dir() if name.endswith("/") else (PAGES / f"{name}.md").is_file()


def test_links_to_cards_arrive() -> None:
    card = nodes.container("", nodes.paragraph(text="Exercise"), ids=["exercise-nsys-ex01"])
    plain = nodes.container("", nodes.paragraph(text="none"))
    paper.TargetsOfCards(document(card, plain)).run()
    (target,) = card.findall(nodes.target)
    assert card[0] is target and target["ids"] == ["exercise-nsys-ex01"] and card["ids"] == []
    assert list(plain.findall(nodes.target)) == []


def test_a_checklist_has_boxes_for_bullets() -> None:
    def items(*texts: str) -> nodes.bullet_list:
        return nodes.bullet_list("", *[nodes.list_item("", nodes.paragraph(text=text)) for text in texts])

    checklist, mixed = items("☐ one", "☐ two"), items("☐ one", "two")
    paper.BoxesForBullets(document(checklist, mixed)).run()
    assert [item.astext() for item in checklist.findall(nodes.list_item)] == ["one", "two"]
    assert checklist[0].astext() == r"\renewcommand{\labelitemi}{☐}"
    assert [item.astext() for item in mixed.findall(nodes.list_item)] == ["☐ one", "two"]


def test_a_part_begins_with_its_first_chapter() -> None:
    def chapters(caption: str | None, *pages: str) -> addnodes.toctree:
        return addnodes.toctree(caption=caption, entries=[(None, page) for page in pages])

    pages = {name: addnodes.start_of_file(docname=name) for name in ("a", "b", "c", "d")}
    whole = document(*pages.values())
    index = document(chapters("Tools & more", "a", "b"), chapters(None, "c"), chapters("Guides", "gone", "d"))
    whole.settings.env = SimpleNamespace(
        app=None,
        config=SimpleNamespace(root_doc="index", latex_engine="xelatex"),
        get_doctree={"index": index}.__getitem__,
    )
    texescape.init()  # as the builder does
    paper.PartsBeforeChapters(whole).run()
    begins = {name: [raw.astext() for raw in page.findall(nodes.raw)] for name, page in pages.items()}
    assert begins == {"a": [r"\part{Tools \& more}"], "b": [], "c": [], "d": [r"\part{Guides}"]}
