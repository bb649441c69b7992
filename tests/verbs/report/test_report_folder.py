"""A page on a folder with a report for each rank: what is told of all first, then one rank's page."""

import gzip
import json
from pathlib import Path

import msgspec
import pytest

from labcode.analysis.ranks import spread
from labcode.errors import LabError
from labcode.verbs.report.gather import gather
from tests.support import power, ranks, traces
from tests.support.command import labcode

US = 1_000


def test_captures_of_nsys_are_judged_together_and_the_late_rank_is_looked_at(tmp_path: Path) -> None:
    folder = ranks.run(tmp_path / "late", late={"more_ns": 200 * US})
    with gather([folder]) as document:
        assert document.title == "late"
        assert "4 ranks in late" in document.headline[0]
        assert document.headline[0].endswith(
            "of run.rank2.sqlite, rank 2, which delays the collectives most."
        )
        assert [one.name for one in document.files] == ["late", "run.rank2.sqlite"]
        first = document.found[0]
        assert (first.verdict.rule, first.of, first.file) == ("late-rank", "all ranks", "late")
        of_all = [bool(one.of) for one in document.found]
        assert of_all == sorted(of_all, reverse=True) and not all(of_all)
        assert document.sections[0].id == "ranks" and document.sections[0].tables[0].count == 4
        assert [Path(one.path).name for one in document.opened["nsys"]] == ["run.rank2.sqlite"]
    said = labcode("report", folder)
    assert said.returncode == 0 and said.stdout.startswith("# late\n")
    page = tmp_path / "a.html"
    assert labcode("report", folder, "-o", page).returncode == 0
    assert "all ranks: " in page.read_text(encoding="utf-8")


def test_of_ranks_without_collectives_that_which_computes_longest_is_looked_at(tmp_path: Path) -> None:
    for number, more in enumerate((0, 90 * US, 30 * US)):
        ranks.rank(tmp_path, number, more_ns=more, talks=False)
    with gather([tmp_path]) as document:
        assert document.headline[0].endswith("of run.rank1.sqlite, rank 1, which computes longest.")


def test_of_ranks_that_are_alike_the_first_is_looked_at(tmp_path: Path) -> None:
    for number in range(3):
        ranks.rank(tmp_path, number, talks=False)
    with gather([tmp_path]) as document:
        assert document.headline[0].endswith("of run.rank0.sqlite, rank 0, the first; all are alike.")


def test_of_power_logs_that_with_the_lowest_clock_is_looked_at(tmp_path: Path) -> None:
    for number, clock in enumerate((1_980, 1_400, 1_980)):
        device = power.device(power.steady())
        device.sm_mhz = [clock] * len(device.sm_mhz)
        log = power.document(device, windows=[("command", 1.0, 11.0)])
        (tmp_path / f"run.rank{number}.power.json").write_bytes(msgspec.json.encode(log))
    with gather([tmp_path]) as document:
        assert "run.rank1.power.json, rank 1, which has the lowest mean clock" in document.headline[0]
        assert document.found[0].verdict.rule == "slow-clock"


def test_traces_that_are_opened_as_one_are_judged_by_who_waits_too(tmp_path: Path) -> None:
    traces.training(tmp_path, ranks=2, steps=3, layers=3)
    with gather([tmp_path]) as document:
        told = [*document.found, *document.others]
        assert {"late-rank", "slow-link"} <= {one.verdict.rule for one in told if one.of == "all ranks"}
        assert document.title == tmp_path.name


def test_a_page_is_on_one_run(tmp_path: Path) -> None:
    folders = [ranks.run(tmp_path / name) for name in "ab"]
    message = f"{folders[1]}: a folder of ranks, as {folders[0]} is"
    with pytest.raises(LabError, match=message), gather(folders):
        pass


# ---- ranks that used no GPU


@pytest.fixture
def on_the_cpu(tmp_path: Path):
    """Writes traces of ranks that sleep, each for another share of its time, and have no GPU."""

    def written(count: int) -> Path:
        for number in range(count):
            frames = [
                ("train.py(1): <module>", 0, 1000),
                ("train.py(4): load", 100, 600),
                ("<built-in function sleep>", 110, 500 - 50 * number),
            ]
            events = [
                {"ph": "X", "cat": "python_function", "name": name, "ts": start, "dur": length,
                 "pid": 7, "tid": 7, "args": {"Python id": place + 1}}
                for place, (name, start, length) in enumerate(frames)
            ]  # fmt: skip
            events.append({"ph": "X", "cat": "cpu_op", "name": "gloo:all_reduce", "ts": 900, "dur": 50,
                           "pid": 7, "tid": 7, "args": {"External id": 1}})  # fmt: skip
            told = {"backend": "gloo", "rank": number, "world_size": count}
            document = {"schemaVersion": 1, "distributedInfo": told, "traceEvents": events}
            path = tmp_path / f"train.rank{number}.trace.json.gz"
            path.write_bytes(gzip.compress(json.dumps(document).encode()))
        return tmp_path

    return written


def test_two_ranks_without_a_gpu_say_what_each_host_did(on_the_cpu) -> None:
    folder = on_the_cpu(2)
    with gather([folder]) as document:
        assert document.headline == (
            "No GPU in use. Of 1 ms rank 0 spends 50% in sleep, called by load, train.py:4; "
            "35% in its own code, of <module>, train.py:1; 10% in its own code, of load, train.py:4.",
            "Of 1 ms rank 1 spends 45% in sleep, called by load, train.py:4; "
            "35% in its own code, of <module>, train.py:1; 15% in its own code, of load, train.py:4.",
        )
    judged = labcode("diagnose", folder)
    assert judged.returncode == 0 and "note: Of 1 ms rank 1 spends 45% in sleep" in judged.stderr
    rows = labcode("stats", folder, "-r", "host_lines", "-f", "csv").stdout.splitlines()
    assert rows[0] == "rank,where,calls,self_ns,share" and any(row.startswith("1,") for row in rows)
    assert labcode("stats", folder).returncode == labcode("report", folder).returncode == 0


def test_more_ranks_than_are_opened_as_one_need_no_gpu_either(on_the_cpu, monkeypatch) -> None:
    monkeypatch.setattr(spread, "FEW", 9)  # so many are read here, without workers
    folder = on_the_cpu(9)
    said = labcode("report", folder)
    assert said.returncode == 0
    assert (
        "None of the 9 ranks used a GPU. What follows is of train.rank0.trace.json.gz alone." in said.stdout
    )
    assert "Of 1 ms the program spends 50% in sleep" in said.stdout
    judged = labcode("diagnose", folder)
    assert judged.returncode == 0
    assert "none of 9 ranks used a GPU; judged is train.rank0.trace.json.gz" in judged.stderr
    usual = labcode("stats", folder)
    assert usual.returncode == 0 and "host_lines" in usual.stdout and "op_sum" in usual.stdout
    rows = [line.split() for line in usual.stdout.splitlines() if " sleep " in line]
    assert [row[0] for row in rows] == [str(number) for number in range(9)]
    refused = labcode("stats", folder, "-r", "rank_sum")
    assert refused.returncode == 2
    assert refused.stderr == f"labcode: {folder}: no rank used a GPU, whose time rank_sum compares\n"
