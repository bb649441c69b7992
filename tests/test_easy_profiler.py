"""GPUMonitor and auto_profile around functions and blocks, on GPUs that a test makes up."""

from __future__ import annotations

import asyncio
import functools
import inspect
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from labcode.easy_profiler import GPUMonitor, Profile, Result, auto_profile, sweep
from labcode.errors import LabError, ToolError
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


# ---- functions and blocks


def double(value: int, *, times: int = 2) -> int:
    """Doubles."""
    return value * times


def test_a_function_is_called_as_before_and_as_often() -> None:
    calls: list[int] = []

    @auto_profile(warmup=2, iterations=3)
    def step(value: int, *, more: int = 1) -> int:
        """Steps."""
        calls.append(value)
        return value + more

    assert [step(n, more=2) for n in range(8)] == list(range(2, 10)) and calls == list(range(8))
    assert step.__name__ == "step" and step.__doc__ == "Steps."  # type: ignore[attr-defined]
    assert str(inspect.signature(step)) == str(inspect.signature(step.__wrapped__))  # type: ignore[attr-defined]
    found = step.profile.result
    assert (len(found.times_us), found.warmup, found.clock) == (3, 2, "host clock")
    assert found.energy_j is None and found.gpu_bytes is None and found.host_bytes > 1e6
    summary = step.profile.get_summary()
    assert "step: " in summary and "(median of 3 after 2 of warm-up, by host clock" in summary


def test_without_options_every_call_after_three_counts() -> None:
    measured = auto_profile(double)
    assert [measured(n) for n in range(5)] == [0, 2, 4, 6, 8]
    assert len(measured.profile.result.times_us) == 2 and measured.profile.name == "double"


def test_async_functions_are_awaited_and_methods_bound() -> None:
    class Model:
        @auto_profile(warmup=0)
        async def step(self, value: int) -> int:
            await asyncio.sleep(0.01)
            return value

    assert asyncio.run(Model().step(3)) == 3  # type: ignore[arg-type,call-arg]
    assert Model.step.profile.result.median_us >= 10_000
    assert inspect.iscoroutinefunction(Model.step)


