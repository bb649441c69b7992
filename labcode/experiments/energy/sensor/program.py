"""Loads for looking at the power sensor itself: steps and square waves in; when each half began, out.

``record``: idle, then busy, then idle again (how fast does a reading follow?); then square waves that work
half of each period, of many periods (what does a reading make of them?). The mean power of all waves is the
same, or nearly: whatever else a meter says is the meter's.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from labcode.experiments.energy.matmul.program import check as check_matmul
from labcode.experiments.energy.matmul.program import make
from labcode.experiments.shared import common
from labcode.experiments.shared.common import synchronize
from labcode.experiments.shared.windows import Windows
from labcode.timing import spread

if TYPE_CHECKING:
    import torch

PROGRAM = "energy_sensor"
VARIANTS = ("record",)
PERIODS_MS = (20, 50, 100, 102, 200, 400, 1000)


def periods(text: str) -> list[int]:
    """An argparse type: whole milliseconds, separated by commas."""
    return [common.whole(2, 60_000)(word) for word in text.split(",")]


def calls_in(call: Any, seconds: float, device: torch.device) -> int:
    """How many calls back to back take so long."""
    times = []
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(20):
            call()
        synchronize(device)
        times.append((time.perf_counter() - began) / 20)
    return max(1, round(seconds / spread(times).median))


def wave(windows: Windows, name: str, call: Any, period_ms: int, seconds: float) -> None:
    """A window of whole periods, each half busy; ``edges_us`` are when it became busy and idle, since its
    begin."""
    count = calls_in(call, period_ms / 2000, windows.device)
    number = max(2, round(seconds * 1000 / period_ms))
    edges = []
    with windows.window(name, kind="wave", period_ms=period_ms, repetitions=number) as entry:
        begin = entry["begin_ns"]
        for k in range(number):
            wait_until(begin + k * period_ms * 1_000_000)
            edges.append((time.monotonic_ns() - begin) // 1000)
            for _ in range(count):
                call()
            synchronize(windows.device)
            edges.append((time.monotonic_ns() - begin) // 1000)
        wait_until(begin + number * period_ms * 1_000_000)
    entry["edges_us"] = edges


def wait_until(until_ns: int) -> None:
    """Sleep, but for the last moment."""
    left = until_ns - time.monotonic_ns()
    if left > 0:
        time.sleep(left / 1e9)


def command_line() -> argparse.ArgumentParser:
    """The flags."""
    parser = common.parser(PROGRAM, "Steps and square waves of load, for a meter of power.", VARIANTS)
    parser.add_argument("--size", type=common.whole(1, 65536), default=4096, help="rows (default 4096)")
    parser.add_argument("--seconds", type=common.positive, default=3.0, help="of a wave (default 3)")
    parser.add_argument("--step", type=common.positive, default=2.0, help="seconds busy, and idle (2)")
    parser.add_argument(
        "--periods", type=periods, default=list(PERIODS_MS), help=f"ms (default {PERIODS_MS})"
    )
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: to try it out")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the step and the waves, check the matmul, print and write the record; the exit code."""
    given = command_line().parse_args(arguments)
    torch = common.import_torch()
    if given.device == "cuda":
        common.require_gpus(torch)
    device = torch.device(given.device, 0)
    torch.manual_seed(1)
    precision = "bf16" if given.device == "cuda" else "fp32"
    matmul = make(torch, precision, "random", given.size, device)
    windows = Windows(device, given.step, 0.0)
    matmul.call()
    synchronize(device)
    windows.idle("idle before", given.step, kind="idle")
    windows.repeat("step", matmul.call, kind="busy")
    windows.idle("idle after", given.step, kind="idle")
    for period in given.periods:
        wave(windows, f"wave of {period} ms", matmul.call, period, given.seconds)
    record = common.Record(
        PROGRAM,
        given.variant,
        common.parameters_of(given),
        {"windows": windows.entries},
        {"matmul_matches_float64": check_matmul(torch, matmul, precision)},
        common.gpu_info(torch, device),
    )
    return common.finish(record, given.json)


if __name__ == "__main__":
    common.run(PROGRAM, main)
