"""The studies of measuring: what can be tried without a GPU, and a short run with one."""

import time
from pathlib import Path
from typing import Any

import pytest

from labcode.experiments.foundations.measuring import program as measuring
from labcode.experiments.shared import sensors as sensors_module
from tests.support.records import recorded


class FakeSensors:
    """Sensors whose memory clock answers only at times, as on a GPU that is asked too much."""

    available = True

    def __init__(self) -> None:
        self.count = 0

    def read(self) -> dict[str, float]:
        self.count += 1
        sample = {"sm_mhz": 1980.0, "power_w": 100.0 + self.count, "reasons": 4}
        return sample | ({"memory_mhz": 3201.0} if self.count % 2 else {})


def test_sampler_keeps_only_what_every_sample_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sensors_module, "SAMPLE_PERIOD_S", 0.01)
    sensors: Any = FakeSensors()
    with measuring.Sampler(sensors) as sampler:
        time.sleep(0.1)
    columns = sampler.columns()
    assert set(columns) == {"time_s", "sm_mhz", "power_w", "reasons"}
    assert len(columns["time_s"]) == len(columns["power_w"]) == sensors.count >= 3
    assert columns["time_s"] == sorted(columns["time_s"])
    assert columns["power_w"][0] == 101.0
    assert columns["reasons"][0] == 4


def test_without_sensors_there_are_no_samples() -> None:
    sensors: Any = FakeSensors()
    sensors.available = False
    with measuring.Sampler(sensors) as sampler:
        time.sleep(0.02)
    assert sampler.columns() == {"time_s": []}


@pytest.mark.parametrize(
    ("host", "rates", "failing"),
    [
        (2000.0, [1.0], set()),
        (1000.0, [1.0], {"waiting_host_clock_covers_events"}),
        (2000.0, [1.0, 0.0], {"rates_are_positive"}),
    ],
)
def test_checks_can_fail(host: float, rates: list[float], failing: set[str]) -> None:
    results = {
        "clocks_of_time": {"host_with_wait_us": [host], "events_us": [1900.0]},
        "cache": {"same_buffers_gbps": rates, "rotating_gbps": [5.0]},
    }
    checks = measuring.check(results)
    assert {name for name, check in checks.items() if not check.passed} == failing


@pytest.mark.parametrize("flags", [["--seconds", "0"], ["--scale", "2"], ["--study", "everything"]])
def test_bad_flags(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        measuring.main(flags)
    assert done.value.code == 2
    assert "measuring: error: " in capsys.readouterr().err


@pytest.mark.gpu
def test_short_run(tmp_path: Path) -> None:
    """The product must outlast the call that records its second event, and at this scale it does: of one that
    is done before, the events measure that call too, and the host that waits does not.
    """
    record = recorded(measuring, tmp_path, "--seconds", "0.2", "--scale", "0.25")
    assert set(record["results"]) == set(measuring.STUDIES)
    assert len(record["results"]["warmup"]["step_us"]) == 30
    assert (tmp_path / "record.json").stat().st_size < 200_000
