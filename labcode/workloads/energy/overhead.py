"""What the power meter costs a training loop: seconds to measure in; step times with and without it out.

Blocks of the same loop run without the meter and with it at each period, in turns, so that drift meets all of
them; a block with the meter is compared with the mean of its neighbors without it.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from labcode.meter import Meter, open_gpus
from labcode.timing import quantile
from labcode.workloads.shared import common
from labcode.workloads.shared.common import Check

PROGRAM = "meter_overhead"
VARIANTS = ("record",)
PERIODS_S = (0.1, 0.02)
BLOCK_S = 0.3
SAMPLES = 100
LOOPS = {  # width, layers, batch: one that waits for Python, and one that waits for the GPU
    "launch-bound": (128, 24, 64),
    "GPU-bound": (4096, 8, 4096),
}


def measure(torch: Any, gpus: list[Any], seconds: float) -> dict[str, Any]:
    """The GPUs, what a sample of them takes, and a row for each loop and period with its overhead."""
    one = Meter(gpus)
    costs = [_timed(one.sample) for _ in range(SAMPLES)]
    rows = []
    for name, size in LOOPS.items():
        step = training(torch, *size)
        blocks = _blocks(torch, step, _steps_of(torch, step), gpus, seconds / len(LOOPS))
        for period_s, (plain_ms, metered_ms, ratios) in blocks.items():
            rows.append(
                {
                    "loop": name,
                    "period_ms": period_s * 1e3,
                    "blocks": len(ratios),
                    "step_ms": statistics.median(plain_ms),
                    "metered_step_ms": statistics.median(metered_ms),
                    "overhead": statistics.median(ratios) - 1,
                    "overhead_low": quantile(ratios, 0.25) - 1,
                    "overhead_high": quantile(ratios, 0.75) - 1,
                }
            )
    sample_us = statistics.median(costs) * 1e6
    return {"gpu": gpus[0].name, "gpus": len(gpus), "sample_us": sample_us, "rows": rows}


def training(torch: Any, width: int, layers: int, batch: int) -> Callable[[], None]:
    """One step of training a stack of linear layers in bf16, forward, backward and update."""
    torch.manual_seed(1)
    parts = [part for _ in range(layers) for part in (torch.nn.Linear(width, width), torch.nn.ReLU())]
    model = torch.nn.Sequential(*parts).to("cuda", torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    data = torch.randn(batch, width, device="cuda", dtype=torch.bfloat16)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        model(data).square().mean().backward()
        optimizer.step()

    return step


def _steps_of(torch: Any, step: Callable[[], None]) -> int:
    """How many steps fill a block."""
    for _ in range(20):
        step()
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(10):
        step()
    torch.cuda.synchronize()
    return max(1, round(BLOCK_S * 10 / (time.perf_counter() - began)))


def _blocks(
    torch: Any, step: Callable[[], None], count: int, gpus: list[Any], seconds: float
) -> dict[float, tuple[list[float], list[float], list[float]]]:
    """By period: milliseconds a step of the blocks without and with the meter, and the ratios."""

    def block() -> float:
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(count):
            step()
        torch.cuda.synchronize()
        return (time.perf_counter() - began) / count * 1e3

    def metered(period_s: float) -> float:
        with Meter(gpus, period_s=period_s):
            return block()

    found: dict[float, tuple[list[float], list[float], list[float]]] = {p: ([], [], []) for p in PERIODS_S}
    order = random.Random(1)
    end = time.monotonic() + seconds
    before = block()
    while time.monotonic() < end or not all(len(ratios) for _, _, ratios in found.values()):
        for period_s in order.sample(PERIODS_S, len(PERIODS_S)):
            with_it, after = metered(period_s), block()
            without = (before + after) / 2
            plain, measured, ratios = found[period_s]
            plain.append(without)
            measured.append(with_it)
            ratios.append(with_it / without)
            before = after
    return found


def _timed(call: Callable[[], None]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def command_line() -> argparse.ArgumentParser:
    """The flags."""
    parser = common.parser(PROGRAM, "Times training loops with the power meter and without it.", VARIANTS)
    parser.add_argument("--seconds", type=common.positive, default=60.0, help="of all loops (default 60)")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Measure, print and write the record; the exit code."""
    given = command_line().parse_args(arguments)
    torch = common.import_torch()
    common.require_gpus(torch)
    results = measure(torch, open_gpus(), given.seconds)
    for row in results["rows"]:
        print(f"  {row['loop']}, every {row['period_ms']:g} ms: {row['overhead']:+.2%}", flush=True)
    blocks = [row["blocks"] for row in results["rows"]]
    record = common.Record(
        PROGRAM,
        given.variant,
        common.parameters_of(given),
        results,
        {"blocks": Check(min(blocks) >= 3, f"{min(blocks)} blocks with the meter at the fewest, wanted 3")},
        common.gpu_info(torch, torch.device("cuda", 0)),
    )
    return common.finish(record, given.json)


if __name__ == "__main__":
    common.run(PROGRAM, main)
