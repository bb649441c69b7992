"""Files that are not what they should be: one clear line each, and nothing done to the file."""

import lzma
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from labcode.errors import InputError, ToolError
from labcode.reports.nsys import open as nsys_open
from labcode.reports.nsys.report import open_report
from tests.support import exports as e
from tests.support.programs import program


@pytest.fixture
def export(tmp_path: Path) -> Path:
    rows = [e.kernel(i, i + 1, f"kernel_{i}(int)", correlation=i) for i in range(2000)]
    return e.make_export(tmp_path / "export.sqlite", kernels=rows, api=[e.call(0, 1)])


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LABCODE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / f"unpacked-{os.getuid()}"


def message(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        open_report(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert "\n" not in text
    return text


def test_missing(tmp_path: Path) -> None:
    assert "no such file" in message(tmp_path / "none.sqlite")


def test_folder(tmp_path: Path) -> None:
    assert "a folder" in message(tmp_path)


def test_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "empty.sqlite"
    path.touch()
    assert "empty; the export was interrupted" in message(path)


def test_not_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "text.sqlite"
    path.write_text("start,end\n1,2\n")
    assert "not an nsys export" in message(path)


def test_a_report_of_nsight_compute_is_named_as_such(tmp_path: Path) -> None:
    path = tmp_path / "kernels.bin"
    path.write_bytes(b"NVR\0" + bytes(100))
    text = message(path)
    assert "a report of Nsight Compute: it holds counters of launches and no timeline" in text


def test_raw_recording_of_a_failed_importer(tmp_path: Path) -> None:
    path = tmp_path / "run.qdstrm"
    path.write_bytes(b"anything")
    assert "libdw" in message(path)


@pytest.mark.parametrize("kept", [50, 99, 4096, 0.3, 0.999])
def test_truncated(export: Path, kept: float) -> None:
    data = export.read_bytes()
    export.write_bytes(data[: int(kept if kept > 1 else kept * len(data))])
    assert "truncated" in message(export)


def test_truncated_with_a_header_that_does_not_tell(export: Path) -> None:
    data = bytearray(export.read_bytes())
    data[92:96] = b"\0\0\0\0"  # the stated size is not valid for this version of the file
    export.write_bytes(data[: len(data) // 2])
    assert "export or copy it again" in message(export)


def test_damaged_page(export: Path) -> None:
    data = bytearray(export.read_bytes())
    middle = len(data) // 2 // 4096 * 4096
    data[middle : middle + 4096] = b"\xff" * 4096
    export.write_bytes(data)
    assert "export or copy it again" in message(export)


def test_another_programs_database(tmp_path: Path) -> None:
    path = tmp_path / "places.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE places (id INTEGER, url TEXT)")
    db.close()
    assert "an SQLite database, but not an nsys export" in message(path)


def test_no_version(tmp_path: Path) -> None:
    path = e.make_export(
        tmp_path / "a.sqlite", extra_sql=["DELETE FROM META_DATA_EXPORT WHERE name LIKE 'EXPORT_SCHEMA%'"]
    )
    assert "without a readable nsys schema version" in message(path)


def test_version_in_parts(tmp_path: Path) -> None:
    sql = ["DELETE FROM META_DATA_EXPORT WHERE name = 'EXPORT_SCHEMA_VERSION'"]
    report = open_report(e.make_export(tmp_path / "a.sqlite", extra_sql=sql))
    assert str(report.schema) == "3.20.3"


def test_newer_major(tmp_path: Path) -> None:
    path = e.make_export(tmp_path / "a.sqlite", schema=(4, 0, 1), product="2031.1")
    text = message(path)
    assert "schema 4.0.1 (written by nsys 2031.1) is newer than this version of labcode knows (3.27)" in text


def test_much_older(tmp_path: Path) -> None:
    assert "schema 2.9.0" in message(e.make_export(tmp_path / "a.sqlite", schema=(2, 9, 0), product="2022.1"))


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ((3, 20, 3), []),
        ((3, 27, 0), []),
        ((3, 31, 0), ["3.31.0 is newer than the newest one tried (3.27)"]),
        ((3, 11, 1), ["3.11.1 does not record which process sees which GPU"]),
        ((3, 7, 2), ["3.7.2 does not record whole-graph launches"]),
        ((3, 2, 0), ["3.2.0 is older than the oldest one tried (3.7)", "does not record"]),
    ],
)
def test_warnings_about_versions(tmp_path: Path, schema: tuple[int, int, int], said: list[str]) -> None:
    warnings = open_report(e.make_export(tmp_path / "a.sqlite", schema=schema)).warnings
    assert len(warnings) == len(said)
    for warning, words in zip(warnings, said, strict=True):
        assert words in warning


def test_missing_column_reads_as_missing_and_is_named(tmp_path: Path) -> None:
    table = "CUPTI_ACTIVITY_KIND_KERNEL"
    path = e.make_export(
        tmp_path / "a.sqlite",
        kernels=[e.kernel(0, 1, graph_node=3)],
        drop_columns={table: ["graphNodeId", "registersPerThread"]},
    )
    report = open_report(path)
    assert report.warnings == ()
    kernels = report.kernels()
    assert kernels["graph_node"].isna().all()
    assert kernels["registers_per_thread"].tolist() == [0]
    assert report.warnings == (
        f"table {table} has no column registersPerThread: it reads as missing or 0",
        f"table {table} has no column graphNodeId: it reads as missing or 0",
    )


def test_renamed_text_column(tmp_path: Path) -> None:
    path = e.make_export(
        tmp_path / "a.sqlite",
        nvtx=[e.push_pop(0, 1, "x")],
        rename_columns={"NVTX_EVENTS": {"text": "message"}},
    )
    report = open_report(path)
    assert report.nvtx()["name"].tolist() == [""]
    assert "table NVTX_EVENTS has no column text: it reads as missing or 0" in report.warnings


def test_missing_column_that_everything_needs(tmp_path: Path) -> None:
    path = e.make_export(
        tmp_path / "a.sqlite",
        kernels=[e.kernel(0, 1)],
        rename_columns={"CUPTI_ACTIVITY_KIND_KERNEL": {"end": "stop"}},
    )
    assert "table CUPTI_ACTIVITY_KIND_KERNEL has no column end" in message(path)


CYCLE = (
    "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS SELECT * FROM other",
    "CREATE VIEW other AS SELECT * FROM CUPTI_ACTIVITY_KIND_KERNEL",
)
ENDLESS = (
    "CREATE VIEW nvtx_events AS WITH RECURSIVE n(start) AS (SELECT 1 UNION ALL SELECT start + 1 FROM n) "
    "SELECT start, start AS end, 59 AS eventType FROM n",
)


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        (CYCLE, "CUPTI_ACTIVITY_KIND_KERNEL is a view, not a table"),
        (ENDLESS, "nvtx_events is a view, not a table"),
        (
            ["CREATE VIRTUAL TABLE NVTX_EVENTS USING fts5(start, end, eventType)"],
            "NVTX_EVENTS is a virtual table",
        ),
    ],
)
def test_views_in_place_of_tables_are_never_run(tmp_path: Path, sql: list[str], what: str) -> None:
    assert what in message(e.make_export(tmp_path / "a.sqlite", extra_sql=sql))