def test_a_block_is_one_iteration_and_one_that_raises_is_none() -> None:
    profile = auto_profile("load", warmup=1)
    for _ in range(3):
        with profile:
            time.sleep(0.002)
    with pytest.raises(ZeroDivisionError), profile:
        _ = 1 / 0
    with profile as outer, profile:  # nested
        assert outer is profile
    found = profile.result
    assert found.name == "load" and len(found.times_us) == 4 and found.times_us[0] >= 2_000
    failing = auto_profile(warmup=0)(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        failing()
    with pytest.raises(LabError, match="has no measured calls yet: 1 were made, and the first 0 are warm-up"):
        _ = failing.profile.result


def test_median_spread_and_interval() -> None:
    def result(times: Sequence[float]) -> Result:
        return Result("a", "host clock", tuple(times), tuple(times), 0, None, 1, None, None)

    found = result(range(1, 21))
    assert found.median_us == 10.5 and found.spread == pytest.approx(9.5 / 10.5)
    assert found.interval_us == (6, 15)  # scipy.stats.quantile_test(1..20, p=0.5).confidence_interval()
    assert result(range(1, 7)).interval_us == (1, 6) and math.isnan(result([1, 2]).interval_us[0])
    ratio, low, high = result([2.0 * n for n in range(1, 21)]).ratio_to(found)
    assert ratio == 2 and low < 2 < high


def test_a_sweep_has_a_table_a_plot_and_ratios_to_a_baseline(tmp_path: Path) -> None:
    made: list[int] = []

    def setup(size: int) -> dict[str, list[int]]:
        made.append(size)
        return {"values": list(range(size))}

    def reverse(values: list[int]) -> list[int]:
        return values[::-1]

    found = sweep(
        {"sort": sorted_values, "reverse": reverse}, {"size": [10, 3000]}, setup=setup, baseline="reverse"
    )
    assert made == [10, 3000] * 2 and list(found.table["variant"]) == ["sort"] * 2 + ["reverse"] * 2
    assert found.table["ratio"].to_list()[2:] == [1.0, 1.0] and found.table["ratio"][1] > 1
    assert found.table["low_us"].le(found.table["median_us"]).all() and "ratio_high" in str(found)
    picture = found.plot(tmp_path / "a.svg").read_text(encoding="utf-8")
    assert "sort, 3000" in picture
    with pytest.raises(LabError, match=r"a\.txt: the plot is a picture"):
        found.plot(tmp_path / "a.txt")
    by_value = sweep(double, {"value": [1, 2]}, baseline={"value": 1}, iterations=6)
    assert by_value.parameters == ("value",) and by_value.table["ratio"][0] == 1
    with pytest.raises(LabError, match="the baseline 'none' is none of what was measured"):
        sweep({"a": double}, {"value": [1]}, baseline="none")
    with pytest.raises(LabError, match="sweep: name several functions, or values of a parameter"):
        sweep(double)


def sorted_values(values: list[int]) -> list[int]:
    return sorted(values, key=lambda value: -value)


def test_counts_that_make_no_sense_and_generators_are_refused() -> None:
    with pytest.raises(LabError, match="warmup counts from 0, iterations from 1"):
        auto_profile(iterations=0)

    def numbers() -> Iterator[int]:
        yield 1

    with pytest.raises(LabError, match="numbers is a generator, which works while others take from it"):
        auto_profile(numbers)
    with pytest.raises(LabError, match="measures functions, and this is a property; put it below @property"):
        auto_profile(iterations=2)(property(numbers))  # type: ignore[arg-type]

    async def waits() -> None: ...

    with pytest.raises(LabError, match="waits is async; decorate it, and await it in a loop of your own"):
        auto_profile().measure(waits)
    with pytest.raises(LabError, match="enter the block first"):
        auto_profile().__exit__(None, None, None)


def test_a_measured_call_costs_less_than_two_microseconds_more() -> None:
    measured = auto_profile(double)

    def cost(function: Callable[[int], int]) -> float:
        best = math.inf
        for _ in range(20):
            began = time.perf_counter_ns()
            for _ in range(500):
                function(1)
            best = min(best, (time.perf_counter_ns() - began) / 500)
        return best

    plain = cost(double)  # 50 ns where nothing else runs; on a busy machine both take longer
    assert cost(measured) - plain < 2_000 * max(1, plain / 50)


class FakeEvent:
    made = 0

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing
        self.at = math.nan
        FakeEvent.made += 1

    def record(self, stream: int = 0) -> None:
        self.at = time.perf_counter() * 1e3 * (1 + stream)

    def query(self) -> bool:
        return True

    def elapsed_time(self, other: FakeEvent) -> float:
        return other.at - self.at


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """PyTorch with three GPUs, of which two hold memory; those that were waited for."""
    found: list[int] = []
    cuda = SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: True,
        device_count=lambda: 3,
        memory_reserved=lambda device: 100 * (device < 2),
        current_stream=lambda device: device,
        current_device=lambda: 0,
        reset_peak_memory_stats=lambda device: None,
        max_memory_allocated=lambda device: 5_000_000 * (device + 1),
        synchronize=lambda device=0: found.append(device),
        Event=FakeEvent,
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))  # type: ignore[arg-type]
    return found


def test_on_gpus_events_of_each_device_count_and_nothing_waits(waited: list[int]) -> None:
    profile = Profile("gpu", warmup=1, iterations=2, gpus=gpus())
    for _ in range(4):
        with profile:
            time.sleep(0.15)
    assert len(waited) == 2 * 3  # the meter's block: its begin and its end
    found = profile.result
    assert waited[6:8] == [0, 1] and found.clock == "CUDA events" and found.gpu_bytes == 10_000_000
    assert found.median_us == pytest.approx(2 * 150_000, rel=0.2)  # of the slower device
    assert found.energy_j == pytest.approx(0.15 * 200, rel=0.3) and found.energy_error_j
    assert "GPU memory: 10 MB" in found.get_summary() and "J ±" in found.get_summary()


