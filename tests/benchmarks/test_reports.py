"""The benchmark of the reports: what it measures, when it says that two outputs are the same."""

import contextlib
import io
import json
import math
import sqlite3
import sys
from pathlib import Path

import pytest

from benchmarks import reports
from labcode.errors import LabError, ToolError
from labcode.experiments.lab.report_speed import side_by_side
from labcode.experiments.lab.report_speed.big_export import make_big_export
from labcode.reports.nsys.report import open_report

pytestmark = pytest.mark.usefixtures("wide")


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")


def run(tmp_path: Path, **options: object) -> tuple[int, str]:
    stream = io.StringIO()
    usual: dict[str, object] = {
        "file": None, "ops": 400, "mix": "training", "nsys": None, "repetitions": 1,
        "only": ["cuda_gpu_kern_sum"], "json_file": tmp_path / "b.json",
    }  # fmt: skip
    with contextlib.redirect_stdout(stream):
        code = reports.main(**{**usual, **options})  # type: ignore[arg-type]
    return code, stream.getvalue()


def fake_nsys(folder: Path, text: str) -> Path:
    path = folder / "nsys"
    path.write_text(f"#!/bin/sh\necho 'Processing [x] with [y]... '\ncat <<'E'\n{text}\nE\n")
    path.chmod(0o755)
    return path


@pytest.mark.usefixtures("compiled_at_hand")
def test_without_nsys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labcode.tools.find_nsys", lambda: None)
    code, text = run(tmp_path)
    assert code == 0
    assert "nsys not found: only labcode's times" in text
    assert "cuda_gpu_kern_sum" in text
    row = json.loads((tmp_path / "b.json").read_text())["reports"][0]
    assert row["nsys"] is None and row["labcode"]["wall_s"][0] > 0
    assert 1 << 20 < row["labcode"]["peak_bytes"] < 1 << 30


@pytest.mark.usefixtures("compiled_at_hand")
def test_an_output_that_differs_is_named(tmp_path: Path) -> None:
    file = make_big_export(tmp_path / "a.sqlite", 400)
    code, text = run(tmp_path, file=file, nsys=fake_nsys(tmp_path, "Time (%),Name\n100.0,k"))
    assert code == 1
    assert "NO" in text and "lines here, 2 of nsys" in text


@pytest.mark.usefixtures("compiled_at_hand")
def test_reports_without_time_or_luck_are_named_and_the_others_measured(tmp_path: Path) -> None:
    file = make_big_export(tmp_path / "a.sqlite", 400)
    two = ["osrt_sum", "cuda_gpu_kern_sum"]
    code, text = run(tmp_path, file=file, nsys=fake_nsys(tmp_path, "Time (%)"), only=two, limit_s=1e-3)
    assert code == 1
    assert all(f"{name}: no time was left" in text for name in two)
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\ncase $* in *osrt*) echo bad >&2; exit 3;; esac\necho 'Time (%)'\n")
    broken.chmod(0o755)
    code, text = run(tmp_path, file=file, nsys=broken, only=two, streams=2)
    record = json.loads((tmp_path / "b.json").read_text())
    assert code == 1
    assert [row["report"] for row in record["reports"]] == ["cuda_gpu_kern_sum"]
    assert "ended with exit code 3 (bad)" in record["missing"]["osrt_sum"]


def test_without_names_those_reports_are_asked_that_have_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def noted(_: Path, names: list[str], *others: object, **options: object) -> None:
        asked.extend(names)
        raise ToolError("enough")

    monkeypatch.setattr(reports, "side_by_side", noted)
    with pytest.raises(ToolError, match="enough"):
        run(tmp_path, only=[])
    assert {"nvtx_sum", "osrt_sum"} < set(asked) and not {"mpi_event_sum", "um_sum"} & set(asked)


def test_a_command_that_fails(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"ended with exit code 3 \(no luck\)"):
        side_by_side.measure(
            [sys.executable, "-c", "import sys; print('no luck', file=sys.stderr); sys.exit(3)"],
            tmp_path / "out",
        )


def test_the_memory_of_the_measured_command_alone(tmp_path: Path) -> None:
    held = bytearray(200 << 20)
    _, _, peak = side_by_side.measure(
        [sys.executable, "-I", "-S", "-c", "x = bytearray(40 << 20)"], tmp_path / "out"
    )
    assert 40 << 20 < peak < 120 << 20
    assert len(held) == 200 << 20


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nsys": Path("absent")}, "absent: no such file"),
        ({"file": Path("absent.sqlite"), "nsys": None}, "absent.sqlite: no such file"),
        ({"only": ["bogus"]}, "'bogus' is not a report"),
        ({"repetitions": 0}, "counted from 1"),
        ({"streams": 0}, "counted from 1"),
        *(({"limit_s": limit}, "--limit .*: more than 0") for limit in (math.nan, math.inf, -1.0)),
        ({"mix": "sour"}, "'sour' is not a mix"),
    ],
)
def test_bad_use(tmp_path: Path, options: dict[str, object], message: str) -> None:
    with pytest.raises(LabError, match=message):
        run(tmp_path, **options)


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object, **options: object) -> Path:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(reports, "make_big_export", full)
    with pytest.raises(LabError, match="database or disk is full; free some space or set TMPDIR"):
        run(tmp_path)


