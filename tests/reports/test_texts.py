"""Columns of texts that are remembered as numbers: the same answers, of slices, too; nothing kept alive."""

import gc
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from labcode.reports import columns
from labcode.reports.columns import Ints, objects
from labcode.reports.frames import codes_of, frame, is_any, rows_of

COUNT = 5_000
NAMES = ["b", "a", "", "b", "c"]  # the same text twice


def column(remembered: bool) -> pd.DataFrame:
    codes = np.random.default_rng(0).integers(-1, len(NAMES), COUNT)
    if not remembered:
        return frame(name=objects(codes, NAMES), number=np.arange(COUNT))
    with columns.remembering():
        return frame(name=objects(codes, NAMES), number=np.arange(COUNT))


@pytest.mark.parametrize(
    "rows", [np.arange(COUNT), np.arange(700, 4_000), np.arange(0, COUNT, 3)], ids=["all", "slice", "some"]
)
def test_what_is_remembered_says_the_same(rows: Ints) -> None:
    chosen = np.zeros(COUNT, np.bool_)
    chosen[rows] = True
    found = []
    for remembered in (True, False):
        table = rows_of(column(remembered), chosen)
        assert (columns.known(table["name"]) is not None) is remembered
        codes, distinct = codes_of(table["name"])
        found.append((codes.tolist(), distinct.tolist(), is_any(table["name"], "b", "").tolist()))
        assert table["number"].tolist() == rows.tolist() == table.index.tolist()
        assert [name in ("b", "") for name in table["name"]] == found[-1][2]
    assert found[0] == found[1]


def test_what_another_array_holds_is_not_taken_for_it() -> None:
    table = column(True)
    other = table["name"].where(table["name"] != "a", "z")
    assert columns.known(other) is None and is_any(other, "z").any()


def test_nothing_is_kept_of_a_table_that_is_gone() -> None:
    gc.collect()
    before = len(columns._known)
    table = column(True)
    assert len(columns._known) == before + 1
    del table
    gc.collect()
    assert len(columns._known) == before


def test_texts_are_not_copied_where_pyarrow_is_installed() -> None:
    """pandas would make arrays of Arrow of them, and of each row's text a copy."""
    program = (
        "import pandas as pd; pd.set_option('mode.string_storage', 'pyarrow'); import numpy as np\n"
        "from labcode.reports.frames import frame\n"
        "pd.reset_option('mode.string_storage')\n"
        "print(frame(name=np.array(['a'], object)).dtypes['name'].storage)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ran.stdout == "python\n", ran.stderr
