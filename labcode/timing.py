"""Timing: functions in; microseconds by CUDA events or the host's clock, and their spread, out."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Spread:
    """Median, quartiles and extremes of repeated timings, in the unit of the timings."""

    count: int
    median: float
    q1: float
    q3: float
    least: float
    most: float


def quantile(values: Sequence[float], p: float) -> float:
    """The ``p``-quantile (0 … 1) of a list or array, interpolated linearly; ``ValueError`` without values."""
    if len(values) == 0:
        raise ValueError("no values to take a quantile of")
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"a quantile lies between 0 and 1, not at {p}")
    ordered = sorted(float(value) for value in values)
    place = p * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def spread(values: Sequence[float]) -> Spread:
    """Median and quartiles of repeated timings; ``ValueError`` without values."""
    return Spread(
        len(values),
        quantile(values, 0.5),
        quantile(values, 0.25),
        quantile(values, 0.75),
        min(values),
        max(values),
    )


def host_times_us(
    run: Callable[[], object], repetitions: int, *, wait: Callable[[], object] | None = None
) -> list[float]:
    """Host clock around each call, in microseconds; ``wait`` (``torch.cuda.synchronize``) is timed with it.

    Without ``wait`` an asynchronous call is timed until it returns, which says nothing about the work it
    started.
    """
    times = []
    for _ in range(repetitions):
        start = time.perf_counter_ns()
        run()
        if wait is not None:
            wait()
        times.append((time.perf_counter_ns() - start) / 1e3)
    return times


def event_times_us(
    run: Callable[[], object],
    repetitions: int,
    *,
    batch: int = 1,
    warmup: int = 0,
    before: Callable[[], object] | None = None,
) -> list[float]:
    """CUDA events around ``batch`` calls at a time, in microseconds a call; ``repetitions`` such timings.

    ``before`` runs ahead of each timing, outside it (for instance `flush_l2`). The GPU is waited for after
    each timing, so that the timings do not queue behind each other.
    """
    import torch

    for _ in range(warmup):
        run()
    torch.cuda.synchronize()
    times = []
    for _ in range(repetitions):
        if before is not None:
            before()
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(batch):
            run()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop) * 1e3 / batch)
    return times


def flush_l2(scratch: torch.Tensor) -> None:
    """Write a scratch tensor (see `l2_scratch`), so that what follows finds a cold cache."""
    scratch.zero_()


def l2_scratch(device: int = 0, factor: float = 2.0) -> torch.Tensor:
    """A byte tensor ``factor`` times the size of a GPU's L2 cache, for `flush_l2`."""
    import torch

    size = torch.cuda.get_device_properties(device).L2_cache_size
    return torch.empty(int(factor * size), dtype=torch.uint8, device=torch.device("cuda", device))
