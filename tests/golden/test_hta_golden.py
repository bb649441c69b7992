"""Reports on the shipped traces against what Holistic Trace Analysis said of them (`make_hta_golden.py`).

Where they differ on purpose, a test says how. HTA's times are double-precision microseconds, so they are met
within a few nanoseconds.
"""

import gzip
import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labcode import store
from labcode.analysis.stats import kineto_gpu, kineto_ops, kineto_time
from labcode.analysis.timeline.critical_path import by_kind, critical_path
from labcode.reports.kineto.report import KinetoReport, open_trace
from tests.golden.make_hta_golden import (
    DIFFERENCE,
    LAUNCHED,
    OPERATORS,
    PATHS,
    QUEUED,
    RUNS,
    comparable,
    traces_of,
)

GOLDEN: dict[str, Any] = json.loads(lzma.decompress((Path(__file__).parent / "hta.json.xz").read_bytes()))
US = 1_000
QUARTERS = {"changes": "count", "p25": "25%", "median": "50%", "p75": "75%"}
SPREAD = ("changes", "mean", "std", "min", "p25", "median", "p75", "max")
runs = pytest.mark.parametrize("run", RUNS)


@cache
def opened(run: str) -> KinetoReport:
    return open_trace(traces_of(store.sets_root() / store.SHIPPED_SET, run))


