"""What the campaign found that deserves a case of its own."""

import gzip
import importlib
import io
import itertools
import json
import lzma
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from labcode import reports, store
from labcode.analysis.ledger.ledger import MOST_GPUS
from labcode.analysis.lm import parts as lm_parts
from labcode.analysis.ranks import heatmap
from labcode.analysis.ranks import run as runs
from labcode.analysis.ranks.lane import lanes_of
from labcode.analysis.ranks.run import open_run
from labcode.analysis.stats.table import Table, Texts
from labcode.analysis.stats.writer import write
from labcode.analysis.timeline import critical_path
from labcode.capture import archive
from labcode.capture.scan import json_texts
from labcode.errors import InputError, LabError
from labcode.grading import predictions
from labcode.grading.sheet import Sheet
from labcode.hardware import management
from labcode.reports.kineto import text as trace_text
from labcode.reports.nsys import source
from labcode.show import one_line as one_line_of
from labcode.show.terminal import console
from tests.hostile import sizes
from tests.support import exports, histories, ranks
from tests.support import ncu as golden
from tests.support.command import labcode, one_line
from tests.support.programs import python_program


def test_what_is_scrubbed_keeps_a_name_that_tells_its_kind(tmp_path: Path) -> None:
    history = histories.write(tmp_path, histories.leaking())
    for file, ends in ((golden.path("few.ncu-rep"), ".ncu-rep"), (history, ".memory.json")):
        refused = one_line(labcode("scrub", file, "-o", tmp_path / "a", "--review"))
        assert f"name a file that ends in {ends}" in refused


def test_hundreds_of_gpus_are_told_and_the_busiest_judged(tmp_path: Path) -> None:
    count = MOST_GPUS + 6
    export = exports.make_export(
        tmp_path / "run.sqlite",
        kernels=[exports.kernel(100 + 10 * k, 105 + 10 * k, correlation=k, device=k) for k in range(count)],
        api=[exports.call(10 * k, 10 * k + 5, correlation=k) for k in range(count)],
    )
    shown = labcode("diagnose", export).stdout
    assert f"{count} GPUs, of which the {MOST_GPUS} busiest are judged" in shown


def test_a_run_of_a_few_nanoseconds_has_a_balance(tmp_path: Path) -> None:
    for rank in range(2):
        exports.make_export(tmp_path / f"run.rank{rank}.sqlite", kernels=[exports.kernel(100, 108)])
    with open_run(tmp_path, scheduler="here") as run:
        assert len(heatmap.balance(run)) > 0


def test_json_that_would_become_far_more_than_it_is() -> None:
    with pytest.raises(ValueError, match=r"20,000,000 values, which would take"):
        json_texts(b"[" + b"[]," * 20_000_000 + b"[]]")


def test_a_tool_that_prints_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python_program(tmp_path / "nvidia-smi", "print('y\\n' * 100_000)")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setitem(__import__("sys").modules, "pynvml", None)
    assert management.read().problem == "nvidia-smi printed 100,000 lines; is it NVIDIA's?"


