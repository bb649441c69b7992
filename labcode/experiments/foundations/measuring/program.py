"""How to measure, and how not to: the same things measured well and badly; a GPU in, a JSON record out.

Seven studies, each by one function: what the first iterations cost, three ways to time a matmul, the
spread of repeated timings, a warm and a cold cache, the data's influence on speed and power, the clock under
load, and what an event itself costs. The record holds the raw timings. The GPU's settings are left alone.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from labcode.experiments.shared import common
from labcode.experiments.shared.common import Check, rounded
from labcode.experiments.shared.sensors import Sampler, Sensors
from labcode.timing import event_times_us, host_times_us, quantile

if TYPE_CHECKING:
    import torch

PROGRAM = "measuring"
VARIANTS = ("record",)
STUDIES = ("warmup", "clocks_of_time", "spread", "cache", "data", "clocks", "events")
KIB, MIB = 2**10, 2**20


@dataclass(frozen=True)
class Context:
    """What every study gets: torch, the GPU, a factor on sizes, seconds of load, the sensors."""

    torch: Any
    device: torch.device
    scale: float
    seconds: float
    sensors: Sensors


@dataclass(frozen=True)
class ColdStart:
    """What came before the first study: importing torch and finding the GPU, which loads the driver."""

    import_ms: float
    find_gpu_ms: float


def study_warmup(torch: Any, device: torch.device, scale: float, cold: ColdStart) -> dict[str, Any]:
    """The first 30 steps of a small network in a new process, by the host's clock to the end of their work.

    It must run before anything else uses the GPU. Importing torch, finding the GPU, its first use (which
    makes the context) and making the model are timed apart.
    """
    begin = time.perf_counter()
    torch.empty(1, device=device)
    torch.cuda.synchronize()
    started = time.perf_counter()
    torch.manual_seed(1)
    width = max(16, int(1024 * scale))
    model = torch.nn.Sequential(
        torch.nn.Linear(width, width),
        torch.nn.GELU(),
        torch.nn.LayerNorm(width),
        torch.nn.Linear(width, width),
    ).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    inputs = torch.randn(256, width, device=device)
    torch.cuda.synchronize()
    made = time.perf_counter()

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        model(inputs).square().mean().backward()
        optimizer.step()

    return {
        "import_ms": rounded([cold.import_ms])[0],
        "find_gpu_ms": rounded([cold.find_gpu_ms])[0],
        "first_gpu_use_ms": rounded([1e3 * (started - begin)])[0],
        "make_model_ms": rounded([1e3 * (made - started)])[0],
        "step_us": rounded(host_times_us(step, 30, wait=torch.cuda.synchronize)),
    }


def study_clocks_of_time(c: Context) -> dict[str, Any]:
    """A matmul (fp32) timed three ways: host clock without and with waiting, CUDA events."""
    torch = c.torch
    n = max(64, int(4096 * c.scale))
    a, b, out = (torch.randn(n, n, device=c.device) for _ in range(3))

    def product() -> None:
        torch.mm(a, b, out=out)

    for _ in range(20):
        product()
    torch.cuda.synchronize()
    blind = []
    for _ in range(20):
        blind += host_times_us(product, 1)
        torch.cuda.synchronize()
    return {
        "n": n,
        "flop": 2 * n**3,
        "host_without_wait_us": rounded(blind),
        "host_with_wait_us": rounded(host_times_us(product, 20, wait=torch.cuda.synchronize)),
        "events_us": rounded(event_times_us(product, 20)),
        "events_batch_of_10_us": rounded(event_times_us(product, 20, batch=10)),
    }


def study_spread(c: Context) -> dict[str, Any]:
    """Repeated timings of a short kernel (an addition) and a long one (a product), one or ten at once."""
    torch = c.torch
    count, n = int(8 * MIB * c.scale), max(64, int(3584 * c.scale))
    x, y, z = (torch.randn(count, device=c.device) for _ in range(3))
    a, b, out = (torch.randn(n, n, device=c.device) for _ in range(3))

    def short() -> None:
        torch.add(x, y, out=z)

    def long() -> None:
        torch.mm(a, b, out=out)

    results: dict[str, Any] = {"short_bytes": 12 * count, "long_flop": 2 * n**3}
    for name, run in (("short", short), ("long", long)):
        results[f"{name}_single_us"] = rounded(event_times_us(run, 300, warmup=20), 5)
        results[f"{name}_batch_of_10_us"] = rounded(event_times_us(run, 100, batch=10, warmup=5), 5)
    return results


def study_cache(c: Context) -> dict[str, Any]:
    """GB/s of a scaled copy (read + write) by size: the same buffers again and again, and rotating over many.

    The rotating one touches at least four times the L2 cache before it returns to a buffer.
    """
    l2 = c.torch.cuda.get_device_properties(c.device).L2_cache_size
    sizes = [size for size in (256 * KIB << k for k in range(13)) if size <= 1024 * MIB * c.scale]
    return {
        "l2_bytes": l2,
        "array_bytes": sizes,
        "same_buffers_gbps": [_copy_gbps(c, size, 1) for size in sizes],
        "rotating_gbps": [_copy_gbps(c, size, max(1, -(-4 * l2 // (2 * size)))) for size in sizes],
    }


def _copy_gbps(c: Context, size: int, pairs: int) -> float:
    """Timed as a CUDA graph of many launches, so that launching does not hide the memory."""
    torch = c.torch
    torch.cuda.empty_cache()
    sources = torch.randn(pairs, size // 4, device=c.device)
    targets = torch.empty_like(sources)
    launches = max(pairs, 4, min(64, 256 * MIB // size))

    def copy_all() -> None:
        for k in range(launches):
            torch.mul(sources[k % pairs], 1.5, out=targets[k % pairs])

    copy_all()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        copy_all()
    typical_us = quantile(event_times_us(graph.replay, 7, warmup=2), 0.5)
    return rounded([2 * size * launches / typical_us / 1e3], 5)[0]


def study_data(c: Context) -> dict[str, Any]:
    """Products (bf16) of zeros, of ones and of random numbers, in turn, in rounds: speed, clock, power."""
    torch = c.torch
    n = max(64, int(8192 * c.scale))
    kinds: dict[str, Callable[[], Any]] = {
        "zeros": lambda: torch.zeros(n, n, dtype=torch.bfloat16, device=c.device),
        "ones": lambda: torch.ones(n, n, dtype=torch.bfloat16, device=c.device),
        "random": lambda: torch.randn(n, n, dtype=torch.bfloat16, device=c.device),
    }
    operands = {name: (make(), make()) for name, make in kinds.items()}
    out = torch.empty(n, n, dtype=torch.bfloat16, device=c.device)
    flop = 2 * n**3
    for a, b in operands.values():
        torch.mm(a, b, out=out)
    torch.cuda.synchronize()
    rounds = []
    for number in range(3):
        for name, (a, b) in operands.items():
            product = functools.partial(torch.mm, a, b, out=out)
            times: list[float] = []
            with Sampler(c.sensors) as sampler:
                until = time.perf_counter() + c.seconds
                while time.perf_counter() < until:
                    times += event_times_us(product, 1, batch=20)
            settled = times[len(times) // 2 :]
            entry: dict[str, Any] = {
                "round": number,
                "data": name,
                "tflops": rounded([flop / quantile(settled, 0.5) / 1e6], 5)[0],
                "times_us": rounded(times, 5),
            }
            columns = sampler.columns()
            for column in ("sm_mhz", "power_w", "power_instant_w"):
                if column in columns:
                    late = columns[column][len(columns[column]) // 2 :]
                    entry[column] = rounded([quantile(late, 0.5)], 5)[0]
            rounds.append(entry)
    return {"n": n, "flop": flop, "rounds": rounds}


def study_clocks(c: Context) -> dict[str, Any]:
    """Clock, power and temperature before, during and after a sustained product, and each product's time."""
    torch = c.torch
    n = max(64, int(8192 * c.scale))
    a, b, out = (torch.randn(n, n, dtype=torch.bfloat16, device=c.device) for _ in range(3))
    torch.mm(a, b, out=out)
    torch.cuda.synchronize()
    time.sleep(2 * c.seconds)  # let the averages forget what ran before
    origin = time.perf_counter()
    at_s: list[float] = []
    times: list[float] = []
    with Sampler(c.sensors, origin) as sampler:
        time.sleep(c.seconds)
        load_start = time.perf_counter() - origin
        while time.perf_counter() - origin - load_start < 3 * c.seconds:
            at_s.append(time.perf_counter() - origin)
            times += event_times_us(lambda: torch.mm(a, b, out=out), 1, batch=5)
        load_end = time.perf_counter() - origin
        time.sleep(2 * c.seconds)
    return {
        "n": n,
        "flop": 2 * n**3,
        "load_start_s": rounded([load_start])[0],
        "load_end_s": rounded([load_end])[0],
        "product_at_s": rounded(at_s, 5),
        "product_us": rounded(times, 5),
        "sensors": sampler.columns(),
    }


