"""Where nsys' own rules mislead, ours do not: nsys' answer and ours on the same made-up export."""

import csv
import io
import random
from pathlib import Path
from typing import Any

import pytest

from labcode.analysis.rules import Verdict
from labcode.analysis.stats.nsys.reports import RULE_TABLES
from labcode.reports.nsys.report import open_report
from labcode.tools import find_nsys, run_tool
from labcode.verbs.diagnose.verdicts import diagnose
from tests.support import exports as x
from tests.support.command import printed

MS = 1_000_000
NSYS = find_nsys()
needs_nsys = pytest.mark.skipif(NSYS is None, reason="no nsys here: put one on PATH or set LABCODE_NSYS")
TWO_WITH_ONE_ID: dict[str, Any] = {
    "kernels": [x.kernel(0, 100 * MS, device=1, correlation=1)],
    "memcpys": [
        x.memcpy(100 * MS, 101 * MS, 4096, src=0, pid=100, correlation=7),
        x.memcpy(102 * MS, 103 * MS, 4096, src=1, pid=200, correlation=7),
    ],
    "api": [
        x.call(99 * MS, 101 * MS, "cudaMemcpyAsync_v3020", pid=100, correlation=7),
        x.call(102 * MS, 103 * MS, "cudaMemcpyAsync_v3020", pid=200, tid=200, correlation=7),
    ],
}
BY_TURNS = {
    "kernels": [x.kernel(i * MS, (i + 1) * MS, pid=100 + 100 * (i % 2), correlation=i) for i in range(1, 41)]
}
TWO_AT_ONCE = {
    "kernels": [
        x.kernel(i * 100 * MS, i * 100 * MS + 40 * MS, stream=7 + j, correlation=2 * i + j + 1)
        for i in range(31)
        for j in range(2)
    ]
}
FULL_TWICE = {
    "kernels": [
        x.kernel(i * 100 * MS, (i + 1) * 100 * MS, stream=7 + j, correlation=2 * i + j + 1)
        for i in range(30)
        for j in range(2)
    ]
}
AROUND = [
    x.kernel(i * 2 * MS + at, i * 2 * MS + at + MS, correlation=None)
    for at in (0, 1000 * MS)
    for i in range(5)
]
GRAPH = {"kernels": AROUND, "graphs": [x.graph_launch(9 * MS, 1000 * MS, correlation=2)]}
SHORT_GAPS = {"kernels": [x.kernel(i * 100 * MS, i * 100 * MS + MS, correlation=i + 1) for i in range(20)]}


def ours(tmp_path: Path, **tables: Any) -> dict[str, Verdict]:
    with open_report(x.make_export(tmp_path / "a.sqlite", schema=(3, 11, 1), **tables)) as report:
        return {verdict.rule: verdict for verdict in diagnose(report, window="all")}


def theirs(tmp_path: Path, rule: str, **tables: Any) -> list[dict[str, str]]:
    """The rows of `nsys analyze`; none when it has nothing to say."""
    assert NSYS is not None
    path = x.make_export(tmp_path / "n.sqlite", schema=(3, 11, 1), **tables)
    options = ["--quiet", "--force-export=false", "--format", "csv", "--output", "-"]
    result = run_tool([NSYS, "analyze", *options, "--rule", rule, path], timeout_s=120)
    assert result.returncode == 0, result.stderr
    return list(csv.DictReader(io.StringIO(result.stdout.strip())))


@needs_nsys
def test_nsys_joins_without_the_process(tmp_path: Path) -> None:
    rows = theirs(tmp_path, "cuda_memcpy_async", **TWO_WITH_ONE_ID)
    assert len(rows) == 2 and {row["PID"] for row in rows} == {"100"}  # one copy, found twice


def test_we_join_within_the_process(tmp_path: Path) -> None:
    verdict = ours(tmp_path, **TWO_WITH_ONE_ID)["pageable-copies"]
    assert len(verdict.evidence) == 1 and verdict.numerator == 2 * MS  # the call and the copy in it
    assert verdict.message.startswith("1 of 2 copies")


@needs_nsys
def test_nsys_takes_the_work_of_another_process_for_a_gap(tmp_path: Path) -> None:
    assert len(theirs(tmp_path, "gpu_gaps:gap=0", **BY_TURNS)) > 30


def test_we_take_gaps_of_the_gpu(tmp_path: Path) -> None:
    verdict = ours(tmp_path, **BY_TURNS)["idle-gaps"]
    assert verdict.status == "not found" and verdict.numerator == 0


@needs_nsys
def test_nsys_adds_up_what_runs_at_once(tmp_path: Path) -> None:
    assert theirs(tmp_path, "gpu_time_util", **TWO_AT_ONCE) == []  # 40 % busy passes as 80 %
    rows = theirs(tmp_path, "gpu_time_util:threshold=1000", **FULL_TWICE)
    assert max(float(row["In-Use (%)"]) for row in rows) == 200