@pytest.mark.parametrize("line", ["9" * 100_000, "a, b, " + "9" * 400], ids=["name", "number"])
def test_a_tool_that_prints_endless_digits(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python_program(tmp_path / "nvidia-smi", f"print({line!r})")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setitem(__import__("sys").modules, "pynvml", None)
    found = management.read()
    assert (len(str(found)) < 3_000 and found.gpus == ()) or found.gpus[0].memory_bytes is None


def test_ranges_nested_without_end_have_paths_that_end(tmp_path: Path) -> None:
    depth = 4_000
    export = exports.make_export(
        tmp_path / "run.sqlite",
        kernels=[exports.kernel(depth + 20, depth + 30, correlation=1)],
        api=[exports.call(depth + 1, depth + 2, correlation=1)],
        nvtx=[exports.push_pop(k, 3 * depth - k, f"r{k}") for k in range(depth)],
    )
    with reports.open_timeline(export, "stats") as report:
        path = str(lm_parts.operations(report)["path"].iloc[0])
    assert path.startswith("r0/r1/") and len(path) < 3_000


def test_json_of_rows_of_which_some_have_no_name() -> None:
    table: Table = {"Start": np.arange(3), "Name": Texts(np.array([0, -1, 1]), ["a", "b"])}
    shown = io.StringIO()
    write(table, "json", shown)
    assert [row["Name"] for row in json.loads(shown.getvalue())] == ["a", "", "b"]


def test_a_line_on_what_is_wrong_ends(tmp_path: Path) -> None:
    export = exports.make_export(tmp_path / "run.sqlite", kernels=[exports.kernel(100, 108)])
    said = one_line(labcode("stats", export, "--report", "x" * 50_000))
    assert len(said) < 4_100
    assert "labcode: " in said and " … " in said


@pytest.mark.parametrize("command", ("stats", "scrub"))
def test_a_report_of_holes_is_not_read(tmp_path: Path, command: str) -> None:
    report = tmp_path / "run.nsys-rep"
    with report.open("wb") as out:
        out.write(b"NVIDIA Tegra Profiler Report")
        out.truncate(60 << 30)
    said = one_line(labcode(command, report))
    assert "60 GiB, more than the 8 GiB that are read" in said and "--limit 61" in said
    said = one_line(labcode("--limit", "0.001", command, report))
    assert "more than the 0.001 GiB" in said


@pytest.mark.parametrize("name", ("run.trace.json", "run.trace.json.gz"))
def test_a_trace_that_would_not_fit_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(trace_text, "_LARGEST", 1 << 20)
    text = b'{"schemaVersion": 1, "traceEvents": [' + b" " * (3 << 19) + b"]}"
    trace = tmp_path / name
    trace.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    with pytest.raises(InputError, match=r"more than the 0\.000977 GiB that are read.*--limit"):
        reports.open_timeline(trace, "stats")
    monkeypatch.setenv("LABCODE_LIMIT", "1")
    reports.open_timeline(trace, "stats").close()


def test_too_little_memory_is_said_in_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def greedy(_: str) -> None:
        raise MemoryError

    entry = importlib.import_module("labcode.cli.main")
    monkeypatch.setattr(entry, "program", greedy)
    with pytest.raises(SystemExit) as ended:
        entry.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("labcode: it takes more memory than there is")


def test_blanks_between_events_are_passed_over(tmp_path: Path) -> None:
    trace = tmp_path / "run.trace.json"
    event = b'{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 5}'
    blanks = b" " * (9 << 20)  # more than a block
    trace.write_bytes(b'{"traceEvents": [' + blanks + event + blanks + b"," + blanks + event + blanks + b"]}")
    with reports.open_timeline(trace, "stats") as report:
        assert len(report.kernels()) == 2 and not report.warnings[1:]


def test_of_too_many_ranks_a_sample_is_read_and_all_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "made").mkdir()
    made = ranks.rank(tmp_path / "made", 0)
    for number in range(12):
        (tmp_path / f"run.rank{number}.sqlite").hardlink_to(made)
    made.unlink()
    made.parent.rmdir()
    monkeypatch.setattr(runs, "READ_WHOLE", 10)
    monkeypatch.setattr(runs, "SAMPLE", 3)
    with open_run(tmp_path, scheduler="here") as run:
        read = sorted(map(int, run.ranks))
        assert [number // 4 for number in read] == list(range(3))  # one of each four neighbors
        assert run.counted == "3 ranks of 12 reports" and run.missing == ()
        assert "12 reports, of which 3 are read, drawn evenly" in run.notes[0]
    unread = min(set(range(1, 11)) - set(read))
    (tmp_path / f"run.rank{unread}.sqlite").unlink()
    with open_run(tmp_path, scheduler="here") as run:
        assert run.missing == (unread,)
    assert len(runs.Run(tmp_path, "nsys", tuple(tmp_path.iterdir()), "tcp://x:1").read) == 11


@pytest.mark.parametrize("start_up_ns", (0, 90_000_000))
def test_of_many_ranks_a_few_tell_whether_iterations_are_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start_up_ns: int
) -> None:
    for number in range(7):
        path = ranks.rank(tmp_path, number)
        with closing(sqlite3.connect(path)) as db:
            first = "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = start - ?, end = end - ? WHERE rowid = 1"
            assert db.execute(first, (start_up_ns,) * 2).rowcount == 1
            db.commit()
    with open_run(tmp_path, scheduler="here") as run:
        each = [(lane.rank, lane.file, lane.begin_ns, lane.end_ns, lane.apart) for lane in run.lanes]
        assert not any("were not looked for" in line for line in run.notes)
    assert {one[-1] for one in each} == {bool(start_up_ns)}
    monkeypatch.setattr(runs, "JUDGED", 2)
    with open_run(tmp_path, scheduler="here") as run:
        same = [(lane.rank, lane.file, lane.begin_ns, lane.end_ns, lane.apart) for lane in run.lanes]
        told = "none of 2 reports, drawn evenly, is mostly something else than its iterations"
        assert any(told in line for line in run.notes) == (not start_up_ns)
    assert same == each


