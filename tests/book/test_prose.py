import pytest

from tests.support import prose


def found(text: str) -> list[str]:
    return [finding.text for finding in prose.measurements(text)]


TYPED = """3.2 ms; 40 µs; 800ns; 1.5 us; 10 seconds; 7 min; 2 hours; 12 GB/s; 4.8 TB/s; 7 TFLOP/s;
67 TFLOPS; 45 %; 45%; 30 percent; 1.8×; 1.8x; 5-fold; 3 times faster; 700 W; 12 kJ; 141 GiB; 128 KiB;
1,024 bytes; 1.98 GHz; 400 cycles; 32-MB"""
FINE = """the H200 has CUDA 13.0; step 5 shows; 4 GPUs and 2 streams; a 512 x 512 matrix; 1024×1024 elements;
in the 1980s; twice as fast; sm_90 code; version 2025.3.1; 10⁹ operations; part 2 is next; fp16 rates;
`3.2 ms`; {glue:text}`busy` ms; {spec}`4.8 TB/s`; $t = 3 ms$; [a trap](40-ms.md); “it took 3 ms”;
“a 40 % gain”; <!-- 3 ms -->; % 3 ms; > it took 3 ms; :width: 80 %"""


def cases(text: str) -> list[str]:
    return [case.strip() for case in text.split(";")]


@pytest.mark.parametrize("typed", cases(TYPED))
def test_a_number_with_a_unit_is_found(typed):
    assert found(f"It took {typed} on this GPU.") == [typed]


@pytest.mark.parametrize("fine", cases(FINE))
def test_other_text_is_left_alone(fine):
    assert found(fine) == []


def test_the_words_of_a_link_are_prose():
    assert found("[the 40 ms trap](40-ms.md)") == ["40 ms"]


def test_code_is_left_alone_and_lines_are_counted():
    cell = "```{code-cell} python\nx = '3 ms'\n```\n"
    page = f"---\ntitle: 3 ms\n---\n\nText\n\n{cell}\n```\n3 ms\n```\n\nThen 4 ms.\n"
    assert prose.measurements(page) == [prose.Finding(15, "4 ms")]


def test_text_in_admonitions_and_cards_is_prose():
    page = "::::{grid}\n:::{grid-item-card} Title\nIt took 5 ms\n:::\n::::\n```{note}\nand 6 ms\n```\n"
    assert found(page) == ["5 ms", "6 ms"]


def test_tables_are_prose_unless_they_are_specifications():
    rows = "| memory | 4800 GB/s |\n|---|---|\n| L2 | 50 MB |\n"
    assert found(rows) == ["4800 GB/s", "50 MB"]
    assert found("{.spec-table}\n" + rows + "\nThen 3 ms.\n") == ["3 ms"]
    listed = "```{list-table}\n:class: spec-table\n* - memory\n  - 4800 GB/s\n```\n"
    assert found(listed) == []
    assert found(listed.replace("spec-table", "wide")) == ["4800 GB/s"]


def test_a_block_inside_a_block_ends_where_it_ends():
    page = "````{note}\n```python\nx = '1 ms'\n```\nbut 2 ms\n````\nand 3 ms\n"
    assert found(page) == ["2 ms", "3 ms"]


def test_british_spellings_are_found():
    page = "The colour of the optimised behaviour is modelled; we analyse the centre and `colour` is code."
    assert [f.text for f in prose.british_spellings(page)] == [
        "colour",
        "optimised",
        "behaviour",
        "modelled",
        "analyse",
        "centre",
    ]


def test_american_spellings_are_left_alone():
    page = (
        "The color of optimized behavior; analysis, cancellation, installed, controlled, promise, exercise."
    )
    assert prose.british_spellings(page) == []


def test_foreign_idiom_is_found():
    page = (
        "# Tiles against waves\n\nIt takes 16 bytes a row, 32 bytes per row.\n\n`bytes a row` against time\n"
    )
    assert [(f.line, f.text) for f in prose.foreign_idiom(page)] == [
        (1, "# Tiles against"),
        (3, "bytes a row"),
    ]


def test_a_sentence_that_is_too_long_is_found_by_its_beginning():
    fits, long = " ".join(["word"] * 35), " ".join(["word"] * 36)
    page = f"# Title\n\nOne. {fits}. {fits}?\n{fits}\n\n- {fits}\n- {fits}\n\n"
    page += f"```c\n{long}\n```\n\nFirst. Then\n{long}.\n"
    assert [(f.line, f.text[:8]) for f in prose.long_sentences(page)] == [(13, "37 words")]
    assert prose.long_sentences(f"{fits} `code` $x$ {{glue:text}}`one`.") == []


def test_shell_escapes_are_found_in_cells_only():
    page = "```{code-cell} python\n!nvidia-smi\nx = 1\n%%bash\n```\n\n```shell\n!history\n```\n"
    assert prose.shell_escapes(page) == [prose.Finding(2, "!nvidia-smi"), prose.Finding(4, "%%bash")]


def test_commands_that_are_cut_off():
    long = "nox -s capture " + "-" * 80
    page = f"```shell\nnox\n{long}\n```\n\n```text\n{long}\n```\n"
    assert prose.long_commands(page) == [prose.Finding(3, long)]


def test_images_need_descriptions():
    page = "![](a.png)\n![a bar](b.png)\n```{figure} c.png\n:width: 3in\n\nCaption\n```\n"
    page += "```{image} d.png\n:alt: two bars\n```\n"
    assert prose.figures_without_alt(page) == [
        prose.Finding(1, "image without a description"),
        prose.Finding(3, "figure without :alt:"),
    ]
    assert prose.figures_without_alt("```{code-cell} python\nplt.show()\n```\n") == [
        prose.Finding(2, "figure shown without book.figure(…, alt=…)")
    ]
