"""Terms of the glossary on pages: where the book links them by itself, and what their cards hold."""

from docutils import nodes
from sphinx import addnodes

from labcode.book.sphinx import searching
from labcode.book.sphinx.glossary import FOUND, _Files, cards, draw_terms, link_terms
from labcode.book.sphinx.render import claim_box


def page(title, *parts):
    section = nodes.section(ids=["a"])
    section += nodes.title(text=title)
    section += list(parts)
    made = nodes.document(None, None)
    made += section
    return made


def linked(doctree):
    return [(link["reftarget"], link.astext()) for link in doctree.findall(addnodes.pending_xref)]


def test_the_first_use_in_running_text_is_linked_and_no_other():
    claim = claim_box("", nodes.paragraph(text="Bank conflicts cost time."))
    code = nodes.paragraph("", "", nodes.literal(text="warp"), nodes.Text(" and sub-warp, Warps aside."))
    doctree = page("How it runs", claim, code, nodes.paragraph(text="Two warps; a warp has bank conflicts."))
    link_terms(doctree, "nsys/a")
    assert linked(doctree) == [("warp", "warps"), ("bank conflict", "bank conflicts")]
    assert doctree.astext().endswith("Two warps; a warp has bank conflicts.")


def test_a_term_that_is_explained_or_linked_on_the_page_is_left_alone():
    own = addnodes.pending_xref("", nodes.inline(text="pinned"), reftype="term", reftarget="pinned memory")
    text = nodes.paragraph("", "The roofline of ", own, nodes.Text(" and pinned memory, with its KV cache."))
    doctree = page("Roofline practice", text)
    link_terms(doctree, "compute/a")
    assert linked(doctree) == [("pinned memory", "pinned"), ("key-value cache", "KV cache")]


def test_entries_are_drawn_and_their_cards_hold_text_and_both_pictures(tmp_path):
    items = [
        nodes.definition_list_item(
            "",
            nodes.term(text=term, ids=[f"term-{term}"]),
            nodes.definition("", nodes.paragraph(text="What it is.")),
        )
        for term in ("warp", "capture")
    ]
    doctree = page("Glossary", nodes.definition_list("", *items))
    draw_terms(doctree, _Files(tmp_path / "pictures", tmp_path))
    found = cards(doctree)
    assert found["term-capture"] == ["capture", "What it is."]
    name, text, light, dark, told = found["term-warp"]
    assert (name, text) == ("warp", "What it is.") and "32" in told and light != dark
    assert {path.name for path in (tmp_path / "pictures").glob("*.svg")} == {light, dark}


def test_links_that_the_book_puts_do_not_count_for_the_search():
    def link(*classes):
        words = nodes.inline("", "warp", classes=["std-term", *classes])
        return nodes.reference("", "", words, internal=True, refuri="../reference/glossary.html#term-warp")

    assert searching.page_of("nsys/a", page("A", nodes.paragraph("", "", link(FOUND))))["links"] == {}
    assert searching.page_of("nsys/a", page("A", nodes.paragraph("", "", link())))["links"] == {
        "reference/glossary": ["warp"]
    }