@pytest.mark.usefixtures("waited")
def test_a_long_run_uses_its_events_again_and_keeps_the_order() -> None:
    FakeEvent.made = 0
    profile = Profile("gpu", warmup=0, devices=[0], energy=False)
    for n in range(700):
        with profile:
            time.sleep(0.05 if n in (3, 698) else 0)
    times = profile.result.times_us
    assert FakeEvent.made == 2 * 256  # made ahead, and used again
    assert len(times) == len(profile.result.host_us) == 700
    assert [n for n in (3, 698) if times[n] >= 50_000] == [3, 698] and times[4] < 50_000


@pytest.mark.usefixtures("waited")
def test_energy_is_that_of_the_calls_until_results_are_asked_for() -> None:
    profile = Profile("gpu", warmup=0, gpus=gpus())
    for calls in (1, 2):
        with profile:
            time.sleep(0.3)
        found = profile.result
        assert len(found.times_us) == calls and found.energy_j == pytest.approx(0.3 * 200, rel=0.3)


def test_blocks_of_tasks_that_take_turns_are_told_apart() -> None:
    profile = auto_profile("task", warmup=0)

    async def task(seconds: float) -> None:
        with profile:
            await asyncio.sleep(seconds)

    async def both() -> None:
        await asyncio.gather(task(0.06), task(0.02))

    asyncio.run(both())
    short, long = profile.result.times_us
    assert 20_000 <= short < 60_000 <= long


def test_what_works_only_after_the_call_is_measured_or_refused() -> None:
    class Model:
        async def __call__(self) -> int:
            await asyncio.sleep(0.02)
            return 3

    async def step() -> int:
        return await Model()()

    def task() -> Any:
        return asyncio.ensure_future(step())

    for made in (Model(), lambda: Model()(), functools.partial(step), task):
        measured: Any = auto_profile(warmup=0)(made)
        assert asyncio.run(alone(measured)) == 3
        assert measured.profile.result.median_us >= 20_000

    def numbers(count: int) -> Iterator[int]:
        yield count

    with pytest.raises(LabError, match="numbers is a generator, which works while others take from it"):
        auto_profile(functools.partial(numbers, 3))
    with pytest.raises(LabError, match="is a generator, which works while others take from it"):
        auto_profile(lambda: numbers(3))()  # in its warm-up, too

    class Later:
        def __await__(self) -> Any:
            return step().__await__()

    with pytest.raises(LabError, match="returns a Later, which works while it is awaited; measure an async"):
        auto_profile(lambda: Later())()
    with pytest.raises(LabError, match="Model is a class; decorate its methods"):
        auto_profile(Model)
    with pytest.raises(LabError, match="warmup counts from 0, iterations from 1, in whole numbers"):
        auto_profile(warmup="3")  # type: ignore[call-overload]


async def alone(measured: Any) -> Any:
    return await measured()


def test_a_call_of_itself_is_part_of_the_outermost() -> None:
    @auto_profile(warmup=0)
    def down(count: int) -> int:
        return down(count - 1) + 1 if count else 0

    assert down(10) == 10 and len(down.profile.result.times_us) == 1

    async def deeper(count: int) -> int:
        return await measured(count - 1) + 1 if count else 0

    measured: Any = auto_profile(warmup=0)(lambda count: deeper(count))
    assert asyncio.run(deeper(3)) == 3 and len(measured.profile.result.times_us) == 1


@pytest.mark.usefixtures("waited")
def test_without_nvml_the_times_are_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse() -> list[Gpu]:
        raise ToolError("NVML: not found")

    monkeypatch.setattr("labcode.easy_profiler.open_gpus", refuse)
    with GPUMonitor() as monitor, monitor.window("part"):
        time.sleep(0.01)
    assert capsys.readouterr().err == "GPUMonitor: no energy, times alone: NVML: not found\n"
    first, *others = monitor.get_summary().splitlines()
    assert first == "energy: not measured (NVML: not found)"
    assert [line.partition(":")[0] for line in others if "by CUDA events" in line] == ["this program", "part"]
    with pytest.raises(LabError, match="energy was not measured"):
        monitor.windows()
    monkeypatch.setitem(sys.modules, "torch", None)  # type: ignore[arg-type]
    with pytest.raises(ToolError, match="NVML: not found"):
        GPUMonitor().__enter__()