def test_other_views_and_triggers_do_not_matter(tmp_path: Path) -> None:
    sql = [
        "CREATE VIEW loop1 AS SELECT * FROM loop2",
        "CREATE VIEW loop2 AS SELECT * FROM loop1",
        "CREATE TRIGGER t AFTER INSERT ON StringIds BEGIN SELECT * FROM loop1; END",
    ]
    report = open_report(e.make_export(tmp_path / "a.sqlite", kernels=[e.kernel(0, 1)], extra_sql=sql))
    assert len(report.kernels()) == 1


@pytest.mark.parametrize("value", ["'12 minutes'", "1.5", "x'00ff'", "'1,2'", "9e300"])
def test_something_else_than_integers(tmp_path: Path, value: str) -> None:
    sql = [f"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET deviceId = {value}"]
    path = e.make_export(tmp_path / "a.sqlite", kernels=[e.kernel(0, 1)], extra_sql=sql)
    with pytest.raises(InputError, match="column deviceId: holds something else than integers") as caught:
        open_report(path).kernels()
    assert str(caught.value).startswith(f"{path}: ")


def test_null_where_nsys_writes_none(tmp_path: Path) -> None:
    sql = [
        "CREATE TABLE k AS SELECT * FROM CUPTI_ACTIVITY_KIND_KERNEL",
        "DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL",
        "ALTER TABLE k RENAME TO CUPTI_ACTIVITY_KIND_KERNEL",
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET streamId = NULL",
    ]
    path = e.make_export(tmp_path / "a.sqlite", kernels=[e.kernel(0, 1)], extra_sql=sql)
    assert open_report(path).kernels()["stream"].tolist() == [0]


def test_nothing_is_written_to_the_file_or_beside_it(export: Path) -> None:
    before = export.read_bytes()
    stamp = export.stat().st_mtime_ns
    beside = sorted(p.name for p in export.parent.iterdir())
    with open_report(export) as report:
        report.gpu_ops()
        report.window()
    assert export.read_bytes() == before
    assert export.stat().st_mtime_ns == stamp
    assert sorted(p.name for p in export.parent.iterdir()) == beside


def test_a_name_that_a_url_would_misread(tmp_path: Path) -> None:
    path = e.make_export(tmp_path / "50% of #1?mode=rwc&x.sqlite", kernels=[e.kernel(0, 1)])
    assert len(open_report(path).kernels()) == 1


