"""A learner's query is only read from, stopped in time, and told what is wrong with it."""

import subprocess
import sys
from pathlib import Path

import pytest

from labcode.grading import execution, sql
from labcode.grading.sql import QueryError, run_query
from tests.exercises.support import run_calls
from tests.support import exports as e

FOREVER = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT n FROM t WHERE n < 0"


@pytest.fixture
def export(tmp_path: Path) -> Path:
    return e.make_export(tmp_path / "a.sqlite", kernels=[e.kernel(0, 9), e.kernel(10, 12)])


def query_file(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "a_query.sql"
    file.write_text(text, encoding="utf-8")
    return file


def test_rows_come_as_lists(export: Path) -> None:
    query = "-- note\nSELECT end - start AS ns, NULL AS no FROM CUPTI_ACTIVITY_KIND_KERNEL ORDER BY ns;\n"
    assert sql.answer(query, export, ["ns", "no"]) == [[2, None], [9, None]]


def test_an_order_that_comes_by_luck_is_none(export: Path) -> None:
    query = "SELECT streamId AS a, count(*) AS b FROM CUPTI_ACTIVITY_KIND_KERNEL GROUP BY streamId"
    with pytest.raises(sql.QueryError, match="without ORDER BY rows come in whatever order"):
        sql.answer(query, export, ["a", "b"])
    inner = query.replace("count(*)", "(SELECT max(start) FROM CUPTI_ACTIVITY_KIND_KERNEL ORDER BY 1)")
    with pytest.raises(sql.QueryError, match="without ORDER BY"):
        sql.answer(inner, export, ["a", "b"])
    assert sql.answer(f"{query} ORDER BY 1", export, ["a", "b"]) == [[7, 2]]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELEC 1", "SQLite: near"),
        ("SELECT n FROM absent", "SQLite: no such table: absent"),
        ("SELECT 1 AS n; SELECT 2", "several statements"),
        ("DELETE FROM StringIds", "only reading is permitted"),
        ("CREATE TABLE t (n)", "only reading is permitted"),
        ("ATTACH 'other.db' AS o", "only reading is permitted"),
        ("PRAGMA writable_schema = 1", "only reading is permitted"),
        ("SELECT load_extension('x')", "only reading is permitted"),
        (
            "SELECT a.id AS n FROM StringIds a, StringIds b, StringIds c, StringIds d",
            "rows: does a join lack",
        ),
    ],
)
def test_what_is_wrong_is_said(export: Path, query: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql, "MOST_ROWS", 10)
    before = export.read_bytes()
    with pytest.raises(QueryError, match=words):
        run_query(query, export)
    assert export.read_bytes() == before


def test_a_query_without_end_is_stopped(export: Path) -> None:
    with pytest.raises(QueryError, match=r"took longer than 0\.2 s: join on equal columns"):
        run_query(FOREVER, export, limit_s=0.2)


def test_all_queries_of_a_grading_share_the_time(export: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql, "LIMIT_S", 0.3)
    ask = sql.learners(FOREVER)
    with pytest.raises(QueryError, match=r"took longer than 0\.3 s"):
        ask(export, ["n"])
    with pytest.raises(QueryError, match=r"took longer than 0\.1 s"):
        ask(export, ["n"])


def test_columns_are_checked(export: Path) -> None:
    with pytest.raises(QueryError, match="the columns should be ns, no; they are no, ns"):
        sql.answer("SELECT 1 AS no, 2 AS ns", export, ["ns", "no"])


@pytest.mark.parametrize("text", ["", "-- SELECT … FROM x\n", "/* nothing\nyet */ ;\n"])
def test_an_empty_file_is_not_written_yet(export: Path, text: str) -> None:
    with pytest.raises(NotImplementedError, match="write the query below"):
        sql.answer(text, export, ["n"])


def test_absent_tables_are_empty(export: Path) -> None:
    for table in sql.EVENTS:
        run_query(f"SELECT count(*) FROM {table}", export)
    assert run_query("SELECT bytes FROM CUPTI_ACTIVITY_KIND_MEMCPY", export) == (["bytes"], [])


def test_the_worker_runs_queries(export: Path, tmp_path: Path) -> None:
    file = query_file(tmp_path, "SELECT count(*) AS n FROM CUPTI_ACTIVITY_KIND_KERNEL")
    calls = [execution.Call("answer", (export, ["n"])), execution.Call("answer", (export, ["m"]))]
    ran = run_calls(file, calls)
    assert ran.outcomes[0].value == [[2]]
    assert ran.outcomes[1].lines == ("the columns should be m; they are n",)


def test_a_query_can_be_tried_by_hand(export: Path, tmp_path: Path) -> None:
    def run(*args: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "labcode.grading.sql", *args]
        return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)

    file = str(query_file(tmp_path, "SELECT NULL AS a, count(*) AS n FROM CUPTI_ACTIVITY_KIND_KERNEL"))
    assert run(file, str(export)).stdout == "a\tn\nNULL\t2\n"
    for args, words in (((file,), "usage"), ((file, "absent.sqlite"), "absent.sqlite: no such file")):
        done = run(*args)
        assert done.returncode == 2 and words in done.stderr and "Traceback" not in done.stderr
