"""Collectives: sizes, numbers of GPUs and times in; bus bandwidth out."""

from __future__ import annotations

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter")


def bus_bandwidth_gbps(operation: str, count: int, size: float, seconds: float) -> float:
    """GB/s as nccl-tests defines them."""
    return size / seconds / 1e9 * (count - 1) / count * (2 if operation == "all_reduce" else 1)
