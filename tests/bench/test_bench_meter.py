"""What `labcode bench meter` makes of blocks of work, without a GPU."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
from rich.console import Console

from labcode.bench import meter
from labcode.errors import LabError
from labcode.meter.gpus import Gpu
from tests.support.fake_nvml import FakeGpu, FakeNvml


def test_blocks_with_and_without_the_meter_take_turns() -> None:
    nvml = FakeNvml(FakeGpu())
    torch = SimpleNamespace(cuda=SimpleNamespace(synchronize=lambda: None))
    gpus = [Gpu(nvml, nvml.gpus[0], 0)]
    found = meter._blocks(torch, lambda: time.sleep(0.001), 20, gpus, 0.3)
    assert set(found) == set(meter.PERIODS_S)
    for plain_ms, metered_ms, ratios in found.values():
        assert len(plain_ms) == len(metered_ms) == len(ratios) >= 1
        assert min(plain_ms + metered_ms) >= 1.0
    assert nvml.calls


def test_bad_use() -> None:
    with pytest.raises(LabError, match="--seconds 1: between 2 and 3600"):
        meter.main(1, None, Console())