def study_events(c: Context) -> dict[str, Any]:
    """What events measure when there is nothing to: two in a row, and around a kernel of one thread."""
    torch = c.torch
    one = torch.zeros(1, device=c.device)
    nothing = event_times_us(lambda: None, 200, warmup=5)
    kernel = event_times_us(lambda: one.fill_(1.0), 200, warmup=5)
    hundred = event_times_us(lambda: one.fill_(1.0), 50, batch=100, warmup=5)
    seen = sorted({round(value, 4) for value in nothing + kernel})
    steps = [high - low for low, high in pairwise(seen) if high - low > 1e-3]
    return {
        "empty_interval_us": rounded(nothing, 5),
        "one_thread_kernel_us": rounded(kernel, 5),
        "one_thread_kernel_batch_of_100_us": rounded(hundred, 5),
        "smallest_step_us": rounded([min(steps)], 4)[0] if steps else None,
    }


def check(results: Mapping[str, Any]) -> dict[str, Check]:
    """The studies agree with each other where they must."""
    checks = {}
    if "clocks_of_time" in results:
        study = results["clocks_of_time"]
        host, events = quantile(study["host_with_wait_us"], 0.5), quantile(study["events_us"], 0.5)
        checks["waiting_host_clock_covers_events"] = Check(
            host >= 0.98 * events, f"host clock with wait {host:.1f} us, events {events:.1f} us"
        )
    if "cache" in results:
        rates = results["cache"]["same_buffers_gbps"] + results["cache"]["rotating_gbps"]
        checks["rates_are_positive"] = Check(
            min(rates) > 0, f"{len(rates)} rates, least {min(rates):.1f} GB/s"
        )
    return checks


