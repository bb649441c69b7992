"""The system's clock is set while something is measured: durations do not change, and the step is told."""

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from labcode import store, tools
from labcode.analysis.energy.window import windows
from labcode.capture import verify
from labcode.meter import Meter
from labcode.meter.gpus import Gpu
from labcode.profiling import rank
from labcode.record import attend
from labcode.reports.power.log import log_of
from tests.capture.conftest import make_lab
from tests.support.fake_nvml import FakeGpu, FakeNvml

DAY = 86_400.0
STEPS = {"there and back": (DAY, 0.0, -DAY, 0.0), "on": (0.0, 3600.0, 7200.0), "slewed": (0.0, 0.05, 0.1)}


@pytest.fixture(params=STEPS, ids=list(STEPS))
def stepping(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[], float]:
    """The clock that can be set is ahead by another step at each look; how often it was looked at."""
    looks = itertools.count()
    steps, now = STEPS[request.param], time.time

    def stepped() -> float:
        return now() + steps[next(looks) % len(steps)]

    monkeypatch.setattr("time.time", stepped)
    monkeypatch.setattr("time.time_ns", lambda: int(stepped() * 1e9))
    return lambda: next(looks)


@pytest.fixture
def took() -> Iterator[Callable[[], float]]:
    began = time.monotonic()
    return lambda: time.monotonic() - began


def test_energy(stepping: Callable[[], float]) -> None:
    nvml = FakeNvml(FakeGpu())
    began = time.monotonic_ns()
    gpus = [Gpu(nvml, nvml.gpus[0], 0)]
    with Meter(gpus, period_s=0.01, utc=time.time_ns) as meter, meter.window("work"):
        time.sleep(0.1)
    most_ns = time.monotonic_ns() - began
    log = log_of(meter.document(), Path("log"))
    assert not log.partial and log.warnings
    assert all("the clock of the system was set by" in line for line in log.warnings)
    lasted = int(log.windows["end_ns"].iloc[0] - log.windows["begin_ns"].iloc[0])
    assert 100_000_000 <= lasted <= most_ns
    samples = log.of(0)["t_ns"]
    assert samples.is_monotonic_increasing and int(samples.iloc[-1] - samples.iloc[0]) <= most_ns
    assert 0 < windows(log)["counter_j"].iloc[0] <= 100 * most_ns / 1e9  # of 100 W
    assert stepping() > 0  # it was looked at, for the time of day


def test_a_capture(
    stepping: Callable[[], float],
    took: Callable[[], float],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    lab = make_lab(tmp_path, monkeypatch)
    assert lab.capture("alpha") == 0, lab.printed
    assert [str(one) for one in verify.verify("mine")] == []
    experiment = store.load_set("mine").experiments["alpha"]
    assert 0 < experiment.wall_s <= took()
    (line,) = [line for line in lab.printed.splitlines() if line.startswith("alpha/baseline: clean ")]
    spent = [float(text) for text in re.findall(r" (-?[\d.]+)(?=, | s; )", line)]
    assert len(spent) >= 6 and all(0 <= seconds <= took() for seconds in spent), line
    stepped = "slewed" not in request.node.name
    assert ("the system's clock was set by" in lab.printed) == stepped, lab.printed


@pytest.fixture
def handlers() -> Iterator[None]:
    """What handles signals is as before afterwards: a rank passes them on until it ends."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
def test_a_profiled_rank(stepping: Callable[[], float], took: Callable[[], float], tmp_path: Path) -> None:
    assert rank.run([], [sys.executable, "-c", "import time; time.sleep(0.05)"], tmp_path, 0) == 0
    end = json.loads((tmp_path / "rank0.json").read_text())
    assert 0.05 <= end["seconds"] <= took()
    assert stepping() > 0


def test_a_recording_ends_at_its_limit(stepping: Callable[[], float], took: Callable[[], float]) -> None:
    environment = {**os.environ, tools.MARK: "clock-steps"}
    ended = attend.attend(
        lambda: subprocess.Popen(["sleep", "60"], env=environment), limit_s=0.1, mark="clock-steps"
    )
    assert ended.cut == attend.LIMIT and 0.1 <= ended.seconds <= took() < 60
