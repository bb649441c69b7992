"""Names that others wrote show as nothing but text: on a terminal, in Markdown and in HTML."""

import json
import re
import unicodedata
from collections.abc import Iterator
from html.parser import HTMLParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from labcode.show import CELLS, LONGEST, cut, grid, html, html_table, markdown, one_line, page_data, visible

PIECES = (
    *("<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<!--", "-->", "</td>", "&lt;", "&#64;"),
    *("[a](javascript:alert(1))", "![a](http://x.org/a.png)", "[a]: http://x.org", "[^1]", "[ ]", "![", "]("),
    *("@mallory", "a@b.org", "http://x.org", "www.x.org", "mailto:a@b.org", "#12", "!7", "$x$", "$$"),
    *(
        "`",
        "``",
        "```",
        "~~~",
        "~~",
        "*",
        "**",
        "_",
        "__",
        "\\",
        "|",
        "||",
        "a_b",
        "_a_",
        "operator|=",
        "\\|",
    ),
    *("# ", "- ", "+ ", "1. ", "12) ", "> ", "---", "===", ":::", "+++", "% ", "    ", "\t", "\n", "\r\n"),
    *("\x1b[31m", "\x1b]0;t\x07", "\x9b2J", "\x00", "\x7f", "\u202e", "\u2066", "\u200b", "\ufeff", "\u2028"),
    *(
        "\U000e0041",
        "\ud800",
        "void k<float*>(int&, char const*)",
        "a::b<c>::d",
        "wgmma.m64n256k16",
        "é",
        "名",
        "😀",
    ),
)
NAMES = st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
ALLOWED = {"paragraph_open", "paragraph_close", "inline", "text", "text_special", "code_inline"}
TABLE = {
    f"{part}_{end}" for part in ("table", "thead", "tbody", "tr", "th", "td") for end in ("open", "close")
}


def leaves(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from leaves(token.children or [])


def shown(tokens: list[Token]) -> str:
    return "".join(
        token.content for token in leaves(tokens) if token.type in ("text", "text_special", "code_inline")
    )


@given(NAMES)
@example("<details>")
@example("1.")
@example("a|`b`|@c")
@example("`@")
def test_markdown_shows_a_name_and_nothing_else(name: str) -> None:
    tokens = PARSER.parse(markdown(name))
    assert {token.type for token in leaves(tokens)} <= ALLOWED
    assert shown(tokens) == one_line(name)


@given(st.lists(st.tuples(NAMES, NAMES), min_size=1, max_size=4), NAMES)
def test_a_table_in_markdown_has_its_cells_and_no_more(rows: list[tuple[str, str]], head: str) -> None:
    cells = [[markdown(cell) for cell in row] for row in rows]
    text = "".join(grid("md", [head, "b"], [False, True], lambda: cells))
    tokens = PARSER.parse(text)
    assert {token.type for token in leaves(tokens)} <= ALLOWED | TABLE
    found = [shown(token.children or []) for token in tokens if token.type == "inline"]
    assert found == [one_line(cell) for row in ((head, "b"), *rows) for cell in row]


@given(NAMES)
def test_what_sites_link_by_themselves_is_code(name: str) -> None:
    texts = [token.content for token in leaves(PARSER.parse(markdown(name))) if token.type.startswith("text")]
    assert not re.search(r"@|://|\$|[#!]\d|\bwww\.", " ".join(texts), re.IGNORECASE)


@given(NAMES)
@example("\u2067a\u2069")
def test_no_control_character_is_left(name: str) -> None:
    texts = (
        visible(name).replace("\n", "").replace("\t", ""),
        one_line(name),
        markdown(name),
        html(name).replace("\n", "").replace("\t", ""),
    )
    for text in texts:
        assert not [c for c in text if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")]
        turning = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
        assert not [c for c in text if unicodedata.bidirectional(c) in turning]
        text.encode()


class Texts(HTMLParser):
    """The tags and the texts of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@given(NAMES)
def test_html_shows_a_name_and_nothing_else(name: str) -> None:
    page = Texts()
    page.feed(f'<p title="{html(name)}">{html(name)}</p>')
    page.close()
    assert page.tags == ["p"] and "".join(page.text) == visible(name)


def test_a_table_in_html_escapes_its_cells_and_caption() -> None:
    text = html_table(["<b>"], [True], [["a&b"]], "<i>")
    line = '<tr><{0} style="text-align: right">{1}</{0}></tr>'
    head, row = line.format("th", "&lt;b&gt;"), line.format("td", "a&amp;b")
    caption = "<caption>&lt;i&gt;</caption>"
    assert text == f"<table>{caption}<thead>{head}</thead><tbody>{row}</tbody></table>"


@given(st.recursive(NAMES | st.integers() | st.none(), st.lists))
def test_data_of_a_page_are_what_they_were_but_for_controls(data: object) -> None:
    def seen(value: object) -> object:
        if isinstance(value, list):
            return [seen(one) for one in value]
        return visible(value) if isinstance(value, str) else value

    text = page_data(data)
    assert "<" not in text and text.isascii()
    assert json.loads(text) == seen(data)


@pytest.mark.parametrize(
    ("text", "there"),
    [
        ("\x1b[31mred", "␛[31mred"),
        ("a\x7f\x9b\u202eb", "a␡\\u009b\\u202eb"),
        ("\U000e0041", "\\U000e0041"),
        ("two\nlines\tkept", "two\nlines\tkept"),
        ("12.3\u202fms 名 😀", "12.3\u202fms 名 😀"),
    ],
)
def test_controls_are_seen(text: str, there: str) -> None:
    assert visible(text) == there


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("cuda_gpu_kern_sum", "cuda_gpu_kern_sum"),
        ("_private_", "\\_private\\_"),
        ("k<float*>&", "k&lt;float\\*&gt;&amp;"),
        ("mail a@b.org now", "mail `a@b.org` now"),
        ("a|b", "a\\|b"),
        ("1. one", "1\\. one"),
        ("1.5 ms", "1.5 ms"),
        ("-3.1 %", "-3.1 %"),
        ("- x", "\\- x"),
        ("`@`", "`` `@` ``"),
    ],
)
def test_markdown_stays_readable(name: str, there: str) -> None:
    assert markdown(name) == there


def test_long_names_are_cut_and_say_how_long_they_were() -> None:
    assert cut("abcdef", 4) == "abc…" and cut("abcd", 4) == "abcd"
    assert one_line("a\n b " * 100, 9) == "a b a b …" and one_line(" a  b ") == "a  b"
    name = "k" * 1_000_000
    for show in CELLS.values():
        assert show(name) == "k" * (LONGEST - 1) + "… (1,000,000 characters)"
    assert one_line(name, 40) == "k" * 39 + "… (1,000,000 characters)"
    assert one_line("k" * LONGEST) == "k" * LONGEST