def main(arguments: Sequence[str]) -> int:
    """Run the studies, print a line each, write the record; the exit code."""
    parser = common.parser(
        PROGRAM, "Measures the same things well and badly; the data of the chapter on measuring.", VARIANTS
    )
    parser.add_argument(
        "--study", choices=STUDIES, action="append", help="only this one (may be repeated; default all)"
    )
    parser.add_argument(
        "--seconds", type=float, default=1.0, help="length of a stretch of sustained load (default 1)"
    )
    parser.add_argument(
        "--scale", type=float, default=1.0, help="factor on the sizes, for a small GPU (default 1)"
    )
    given = parser.parse_args(arguments)
    if not 0 < given.seconds <= 60 or not 0 < given.scale <= 1:
        parser.error("--seconds lies between 0 and 60, --scale between 0 and 1")
    begin = time.perf_counter()
    torch = common.import_torch()
    imported = time.perf_counter()
    common.require_gpus(torch)
    cold = ColdStart(1e3 * (imported - begin), 1e3 * (time.perf_counter() - imported))
    torch.backends.cuda.matmul.allow_tf32 = False
    device = torch.device("cuda", 0)
    wanted = given.study or list(STUDIES)
    results: dict[str, Any] = {}
    if "warmup" in wanted:
        results["warmup"] = study_warmup(torch, device, given.scale, cold)
    context = Context(torch, device, given.scale, given.seconds, Sensors(torch, device))
    studies: dict[str, Callable[[Context], dict[str, Any]]] = {
        "clocks_of_time": study_clocks_of_time,
        "spread": study_spread,
        "cache": study_cache,
        "data": study_data,
        "clocks": study_clocks,
        "events": study_events,
    }
    for name, study in studies.items():
        if name in wanted:
            start = time.perf_counter()
            results[name] = study(context)
            print(f"  {name}: {time.perf_counter() - start:.1f} s", flush=True)
    record = common.Record(
        PROGRAM,
        given.variant,
        {
            "studies": wanted,
            "seconds": given.seconds,
            "scale": given.scale,
            "sensors": context.sensors.available,
        },
        results,
        check(results),
        common.gpu_info(torch, device),
    )
    return common.finish(record, given.json)


if __name__ == "__main__":
    common.run(PROGRAM, main)
