"""What `auto_profile` adds to a call, and whether it is right: flags in; added time and known work out.

A short call runs in blocks, in turns: by itself, between two CUDA events as one would write them by hand, and
under each use of `auto_profile`. A matmul is timed by `auto_profile` and by events of the lab's own,
and in a sweep over sizes and precisions.
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from labcode.easy_profiler import auto_profile, sweep
from labcode.experiments.shared import common
from labcode.experiments.shared.common import Check
from labcode.timing import event_times_us, quantile

PROGRAM = "easy_overhead"
VARIANTS = ("record",)
CALLS = 300  # of a block: fewer than the GPU's queue holds
BY_HAND = "events by hand"
SIZES = (1024, 4096)
SAME = 0.1  # relative: two ways to time one product


def added(torch: Any, blocks: int) -> list[dict[str, Any]]:
    """A row for each way to call: the median time of a call, and what it adds to events by hand."""
    x = torch.zeros(64, device="cuda")

    def short() -> object:
        return x.add_(1)

    kept: list[object] = []

    def by_hand() -> object:
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        value = short()
        stop.record()
        kept.append((start, stop))
        return value

    decorated = auto_profile(warmup=0, energy=False)(short)
    over = auto_profile(warmup=0, iterations=1, energy=False)(short)
    block = auto_profile("block", warmup=0, energy=False)

    def in_block() -> object:
        with block:
            return short()

    ways: dict[str, Callable[[], object]] = {
        "nothing": short,
        BY_HAND: by_hand,
        "auto_profile": decorated,
        "auto_profile, a block": in_block,
        "auto_profile, after the last iteration": over,
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    order = random.Random(1)
    for _ in range(blocks + 1):
        for name in order.sample(list(ways), len(ways)):
            times[name].append(_call_us(torch, ways[name]))
        kept.clear()
    hand = times[BY_HAND][1:]  # the first block warms up
    rows = []
    for name, found in times.items():
        more = [one - other for one, other in zip(found[1:], hand, strict=True)]
        rows.append(
            {
                "way": name,
                "call_us": statistics.median(found[1:]),
                "added_us": statistics.median(more),
                "added_low_us": quantile(more, 0.25),
                "added_high_us": quantile(more, 0.75),
            }
        )
    return rows


def _call_us(torch: Any, call: Callable[[], object]) -> float:
    torch.cuda.synchronize()
    began = time.perf_counter_ns()
    for _ in range(CALLS):
        call()
    took = time.perf_counter_ns() - began
    torch.cuda.synchronize()
    return took / CALLS / 1e3


def known_work(torch: Any, seconds: float) -> dict[str, Any]:
    """A matmul by events of `labcode.timing`, by `auto_profile` called and awaited; its energy."""
    a = torch.randn(SIZES[-1], SIZES[-1], device="cuda", dtype=torch.bfloat16)

    def product() -> Any:
        return a @ a

    async def awaited() -> Any:
        return product()

    async def several() -> None:
        for _ in range(55):
            await later()

    events_us = statistics.median(event_times_us(product, 10, batch=10, warmup=5))  # as they queue up
    called = auto_profile("product", warmup=5, iterations=50, energy=False)
    called.measure(product)
    result = called.result  # which waits for the GPU
    later = auto_profile(warmup=5, energy=False)(awaited)
    asyncio.run(several())
    awaited_us = later.profile.result.median_us
    long = auto_profile("product", warmup=5, iterations=max(50, round(seconds * 1e6 / events_us)))
    long.measure(product)
    return {
        "events_us": events_us,
        "auto_profile_us": result.median_us,
        "low_us": result.interval_us[0],
        "high_us": result.interval_us[1],
        "awaited_us": awaited_us,
        "gpu_bytes": result.gpu_bytes,
        "long_us": long.result.median_us,
        "energy_j": long.result.energy_j,
        "energy_error_j": long.result.energy_error_j,
    }


def swept(torch: Any) -> list[dict[str, Any]]:
    """The rows of a sweep over two precisions and sizes."""

    def setup(n: int) -> dict[str, Any]:
        return {"a": torch.randn(n, n, device="cuda")}

    found = sweep(
        {"fp32": lambda a: a @ a, "bf16": lambda a: a.bfloat16() @ a.bfloat16()},
        {"n": SIZES},
        setup=setup,
        baseline="fp32",
    )
    rows: list[dict[str, Any]] = json.loads(found.table.to_json(orient="records"))
    return rows


def main(arguments: Sequence[str]) -> int:
    """Measure, print and write the record; the exit code."""
    parser = common.parser(PROGRAM, "Times calls with auto_profile and without it.", VARIANTS)
    parser.add_argument("--blocks", type=common.whole(1, 10_000), default=100, help="of each way (100)")
    parser.add_argument("--seconds", type=common.positive, default=2.0, help="of products (2)")
    given = parser.parse_args(arguments)
    torch = common.import_torch()
    common.require_gpus(torch)
    rows = added(torch, given.blocks)
    for row in rows:
        print(f"  {row['way']}: {row['call_us']:.2f} µs, {row['added_us']:+.2f} µs to events", flush=True)
    work = known_work(torch, given.seconds)
    checks = {}
    for way in ("auto_profile_us", "awaited_us"):
        ratio = work[way] / work["events_us"]
        checks[way] = Check(abs(ratio - 1) <= SAME, f"{ratio:.3f} of the time by events, wanted 1 ± {SAME}")
    results = {"rows": rows, "work": work, "sweep": swept(torch)}
    record = common.Record(
        PROGRAM,
        given.variant,
        common.parameters_of(given),
        results,
        checks,
        common.gpu_info(torch, torch.device("cuda", 0)),
    )
    return common.finish(record, given.json)


if __name__ == "__main__":
    common.run(PROGRAM, main)