def test_compressed(export: Path, own_cache: Path) -> None:
    packed = export.with_suffix(".sqlite.xz")
    packed.write_bytes(lzma.compress(export.read_bytes()))
    for _ in range(2):
        with open_report(packed) as report:
            assert report.path == packed
            assert len(report.kernels()) == 2000
    assert len(list(own_cache.iterdir())) == 1


def test_compressed_and_cut_off(export: Path, own_cache: Path) -> None:
    packed = export.with_suffix(".sqlite.xz")
    packed.write_bytes(lzma.compress(export.read_bytes())[:-100])
    assert "cannot be unpacked" in message(packed)
    assert not own_cache.exists() or not list(own_cache.iterdir())


class TestLargeFiles:
    """Files above a size are checked table by table, when a table is first read."""

    @pytest.fixture(autouse=True)
    def all_are_large(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(nsys_open, "_CHECK_WHOLE_BELOW", 0)

    @staticmethod
    def kernels_of(export: Path) -> tuple[bytearray, int, int]:
        """The file, the size of its pages, and where the table of kernels begins in it."""
        with closing(sqlite3.connect(export)) as db:
            query = "SELECT rootpage FROM sqlite_master WHERE name = 'CUPTI_ACTIVITY_KIND_KERNEL'"
            page = db.execute(query).fetchone()[0]
        data = bytearray(export.read_bytes())
        size = int.from_bytes(data[16:18], "big")
        return data, size, (page - 1) * size

    def test_whole(self, export: Path) -> None:
        assert len(open_report(export).kernels()) == 2000

    def test_damage_is_found_where_it_is_read(self, export: Path) -> None:
        data, size, root = self.kernels_of(export)
        child = int.from_bytes(data[root + 8 : root + 12], "big")  # its right-most page
        low = (child - 1) * size
        data[low + 8 : low + 200] = b"\xff" * 192
        export.write_bytes(data)
        report = open_report(export)
        assert len(report.api()) == 1
        with pytest.raises(InputError, match="export or copy it again"):
            report.kernels()

    def test_damage_that_reading_alone_would_not_notice(self, export: Path) -> None:
        data, _, root = self.kernels_of(export)
        first, second = (int.from_bytes(data[root + 12 + 2 * i : root + 14 + 2 * i], "big") for i in (0, 1))
        one, other = data[root + first : root + first + 4], data[root + second : root + second + 4]
        data[root + first : root + first + 4], data[root + second : root + second + 4] = other, one
        export.write_bytes(data)
        with pytest.raises(InputError, match="damaged"):
            open_report(export).kernels()


class TestReports:
    """An .nsys-rep is exported by the nsys of the machine."""

    @pytest.fixture
    def report_file(self, tmp_path: Path) -> Path:
        path = tmp_path / "run.nsys-rep"
        path.write_bytes(b"NVIDIA Tegra Profiler Report 2025" + bytes(100))
        return path

    @pytest.fixture
    def log(self, tmp_path: Path, export: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """What an nsys that exports was asked, a line a call."""
        log = tmp_path / "log"
        copy = f'while [ "$1" != --output ]; do shift; done\ncp {export} "$2"'
        monkeypatch.setenv("LABCODE_NSYS", str(program(tmp_path / "nsys", f'echo "$@" >>{log}\n{copy}')))
        return log

    def test_exported_once(self, report_file: Path, own_cache: Path, log: Path) -> None:
        for _ in range(2):
            with open_report(report_file) as report:
                assert report.path == report_file
                assert len(report.kernels()) == 2000
        assert len(log.read_text().splitlines()) == 1
        assert "--force-overwrite=true" in log.read_text()
        assert [p.suffix for p in own_cache.iterdir()] == [".sqlite"]

    def test_a_changed_report_is_exported_again(self, report_file: Path, log: Path) -> None:
        open_report(report_file).close()
        stamp = report_file.stat()
        report_file.write_bytes(b"NVIDIA Tegra Profiler Report 2025" + bytes(99) + b"x")
        os.utime(report_file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        open_report(report_file).close()
        assert len(log.read_text().splitlines()) == 2

    def test_export_fails(
        self, tmp_path: Path, report_file: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(
            "LABCODE_NSYS", str(program(tmp_path / "nsys", "echo 'Unsupported file version' >&2; exit 1"))
        )
        with pytest.raises(
            ToolError, match=r"run\.nsys-rep: nsys could not export it \(Unsupported file version\)"
        ):
            open_report(report_file)
        assert list(own_cache.iterdir()) == []

    def test_no_nsys(self, report_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("labcode.tools.find_nsys", lambda: None)
        with pytest.raises(ToolError, match=r"run\.nsys-rep: a report, and exporting it takes nsys"):
            open_report(report_file)
