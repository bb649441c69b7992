"""Trimming and scrubbing: what must go goes, what is needed stays, damaged input is named."""

import lzma
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from labcode.capture import privacy, scan
from labcode.capture.scrub import compress, scrub_export, scrub_file
from labcode.capture.trim import trim_export
from labcode.errors import InputError
from labcode.reports.nsys.report import open_report
from tests.capture import fakes
from tests.support import exports as e


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute(query).fetchall()


def names_of(path: Path, table: str) -> set[object]:
    return {
        row[0] for row in rows(path, f"SELECT s.value FROM {table} t JOIN StringIds s ON s.id = t.nameId")
    }


@pytest.fixture
def export(tmp_path: Path) -> Path:
    return fakes.private_export(tmp_path / "raw.sqlite")


def test_trimming_keeps_what_overlaps_the_window_and_the_calls_of_what_is_kept(export: Path) -> None:
    assert trim_export(export) == fakes.WINDOW
    assert rows(export, "SELECT start FROM CUPTI_ACTIVITY_KIND_KERNEL") == [(1100,)]
    assert rows(export, "SELECT start FROM CUPTI_ACTIVITY_KIND_RUNTIME ORDER BY start") == [
        (900,),
        (1250,),
        (1500,),
    ]
    texts = rows(
        export,
        "SELECT coalesce(e.text, s.value) FROM NVTX_EVENTS e "
        "LEFT JOIN StringIds s ON s.id = e.textId ORDER BY 1",
    )
    assert [text for (text,) in texts] == [
        "NCCL",  # the domain's name, though it was created before the window
        "across the edge",
        "file /home/someone/project/train.py",
        "inside",
        "lab:measured",
        "left open",
    ]
    assert names_of(export, "OSRT_API") == {"read"}


def test_the_window_spans_the_measured_ranges_of_all_processes(tmp_path: Path) -> None:
    path = e.make_export(
        tmp_path / "two.sqlite",
        kernels=[
            e.kernel(at, at + 1, pid=pid, correlation=at)
            for pid, at in ((100, 50), (100, 150), (200, 350), (200, 450))
        ],
        api=[e.call(149, 150, pid=200, correlation=150), e.call(9, 10, pid=100, correlation=150)],
        nvtx=[
            e.push_pop(100, 200, "lab:measured"),
            e.push_pop(300, 400, "lab:measured", pid=200, registered=True),
        ],
    )
    assert trim_export(path) == (100, 400)
    assert rows(path, "SELECT start FROM CUPTI_ACTIVITY_KIND_KERNEL") == [(150,), (350,)]
    kept = rows(
        path, "SELECT start, (globalTid >> 24) & 0xFFFFFF FROM CUPTI_ACTIVITY_KIND_RUNTIME ORDER BY start"
    )
    assert kept == [(9, 100), (149, 200)]  # the first launched a kept kernel, the second lies in the window


def test_a_call_of_another_process_with_the_same_correlation_is_not_kept(tmp_path: Path) -> None:
    path = e.make_export(
        tmp_path / "two.sqlite",
        kernels=[e.kernel(150, 151, pid=100, correlation=7)],
        api=[e.call(9, 10, pid=200, correlation=7)],
        nvtx=[e.push_pop(100, 200, "lab:measured")],
    )
    trim_export(path)
    assert rows(path, "SELECT * FROM CUPTI_ACTIVITY_KIND_RUNTIME") == []


def test_without_a_measured_range_nothing_is_trimmed(tmp_path: Path) -> None:
    path = fakes.private_export(tmp_path / "raw.sqlite", window=False)
    assert trim_export(path) is None
    assert len(rows(path, "SELECT * FROM CUPTI_ACTIVITY_KIND_KERNEL")) == 3


def test_call_stacks_nobody_refers_to_go_with_their_events(export: Path) -> None:
    with closing(sqlite3.connect(export)) as db:
        db.execute("CREATE TABLE OSRT_CALLCHAINS (id INTEGER, symbol INTEGER, stackDepth INTEGER)")
        db.execute("INSERT INTO OSRT_CALLCHAINS VALUES (0, 1, 0), (0, 2, 1), (5, 3, 0)")
        db.commit()
    trim_export(export)
    assert rows(export, "SELECT id, stackDepth FROM OSRT_CALLCHAINS") == [(0, 0), (0, 1)]


