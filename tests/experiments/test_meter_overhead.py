"""What a reading of the power meter costs a loop, from the times at which steps ended."""

import random
import statistics
from types import SimpleNamespace

import pytest

from labcode.errors import LabError
from labcode.experiments.energy.overhead import program as overhead

MS = 1_000_000


def loop(delay: int, *, noise: int = 0) -> tuple[list[int], list[tuple[int, int]]]:
    """Steps of 4 ms for 5 s, readings of 3 ms every 100 ms, each of which delays a step."""
    drawn = random.Random(1)
    ends, reads, now = [0], [], 0
    while now < 5_000 * MS:
        begin = (now // (100 * MS) + 1) * 100 * MS
        now += 4 * MS + drawn.randint(-noise, noise)
        if now >= begin:
            reads.append((begin, begin + 3 * MS))
            now += delay
        ends.append(now)
    return ends, reads


@pytest.mark.parametrize("delay", [0, MS // 2, 2 * MS])
def test_the_delay_is_found(delay: int) -> None:
    assert set(overhead.costs_of_readings(*loop(delay))) == {delay}
    costs = overhead.costs_of_readings(*loop(delay, noise=MS // 2))
    low, high = overhead._interval(costs)
    assert len(costs) > 40 and low < delay < high and high - low < 0.5 * MS
    assert low < statistics.fmean(costs) < high


def test_readings_without_steps_beside_them_are_left_out() -> None:
    ends, reads = loop(0)
    assert overhead.costs_of_readings(ends[::8], reads) == []  # steps of 32 ms
    assert overhead.costs_of_readings(ends, reads[:2]) == overhead.costs_of_readings([], []) == []


def test_a_loop_beside_the_meter(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimpleNamespace(name="made up", read=lambda: (1, 1, 1, 1, 1, 1, 1))
    torch = SimpleNamespace(cuda=SimpleNamespace(synchronize=lambda: None))
    monkeypatch.setattr(overhead, "training", lambda *_: lambda: sum(range(20_000)))
    monkeypatch.setattr(overhead, "PERIOD_S", 0.02)
    told = overhead.measure(torch, [gpu], 0.4)
    assert told["gpu"] == "made up" and [row["loop"] for row in told["rows"]] == list(overhead.LOOPS)
    for row in told["rows"]:
        assert row["readings"] >= 3 and row["step_ms"] > 0
        assert row["overhead_low"] <= row["overhead"] <= row["overhead_high"]
    monkeypatch.setattr(overhead, "PERIOD_S", 0.2)
    with pytest.raises(LabError, match="launch-bound: no reading fell among enough steps; measure longer"):
        overhead.measure(torch, [gpu], 0.4)
