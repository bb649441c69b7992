"""Exercise scaling-ex03, part a: alone, and hidden.

`bus_gb_per_s(operation, gpus, size, time_us)`: the bus bandwidth in GB/s, as nccl-tests defines it, of an
'all_reduce', 'all_gather' or 'reduce_scatter' of so many bytes.

`alpha_beta(sizes, times_us, factor)`: (α in µs, B in GB/s) of the model t = α + factor · bytes / B, by least
squares of relative errors.

`exposed(step_ms, alone_ms, sent_ms)`: (exposed time in ms, hidden share): what communication adds to a step
that takes `alone_ms` without it, and the share of `sent_ms` (communication with nothing else running) that it
does not add. No bounds: overlap that slows computing down can hide less than nothing.

`best_bucket(limits_mb, total_mb, backward_ms, alpha_us, gb_per_s)`: gradients of `total_mb` (10⁶ bytes)
appear evenly during the backward pass and are cut into n = ceil(total / limit) equal buckets. The k-th is
ready when k/n of the pass is done; buckets are sent one after the other, each in alpha_us + its bytes /
gb_per_s, none before it is ready. Give (limit, exposed ms) of the limit that leaves least to send after the
pass; of equal ones the first.

A worked example: 100 MB, a pass of 10 ms, 100 µs and 100 GB/s. In one bucket (limit 100): ready at 10 ms,
sent in 0.1 + 1 ms, exposed 1.1 ms. In two (limit 50): the first is sent from 5 to 5.6 ms, the second from
10 to 10.6 ms:

    best_bucket([100.0, 50.0], 100.0, 10.0, 100.0, 100.0)         -> (50.0, 0.6)

Grade it:         labcode exercises scaling-ex03a        (or: nox -s exercises -- scaling-ex03a)
Get a hint:       labcode exercises scaling-ex03a --hint
"""

from math import ceil

import numpy as np


def bus_gb_per_s(operation: str, gpus: int, size: float, time_us: float) -> float:
    """Bus bandwidth of a collective."""
    raise NotImplementedError("bytes by time, times what each GPU must send for a byte")


def alpha_beta(sizes: list[float], times_us: list[float], factor: float) -> tuple[float, float]:
    """Latency in µs and bandwidth in GB/s by least squares of relative errors."""
    raise NotImplementedError("each equation divided by its time")


def exposed(step_ms: float, alone_ms: float, sent_ms: float) -> tuple[float, float]:
    """What communication adds to a step, and the share of it that is hidden."""
    raise NotImplementedError("with less without; the rest of what it takes alone")


def best_bucket(
    limits_mb: list[float], total_mb: float, backward_ms: float, alpha_us: float, gb_per_s: float
) -> tuple[float, float]:
    """The limit of a bucket that exposes least, and how much that is."""
    raise NotImplementedError("replay the buckets for each limit")


if __name__ == "__main__":
    from statistics import median

    from labcode.store import load_set

    captures = load_set()
    sweep = captures.record("scaling_collectives", "sweep")["results"]["cases"]
    two = [case for case in sweep if case["operation"] == "all_reduce" and case["count"] == 2]
    sizes, times_us = [case["bytes"] for case in two], [median(case["times_us"]) for case in two]
    largest = bus_gb_per_s("all_reduce", 2, sizes[-1], times_us[-1])
    print(f"all-reduce of {sizes[-1] / 2**30:g} GiB on two GPUs: {largest:.0f} GB/s")
    alpha_us, gb_per_s = alpha_beta(sizes, times_us, 1.0)
    print(f"alpha {alpha_us:.1f} µs, B {gb_per_s:.0f} GB/s")
    cases = captures.record("scaling_training", "weak")["results"]["cases"]
    alone = next(median(case["step_ms"]) for case in cases if case["strategy"] == "single")
    for case in cases:
        if case["all_reduce_ms"]:
            added, hidden = exposed(median(case["step_ms"]), alone, case["all_reduce_ms"])
            print(f"{case['strategy']}: adds {added:.1f} ms, hides {hidden:.0%}")
