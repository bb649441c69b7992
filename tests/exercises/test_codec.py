import json
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from labcode.grading.codec import Database, Folder, Other, decode, encode, pack, unpack


def through(value: Any) -> Any:
    return decode(json.loads(json.dumps(encode(value))))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (pd.NA, None),
        (True, True),
        (np.bool_(False), False),
        (np.int64(7), 7),
        (np.float32(0.5), 0.5),
        ("text", "text"),
        ((1, (2, 3)), [1, [2, 3]]),
        ({0: (1, 2), ("H2D", "pinned"): 3.5}, {0: [1, 2], ("H2D", "pinned"): 3.5}),
        ({"a": {1: None}}, {"a": {1: None}}),
        (np.arange(3), [0, 1, 2]),
        (pd.Series([1.5, 2.5], index=[3, 4]), {3: 1.5, 4: 2.5}),
        ({3}, Other("set", "{3}")),  # which has no order
    ],
)
def test_values_survive(value: Any, expected: Any) -> None:
    got = through(value)
    assert got == expected
    assert type(got) is type(expected)


def test_not_a_number_and_infinity_survive() -> None:
    nan, inf = through([float("nan"), float("-inf")])
    assert nan != nan and inf == float("-inf")


def test_tables_survive_with_their_types() -> None:
    table = pd.DataFrame(
        {
            "start_ns": np.array([5, 7], np.int64),
            "bytes": pd.array([None, 9], dtype="Int64"),
            "name": pd.Series(["a", "b"], dtype="str"),
            "share": [0.5, float("nan")],
        }
    )
    pd.testing.assert_frame_equal(through(table), table)


def test_empty_table_keeps_its_columns() -> None:
    table = pd.DataFrame({"start_ns": pd.Series([], dtype="int64"), "name": pd.Series([], dtype="str")})
    pd.testing.assert_frame_equal(through(table), table)


def test_other_things_arrive_as_a_description() -> None:
    got = through([object, lambda: None])
    assert [item.type_name for item in got] == ["type", "function"]
    assert isinstance(got[0], Other) and "object" in got[0].text


def test_a_failing_repr_does_not_stop_anything() -> None:
    class Bad:
        def __repr__(self) -> str:
            raise RuntimeError

    assert through(Bad()) == Other("Bad", "<repr failed: RuntimeError>")


def test_endless_nesting_is_cut() -> None:
    endless: list[Any] = []
    endless.append(endless)
    got = through(endless)
    for _ in range(50):
        if isinstance(got, Other):
            return
        got = got[0]
    pytest.fail("no end")


def made(argument: Any) -> Any:
    (only,) = unpack(pack([argument]))
    return only


def test_folders_and_databases_become_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = made(Folder({"a.csv": "x,y\r\n1,ß\n", "b.csv": ""}))
    assert (folder / "a.csv").read_bytes() == "x,y\r\n1,ß\n".encode()
    assert sorted(path.name for path in folder.iterdir()) == ["a.csv", "b.csv"]
    assert made(Folder({"a.csv": "1"}, only=True)).name == "a.csv"
    numbers, texts = pd.Series([1, None], dtype="Int64"), pd.Series(["a", None], dtype="str")
    table = pd.DataFrame({"n": numbers, "text": texts})
    path = made(Database({"t": table}))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT n, text FROM t").fetchall() == [(1, "a"), (None, None)]
    assert made(Path("/x/y")) == Path("/x/y")
    own = tmp_path / "mine.sqlite"
    own.write_bytes(b"0")
    (carried,) = unpack(pack([own], carry=True))
    assert carried != own and (carried.name, carried.read_bytes()) == ("mine.sqlite", b"0")
    assert made(own) == own
