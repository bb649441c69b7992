"""The book's arithmetic as its calculators ask for it: a handful of numbers in, a handful of numbers out.

Each function takes what a reader can set and gives what follows; units stand in the names. What is known
elsewhere (laws of scaling, the α–β model, M/G/1, a decoder's FLOPs) is asked of its own module.
``book/_static/calculators.js`` has the same functions under the same names, and a test holds both to the same
answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from labcode.analysis.lm.decoder import Size, matmul_flops
from labcode.analysis.scaling import bus, collectives, laws
from labcode.analysis.serving import queueing

Numbers = Mapping[str, float]
LONG_SHARE = 0.1  # of the requests of `queue`
_MIB = 2**20


def roofline(x: Numbers) -> dict[str, float]:
    """A kernel of ``intensity`` FLOP/byte below a roof of ``peak`` TFLOP/s and ``bandwidth`` GB/s.

    Times are of a gigabyte of traffic.
    """
    bytes_ms, flops_ms = 1e3 / x["bandwidth"], x["intensity"] / x["peak"]
    attainable = min(x["peak"], x["intensity"] * x["bandwidth"] / 1e3)
    return {
        "attainable": attainable,
        "share": attainable / x["peak"],
        "ridge": 1e3 * x["peak"] / x["bandwidth"],
        "bytes_ms": bytes_ms,
        "flops_ms": flops_ms,
    }


def step(x: Numbers) -> dict[str, float]:
    """A training step of a decoder (width ``d_model``, ``layers``) on ``batch`` sequences of ``context``.

    ``peak`` in TFLOP/s, ``step_ms`` as measured. ``mfu`` is the model's FLOPs by time and peak.
    """
    size = Size(int(x["d_model"]), 4 * int(x["d_model"]), int(x["layers"]), 1)
    flop = matmul_flops(size, int(x["batch"]), int(x["context"]), backward=True)
    least_ms = flop / x["peak"] / 1e9
    return {
        "tflop": flop / 1e12,
        "least_ms": least_ms,
        "mfu": least_ms / x["step_ms"],
        "tokens_per_s": 1e3 * x["batch"] * x["context"] / x["step_ms"],
    }


def cache(x: Numbers) -> dict[str, float]:
    """A step of decoding: weights once, and for each of ``batch`` sequences a cache of ``context`` tokens.

    ``parameters`` in billions; ``weight_bytes`` and ``value_bytes`` of one number; ``kv_width``: heads of
    keys times their width; ``memory`` in GB, ``bandwidth`` in GB/s, ``peak`` in TFLOP/s. FLOPs of attention
    itself are left out.
    """
    weights_gb = x["parameters"] * x["weight_bytes"]
    sequence_mb = 2 * x["layers"] * x["kv_width"] * x["value_bytes"] * x["context"] / 1e6
    needs_gb = weights_gb + x["batch"] * sequence_mb / 1e3
    bytes_ms = 1e3 * needs_gb / x["bandwidth"]
    flops_ms = 2 * x["batch"] * x["parameters"] / x["peak"]
    step_ms = max(bytes_ms, flops_ms)
    return {
        "weights_gb": weights_gb,
        "sequence_mb": sequence_mb,
        "fits": max(0.0, math.floor(1e3 * (x["memory"] - weights_gb) / sequence_mb)),
        "needs_gb": needs_gb,
        "step_ms": step_ms,
        "flops_share": flops_ms / bytes_ms,
        "tokens_per_s": 1e3 * x["batch"] / step_ms,
    }


def allreduce(x: Numbers) -> dict[str, float]:
    """An all-reduce of ``mib`` MiB on ``count`` GPUs, by ``alpha_us`` and ``gbps`` of two (`collectives`)."""
    same = {"alpha_low_us": x["alpha_us"], "alpha_high_us": x["alpha_us"], "worst": 0.0}
    link = collectives.Link(
        operation="all_reduce",
        count=2,
        alpha_us=x["alpha_us"],
        gbps=x["gbps"],
        gbps_low=x["gbps"],
        gbps_high=x["gbps"],
        drawn=np.zeros((1, 2)),
        missed=np.zeros(1),
        moves=np.zeros(1, dtype=np.bool_),
        **same,
    )
    count, size = int(x["count"]), x["mib"] * _MIB
    seconds = collectives.seconds(link, count, size)
    start_s = collectives.seconds(link, count, 0.0)
    return {
        "time_us": 1e6 * seconds,
        "bus_gb_per_s": bus.bus_bandwidth_gbps("all_reduce", count, size, seconds),
        "start_share": start_s / seconds,
        "half_mib": x["mib"] * start_s / (seconds - start_s),
    }


def scaling(x: Numbers) -> dict[str, float]:
    """Speed-up on ``count`` GPUs by three laws, from a ``serial`` share and a ``crosstalk`` of each pair."""
    serial, count = x["serial"], int(x["count"])
    found = {
        "amdahl": laws.speedup("amdahl", count, serial),
        "gustafson": laws.speedup("gustafson", count, serial),
        "universal": laws.speedup("universal", count, serial, x["crosstalk"]),
    }
    return {
        **found,
        "efficiency": found["universal"] / count,
        "limit": 1 / serial,
        "best": math.sqrt((1 - serial) / x["crosstalk"]),
    }


def queue(x: Numbers) -> dict[str, float]:
    """One server, busy for ``load`` of the time, requests of ``mean_ms`` that vary by ``variation``.

    Variation is the standard deviation by the mean, at most 3: nine of ten requests are short, one is long.
    """
    long_ms = x["mean_ms"] * (1 + 3 * x["variation"])
    short_ms = x["mean_ms"] * (1 - x["variation"] / 3)
    services_s = [short_ms / 1e3] * 9 + [long_ms / 1e3]
    rate = 1e3 * x["load"] / x["mean_ms"]
    p50, p99 = (1e3 * queueing.response_quantile_s(rate, services_s, share) for share in (0.5, 0.99))
    return {
        "rate_per_s": rate,
        "wait_ms": 1e3 * queueing.mean_wait_s(rate, services_s),
        "p50_ms": p50,
        "p99_ms": p99,
        "times": p99 / p50,
    }


def joules(x: Numbers) -> dict[str, float]:
    """A token's energy where the GPU works for ``load`` of the time, ``watts`` then and ``idle_watts`` else.

    ``tokens_per_s`` is the rate while it works.
    """
    working_j = x["watts"] / x["tokens_per_s"]
    token_j = working_j + x["idle_watts"] * (1 - x["load"]) / x["load"] / x["tokens_per_s"]
    return {
        "token_mj": 1e3 * token_j,
        "idle_share": 1 - working_j / token_j,
        "tokens_per_j": 1 / token_j,
        "kwh": token_j / 3.6,
    }


CALCULATORS: dict[str, Callable[[Numbers], dict[str, float]]] = {
    "roofline": roofline,
    "step": step,
    "cache": cache,
    "allreduce": allreduce,
    "scaling": scaling,
    "queue": queue,
    "joules": joules,
}
