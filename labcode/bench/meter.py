"""What the power meter costs a training loop: seconds to measure in; a table and a JSON record out.

Blocks of the same loop run without the meter and with it at each period, in turns, so that drift meets all of
them; a block with the meter is compared with the mean of its neighbors without it.
"""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from labcode.errors import LabError, ToolError
from labcode.meter import Meter, open_gpus
from labcode.outputs import whole
from labcode.timing import quantile

PERIODS_S = (0.1, 0.02)
BLOCK_S = 0.3
LOOPS = {  # width, layers, batch: one that waits for Python, and one that waits for the GPU
    "launch-bound": (128, 24, 64),
    "GPU-bound": (4096, 8, 4096),
}


def main(seconds: float, json_file: Path | None, console: Console) -> int:
    """Measure for so many seconds, print the table, write the record. Needs PyTorch and a GPU."""
    if not 2 <= seconds <= 3600:
        raise LabError(f"bench meter --seconds {seconds:g}: between 2 and 3600")
    try:
        import torch
    except ImportError:
        raise ToolError("bench meter: the training loop needs PyTorch; pip install torch") from None
    if not torch.cuda.is_available():
        raise ToolError("bench meter: PyTorch sees no GPU; run on a GPU machine")
    gpus = open_gpus()
    one = Meter(gpus)
    costs = [_timed(one.sample) for _ in range(100)]
    rows = []
    for name, size in LOOPS.items():
        step = training(torch, *size)
        per_block = _steps_of(torch, step)
        blocks = _blocks(torch, step, per_block, gpus, seconds / len(LOOPS))
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
    table = Table("loop", "period", "blocks", "step without (ms)", "step with (ms)", "overhead", "quartiles")
    for row in rows:
        table.add_row(
            str(row["loop"]),
            f"{row['period_ms']:g} ms",
            str(row["blocks"]),
            f"{row['step_ms']:.4f}",
            f"{row['metered_step_ms']:.4f}",
            f"{row['overhead']:+.2%}",
            f"{row['overhead_low']:+.2%} … {row['overhead_high']:+.2%}",
        )
    console.print(table)
    sample_us = statistics.median(costs) * 1e6
    record = {"gpu": gpus[0].name, "gpus": len(gpus), "sample_us": sample_us, "rows": rows}
    shares = ", ".join(f"{sample_us / (period * 1e6):.2%} of {period * 1e3:g} ms" for period in PERIODS_S)
    console.print(f"a sample of {len(gpus)} GPUs takes {sample_us:.0f} µs: {shares}", highlight=False)
    if json_file is not None:
        with whole(json_file) as part:
            part.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


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
