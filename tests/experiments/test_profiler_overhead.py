"""Profilers' overhead: the workload runs under each tool there is, and does the same under all."""

import os
from argparse import Namespace
from pathlib import Path

import pytest

pytest.importorskip("torch")

from labcode.analysis.lm.decoder import SIZES
from labcode.errors import ToolError
from labcode.experiments.pytorch.profiler_overhead import program as overhead
from labcode.experiments.shared import recording
from tests.support.records import recorded

SMALL = [
    *("--device", "cpu", "--size", "tiny", "--context", "16", "--batch", "2"),
    *("--steps", "2", "--warmup", "1", "--variant", "torch"),
]


@pytest.mark.slow  # a way that fails is a process of its own, too; switches are recorded in this one
def test_each_way_has_times_beside_those_without_a_profiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    names = ["none", "NVTX ranges", "record_function ranges", "torch.profiler"]
    names.append("torch.profiler, all switches")
    every = overhead.ways(Namespace(variant="torch"), tmp_path)
    assert [way.name for way in every] == names
    monkeypatch.setattr(overhead, "ways", lambda given, folder: [every[0], every[-1]])  # a process each
    found = recorded(overhead, tmp_path, *SMALL)["results"]["ways"]
    assert [way["tool"] for way in found] == [names[0], names[-1]]
    assert found[0]["ratio"] == 1 and all(len(way["step_host_ms"]) == 2 for way in found)


def test_switches_are_tried_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = recorded(overhead, tmp_path, *SMALL[:-2], "--variant", "switches")["results"]["ways"]
    assert [way["tool"] for way in found] == list(overhead.SWITCHES)
    assert all(len(way["step_host_ms"]) == 2 for way in found)
    sizes = {way["tool"]: way["trace_bytes"] for way in found}
    assert sizes["none"] == 0 < sizes["torch.profiler"] < sizes["shapes"] < sizes["all switches"]
    assert sizes["torch.profiler"] < sizes["stacks"]
    assert recording.REQUEST not in os.environ, "what runs next is recorded by nobody"


def test_tools_that_are_here_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overhead, "find_nsys", lambda: Path("/opt/nsys"))
    monkeypatch.setattr(overhead, "find_ncu", lambda: None)
    given = Namespace(variant="all", kernel="softmax", size="small", warmup=5, steps=3)
    assert [way.name for way in overhead.ways(given, tmp_path)][-1] == "nsys"
    monkeypatch.setattr(overhead, "find_ncu", lambda: Path("/opt/ncu"))
    last = overhead.ways(given, tmp_path)[-1]
    assert last.name == "ncu, kernels like softmax" and "regex:softmax" in last.before
    layers = SIZES["small"].layers  # one such kernel each
    assert last.before[last.before.index("--launch-skip") + 1] == str(5 * layers)
    assert last.before[last.before.index("--launch-count") + 1] == str(3 * layers)


def test_a_tool_that_fails_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = [overhead.Way(name, "none") for name in ("none", "ncu", "nsys")]
    monkeypatch.setattr(overhead, "ways", lambda given, folder: chosen)

    def run_way(given: object, way: overhead.Way, folder: Path) -> dict[str, object]:
        if way.name == "ncu":
            raise ToolError("the workload under ncu failed: ERR_NVGPUCTRPERM")
        return {"tool": way.name, "step_host_ms": [2.0], "step_ms": 2.0, "wall_s": 1.0, "last_loss": 1.0}

    monkeypatch.setattr(overhead, "run_way", run_way)
    results = recorded(overhead, tmp_path, *SMALL)["results"]
    assert [way["tool"] for way in results["ways"]] == ["none", "nsys"]
    assert [row["tool"] for row in results["failed"]] == ["ncu"]
    assert "ncu: the workload under ncu failed: ERR_NVGPUCTRPERM" in capsys.readouterr().out


def test_a_workload_that_fails_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overhead, "ways", lambda given, folder: [overhead.Way("none", "loud")])
    with pytest.raises(ToolError, match=r"the workload under none failed: .*invalid choice: 'loud'"):
        overhead.main(SMALL)


def test_other_work_fails_the_check() -> None:
    same, other = {"last_loss": 2.0}, {"last_loss": 2.1}
    assert overhead.check([same, same])["same_work"].passed
    assert not overhead.check([same, other])["same_work"].passed
