"""Sweeps of clocks and power limits: a plan unless asked for; the GPU is put back in any case."""

import sys
from pathlib import Path

import pytest

from labcode.errors import LabError, ToolError
from labcode.experiments.energy.sweep import program as sweep
from labcode.hardware import driver, management
from tests.support.fake_nvml import FakeGpu, FakeNvml

GPU = management.ManagedGpu("NVIDIA Test", "0000:01:00.0", max_sm_clock_mhz=1980, power_limit_w=700.0)
SMI = """#!/bin/sh
echo "$@" >> {log}
case "$*" in *{refused}*) echo "Insufficient Permissions"; exit 4;; esac
"""


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What an nvidia-smi was told, a line a call; this one refuses 13 W."""
    log, smi = tmp_path / "asked", tmp_path / "nvidia-smi"
    smi.write_text(SMI.format(log=log, refused="limit=13"))
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(management, "read", lambda: management.Management("nvml", "580", (GPU,)))
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(FakeGpu()))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return log


def test_without_a_wish_only_the_plan_is_printed(asked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sweep.main(["--variant", "power", "--shares", "1,0.5", "--", "python", "a b.py"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[1:6] == [
        "sudo nvidia-smi -i 0000:01:00.0 --power-limit=700",
        "labcode energy -o 700W.power.json -- python 'a b.py'",
        "sudo nvidia-smi -i 0000:01:00.0 --power-limit=350",
        "labcode energy -o 350W.power.json -- python 'a b.py'",
        "sudo nvidia-smi -i 0000:01:00.0 --power-limit=700",
    ]
    assert printed[6].startswith("# nothing was changed")
    assert not asked.exists()


def test_the_gpu_is_the_one_that_programs_see(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = [management.ManagedGpu(f"GPU {n}", f"00000000:0{n}:00.0") for n in range(3)]
    device = driver.CudaDevice("GPU", "9.0", 1, "0000:02:00.0", {})
    monkeypatch.setattr(driver, "ask", lambda: driver.Driver("13.0", (device,), None))
    assert sweep._first(gpus).name == "GPU 2"
    monkeypatch.setattr(driver, "ask", lambda: driver.Driver(None, (), "no driver"))
    assert sweep._first(gpus).name == "GPU 0"


def test_clocks_are_multiples_of_what_gpus_offer() -> None:
    found = sweep.plan("clocks", [1.0, 0.7], GPU)
    assert [value for value, _ in found.points] == [1980, 1380]
    assert found.back[-1] == "--reset-gpu-clocks"


def test_carried_out_each_point_has_its_energy_and_the_limit_is_put_back(asked: Path, tmp_path: Path) -> None:
    rows = sweep.carry_out(sweep.plan("power", [1.0, 0.5], GPU), ["sleep", "0.4"], 0.01)
    assert [row["value"] for row in rows] == [700, 350]
    assert all(60 < row["energy_j"] < 110 for row in rows)
    assert [line.rpartition("=")[2] for line in asked.read_text().splitlines()] == ["700", "350", "700"]


def test_a_program_that_fails_leaves_the_limit_as_it_was(asked: Path) -> None:
    with pytest.raises(ToolError, match="false: ended with exit code 1 at 350 W"):
        sweep.carry_out(sweep.plan("power", [0.5], GPU), ["false"], 0.01)
    assert asked.read_text().splitlines()[-1].endswith("--power-limit=700")


def test_without_the_right_it_says_whose_it_is(asked: Path) -> None:
    limited = management.ManagedGpu("NVIDIA Test", "0000:01:00.0", power_limit_w=26.0)
    with pytest.raises(LabError, match=r"--power-limit=13: failed \(Insufficient Permissions\); clocks and"):
        sweep.carry_out(sweep.plan("power", [0.5], limited), ["true"], 0.01)
    assert asked.read_text().splitlines()[-1].endswith("--power-limit=26")


@pytest.mark.parametrize(
    ("variant", "message"),
    [("clocks", "X: does not tell its highest clock"), ("power", "X: does not tell its power limit")],
)
def test_a_gpu_that_does_not_tell(variant: str, message: str) -> None:
    with pytest.raises(ToolError, match=message):
        sweep.plan(variant, [1.0], management.ManagedGpu("X", "0"))


def test_no_gpu_and_bad_shares(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(management, "read", lambda: management.Management(None, None, problem="no driver"))
    with pytest.raises(ToolError, match="nothing to plan for: no driver"):
        sweep.main(["--", "true"])
    with pytest.raises(SystemExit):
        sweep.main(["--shares", "1.2", "--", "true"])
    assert "1.2: shares are at most 1" in capsys.readouterr().err
