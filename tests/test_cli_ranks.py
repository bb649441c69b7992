"""The commands that read, on folders with a report for each rank."""

import csv
import io
import json
from pathlib import Path

import msgspec
import pytest

from tests.support import power, ranks, traces
from tests.support.command import labcode

US = 1_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return ranks.run(tmp_path / "late", late={"more_ns": 200 * US})


def test_own_reports_and_those_of_the_format(folder: Path) -> None:
    result = labcode("stats", folder, "-r", "rank_sum", "-f", "json")
    assert result.returncode == 0 and json.loads(result.stdout)[2]["cause"] == "slow compute"
    assert not result.stderr
    merged = labcode("stats", folder, "-r", "cuda_gpu_kern_sum:base", "-f", "csv").stdout
    rows = list(csv.DictReader(io.StringIO(merged)))
    assert [row["rank"] for row in rows] == ["0", "0", "1", "1", "2", "2", "3", "3"]
    alone = labcode("stats", folder / "run.rank2.sqlite", "-r", "cuda_gpu_kern_sum:base", "-f", "csv").stdout
    own = [row for row in rows if row["rank"] == "2"]
    for one, other in zip(csv.DictReader(io.StringIO(alone)), own, strict=True):
        assert one["Name"] == other["Name"] and int(one["Total Time (ns)"]) == int(other["Total Time (ns)"])
    listed = labcode("stats", "--list", folder).stdout
    assert "rank_heatmap" in listed and "cuda_gpu_kern_sum" in listed and "osrt_sum" not in listed
    for words, message in (
        (("-r", "rank_summ"), "'rank_summ' is not a report of folders of ranks; did you mean rank_sum?"),
        (("-r", "rank_pace:epoch"), "no range epoch; name another: rank_pace:NAME"),
        (("-r", "osrt_sum"), "the capture holds no calls of the OS runtime"),
        (("--kernel", "x"), "`labcode stats --kernel` reads .ncu-rep"),
    ):
        refused = labcode("stats", folder, *words)
        assert refused.returncode == 2 and message in refused.stderr


def test_every_report_of_a_folder_into_files(folder: Path, tmp_path: Path) -> None:
    result = labcode("stats", folder, "--all", "-f", "csv", "-o", tmp_path / "out")
    assert result.returncode == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {"late_rank_sum.csv", "late_nccl_sum.csv"}


def test_the_diagnosis(folder: Path) -> None:
    found = labcode("diagnose", folder, "--all").stdout
    assert "(late-rank)\n  rank 2 comes last" in found and "4 ranks are there" in found
    one = labcode("diagnose", folder, "--only", "uneven-computing", "-f", "json").stdout
    assert [verdict["rule"] for verdict in json.loads(one)["verdicts"]] == ["uneven-computing"]
    refused = labcode("diagnose", folder, "--only", "late-ranks")
    assert "'late-ranks' is not a rule of folders of ranks; did you mean late-rank?" in refused.stderr
    assert "late-rank" in labcode("diagnose", "--list").stdout
    file = folder / "run.rank0.sqlite"
    for words in (("diagnose", file), ("compare", file, file), ("stats", file)):
        refused = labcode(*words, "--scheduler", "here")
        assert refused.returncode == 2
        assert f"`labcode {words[0]} --scheduler` reads a folder of ranks and not this" in refused.stderr


def test_runs_are_compared(folder: Path, tmp_path: Path) -> None:
    even = ranks.run(tmp_path / "even")
    result = labcode("compare", even, folder, "--fail-above", "5", "-f", "json")
    document = json.loads(result.stdout)
    wait = next(row for row in document["rows"] if row["name"] == "exposed_ns")
    assert wait["ratio"] == pytest.approx((120 + 200) / 120, rel=1e-3) and wait["verdict"] == "too few ranks"
    assert result.returncode == 0 and document["regressions"] == []  # four ranks give no interval
    for number in (4, 5):
        for one, last in ((even, 0), (folder, 200 * US)):
            ranks.rank(one, number, last_ns=last)
    result = labcode("compare", even, folder, "--fail-above", "5")
    assert result.returncode == 1 and "exposed_ns" in result.stdout.partition("interval above it:")[2]
    for words, message in (
        ((folder, folder / "run.rank0.sqlite"), "no folder; compare"),
        ((folder, even, "--only", "kernels"), "folders of ranks have none"),
    ):
        refused = labcode("compare", *words)
        assert refused.returncode == 2 and message in refused.stderr


def test_more_than_two_runs_are_compared(folder: Path, tmp_path: Path) -> None:
    result = labcode("compare", folder, *(ranks.run(tmp_path / name) for name in "ab"), "-f", "json")
    assert result.returncode == 0, result.stderr
    assert {row["group"] for row in json.loads(result.stdout)["rows"]} == {folder.name, "a", "b"}


