"""Runs beside the power meter: record and log of one run are filed; what goes wrong is one line."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from labcode.capture import tools
from labcode.capture.job import Job, Measured, one_by_one
from labcode.errors import LabError, ToolError
from labcode.record import nsys
from labcode.reports.power.log import open_log
from labcode.tools import ToolResult
from tests.capture import fakes
from tests.capture.conftest import Lab
from tests.support.fake_nvml import FakeGpu, FakeNvml


def make(lab: Lab, tmp_path: Path, nvml: FakeNvml, monkeypatch: Any, **job: Any) -> Measured:
    monkeypatch.setattr(tools, "IDLE_S", 0.05)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    staging = tmp_path / "staging"
    staging.mkdir()
    options = {"options": ("--period-ms=5",), **job}
    one = Job(
        tool="power",
        argv=("python", "-m", "program"),
        folder=staging,
        name="record",
        what="alpha/record",
        time_limit_s=1800.0,
        cwd=lab.home,
        **options,
    )
    results = [result for result, _ in one_by_one([("", part) for part in tools.parts(one, dict)], print)]
    return tools.finish(one, tools.measured(one, results, {"under the meter": 1.0}))


def test_record_and_log_of_one_run_are_filed(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make(lab, tmp_path, FakeNvml(FakeGpu(watts=250.0)), monkeypatch)
    assert (made.files, made.warnings) == (["record.power.json.xz", "record.json"], [])
    log = open_log(tmp_path / "staging" / made.files[0])
    assert list(log.windows["name"]) == ["idle", "command"]
    assert (log.command, log.exit_code, log.period_s) == ("python -m program", 0, 0.005)
    assert set(log.samples["instant_w"]) == {250.0}
    assert {path.name for path in (tmp_path / "staging").iterdir()} == {"work", *made.files}


def test_under_nsys_the_export_is_filed_too(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def profile(
        tool: Path, options: tuple[str, ...], command: list[str], report: Path, **rest: Any
    ) -> ToolResult:
        assert (options, command[0]) == (["--trace=cuda"], sys.executable)
        record = Path(command[command.index("--json") + 1])
        subprocess.run(command, cwd=lab.home, check=True)
        assert record.is_file()
        report.write_bytes(b"report")
        return ToolResult(0, "", "", 1.0)

    monkeypatch.setattr(nsys, "profile", profile)
    monkeypatch.setattr(nsys, "export", lambda tool, report, raw, **told: fakes.private_export(raw))
    options = ("--trace=cuda", "--period-ms=5")
    made = make(lab, tmp_path, FakeNvml(FakeGpu()), monkeypatch, program=Path("nsys"), options=options)
    assert made.files == ["record.nsys.xz", "record.power.json.xz", "record.json"]
    assert {path.name for path in (tmp_path / "staging").iterdir()} == {"work", *made.files}


def test_a_lost_gpu_files_nothing(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml(FakeGpu(lost_after_s=0.02))
    with pytest.raises(ToolError, match=r"^alpha/record: GPU 0 \(NVIDIA Test\) was lost after 0\.0 s"):
        make(lab, tmp_path, nvml, monkeypatch)


def test_a_failing_program_is_told_as_without_the_meter(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_PROGRAM", "check")
    with pytest.raises(ToolError, match="alpha/record: a check of the program failed: sum"):
        make(lab, tmp_path, FakeNvml(FakeGpu()), monkeypatch)


@pytest.mark.parametrize("option", ["--period-ms=", "--period-ms=0", "--period-ms=2.5"])
def test_an_option_the_meter_does_not_know(option: str) -> None:
    with pytest.raises(LabError, match=f"^{option}: the power meter takes --period-ms=N, N a whole number"):
        tools.period_s([option])
