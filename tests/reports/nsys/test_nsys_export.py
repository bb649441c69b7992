"""The reader's tables as files."""

import lzma
from pathlib import Path

import pandas as pd
import pytest

from labcode.errors import InputError, LabError
from labcode.reports.nsys import export as nsys_export
from labcode.reports.nsys.export import export_all, table_names
from labcode.reports.nsys.report import open_report
from tests.support import exports as e
from tests.support.command import labcode


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    return e.make_export(
        tmp_path / "run.sqlite",
        kernels=[e.kernel(100, 200, 'f<1, 2>(int, "x")', correlation=1)],
        api=[e.call(50, 60, correlation=1)],
    )


def test_each_table_with_rows_is_a_file(capture: Path, tmp_path: Path) -> None:
    written = export_all([capture], tmp_path / "t")
    assert {path.name for path in written} == {path.name for path in (tmp_path / "t").iterdir()}
    assert {"run_kernels.csv", "run_api.csv"} <= {path.name for path in written}
    assert "run_nvtx.csv" not in {path.name for path in written}
    with open_report(capture) as report:
        expected = report.kernels()
    found = pd.read_csv(tmp_path / "t" / "run_kernels.csv")
    assert found["name"].tolist() == ['f<1, 2>(int, "x")']
    assert list(found.columns) == list(expected.columns)
    assert found["start_ns"].tolist() == expected["start_ns"].tolist()


def test_the_tables_are_those_of_the_reader() -> None:
    assert {"kernels", "memcpys", "memsets", "graph_launches", "api", "nvtx", "osrt", "gpus"} <= set(
        table_names()
    )
    assert not {"gpu_ops", "window", "close"} & set(table_names())


def test_chosen_tables(capture: Path, tmp_path: Path) -> None:
    assert [path.name for path in export_all([capture], tmp_path, tables=["api"])] == ["run_api.csv"]
    with pytest.raises(LabError, match="'kernel' is not a table; did you mean kernels"):
        export_all([capture], tmp_path, tables=["kernel"])
    with pytest.raises(InputError, match=r"run\.sqlite: no rows in nvtx; nothing to export"):
        export_all([capture], tmp_path / "t", tables=["nvtx"])
    assert not (tmp_path / "t").exists()


def test_sqlite_unpacks(capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABCODE_CACHE", str(tmp_path / "cache"))
    packed = tmp_path / "packed.sqlite.xz"
    packed.write_bytes(lzma.compress(capture.read_bytes()))
    (made,) = export_all([packed], tmp_path / "t", "sqlite")
    assert made == tmp_path / "t" / "packed.sqlite"
    assert made.read_bytes() == capture.read_bytes()


def test_nothing_is_overwritten_without_force(capture: Path, tmp_path: Path) -> None:
    for fmt in ("csv", "sqlite"):
        folder = tmp_path / fmt
        export_all([capture], folder, fmt)
        with pytest.raises(LabError, match="there already"):
            export_all([capture], folder, fmt)
        assert export_all([capture], folder, fmt, force=True)


def test_bad_use(capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LabError, match="'xlsx' is not a format; choose one of csv, parquet, sqlite"):
        export_all([capture], tmp_path, "xlsx")
    with pytest.raises(LabError, match="an SQLite export holds all of them"):
        export_all([capture], tmp_path, "sqlite", tables=["api"])
    monkeypatch.setattr(nsys_export, "find_spec", lambda _: None)
    with pytest.raises(LabError, match="Parquet needs pyarrow; `python -m pip install pyarrow`"):
        export_all([capture], tmp_path, "parquet")


def test_parquet_keeps_types(capture: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    export_all([capture], tmp_path / "t", "parquet", tables=["kernels"])
    with open_report(capture) as report:
        expected = report.kernels()
    found = pd.read_parquet(tmp_path / "t" / "run_kernels.parquet")
    assert found["start_ns"].dtype == "int64"
    assert found["graph_node"].isna().all() and len(found) == len(expected)


def test_the_command_says_what_it_wrote(capture: Path, tmp_path: Path) -> None:
    words = "export", capture, "-o", tmp_path / "t", "--table", "api"
    done = labcode(*words)
    assert (done.returncode, done.stdout) == (0, f"{tmp_path / 't' / 'run_api.csv'}\n"), done.stderr
    again = labcode(*words)
    assert again.returncode == 2 and "there already; overwrite with --force" in again.stderr