def test_the_picture(folder: Path, tmp_path: Path) -> None:
    made = labcode("timeline", folder, "-o", tmp_path / "x.svg")
    assert made.returncode == 0 and b"<image" in (tmp_path / "x.svg").read_bytes()
    made = labcode("timeline", folder, "-o", tmp_path / "x.html")
    page = (tmp_path / "x.html").read_text()
    assert made.returncode == 0 and '"themes":{"light":' in page and "ranks, " in page and "{{" not in page
    for words, message in (
        (
            ("-o", tmp_path / "x.json"),
            "the timeline of many ranks is a picture or a page; name a file that ends in .svg or .html",
        ),
        (("-o", tmp_path / "y.svg", "--window", "all"), "--window is for timelines of captures"),
        (("-o", tmp_path / "y.svg", "--scheduler", "nonsense"), "no Dask scheduler answers there"),
    ):
        refused = labcode("timeline", folder, *words)
        assert refused.returncode == 2 and message in refused.stderr
    refused = labcode(
        "timeline", folder / "run.rank0.sqlite", "-o", tmp_path / "y.svg", "--scheduler", "tcp://a"
    )
    assert "`labcode timeline --scheduler` reads a folder of ranks and not this" in refused.stderr


def test_power_logs_of_ranks(tmp_path: Path) -> None:
    for number, watts in enumerate((400.0, 410.0, 300.0)):
        one = power.device(power.steady(watts), number=0)
        one.sm_mhz = [1500 if number == 2 else 1980] * len(one.sm_mhz)
        log = power.document(one, windows=[("command", 1.0, 11.0)])
        (tmp_path / f"run.rank{number}.power.json").write_bytes(msgspec.json.encode(log))
    table = json.loads(labcode("stats", tmp_path, "-f", "json").stdout)
    assert [row["mean_w"] for row in table] == pytest.approx([400, 410, 300], rel=0.01)
    found = labcode("diagnose", tmp_path).stdout
    assert (
        "(slow-clock)\n  rank 2 runs at 1,500 MHz in the mean, the rank in the middle at 1,980 MHz" in found
    )
    cells = json.loads(labcode("stats", tmp_path, "-r", "rank_heatmap", "-f", "json").stdout)
    assert {round(cell["power_w"] or 0, -1) for cell in cells if cell["rank"] == 2} <= {0, 300}
    assert labcode("timeline", tmp_path, "-o", tmp_path / "x.svg").returncode == 0
    other = json.loads(labcode("compare", tmp_path, tmp_path, "-f", "json").stdout)
    assert {row["ratio"] for row in other["rows"]} == {1.0}


def test_a_few_traces_are_one_report_and_a_run_of_ranks(tmp_path: Path) -> None:
    traces.training(tmp_path, ranks=2, steps=2, layers=2)
    assert labcode("stats", tmp_path, "-r", "op_sum").returncode == 0
    table = json.loads(labcode("stats", tmp_path, "-r", "rank_sum", "-f", "json").stdout)
    assert [row["rank"] for row in table] == [0, 1]
    refused = labcode("diagnose", tmp_path, "--scheduler", "here").stderr
    assert "a folder of up to 8 traces, which are read as one; leave out --scheduler" in refused
    found = labcode("diagnose", tmp_path, "-f", "json").stdout
    assert {"late-rank", "communication-not-hidden"} <= {
        verdict["rule"] for verdict in json.loads(found)["verdicts"]
    }
    alone = labcode("stats", tmp_path / "run.rank0.trace.json", "-r", "rank_sum")
    assert (
        alone.returncode == 2
        and "rank_sum compares ranks; name a folder with a trace for each" in alone.stderr
    )


def test_traces_of_the_cpu_alone_are_not_judged_by_who_waits(tmp_path: Path) -> None:
    traces.training(tmp_path, ranks=2, steps=2, layers=2)
    for path in tmp_path.iterdir():
        trace = json.loads(path.read_text())
        on_gpu = ("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation", "ac2g")
        trace["traceEvents"] = [one for one in trace["traceEvents"] if one.get("cat") not in on_gpu]
        path.write_text(json.dumps(trace))
    found = json.loads(labcode("diagnose", tmp_path, "-f", "json").stdout)["verdicts"]
    said = {verdict["rule"]: verdict for verdict in found}
    assert "failed" not in {verdict["status"] for verdict in found}
    assert (
        said["late-rank"]["status"] == "could not judge"
        and "no GPU operations" in said["late-rank"]["message"]
    )
