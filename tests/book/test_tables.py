import pandas as pd
import pytest

from labcode import book
from labcode.book.sphinx.render import table_node
from labcode.book.tables import as_text, build

NOTHING = {"formats": {}, "labels": {}, "units": {}, "columns": None, "index": False}
FRAME = pd.DataFrame({"kernel": ["a<b>", "c"], "busy_ns": [1234567, 5], "idle_share": [0.25, None]})


def test_units_of_column_names_stand_in_the_header():
    table = build(FRAME, "A caption", **NOTHING)
    assert [(c.label, c.unit, c.numeric) for c in table.columns] == [
        ("kernel", "", False),
        ("busy", "ns", True),
        ("idle share", "", True),
    ]
    assert build(pd.DataFrame({"rate_gb_per_s": [1.5]}), None, **NOTHING).columns[0].unit == "GB/s"
    rate = build(pd.DataFrame({"tflop_per_s": [1.5]}), None, **NOTHING).columns[0]
    assert (rate.label, rate.unit) == ("tflop per s", "")


def test_cells_are_formatted_and_missing_ones_say_so():
    table = build(FRAME, None, **{**NOTHING, "formats": {"idle_share": ".0%", "kernel": str.upper}})
    assert table.rows == (("A<B>", "1,234,567", "25%"), ("C", "5", "–"))


def test_columns_select_and_the_index_comes_first():
    frame = FRAME.set_index("kernel")
    table = build(frame, None, **{**NOTHING, "index": True, "columns": ["idle_share"]})
    assert [column.label for column in table.columns] == ["kernel", "idle share"]


def test_labels_and_units_can_be_given():
    table = build(
        FRAME, None, **{**NOTHING, "labels": {"busy_ns": "GPU busy"}, "units": {"busy_ns": "nanoseconds"}}
    )
    assert (table.columns[1].label, table.columns[1].unit) == ("GPU busy", "nanoseconds")


def test_a_column_that_is_not_there_is_named():
    with pytest.raises(ValueError, match="no column 'time'; there are: kernel, busy_ns, idle_share"):
        build(FRAME, None, **{**NOTHING, "formats": {"time": ".1f"}})


def test_a_table_of_a_thousand_lines_is_refused():
    with pytest.raises(ValueError, match="1000 rows; select the ones the page is about"):
        book.table(pd.DataFrame({"x": range(1000)}))


def test_a_readers_own_sets_make_no_table_too_long():
    rows = [{"GPU": gpu, "x": x} for gpu in ("H200", "H100", "B200", "mine") for x in range(20)]
    book.table(pd.DataFrame(rows))
    with pytest.raises(ValueError, match="84 rows; select"):
        book.table(
            pd.DataFrame(
                [{"GPU": gpu, "x": x} for gpu in ("H200", "H100", "B200", "mine") for x in range(21)]
            )
        )


def test_text_is_aligned_by_kind():
    assert as_text(build(FRAME, "Kernels", **NOTHING)).splitlines() == [
        "Kernels",
        "kernel  busy (ns)  idle share",
        "------  ---------  ----------",
        "a<b>    1,234,567        0.25",
        "c               5           –",
    ]


def test_an_empty_table_keeps_its_header():
    table = build(FRAME.iloc[:0], None, **NOTHING)
    assert table.rows == ()
    assert len(table.columns) == 3
    assert as_text(table).splitlines()[0] == "kernel  busy (ns)  idle share"


def test_nodes_align_numbers_right_and_keep_markup_of_cells_harmless():
    from dataclasses import asdict

    from docutils import nodes

    node = table_node(asdict(build(FRAME, "With `code`", **NOTHING)))
    entries = list(node.findall(nodes.entry))
    assert [entry["classes"] for entry in entries[3:6]] == [["text-left"], ["text-right"], ["text-right"]]
    assert entries[3].astext() == "a<b>"
    assert [literal.astext() for literal in node.findall(nodes.literal)] == ["code"]
