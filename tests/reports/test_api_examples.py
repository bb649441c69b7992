"""The examples of the readers' page run as they stand, and the table of versions is the readers' own."""

import doctest
import re
from pathlib import Path

import pytest

import labcode
from labcode.errors import InputError
from labcode.reports import versions
from labcode.reports.kineto.open import read_trace
from labcode.reports.kineto.schema import NEWEST_SCHEMA
from labcode.reports.nsys import schema

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "book" / "reference" / "api" / "reports.md"


def test_the_examples_of_the_page_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    blocks = re.findall(r"^```pycon\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, PAGE.name, str(PAGE), 0)
    assert len(test.examples) >= 15
    said: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=said.append)
    assert "".join(said) == ""


def test_opening_takes_any_kind_and_importing_takes_nothing() -> None:
    import subprocess
    import sys

    code = "import sys, labcode; print('-', [m for m in ('pandas', 'numpy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True)
    assert done.stdout.split()[1:] == ["[]"]
    with pytest.raises(InputError, match=r"none\.sqlite: no such file"):
        labcode.open("none.sqlite")


def test_the_table_of_versions_says_what_the_readers_do() -> None:
    rows = {
        row.what.partition(":")[0]: row
        for row in versions.VERSIONS
        if row.what != "Nsight Systems: .nsys-rep"
    }
    nsys = rows["Nsight Systems"]
    newest = re.findall(r"\d+\.\d+", nsys.versions)[:2]
    assert newest == [f"{schema.MAJOR}.{schema.OLDEST_MINOR}", f"{schema.MAJOR}.{schema.NEWEST_MINOR}"]
    later = schema.SchemaVersion(schema.MAJOR, schema.NEWEST_MINOR + 1)
    assert str(later).startswith(re.match(r"\d+\.\d+", nsys.newer)[0])  # type: ignore[index]
    assert schema.check_version(later, "", "x") != []
    with pytest.raises(InputError, match="is newer than this version of labcode knows"):
        schema.check_version(schema.SchemaVersion(schema.MAJOR + 1, 0), "", "x")
    assert len(rows) == 6 and all(row.versions and row.told_by and row.newer for row in rows.values())


def test_a_trace_of_a_newer_schema_is_read_with_a_warning(tmp_path: Path) -> None:
    event = '{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 2, "args": {}}'
    for number, odd in ((NEWEST_SCHEMA, False), (NEWEST_SCHEMA + 1, True)):
        path = tmp_path / f"{number}.trace.json"
        path.write_text(f'{{"schemaVersion": {number}, "traceEvents": [{event}]}}')
        found = [line for line in read_trace(path).warnings if "is newer than the newest one tried" in line]
        assert bool(found) is odd