def test_nothing_private_survives_scrubbing(export: Path, tmp_path: Path) -> None:
    clean = tmp_path / "clean.sqlite"
    before = export.read_bytes()
    report = scrub_export(export, clean)
    assert export.read_bytes() == before
    assert set(report.dropped) == {
        "META_DATA_CAPTURE",
        "TARGET_INFO_SYSTEM_ENV",
        "ProcessStreams",
        "ANALYSIS_FILE",
        "SOMETHING_NEW",
    }
    data = clean.read_bytes()
    for secret in (
        fakes.HOST,
        "someone",
        "secret_daemon",
        "hunter2",
        "GPU-0000",
        "PATH=",
        "about another process",
    ):
        assert secret.encode() in before or secret == "PATH="
        assert secret.encode() not in data, secret
    assert privacy.find(scan.texts_of(clean), (fakes.HOST,)) == []
    assert privacy.find(scan.texts_of(export), (fakes.HOST,)) != []


def test_an_export_of_an_older_nsys_is_read_and_scrubbed(export: Path, tmp_path: Path) -> None:
    """Nsight Systems 2023.1 has another name for what an export says of itself."""
    with closing(sqlite3.connect(export)) as db:
        db.execute("ALTER TABLE META_DATA_EXPORT RENAME TO EXPORT_META_DATA")
    clean = scrub_file(export, tmp_path / "clean.sqlite")
    assert ("EXPORT_SCHEMA_VERSION", "3.20.3") in rows(clean, "SELECT * FROM EXPORT_META_DATA")
    assert not {"EXPORT_HOST", "EXPORT_USER"} & {
        row[0] for row in rows(clean, "SELECT * FROM EXPORT_META_DATA")
    }
    assert fakes.HOST.encode() not in clean.read_bytes()
    with open_report(export) as before, open_report(clean) as after:
        assert len(before.kernels()) == len(after.kernels()) > 0


def test_scrubbing_keeps_what_readers_need(export: Path, tmp_path: Path) -> None:
    clean = tmp_path / "clean.sqlite"
    report = scrub_export(export, clean)
    assert report.pids == (privacy.FIRST_PID,)
    assert rows(clean, "SELECT pid, name FROM PROCESSES") == [(privacy.FIRST_PID, "python3")]
    assert names_of(clean, "ThreadNames") == {"python3"}
    assert len(rows(clean, "SELECT * FROM PROFILER_OVERHEAD")) == 1
    assert rows(clean, "SELECT text FROM NVTX_EVENTS WHERE text LIKE 'file%'") == [("file train.py",)]
    assert rows(clean, "SELECT text FROM DIAGNOSTIC_EVENT WHERE severity = 2") == [
        ("Not all CUDA events were collected, see log.txt",)
    ]
    assert ("EXPORT_SCHEMA_VERSION", "3.20.3") in rows(clean, "SELECT * FROM META_DATA_EXPORT")
    kernels = (
        "SELECT d.value, k.* FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds d ON d.id = k.demangledName"
    )
    assert _without_pid(rows(clean, kernels)) == _without_pid(rows(export, kernels)) != []
    declared = "SELECT name, type, \"notnull\", pk FROM pragma_table_info('CUPTI_ACTIVITY_KIND_KERNEL')"
    assert rows(clean, declared) == rows(export, declared) != []


def _without_pid(found: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    return [tuple(value for value in row if not isinstance(value, int) or value < 1 << 40) for row in found]


def test_strings_that_a_declaration_or_a_payload_refers_to_are_kept(export: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(export)) as db:
        db.execute(
            "CREATE TABLE CUBLAS_EVENTS (start INTEGER,\n odd INTEGER -- REFERENCES StringIds(id) -- x\n)"
        )
        db.execute(
            "INSERT INTO StringIds VALUES (501, 'declared'), (502, 'in a payload'), (503, 'nobody needs it')"
        )
        db.execute("INSERT INTO CUBLAS_EVENTS VALUES (1200, 501)")
        db.execute(
            "UPDATE NVTX_EVENTS SET jsonText = ? WHERE text = 'inside'",
            ('{"Python Backtrace on CUDA": {"Frames": [{"Function": 502, "Line": 503}]}}',),
        )
        db.commit()
    clean = tmp_path / "clean.sqlite"
    scrub_export(export, clean)
    kept = {row[0] for row in rows(clean, "SELECT value FROM StringIds WHERE id > 500")}
    assert kept == {"declared", "in a payload"}


@pytest.mark.parametrize(
    ("text", "reduced"),
    [
        ("/home/me/project/train.py line 3", "train.py line 3"),
        ("--output=/tmp/run/a.sqlite", "--output=a.sqlite"),
        ("see /home/me", "see ~"),
        ("in /root and /home/x/y.txt", "in ~ and y.txt"),
        (r"C:\Users\me\train.py", "train.py"),
        ("~/code/train.py", "train.py"),
        ("step/forward/loss", "step/forward/loss"),
        ("a / b, 3/4, and/or", "a / b, 3/4, and/or"),
        ("https://example.org/a/b", "https://example.org/a/b"),
        ("void operator/(T, T) [with T = ns::a/b]", "void operator/(T, T) [with T = ns::a/b]"),
    ],
)
def test_absolute_paths_lose_their_folders(text: str, reduced: str) -> None:
    assert privacy.reduce(text) == reduced


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"\x00\x01/home/someone/x\x00", "an absolute path"),
        (b"...LD_LIBRARY_PATH=/usr/lib", "an environment variable"),
        (b"MY_API_KEY=abc123", "an environment variable"),
        (b"node ip-10-0-3-7 said", "a host name"),
        (b"gpu17.internal", "a host name"),
        (b"mail me@example.org now", "an e-mail address"),
        (b"GPU-1234abcd-12ab-12ab-12ab-123456789abc", "the id of a device"),
        (b"run on trillian-9 today", "the name of a host or user (trillian-9)"),
    ],
)
def test_private_things_are_found_in_bytes(data: bytes, what: str) -> None:
    assert any(
        found.startswith(what) for found in privacy.find(privacy.texts_of_bytes(data), ("trillian-9",))
    )


