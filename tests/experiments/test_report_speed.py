"""The workload that times every report beside that of nsys: what it records, whole or cut short."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from labcode.analysis.stats.nsys.reports import TABLES
from labcode.errors import ToolError
from labcode.experiments.lab.report_speed import program as report_speed
from labcode.experiments.lab.report_speed import side_by_side


@pytest.fixture
def nsys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "nsys"
    path.write_text(
        "#!/bin/sh\n"
        "[ $1 = --version ] && { echo NVIDIA Nsight Systems version 2025.3.1.90-1v0; exit; }\n"
        "case $* in *nvtx_pushpop_sum*) sleep 60;; *osrt_sum*) echo broken >&2; exit 3;; esac\n"
        "echo 'Time (%),Name'\n"
    )
    path.chmod(0o755)
    monkeypatch.setattr(report_speed, "require_nsys", lambda: path)
    return path


@pytest.mark.usefixtures("compiled_at_hand")
def test_what_is_missing_is_named_and_the_rest_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nsys: Path
) -> None:
    monkeypatch.setattr(report_speed, "LONGEST_FIRST", ("osrt_sum", "cuda_api_sum"))
    monkeypatch.setattr(report_speed, "SHORT", ("nvtx_pushpop_sum",))
    monkeypatch.setattr(report_speed, "TABLES", {"osrt_sum": 0, "cuda_api_sum": 0, "nvtx_pushpop_sum": 0})
    measure = side_by_side.measure

    def in_time(argv: Sequence[str | Path], output: Path, work: Path | None = None, end: Any = None) -> Any:
        """What never ends has little time, all else as much as it takes on a busy machine."""
        hangs = end is not None and argv[0] == nsys and "nvtx_pushpop_sum" in argv
        return measure(argv, output, work, time.monotonic() + 0.1 if hangs else end)

    monkeypatch.setattr(side_by_side, "measure", in_time)
    words = ["--ops", "400", "--limit-s", "600", "--repetitions", "1", "--json", str(tmp_path / "r.json")]
    assert report_speed.main(words) == 0
    record = json.loads((tmp_path / "r.json").read_text())
    results = record["results"]
    assert [row["report"] for row in results["reports"]] == ["cuda_api_sum"]
    assert results["missing"].keys() == {"osrt_sum", "nvtx_pushpop_sum"}
    assert "exit code 3 (broken)" in results["missing"]["osrt_sum"]
    assert results["missing"]["nvtx_pushpop_sum"] == "no time was left"
    assert results["ops"] == 400 == sum(results["rows"][kind] for kind in ("kernels", "copies", "memsets"))
    assert results["nsys"].startswith("2025.3.1")
    assert record["checks"]["something_was_measured"]["detail"] == "1 of 3 reports were measured"


def test_all_reports_are_asked_for_and_the_longest_first() -> None:
    assert sorted((*report_speed.LONGEST_FIRST, *report_speed.SHORT)) == sorted(TABLES)


RECORDER = """#!/usr/bin/env python3
import pathlib, sys
words = sys.argv[1:]
if words[0] == "--version":
    print("NVIDIA Nsight Systems version 2025.3.1.90-1v0")
elif words[0] == "profile":
    sys.path.insert(0, {root!r})
    from labcode.experiments.lab.report_speed.big_export import make_big_export
    if {breaks}:
        print("The target application terminated with an error", file=sys.stderr)
        sys.exit(1)
    path = pathlib.Path(words[words.index("-o") + 1])
    assert words[-2] == "--ops" and words[words.index("-o") + 2] == {program!r}
    make_big_export(path.with_suffix(".sqlite"), int(words[-1]), mix="dense")
else:
    print("Time (%),Name")
"""


@pytest.mark.usefixtures("compiled_at_hand")
@pytest.mark.parametrize("breaks", [False, True])
def test_what_nsys_records_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, breaks: bool) -> None:
    from labcode.kernels import build

    nsys, program = tmp_path / "nsys", tmp_path / "many_operations"
    root = str(Path(report_speed.__file__).parents[4])
    nsys.write_text(RECORDER.format(root=root, breaks=breaks, program=str(program)))
    nsys.chmod(0o755)
    monkeypatch.setattr(report_speed, "require_nsys", lambda: nsys)
    monkeypatch.setattr(report_speed, "TABLES", {"cuda_api_sum": 0})
    monkeypatch.setattr(report_speed, "LONGEST_FIRST", ())
    monkeypatch.setattr(report_speed, "SHORT", ("cuda_api_sum",))
    monkeypatch.setattr(build, "build", lambda name, capability: tmp_path / name)
    monkeypatch.setattr(build, "compute_capability", lambda: "90a")
    out = tmp_path / "r.json"
    words = ["--variant", "recorded", "--ops", "400", "--repetitions", "1", "--json", str(out)]
    if breaks:
        with pytest.raises(ToolError, match=r"no export came \(exit code 1: The target app"):
            report_speed.main(words)
        return
    assert report_speed.main(words) == 0
    record = json.loads(out.read_text())
    assert (record["variant"], record["results"]["ops"]) == ("recorded", 400)
    assert [row["report"] for row in record["results"]["reports"]] == ["cuda_api_sum"]


def test_without_nsys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABCODE_NSYS", str(tmp_path / "absent"))
    with pytest.raises(ToolError, match="absent"):
        report_speed.main([])
