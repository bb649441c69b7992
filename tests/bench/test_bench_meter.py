"""What `labcode bench meter` makes of blocks of work, without a GPU."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
from rich.console import Console

from labcode.bench import meter
from labcode.errors import LabError
from labcode.meter.gpus import Gpu
from labcode.workloads.energy import overhead
from tests.support.fake_nvml import FakeGpu, FakeNvml


def test_blocks_with_and_without_the_meter_take_turns() -> None:
    nvml = FakeNvml(FakeGpu())
    torch = SimpleNamespace(cuda=SimpleNamespace(synchronize=lambda: None))
    gpus = [Gpu(nvml, nvml.gpus[0], 0)]
    found = overhead._blocks(torch, lambda: time.sleep(0.001), 20, gpus, 0.3)
    assert set(found) == set(overhead.PERIODS_S)
    for plain_ms, metered_ms, ratios in found.values():
        assert len(plain_ms) == len(metered_ms) == len(ratios) >= 1
        assert min(plain_ms + metered_ms) >= 1.0
    assert nvml.calls


def test_a_row_for_each_loop_and_period(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml(FakeGpu())
    monkeypatch.setattr(overhead, "training", lambda torch, *size: lambda: time.sleep(0.0005))
    monkeypatch.setattr(overhead, "BLOCK_S", 0.005)
    torch = SimpleNamespace(cuda=SimpleNamespace(synchronize=lambda: None))
    found = overhead.measure(torch, [Gpu(nvml, nvml.gpus[0], 0)], 0.1)
    assert [(row["loop"], row["period_ms"]) for row in found["rows"]] == [
        (loop, 1e3 * period) for loop in overhead.LOOPS for period in overhead.PERIODS_S
    ]
    for row in found["rows"]:
        assert row["overhead_low"] <= row["overhead"] <= row["overhead_high"]
        assert row["step_ms"] >= 0.5
    assert found["sample_us"] > 0


def test_bad_use() -> None:
    with pytest.raises(LabError, match="--seconds 1: between 2 and 3600"):
        meter.main(1, None, Console())