@pytest.fixture(scope="module", params=LAUNCHED)
def launched(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[KinetoReport, dict[str, Any]]:
    """The ranks of a run without what HTA takes otherwise, and what it said of them."""
    folder = tmp_path_factory.mktemp("ranks")
    for path in traces_of(store.sets_root() / store.SHIPPED_SET, request.param):
        content = comparable(json.loads(gzip.decompress(path.read_bytes())))
        (folder / path.name.removesuffix(".gz")).write_text(json.dumps(content))
    return open_trace(folder), GOLDEN["launches"][request.param]


def test_idle_breakdown(launched: tuple[KinetoReport, dict[str, Any]]) -> None:
    ours = kineto_gpu.idle_breakdown(launched[0]).set_index(["rank", "stream", "category"])["idle_ns"]
    theirs = {
        (r["rank"], r["stream"], r["idle_category"]): r["idle_time"] for r in launched[1]["idle_breakdown"]
    }
    assert {key[:2] for key in ours.index} == {key[:2] for key in theirs}
    for key, idle in ours.items():
        assert idle / US == pytest.approx(theirs.get(key, 0.0), abs=0.01)


def test_overlap_and_queues(launched: tuple[KinetoReport, dict[str, Any]]) -> None:
    shares = kineto_gpu.comm_overlap(launched[0]).set_index("rank")["hidden_share"]
    theirs = {row["rank"]: row["comp_comm_overlap_pctg"] for row in launched[1]["comm_overlap"]}
    assert (100 * shares).round(2).to_dict() == pytest.approx(theirs, abs=0.011)
    ours = kineto_gpu.queue_length(launched[0]).set_index(["rank", "stream"])
    assert len(ours) == len(launched[1]["queue_length"])
    for row in launched[1]["queue_length"]:
        right = [row[f"queue_length/{QUARTERS.get(column, column)}"] for column in SPREAD]
        assert ours.loc[(row["rank"], row["stream"]), list(SPREAD)].tolist() == pytest.approx(right, rel=1e-8)


def test_launches_and_kernels(launched: tuple[KinetoReport, dict[str, Any]]) -> None:
    report, theirs = launched
    ours = kineto_gpu.launches(report)
    for rank, (count, *columns) in theirs["launch_stats"].items():
        mine = ours[ours["rank"] == int(rank)]
        assert len(mine) == count
        for name, right in zip(("call_ns", "duration_ns", "queue_ns"), columns, strict=True):
            found = mine[name].mean(), mine[name].std(), mine[name].median()
            assert np.array(found) / US == pytest.approx(right, abs=0.01)
    kernels = report.kernels()
    spent = (kernels["end_ns"] - kernels["start_ns"]).groupby([kernels["name"], kernels["rank"]]).sum()
    listed = [row for row in theirs["kernels"] if row["kernel_type"] in ("COMPUTATION", "COMMUNICATION")]
    assert len(listed) == len(spent)
    for row in listed:
        assert spent[row["name"], row["rank"]] / US == pytest.approx(row["sum (us)"], rel=1e-6)


@runs
def test_temporal_breakdown(run: str) -> None:
    ours = kineto_time.temporal_breakdown(opened(run)).set_index("rank")
    theirs = GOLDEN["runs"][run]["temporal_breakdown"]
    assert len(ours) == len(theirs) == RUNS[run]
    for row in theirs:
        for mine, name in (
            ("total_ns", "kernel_time"),
            ("compute_ns", "compute_time"),
            ("non_compute_ns", "non_compute_time"),
            ("idle_ns", "idle_time"),
        ):
            assert ours.loc[row["rank"], mine] / US == pytest.approx(row[f"{name}(us)"], abs=0.01)
        for mine in ("idle", "compute", "non_compute"):
            share = ours.loc[row["rank"], f"{mine}_share"]
            assert 100 * share == pytest.approx(row[f"{mine}_time_pctg"], abs=0.006)
        parts = ours.loc[row["rank"], ["host_wait_ns", "kernel_wait_ns", "other_ns"]]
        assert parts.sum() == ours.loc[row["rank"], "idle_ns"]


@runs
def test_memory_bandwidth(run: str) -> None:
    ours = kineto_time.memory_bandwidth(opened(run)).set_index(["rank", "what"])
    theirs = GOLDEN["runs"][run]["memory_bandwidth"]
    assert len(ours) == len(theirs)
    for row in theirs:
        for column in SPREAD:
            value = row[f"memory_bw_gbps/{QUARTERS.get(column, column)}"]
            assert ours.loc[(row["rank"], row["name"]), column] == pytest.approx(value, abs=1e-8)


@runs
def test_full_queues(run: str) -> None:
    """HTA names one stream of each rank, the last; and takes the share of a span that Python's functions,
    which began before the recording, make longer.
    """
    ours = kineto_time.queue_full(opened(run), QUEUED)
    ours = ours[ours["full_ns"] > 0].set_index(["rank", "stream"])
    theirs = GOLDEN["runs"][run]["queue_full"]
    assert {row["rank"] for row in theirs} == {rank for rank, _ in ours.index}
    for row in theirs:
        mine = ours.loc[(row["rank"], row["stream"])]
        assert mine["full_ns"] / US == pytest.approx(row["duration_at_max_queue_length"], rel=1e-6)
        assert mine["share"] == pytest.approx(row["relative_duration_at_max_queue_length"], rel=0.01)


@runs
@pytest.mark.parametrize("operator", OPERATORS)
def test_kernel_sequences(run: str, operator: str) -> None:
    """HTA looks at the operators that lie least deep alone, so it may find fewer."""
    found = kineto_time.kernel_sequences(opened(run), operator, 2)
    ours = sorted(
        (count, gpu / US, cpu / US)
        for count, gpu, cpu in found.loc[found["rank"] == 0, ["count", "gpu_ns", "cpu_ns"]]
        .to_numpy()
        .tolist()
    )
    for row in GOLDEN["runs"][run]["kernel_sequences"][operator]:
        right = row["count"], row["GPU kernel duration (us)"], row["CPU op duration (us)"]
        assert any(mine == pytest.approx(right, abs=0.01) for mine in ours), row["pattern"]


def test_sequences_are_found_at_all() -> None:
    assert sum(len(rows) for run in GOLDEN["runs"].values() for rows in run["kernel_sequences"].values()) > 15


def test_the_difference_of_two_traces() -> None:
    """HTA counts what lies in the first step alone, and an annotation once more for its span on the GPU; it
    has Python's functions as rows, and steps by their numbers.
    """
    before, after = (opened(run) for run in DIFFERENCE)
    ours = kineto_ops.op_diff(before, after)
    marked = set(ours.loc[ours["type"] == "annotation", "name"])
    ours = ours.groupby("name")[["calls_before", "calls_after", "cpu_before_ns", "cpu_after_ns"]].sum()
    compared = 0
    for row in GOLDEN["op_diff"]:
        name = row["name"]
        if name in ours.index and name not in marked and name != "cudaDeviceSynchronize":
            compared += 1
            mine = ours.loc[name]
            assert (mine["calls_before"], mine["calls_after"]) == (row["Control_counts"], row["Test_counts"])
            if name.startswith(("aten::", "cuda")):
                spent = mine["cpu_before_ns"] / US, mine["cpu_after_ns"] / US
                right = row["Control_total_duration"], row["Test_total_duration"]
                assert spent == pytest.approx(right, abs=0.05)
    assert compared > 200


@pytest.mark.parametrize("run", PATHS)
def test_the_critical_path(run: str) -> None:
    """HTA's path weighs operators and calls, not Python's functions nor time in which nothing was recorded:
    so it is shorter than the step, and follows the GPU where that alone weighs more.
    """
    report = opened(run)
    marks = report.annotations()
    step = marks[marks["name"].str.startswith("ProfilerStep#")].iloc[0]
    window = int(step["start_ns"]), int(step["end_ns"])
    ours = by_kind(critical_path(report, window)).set_index("kind")["total_ns"] / US
    theirs = GOLDEN["runs"][run]["critical_path"]
    assert ours.sum() == pytest.approx((window[1] - window[0]) / US)
    gpu = ours.reindex(["kernel", "copy", "memset"]).sum()
    cpu = ours.reindex(["operator", "CUDA call"]).sum()
    if gpu:
        assert gpu == pytest.approx(theirs["gpu_compute_bound"], rel=0.06)
        assert ours["gap on the GPU"] == pytest.approx(theirs["gpu_kernel_kernel_overhead"], rel=0.03)
    assert cpu == pytest.approx(theirs["cpu_bound"], rel=0.15)
    assert (gpu > cpu) == (theirs["gpu_compute_bound"] > theirs["cpu_bound"])
