"""ex04: kernels and layers in; exposed communication, lateness and the model of gradient buckets out."""

from __future__ import annotations

import numpy as np
import pandas as pd

from labcode.analysis.timeline import intervals
from labcode.exercises.nsys.expected.tables import per_device, spans


def is_collective(kernels: pd.DataFrame) -> pd.Series[bool]:
    """ex04: which kernels are NCCL's."""
    return kernels["name"].str.contains("nccl", case=False)


def communication(kernels: pd.DataFrame) -> dict[int, tuple[int, int]]:
    """ex04: per device, the time with a collective and the part of it without any other kernel."""
    answer = {}
    for device, mine in per_device(kernels):
        collective = is_collective(mine)
        talk, compute = spans(mine[collective]), spans(mine[~collective])
        answer[device] = intervals.total(*talk), intervals.total(*intervals.subtract(*talk, *compute))
    return answer


def lateness_ns(kernels: pd.DataFrame) -> dict[int, int]:
    """ex04: per device with collectives, how much later than the first one it joined them, in all."""
    starts = {
        d: np.sort(rows["start_ns"].to_numpy(np.int64))
        for d, rows in per_device(kernels[is_collective(kernels)])
    }
    if not starts:
        return {}
    count = min(len(times) for times in starts.values())
    first = np.min([times[:count] for times in starts.values()], axis=0)
    return {device: int((times[:count] - first).sum()) for device, times in starts.items()}


def straggler(kernels: pd.DataFrame) -> int:
    """ex04: the device that is latest in all."""
    late = lateness_ns(kernels)
    return max(sorted(late), key=lambda device: late[device])


def buckets(layers: list[tuple[float, int]], bucket_bytes: int) -> list[tuple[float, int]]:
    """ex04: the gradient buckets, each with when it is ready and its bytes."""
    ready = np.cumsum([backward for backward, _ in layers])
    closed, filled = [], 0
    for index, (_, size) in enumerate(layers):
        filled += size
        if filled >= bucket_bytes or (index == len(layers) - 1 and filled):
            closed.append((float(ready[index]), filled))
            filled = 0
    return closed


def exposed_ns(
    layers: list[tuple[float, int]], bucket_bytes: int, latency_ns: float, bytes_per_ns: float
) -> float:
    """ex04: how long the last collective outlasts the backward pass."""
    done = 0.0
    for ready, size in buckets(layers, bucket_bytes):
        done = max(done, ready) + latency_ns + size / bytes_per_ns
    return done - sum(backward for backward, _ in layers)


def best_bucket_bytes(
    layers: list[tuple[float, int]], candidates: list[int], latency_ns: float, bytes_per_ns: float
) -> int:
    """ex04: the candidate with the least exposed time, the largest of equals."""
    return max(candidates, key=lambda size: (-exposed_ns(layers, size, latency_ns, bytes_per_ns), size))