def test_what_counts_as_the_same() -> None:
    difference = side_by_side.difference
    ours = 'Avg (ns),Range\n1.5,:step\n2.0,"lab:a, b"\n'
    assert difference(ours, '\nAvg (ns),Range\n1.5,:step\n2.0,"lab:a, b"\n', exact=True) == ("", 3, 0)
    older = '\nAvg (ns),Range\n2.0,"lab:a, b"\n1.6,step\n'
    assert difference(ours, older, exact=False) == ("", 3, 0)
    first, lines, different = difference(ours, older, exact=True)
    assert ("ours '1.5,:step'" in first, lines, different) == (True, 3, 2)
    assert difference(ours, older.replace("1.6", "1.7"), exact=False)[1:] == (3, 1)
    assert difference(ours, older.replace("step", "stop"), exact=False)[1:] == (3, 1)
    assert difference(ours, ours + "3.0,c\n", exact=True) == ("3 lines here, 4 of nsys", 3, 3)
    assert difference('A\n"x ""q"", y"\n', 'A\n"x "q", y"\n', exact=True) == ("", 2, 0)
    assert difference("A,B\n", "", exact=True) == ("", 1, 0)


@pytest.mark.usefixtures("compiled_at_hand")
@pytest.mark.usefixtures("compiled_at_hand")
def test_some_come_last(tmp_path: Path) -> None:
    file = make_big_export(tmp_path / "a.sqlite", 400)
    names = ["cuda_api_sum", "cuda_gpu_kern_sum", "cuda_gpu_mem_size_sum"]
    said: list[str] = []
    outcome = side_by_side.side_by_side(
        file, names, None, tmp_path, repetitions=1, streams=2, last=names[:1], say=said.append
    )
    assert said[-1] == outcome.reports[-1].report == "cuda_api_sum"
    assert sorted(row.report for row in outcome.reports) == names
    assert outcome.record["last"] == ["cuda_api_sum"]
    assert all(row.lines > 1 and row.different_lines is None for row in outcome.reports)


@pytest.mark.parametrize("mix", ["training", "dense"])
def test_the_made_up_export(tmp_path: Path, mix: str) -> None:
    path = make_big_export(tmp_path / "a.sqlite", 4000, mix=mix)
    assert path.read_bytes() == make_big_export(tmp_path / "b.sqlite", 4000, mix=mix).read_bytes()
    with open_report(path) as report:
        ops, nvtx = report.gpu_ops(), report.nvtx()
        assert len(ops) == 4000
        assert (len(nvtx) > 4000) == (mix == "dense")
        assert report.warnings == ()
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    db.close()


def test_a_dense_export_has_half_as_many_rows_of_each_kind_as_operations(tmp_path: Path) -> None:
    path = make_big_export(tmp_path / "a.sqlite", 4000, mix="dense")
    kinds = {
        "kernels": ["CUPTI_ACTIVITY_KIND_KERNEL"],
        "copies and memsets": ["CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET"],
        "calls of CUDA": ["CUPTI_ACTIVITY_KIND_RUNTIME"],
        "calls of the OS": ["OSRT_API"],
        "push/pop ranges": ["NVTX_EVENTS WHERE eventType = 59"],
        "start/end ranges": ["NVTX_EVENTS WHERE eventType = 60"],
    }
    with sqlite3.connect(path) as db:
        counts = {
            kind: sum(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables)
            for kind, tables in kinds.items()
        }
        ties = db.execute(
            "SELECT count(*) - count(DISTINCT start) FROM CUPTI_ACTIVITY_KIND_KERNEL"
        ).fetchone()
    db.close()
    assert min(counts.values()) >= 2000, counts
    assert ties[0] > 0


def test_starts_are_measured_with_compiled_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    words = [sys.executable, "-c", "import json.tool, sys; print(sys.dont_write_bytecode)"]
    side_by_side.measure(words, tmp_path / "out", tmp_path)
    assert (tmp_path / "out").read_text() == "False\n"
    assert any((tmp_path / "compiled").rglob("*.pyc"))
    code, text = run(tmp_path, nsys=fake_nsys(tmp_path, "Time (%),Name\n100.0,k"))
    assert code == 1
    starts = json.loads((tmp_path / "b.json").read_text())["starts"]
    assert list(starts) == [
        "labcode --help",
        "labcode stats of 1,000 operations",
        "nsys stats of 1,000 operations",
    ]
    assert all(f"start: {words}" in text for words in starts)
