"""Trimming and scrubbing of call stacks, samples, context switches and Python stacks."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from labcode.capture import privacy, scan
from labcode.capture.scrub import UNRESOLVED, scrub_export
from labcode.capture.trim import trim_export
from labcode.record import nsys
from labcode.store import repository_root
from labcode.tools import ToolResult
from tests.support import exports as e
from tests.support import stacks as s

SITE = "/opt/env/lib/python3.12/site-packages/torch/nn/modules/module.py"


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute(query).fetchall()


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """Thread 100 of process 100 with everything; the profiler's thread 101; a strange process 7."""
    own = repository_root() / "labcode" / "workloads" / "shared" / "common.py"
    frames = [("forward", SITE, 12), ("&lt;module&gt;", str(own), 7)]
    return e.make_export(
        tmp_path / "raw.sqlite",
        nvtx=[e.push_pop(1_000, 2_000, "lab:measured"), e.push_pop(1_100, 1_200, "step")],
        threads=[e.thread(100, 100, "python3"), e.thread(100, 101, "NSys PySampling")],
        processes=[e.process(100, "python3"), e.process(7, "secret_daemon")],
        extra_sql=[
            *s.cpu_samples([(500, ["early"]), (1_500, ["leaf", "0x7f00ab", "0x7f00cd", "main"])]),
            *s.cpu_samples([(1_500, ["poll_samples"])], tid=101, first=10),
            *s.cpu_samples([(1_500, ["of_a_stranger"])], pid=7, tid=7, first=20),
            *s.switches([(100, True), (900, False), (1_400, True), (2_600, False), (2_700, True)]),
            *s.switches([(1_500, True)], tid=101),
            *s.switches([(1_500, True)], pid=7, tid=7),
            *s.switches([(1_600, False)], pid=200, tid=200),  # a forked worker: no process of that number
            *s.python_stacks([(400, [("start_up", SITE, 1)]), (1_300, frames)]),
            *s.payload(1_310, {"NCCL payload": {"bytes": 12}}),
        ],
    )


def test_samples_and_switches_of_the_window_stay_and_those_at_its_edges(export: Path) -> None:
    assert trim_export(export) == (1_000, 2_000)
    assert rows(export, "SELECT start, globalTid & 0xFFFFFF FROM COMPOSITE_EVENTS") == [(1_500, 100)]
    kept = rows(export, "SELECT start, globalTid & 0xFFFFFF FROM SCHED_EVENTS ORDER BY start")
    assert kept == [(900, 100), (1_400, 100), (1_600, 200), (2_600, 100)]
    assert rows(export, "SELECT DISTINCT id FROM SAMPLING_CALLCHAINS") == [(2,)]
    assert rows(export, "SELECT start FROM NVTX_EVENTS WHERE eventType = 34") == [(1_300,), (1_310,)]


def test_a_process_of_the_same_program_belongs_to_the_run(tmp_path: Path) -> None:
    path = e.make_export(
        tmp_path / "raw.sqlite",
        nvtx=[e.push_pop(0, 10, "lab:measured")],
        processes=[e.process(100, "python3"), e.process(300, "python3")],
        extra_sql=s.switches([(5, True)], pid=300, tid=300),
    )
    trim_export(path)
    assert rows(path, "SELECT start FROM SCHED_EVENTS") == [(5,)]


def test_scrubbed_stacks_keep_their_places_and_lose_addresses(export: Path, tmp_path: Path) -> None:
    trim_export(export)
    clean = tmp_path / "clean.sqlite"
    scrub_export(export, clean)
    stack = rows(
        clean,
        "SELECT f.value, m.value, c.originalIP FROM SAMPLING_CALLCHAINS c "
        "JOIN StringIds f ON f.id = c.symbol JOIN StringIds m ON m.id = c.module ORDER BY stackDepth",
    )
    assert stack == [(f, "libwork.so", None) for f in ("leaf", UNRESOLVED, UNRESOLVED, "main")]
    assert rows(clean, "SELECT count(*) FROM sqlite_master WHERE type = 'index'") == [(0,)]
    texts = dict(rows(clean, "SELECT id, value FROM StringIds"))
    ((content,),) = rows(clean, "SELECT jsonText FROM NVTX_EVENTS WHERE jsonText IS NOT NULL")
    found = [
        (texts[f["Function"]], texts[f["File"]], f["Line"])
        for f in json.loads(str(content))["Python Periodic Sampling"]["Frames"]
    ]
    assert found == [
        ("forward", "site-packages/torch/nn/modules/module.py", 12),
        ("&lt;module&gt;", "labcode/workloads/shared/common.py", 7),
    ]
    assert "start_up" not in texts.values() and "0x7f00ab" not in texts.values()
    assert rows(clean, "SELECT name FROM PROCESSES") == [("python3",)]
    assert privacy.find(scan.texts_of(clean)) == []


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("/srv/venv/lib/python3.12/site-packages/torch/a.py", "site-packages/torch/a.py"),
        ("/usr/lib/python3/dist-packages/yaml/b.py", "dist-packages/yaml/b.py"),
        ("/usr/lib/python3.12/threading.py", "lib/python3.12/threading.py"),
        ("/home/me/lab/labcode/workloads/models/loaders.py", "labcode/workloads/models/loaders.py"),
        ("/usr/lib/x86_64-linux-gnu/libc.so.6", "libc.so.6"),
        ("/home/me/train.py", "train.py"),
        ("/srv/lab/tests/x.py", "tests/x.py"),
        ("/srv/laboratory/x.py", "x.py"),
        ("&lt;frozen importlib._bootstrap&gt;", "&lt;frozen importlib._bootstrap&gt;"),
        ("saved to /home/me/x.bin, /tmp/y", "saved to x.bin, y"),
        ("void f(a/b)", "void f(a/b)"),
    ],
)
def test_files_of_stacks_keep_their_place_in_what_is_public(path: str, kept: str) -> None:
    assert privacy.reduce_file(path, Path("/srv/lab")) == kept


def test_an_older_nsys_exports_without_payloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def run(argv: list[object], limit_s: float, **options: object) -> ToolResult:
        words = [str(word) for word in argv]
        calls.append(words)
        if "--include-json=true" in words:
            return ToolResult(1, "", "unrecognised option '--include-blobs=true'\n\nusage: nsys export", 0.1)
        Path(next(w for w in words if w.startswith("--output=")).removeprefix("--output=")).touch()
        return ToolResult(0, "", "", 0.1)

    monkeypatch.setattr(nsys, "run_tool", run)
    nsys.export(Path("nsys"), tmp_path / "a.nsys-rep", tmp_path / "a.sqlite")
    assert len(calls) == 2 and "--include-blobs=true" not in calls[1]
