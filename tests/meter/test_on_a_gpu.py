"""The meter on a real GPU: windows agree with each other, and metering costs next to nothing."""

import time
from pathlib import Path

import numpy as np
import pytest

from labcode.easy_profiler import GPUMonitor
from labcode.meter import Meter, open_gpus
from labcode.reports.power.log import open_log

pytestmark = pytest.mark.gpu


def work(seconds: float) -> None:
    import torch

    x = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(20):
            x @ x
        torch.cuda.synchronize()


def test_windows_agree_and_the_counter_agrees_with_power(tmp_path: Path) -> None:
    work(2.0)
    with GPUMonitor(0.02) as monitor:
        for _ in range(3):
            with monitor.window("matmul"):
                work(3.0)
    table = monitor.windows()
    mine = table[(table["name"] == "matmul") & (table["device"] == 0)]
    watts = mine["counter_j"] / mine["seconds"]
    assert watts.min() > 150
    assert watts.max() / watts.min() < 1.05
    assert (mine["updates"] >= 20).all() and (mine["error_j"] < 0.15 * mine["counter_j"]).all()
    assert mine["disagreement"].abs().max() < 0.1
    log = open_log(monitor.write(tmp_path / "a.power.json.xz"))
    assert not log.partial and log.of(0)["temperature_c"].between(15, 95).all()


def test_a_sample_takes_little_of_a_tenth_of_a_second() -> None:
    meter = Meter(open_gpus()[:1])
    costs = []
    for _ in range(50):
        began = time.perf_counter()
        meter.sample()
        costs.append(time.perf_counter() - began)
    assert np.median(costs) < 0.01