def test_one_bomb_among_ranks_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    for number in range(2):
        ranks.rank(tmp_path, number)
    bomb = tmp_path / "run.rank2.sqlite.xz"
    bomb.write_bytes(lzma.compress(bytes(1 << 22), preset=0))
    said = labcode("--limit", "0.001", "diagnose", tmp_path)
    assert "run.rank2.sqlite.xz: left out: unpacks to more than 0.001 GiB" in said.stderr
    assert said.returncode == 0 and "Traceback" not in said.stderr


def test_what_is_refused_once_it_is_unpacked_leaves_nothing_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LABCODE_CACHE", str(tmp_path / "cache"))
    for name, begins in (("a.sqlite.xz", b"SQLite format 3\0"), ("a.ncu-rep.xz", b"NVR\0")):
        packed = tmp_path / name
        packed.write_bytes(lzma.compress(begins + bytes(1 << 16), preset=0))
        with pytest.raises(InputError):
            reports.open(packed)
    assert [path for path in store.cache_folder().rglob("*") if path.is_file()] == []


def test_operations_without_length_do_not_wait_for_each_other_in_a_circle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of them end where they begin, on one stream: the first would wait for the second."""
    whole, count = critical_path._Rank._walk, itertools.count()

    def walk(self: critical_path._Rank) -> Iterator[critical_path._Leg]:
        return itertools.takewhile(lambda leg: next(count) < 50, whole(self))

    monkeypatch.setattr(critical_path._Rank, "_walk", walk)
    export = exports.make_export(
        tmp_path / "run.sqlite",
        kernels=[
            *(exports.kernel(50_000, 50_000, name, correlation=n) for n, name in ((91, "a"), (92, "b"))),
            exports.kernel(70_000, 80_000, "c", correlation=93),
            exports.kernel(10_000, 20_000, "d", stream=8, correlation=94),
        ],
        api=[exports.call(0, 5, correlation=1)],
    )
    with reports.open_timeline(export, "stats") as report:
        (found,) = critical_path.paths(report)
    assert found["name"].iloc[-1] == "c" and next(count) < 20


def test_endless_names_are_shortened_and_told_apart(tmp_path: Path) -> None:
    names = ["x" * 70_000 + end for end in "ab"]
    export = exports.make_export(
        tmp_path / "run.sqlite", kernels=[exports.kernel(100 * k, 100 * k + 50, names[k]) for k in range(2)]
    )
    with reports.open_timeline(export, "stats") as report:
        kept = report.kernels()["name"].tolist()
    assert len(set(kept)) == 2 and all(len(one) < 66_000 and "… (70,001 characters, " in one for one in kept)
    assert one_line_of(kept[0]).endswith("x… (70,001 characters)")


def test_of_too_many_names_the_most_frequent_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "MOST_NAMES", 2)
    names = ["a", "b", "c", "b", "d", "d"]
    export = exports.make_export(
        tmp_path / "run.sqlite",
        kernels=[exports.kernel(100 * k, 100 * k + 50, name) for k, name in enumerate(names)],
    )
    with reports.open_timeline(export, "stats") as report:
        assert report.kernels()["name"].tolist() == [
            "(2 more names)" if name in "ac" else name for name in names
        ]
        assert any("the 2 of most kernels are told apart" in line for line in report.warnings)


def test_a_page_on_very_many_gpus_tells_their_mean_and_the_most_idle(tmp_path: Path) -> None:
    count = MOST_GPUS + 1
    export = exports.make_export(
        tmp_path / "run.sqlite",
        kernels=[exports.kernel(0, 1_000 + 10 * k, correlation=k, device=k) for k in range(count)],
        api=[exports.call(0, 5, correlation=k) for k in range(count)],
    )
    shown = labcode("report", export, "-f", "md").stdout
    assert f"{count} GPUs, on average:" in shown and "GPU 0:" in shown and "GPU 40:" not in shown


def test_csv_without_rows_has_its_header(tmp_path: Path) -> None:
    kernels = [exports.kernel(100, 108), exports.kernel(8_000_000, 8_000_100)]
    export = exports.make_export(tmp_path / "run.sqlite", kernels=kernels)
    said = labcode("stats", "-r", "cuda_gpu_kern_sum", "-f", "csv", "--window", "5ms..6ms", export)
    assert said.stdout.startswith("Time (%),Total Time (ns),Instances,") and said.stdout.count("\n") == 1


@pytest.mark.parametrize("columns", ["100000000", "80"])
def test_no_terminal_is_wider_than_tables_are_drawn_for(
    columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert console().width == min(int(columns), 1_000)


def test_an_archive_of_folders_without_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "_MOST_MEMBERS", 20)
    with pytest.raises(InputError, match="more than 20 files and folders"):
        archive.add([sizes.members(tmp_path, 1_000)])


@pytest.mark.parametrize("value", ["1" * 5_000, "0x" + "f" * 5_000, "[1, 99999999999999999999]", "[" * 9_000])
def test_a_sheet_of_what_is_hardly_toml_fails_and_says_so(value: str) -> None:
    sheet = Sheet("QUESTIONS = ()\nanswers = None", Path("a.py"))
    _, _, wrong = sheet.read(f"a = {value}")
    assert len(wrong) == 1 and wrong[0].startswith("not a TOML file: ")


def test_predictions_of_endless_numbers_or_of_a_pipe_are_refused(tmp_path: Path) -> None:
    one = {"id": "p", "page": "p", "title": "t", "question": "q", "predicted": 10**400, "sure_percent": 50}
    one |= {"at": "", "measured": 2.0, "unit": "ms", "machine": "", "right": False}
    one |= {"predicted_by_measured": None, "score": None}
    told = tmp_path / "p.json"
    told.write_text(json.dumps({"kind": predictions.KIND, "schema": 1, "predictions": [one]}))
    with pytest.raises(LabError, match="predicted should be"):
        predictions.read(told)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="a pipe, not a file"):
        predictions.read(tmp_path / "pipe")


def test_a_rank_whose_name_is_no_text_is_told_as_text(tmp_path: Path) -> None:
    ranks.rank(tmp_path, 0).rename(tmp_path / os.fsdecode(b"run.rank0\xff.sqlite"))
    (lane,) = lanes_of(next(tmp_path.iterdir()))
    assert lane.file == r"run.rank0\xff.sqlite"


def test_a_table_whose_name_is_no_text_is_said_in_a_line(tmp_path: Path) -> None:
    export = exports.make_export(tmp_path / "run.sqlite", kernels=[exports.kernel(100, 108)])
    with closing(sqlite3.connect(export)) as db:
        db.execute("PRAGMA writable_schema = ON")
        odd = "UPDATE sqlite_master SET name = CAST(x'ff41' AS TEXT) WHERE name = 'StringIds'"
        assert db.execute(odd).rowcount == 1
        db.commit()
    for command in ("scrub", "stats"):
        assert "damaged" in one_line(labcode(command, export))


def test_an_export_that_is_emptied_while_it_is_read_is_told_as_damaged(tmp_path: Path) -> None:
    export = exports.make_export(tmp_path / "run.sqlite", kernels=[exports.kernel(100, 108)])
    with reports.open_timeline(export, "stats") as report:
        os.truncate(export, 0)
        with pytest.raises(InputError, match=r"damaged|cannot be read|cut off"):
            report.kernels()