def test_we_never_exceed_the_wall_time(tmp_path: Path) -> None:
    verdict = ours(tmp_path, **TWO_AT_ONCE)["low-utilization"]
    assert verdict.status == "found" and verdict.evidence["busy_share"].max() < 0.5
    full = ours(tmp_path, **FULL_TWICE)["low-utilization"]
    assert full.status == "not found" and "busy for 100.0 %" in full.message


@needs_nsys
def test_nsys_takes_a_graph_for_idle_time(tmp_path: Path) -> None:
    assert [row["Duration (ns)"] for row in theirs(tmp_path, "gpu_gaps", **GRAPH)] == [str(991 * MS)]


def test_we_take_a_graph_for_work(tmp_path: Path) -> None:
    verdicts = ours(tmp_path, **GRAPH)
    assert verdicts["idle-gaps"].status == verdicts["low-utilization"].status == "not found"


@needs_nsys
def test_nsys_sees_no_gap_shorter_than_half_a_second(tmp_path: Path) -> None:
    assert theirs(tmp_path, "gpu_gaps", **SHORT_GAPS) == []


def test_our_threshold_follows_the_capture(tmp_path: Path) -> None:
    verdict = ours(tmp_path, **SHORT_GAPS)["idle-gaps"]
    assert verdict.status == "found" and verdict.numerator == 19 * 99 * MS


# ---- the tables of nsys' own rules


def random_calls(path: Path, seed: int, processes: tuple[int, ...] = (100,)) -> Path:
    """Copies and memsets of every kind and size, with their calls; no two last equally long."""
    rng = random.Random(seed)
    tables: dict[str, list[Any]] = {"memcpys": [], "memsets": [], "api": []}
    copies = ("cudaMemcpy_v3020", "cudaMemcpy2D_v3020", "cudaMemcpyAsync_v3020", "cuMemcpyHtoD_v2")
    sets = ("cudaMemset_v3020", "cudaMemset2DAsync_v3020", "cuMemsetD8_v2", "cudaMalloc_v3020")
    for number in range(1, 90):
        pid, start = rng.choice(processes), rng.randint(0, 10**6)
        where = {"pid": pid, "device": rng.randint(0, 1), "correlation": number}
        end, size = start + 7 * number, rng.choice((0, 64_000, 64_001, 1 << 20))
        kind = rng.choice(("memcpy", "memset", "wait"))
        name = rng.choice({"memcpy": copies, "memset": sets}.get(kind, ("cudaStreamSynchronize_v3020",)))
        if kind == "memcpy":
            places = {end: rng.choice((0, 1, 2, 4)) for end in ("src", "dst")}
            devices = {f"{end}_device": rng.choice((None, 0, 1)) for end in ("src", "dst")}
            copy = x.memcpy(start, end, size, rng.choice((1, 2, 8, 10)), **places, **devices, **where)
            tables["memcpys"].append({**copy, "greenContextId": rng.choice((0, 5))})
        elif kind == "memset":
            tables["memsets"].append(x.memset(start, end, size, mem_kind=rng.choice((0, 1, 2, 4)), **where))
        if rng.random() < 0.9:
            tables["api"].append(x.call(start - 5, end, name, pid=pid, tid=pid, correlation=number))
    return x.make_export(path, schema=(3, 11, 1), **tables)


@needs_nsys
@pytest.mark.parametrize("seed", range(3))
def test_tables_of_nsys_rules(tmp_path: Path, seed: int) -> None:
    assert NSYS is not None
    path = random_calls(tmp_path / "a.sqlite", seed)
    rules = [flag for name in RULE_TABLES for flag in ("--rule", f"{name}:rows=-1")]
    options = ["--quiet", "--force-export=false", "--format", "csv", "--output", "-"]
    said = run_tool([NSYS, "analyze", *options, *rules, path], timeout_s=120).stdout
    parts = [part.splitlines() for part in said.strip("\n").split("\n\n")]
    assert [printed(path, name).splitlines() for name in RULE_TABLES] == parts
    assert min(map(len, parts)) > 1


def test_tables_of_rules_join_within_the_process(tmp_path: Path) -> None:
    path = x.make_export(
        tmp_path / "a.sqlite",
        memcpys=[x.memcpy(0, 10, 1 << 20, pid=100, correlation=7)],
        memsets=[x.memset(0, 10, mem_kind=1, pid=200, correlation=7)],
        api=[
            x.call(0, 9, "cudaMemcpyAsync_v3020", pid=100, correlation=7),
            x.call(0, 9, "cudaMemcpy_v3020", pid=200, tid=200, correlation=7),
        ],
    )
    assert [len(printed(path, name).splitlines()) for name in RULE_TABLES] == [1, 1, 1, 1]  # a header alone
