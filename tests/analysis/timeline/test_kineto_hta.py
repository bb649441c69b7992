"""Idle time, overlap, queues and launches against Holistic Trace Analysis, where that is installed."""

from __future__ import annotations

import gzip
import json
import warnings
from typing import Any

import numpy as np
import pytest

from labcode import store
from labcode.analysis.stats import kineto_gpu
from labcode.reports.kineto.report import KinetoReport, open_trace
from tests.support import traces

pytest.importorskip("hta", reason="Holistic Trace Analysis is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")
US = 1000.0


def comparable(content: dict[str, Any]) -> dict[str, Any]:
    """A captured trace without what HTA takes otherwise.

    Its statistics of launches know no calls of the driver, which are given the runtime's name here. A kernel
    whose launch lies before the recording it joins to whichever event comes first in the file, and so counts
    the gap before it as the host's; such kernels are left out.
    """
    events = content["traceEvents"]
    for event in events:
        if event.get("name") in ("cuLaunchKernel", "cuLaunchKernelEx"):
            event["name"] = "cudaLaunchKernel"
    asked = {
        event["args"]["correlation"]
        for event in events
        if event.get("cat") in ("cuda_runtime", "cuda_driver") and "correlation" in event.get("args", {})
    }
    content["traceEvents"] = [
        event
        for event in events
        if event.get("cat") not in ("kernel", "gpu_memcpy", "gpu_memset")
        or event["args"]["correlation"] in asked
    ]
    return content


@pytest.fixture(scope="module", params=["generated", "baseline", "improved"])
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[KinetoReport, Any]:
    """The same ranks, generated or captured, read by either; without HTA's rounding to whole microseconds."""
    folder = tmp_path_factory.mktemp("ranks")
    if request.param == "generated":
        traces.training(folder, ranks=3, steps=4, layers=12)
    else:
        captured = store.repository_root() / "captures" / "h200" / "torch_distributed"
        for path in captured.glob(f"{request.param}.rank*.trace.json.gz"):
            content = comparable(json.loads(gzip.decompress(path.read_bytes())))
            # HTA finds a rank by a pattern with a space in it, which the captures leave out
            (folder / path.name.removesuffix(".gz")).write_text(json.dumps(content))
    patch = pytest.MonkeyPatch()
    patch.setenv("HTA_DISABLE_NS_ROUNDING", "1")
    from hta.trace_analysis import TraceAnalysis

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = TraceAnalysis(trace_dir=str(folder), include_last_profiler_step=True)
    patch.undo()
    return open_trace(folder), theirs


def test_idle_breakdown(both: tuple[KinetoReport, Any]) -> None:
    ours = kineto_gpu.idle_breakdown(both[0])
    for rank in both[0].ranks:
        theirs, _ = both[1].get_idle_time_breakdown(ranks=[rank], visualize=False)
        found = {(row["stream"], row["idle_category"]): row["idle_time"] for _, row in theirs.iterrows()}
        mine = ours[(ours["rank"] == rank)]
        assert len(mine)
        assert {stream for stream, _ in found} == set(mine["stream"])
        for _, row in mine.iterrows():
            right = found.get((row["stream"], row["category"]), 0.0)
            assert row["idle_ns"] / US == pytest.approx(right, abs=0.01)


def test_comm_overlap(both: tuple[KinetoReport, Any]) -> None:
    ours = kineto_gpu.comm_overlap(both[0]).set_index("rank")["hidden_share"]
    theirs = both[1].get_comm_comp_overlap(visualize=False).set_index("rank")["comp_comm_overlap_pctg"]
    assert len(ours) == len(both[0].ranks)
    for rank, share in ours.items():
        assert round(100 * share, 2) == pytest.approx(theirs[rank], abs=0.011)


def test_queue_length(both: tuple[KinetoReport, Any]) -> None:
    ours = kineto_gpu.queue_length(both[0]).set_index(["rank", "stream"])
    theirs = both[1].get_queue_length_summary(ranks=list(both[0].ranks))["queue_length"]
    assert len(ours) == len(theirs)
    names = {"changes": "count", "p25": "25%", "median": "50%", "p75": "75%"}
    for key, row in ours.iterrows():
        for column in ("changes", "mean", "std", "min", "p25", "median", "p75", "max"):
            assert row[column] == pytest.approx(theirs.loc[key, names.get(column, column)], rel=1e-9)


def test_launch_stats(both: tuple[KinetoReport, Any]) -> None:
    ours = kineto_gpu.launches(both[0])
    theirs = both[1].get_cuda_kernel_launch_stats(ranks=list(both[0].ranks), visualize=False)
    assert set(theirs) == set(both[0].ranks) and len(ours)
    for rank, table in theirs.items():
        mine = ours[ours["rank"] == rank]
        assert len(mine) == len(table)
        for column, name in (
            ("call_ns", "cpu_duration"), ("duration_ns", "gpu_duration"), ("queue_ns", "launch_delay")
        ):  # fmt: skip
            assert np.allclose(np.sort(mine[column] / US), np.sort(table[name]), atol=0.01)


def test_kernels(both: tuple[KinetoReport, Any]) -> None:
    _, theirs = both[1].get_gpu_kernel_breakdown(visualize=False, duration_ratio=1.0, num_kernels=1000)
    kernels = both[0].kernels()
    spent = (kernels["end_ns"] - kernels["start_ns"]).groupby([kernels["name"], kernels["rank"]]).sum()
    listed = theirs[theirs["kernel_type"].isin(["COMPUTATION", "COMMUNICATION"])]
    assert len(listed) == len(spent)
    for _, row in listed.iterrows():
        assert spent[row["name"], row["rank"]] / US == pytest.approx(row["sum (us)"], rel=1e-6)