def test_ordinary_texts_are_not_taken_for_private() -> None:
    ordinary = b"clock_nanosleep@@GLIBC_2.17 cudaMemcpyAsync_v3020 a/b 2025.3.1.90 my-trillian-90 CATPATH x=y"
    assert privacy.find(privacy.texts_of_bytes(ordinary), ("trillian-9",)) == []


def test_scrub_file_writes_beside_its_input(export: Path) -> None:
    made = scrub_file(export)
    assert made.name == "raw.scrubbed.sqlite" and "META_DATA_CAPTURE" not in str(
        rows(made, "SELECT name FROM sqlite_master")
    )
    packed = export.with_name("other.sqlite.xz")
    compress(export, packed)
    made = scrub_file(packed, export.with_name("out.sqlite.xz"))
    assert b"hunter2" not in lzma.decompress(made.read_bytes())
    assert sorted(p.name for p in export.parent.iterdir()) == [
        "other.sqlite.xz",
        "out.sqlite.xz",
        "raw.scrubbed.sqlite",
        "raw.sqlite",
    ]


def test_scrub_file_names_bad_input(export: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"nothing\.sqlite: no such file"):
        scrub_file(tmp_path / "nothing.sqlite")
    other = tmp_path / "a.txt"
    other.write_text("x")
    with pytest.raises(InputError, match=r"a\.txt: cannot be scrubbed; give a \.sqlite"):
        scrub_file(other)
    with pytest.raises(InputError, match="is the input itself"):
        scrub_file(export, export)
    text = tmp_path / "text.sqlite"
    text.write_text("hello")
    with pytest.raises(InputError, match=r"text\.sqlite: not an SQLite file"):
        scrub_file(text)
    truncated = tmp_path / "truncated.sqlite"
    truncated.write_bytes(export.read_bytes()[: export.stat().st_size // 2])
    with pytest.raises(InputError, match=r"truncated\.sqlite: damaged or truncated SQLite file"):
        scrub_file(truncated)
    foreign = tmp_path / "foreign.sqlite"
    with closing(sqlite3.connect(foreign)) as db:
        db.execute("CREATE TABLE bookmarks (url TEXT)")
        db.commit()
    with pytest.raises(InputError, match=r"foreign\.sqlite: an SQLite file, but not an nsys export"):
        scrub_file(foreign)
    report = tmp_path / "a.nsys-rep"
    report.write_bytes(b"x")
    monkeypatch.setattr("labcode.capture.scrub.find_nsys", lambda: None)
    with pytest.raises(InputError, match="cannot be scrubbed in place: export it first"):
        scrub_file(report)
    assert not list(tmp_path.glob("*.scrubbed.*")) and not list(tmp_path.glob(".scrub-*"))


def test_a_private_thing_that_scrubbing_cannot_know_stops_it(tmp_path: Path) -> None:
    odd = """CREATE TABLE CUBLAS_EVENTS ("me@example.org" TEXT)"""  # the name of a column
    path = e.make_export(tmp_path / "raw.sqlite", extra_sql=[odd])
    with pytest.raises(InputError, match=r"something private is left after scrubbing.*me@example\.org"):
        scrub_file(path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["raw.sqlite"]


def test_of_a_declaration_only_columns_are_copied(export: Path, tmp_path: Path) -> None:
    secret = "CHECK (odd <> 'hunter22')"
    with closing(sqlite3.connect(export)) as db:
        db.execute(
            f"CREATE TABLE CUBLAS_EVENTS (a INTEGER, odd TEXT DEFAULT 'hunter22' {secret}, -- hunter22\n"
            "b INTEGER GENERATED ALWAYS AS (a + 1), c BLOB_OF_HUNTER22 NOT NULL, PRIMARY KEY (a, odd))"
        )
        db.execute("INSERT INTO CUBLAS_EVENTS (a, odd, c) VALUES (1, 'x', 2)")
        db.execute("CREATE TRIGGER hunter22 AFTER INSERT ON CUBLAS_EVENTS BEGIN SELECT 1; END")
        db.execute("CREATE INDEX other ON CUBLAS_EVENTS (odd) WHERE odd <> 'hunter22'")
        db.commit()
    clean = tmp_path / "clean.sqlite"
    scrub_export(export, clean)
    assert rows(clean, "SELECT * FROM CUBLAS_EVENTS") == [(1, "x", 2)]
    assert rows(clean, "SELECT sql FROM sqlite_master WHERE name = 'CUBLAS_EVENTS'") == [
        ('CREATE TABLE "CUBLAS_EVENTS" ("a" INTEGER, "odd" TEXT, "c" NOT NULL, PRIMARY KEY ("a", "odd"))',)
    ]
    assert b"unter22" not in clean.read_bytes() and rows(clean, "PRAGMA integrity_check") == [("ok",)]


def test_a_condition_of_a_table_is_never_computed(export: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(export)) as db:
        db.execute("CREATE TABLE CUBLAS_EVENTS (a INTEGER, CHECK (length(randomblob(a)) > 0))")
        db.execute("PRAGMA ignore_check_constraints = ON")
        db.executemany("INSERT INTO CUBLAS_EVENTS VALUES (?)", [(900_000_000,)] * 50)
        db.commit()
    began = time.process_time()
    scrub_export(export, tmp_path / "clean.sqlite")
    assert time.process_time() - began < 5
    assert rows(tmp_path / "clean.sqlite", "SELECT count(*) FROM CUBLAS_EVENTS") == [(50,)]


def test_a_virtual_table_is_refused(export: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(export)) as db:
        db.execute("CREATE VIRTUAL TABLE CUBLAS_EVENTS USING fts5(text)")
        db.commit()
    with pytest.raises(InputError, match=r"raw\.sqlite: CUBLAS_EVENTS is a virtual table, which no"):
        scrub_file(export)
    assert [path.name for path in tmp_path.iterdir()] == ["raw.sqlite"]


def test_pids_that_are_no_integers_are_blanked_and_odd_texts_are_read(tmp_path: Path) -> None:
    raw = e.make_export(tmp_path / "raw.sqlite", kernels=[e.kernel(50, 140)])
    with closing(sqlite3.connect(raw)) as db:
        db.execute("CREATE TABLE NCCL_X (start INTEGER, pid TEXT, label INTEGER)")
        db.execute("INSERT INTO NCCL_X VALUES (1, '4711', '/home/me/x')")
        db.commit()
    assert rows(scrub_file(raw), "SELECT * FROM NCCL_X") == [(1, None, "x")]
    with closing(sqlite3.connect(raw)) as db:  # no UTF-8
        db.execute("UPDATE NCCL_X SET label = CAST(x'20ff202f686f6d652f6d652f79' AS TEXT)")
        db.commit()
    assert "/home/me/y" in str(privacy.find(scan.texts_of(raw)))
    with pytest.raises(InputError, match="cannot be scrubbed"):
        scrub_file(raw)


def test_any_name_of_a_table_is_read_and_too_many_names_are_refused(export: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(export)) as db:
        db.execute("""CREATE TABLE "odd "" 'name" (name TEXT, value TEXT)""")
        db.execute("""INSERT INTO "odd "" 'name" VALUES ('x', '/home/somebody/y')""")
        db.commit()
    assert '"x": "/home/somebody/y"' in scan.sqlite_texts(export)
    assert "odd" not in str(rows(scrub_file(export), "SELECT sql FROM sqlite_master"))
    with closing(sqlite3.connect(export)) as db:
        stated = ((1_000_000 + number, f"USER=person{number}") for number in range(100_000))
        db.executemany("INSERT INTO StringIds VALUES (?, ?)", stated)
        db.commit()
    with pytest.raises(
        InputError, match=r"raw\.sqlite: states 100,0\d\d names of hosts and users, more than"
    ):
        scrub_file(export)
