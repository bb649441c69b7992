"""GPUMonitor around a block of code, on GPUs that a test makes up."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from labcode.easy_profiler import GPUMonitor
from labcode.errors import LabError
from labcode.meter.gpus import Gpu
from labcode.reports.power.log import open_log
from tests.support.fake_nvml import FakeGpu, FakeNvml


def gpus() -> list[Gpu]:
    nvml = FakeNvml(FakeGpu())
    return [Gpu(nvml, nvml.gpus[0], 0)]


def test_a_block_and_its_parts(tmp_path: Path) -> None:
    with GPUMonitor(0.01, gpus=gpus()) as monitor:
        for _ in range(2):
            with monitor.window("step"):
                time.sleep(0.3)
    table = monitor.windows()
    assert table["name"].to_list() == ["step", "step", "command"]
    assert table["counter_j"].to_list() == pytest.approx([60, 60, 120], rel=0.15)
    summary = monitor.get_summary()
    assert summary.startswith("this program: 0.6") and "J ±" in summary and "exit code" not in summary
    assert len(open_log(monitor.write(tmp_path / "a.power.json")).windows) == 3


def test_the_gpu_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[int] = []
    cuda = SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: True,
        device_count=lambda: 2,
        synchronize=waited.append,
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))  # type: ignore[arg-type]
    with GPUMonitor(0.01, gpus=gpus()) as monitor, monitor.window("part"):
        pass
    assert waited == [0, 1] * 4


def test_a_block_that_raises_is_measured_and_raises() -> None:
    monitor = GPUMonitor(0.01, gpus=gpus())
    with pytest.raises(ZeroDivisionError), monitor:
        time.sleep(0.2)
        _ = 1 / 0
    assert monitor.log.windows["name"].to_list() == ["command"]


def test_nothing_was_measured_yet() -> None:
    with pytest.raises(LabError, match="nothing was measured yet; put the work inside `with GPUMonitor"):
        GPUMonitor(gpus=gpus()).get_summary()
