"""The sampling thread, its windows and its log, on GPUs and clocks that a test makes up."""

import threading
import time
from pathlib import Path

import pytest

from labcode.analysis.energy.window import windows
from labcode.errors import LabError
from labcode.meter import Meter, clock_mark
from labcode.meter.columns import Columns
from labcode.meter.gpus import Gpu, GpuLostError, Reading
from labcode.reports.power.log import log_of, open_log
from tests.support.fake_nvml import FakeGpu, FakeNvml


class Ticking:
    """A GPU that draws 100 W and whose counter is always right; ``clock`` is moved by hand."""

    number, nvml_index, name, digest, power_limit_w = 0, 0, "Ticking", "", None

    def __init__(self) -> None:
        self.now_ns = 1_000_000_000
        self.read_error: str = ""
        self.fails = False

    def clock(self) -> int:
        return self.now_ns

    def read(self) -> Reading:
        if self.read_error:
            raise GpuLostError(self.read_error)
        if self.fails:
            return (None,) * 7
        return (100_000, 90_000, self.now_ns // 10_000, 1000, 2000, 40, 0)


@pytest.fixture
def ticking() -> Ticking:
    return Ticking()


def meter_of(gpu: Ticking, **more: object) -> Meter:
    return Meter([gpu], clock=gpu.clock, utc=lambda: gpu.now_ns + 7, **more)  # type: ignore[arg-type]


def test_a_thread_samples_at_its_period() -> None:
    nvml = FakeNvml(FakeGpu(), FakeGpu(watts=50))
    gpus = [Gpu(nvml, handle, number) for number, handle in enumerate(nvml.gpus)]
    before = threading.active_count()
    with Meter(gpus, period_s=0.01) as meter:
        assert threading.active_count() == before + 1
        with meter.window("work"):
            time.sleep(0.5)
    assert threading.active_count() == before
    log = log_of(meter.document(), Path("log"))
    assert 40 <= len(log.of(0)) <= 110
    table = windows(log).set_index("device")
    assert table.loc[0, "counter_j"] == pytest.approx(100, rel=0.1)
    assert table.loc[1, "counter_j"] == pytest.approx(25, rel=0.1)
    assert table["name"].to_list() == ["work", "work"]
    assert log.period_s == 0.01 and not log.partial and not log.warnings


def test_windows_nest_and_repeat(ticking: Ticking) -> None:
    meter = meter_of(ticking)
    for _ in range(2):
        meter.begin("outer")
        ticking.now_ns += 1_000_000_000
        with meter.window("inner"):
            ticking.now_ns += 1_000_000_000
        meter.end("outer")
    log = log_of(meter.document(), Path("log"))
    assert log.windows["name"].to_list() == ["inner", "outer"] * 2
    assert (log.windows["end_ns"] - log.windows["begin_ns"]).to_list() == [1_000_000_000, 2_000_000_000] * 2
    assert windows(log)["instance"].to_list() == [0, 0, 1, 1]
    with pytest.raises(LabError, match="no window 'inner' is open; begin it first"):
        meter.end("inner")


def test_an_open_window_ends_where_the_log_does(ticking: Ticking) -> None:
    meter = meter_of(ticking)
    meter.begin("open")
    ticking.now_ns += 5
    assert meter.document().windows[0].end_ns == ticking.now_ns


def test_a_gpu_that_is_lost_keeps_what_was_measured(ticking: Ticking) -> None:
    meter = meter_of(ticking)
    for _ in range(5):
        meter.sample()
        ticking.now_ns += 1_000_000_000
    ticking.read_error = "GPU is lost"
    meter.sample()
    meter.sample()
    document = meter.document()
    assert document.partial and len(document.devices[0].before_ns) == 5
    assert document.devices[0].lost == "GPU is lost"
    assert document.problems == [
        "GPU 0 (Ticking) was lost after 4.0 s: GPU is lost; what was measured before is kept"
    ]


def test_readings_that_fail_are_left_out_and_many_are_a_loss(ticking: Ticking) -> None:
    meter = meter_of(ticking)
    meter.sample()
    ticking.fails = True
    for _ in range(25):
        ticking.now_ns += 1
        meter.sample()
    document = meter.document()
    assert len(document.devices[0].before_ns) == 1
    assert document.devices[0].lost == "20 readings in a row failed"


def test_a_clock_that_steps_back_drops_samples_and_says_so(ticking: Ticking) -> None:
    meter = meter_of(ticking)
    for now in (1_000, 2_000, 1_500, 1_800, 3_000):
        ticking.now_ns = now
        meter.sample()
    document = meter.document()
    assert document.devices[0].before_ns == [1_000, 2_000, 3_000]
    assert document.problems == ["the clock went back 2 times; samples of those moments were dropped"]
    assert document.partial


def test_a_call_that_waits_is_known_by_both_its_ends(ticking: Ticking) -> None:
    meter = meter_of(ticking)
    read = ticking.read

    def waits() -> Reading:
        ticking.now_ns += 130_000_000
        return read()

    begin = ticking.now_ns
    meter.sample()
    ticking.now_ns += 10_000_000
    ticking.read = waits  # type: ignore[method-assign]
    meter.sample()
    (device,) = meter.document().devices
    assert device.before_ns == [begin, begin + 10_000_000]
    assert device.after_ns == [begin, begin + 140_000_000]
    samples = log_of(meter.document(), Path("log")).of(0)
    assert samples["t_ns"].to_list() == [begin, begin + 75_000_000]
    assert samples["after_ns"].to_list() == device.after_ns


def test_a_wall_clock_that_is_set_is_told_and_does_no_harm(ticking: Ticking) -> None:
    shift = 0
    meter = Meter([ticking], clock=ticking.clock, utc=lambda: ticking.now_ns + shift)
    meter.sample()
    ticking.now_ns += 1_000_000_000
    shift = -3_000_000_000
    meter.sample()
    ticking.now_ns += 1_000_000_000
    meter.sample()
    document = meter.document()
    assert len(document.devices[0].before_ns) == 3 and not document.partial
    assert document.clock.realtime_ns == [(1_000_000_000, 1_000_000_000), (2_000_000_000, -1_000_000_000)]
    assert document.problems == [
        "the clock of the system was set by -3.000 s while measuring; times in this log are of a clock that "
        "does not step"
    ]


def test_memory_is_bounded_and_energy_kept(ticking: Ticking) -> None:
    meter = meter_of(ticking, most=64)
    for _ in range(1000):
        meter.sample()
        ticking.now_ns += 100_000_000
    document = meter.document()
    (device,) = document.devices
    assert len(device.before_ns) < 64 and device.samples_merged == 16
    assert any("16 samples each were averaged into one" in line for line in document.problems)
    curve = log_of(document, Path("log"))
    table = windows(curve)
    assert table["counter_j"].iloc[0] == pytest.approx(100 * table["seconds"].iloc[0], rel=1e-3)
    assert table["integral_j"].iloc[0] == pytest.approx(table["counter_j"].iloc[0], rel=1e-3)


def test_merging_keeps_the_peak_and_all_reasons() -> None:
    columns = Columns(most=4)
    for place, (watts, reasons) in enumerate([(1, 0), (9, 4), (1, 8), (3, 0), (1, 0), (5, 0)]):
        columns.add((place, place + 1), (watts, None, place * 10, 100, None, 40, reasons))
    assert columns.merged == 2 and columns.peak_mw == 9
    assert list(columns.before_ns) == [1, 3, 5] and list(columns.after_ns) == [2, 4, 6]
    assert columns.values("instant_mw") == [5, 2, 3]
    assert columns.values("energy_mj") == [10, 30, 50]
    assert columns.values("reasons") == [4, 8, 0]
    assert columns.values("average_mw") is None
    assert columns.last("instant_mw") == 3


def test_two_meters_at_once_say_the_same() -> None:
    nvml = FakeNvml(FakeGpu())
    gpus = [Gpu(nvml, nvml.gpus[0], 0)]
    one, other = (Meter(gpus, period_s=0.01) for _ in range(2))
    with one, other, one.window("w"), other.window("w"):
        time.sleep(0.4)
    found = [windows(log_of(m.document(), Path("log")))["counter_j"].iloc[0] for m in (one, other)]
    assert found[0] == pytest.approx(found[1], rel=0.1)


@pytest.mark.parametrize("period_s", [0.0, -1.0, 0.0001, 61.0, float("nan")])
def test_a_period_that_makes_no_sense(period_s: float) -> None:
    with pytest.raises(LabError, match=r"sample every 0\.001 s to 60 s"):
        Meter([], period_s=period_s)


def test_a_meter_is_started_once(ticking: Ticking) -> None:
    with Meter([ticking]) as meter, pytest.raises(LabError, match="started already"):
        meter.start()
    meter.stop()


def test_a_log_is_written_and_read(ticking: Ticking, tmp_path: Path) -> None:
    meter = meter_of(ticking)
    for _ in range(3):
        meter.sample()
        ticking.now_ns += 1_000_000_000
    for name in ("a.power.json", "a.power.json.xz"):
        log = open_log(meter.write(tmp_path / name, command="prog", exit_code=3))
        assert (log.command, log.exit_code) == ("prog", 3)
        assert log.of(0)["instant_w"].to_list() == [100.0] * 3
    with pytest.raises(LabError, match=r"a power log's name ends in \.power\.json or \.power\.json\.xz"):
        meter.write(tmp_path / "a.json")


def test_the_mark_names_the_clock() -> None:
    before = time.monotonic_ns()
    word, now = clock_mark().split(" ")
    assert word == "lab:clock" and before <= int(now) <= time.monotonic_ns()
