"""Joules of a matmul in 8 bits and in bf16: kernels in; windows in which each ran on the same sizes, out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from labcode.experiments.compute.fp8_products import program as fp8_products
from labcode.experiments.compute.fp8_products import steps as fp8_steps
from labcode.experiments.shared import common
from labcode.experiments.shared.common import Check
from labcode.experiments.shared.windows import Windows, mark_clock
from labcode.kernels.launch import this_gpu
from labcode.kernels.topics import fp8

PROGRAM = "energy_fp8"
VARIANTS = ("record",)
STEPS = ("pipeline", "promoted", "blocks")


def command_line() -> Any:
    """The flags."""
    parser = common.parser(PROGRAM, "Repeats matmuls in windows, for a meter of power.", VARIANTS)
    parser.add_argument("--size", type=common.whole(16, 1 << 15), default=8192, help="rows (default 8192)")
    parser.add_argument("--seconds", type=common.positive, default=1.8, help="of a window (default 1.8)")
    parser.add_argument("--warmup", type=common.positive, default=0.25, help="seconds before each (0.25)")
    parser.add_argument("--settle", type=common.positive, default=2.0, help="seconds before the first (2)")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run all windows, check what the steps computed, write the record; the exit code."""
    given = command_line().parse_args(arguments)
    torch = common.import_torch()
    common.require_gpus(torch)
    device, n = torch.device("cuda", 0), given.size
    rungs = [fp8.rung_of(name) for name in STEPS]
    fp8_steps.compile_all(rungs, this_gpu(0), bf16=True)
    windows = Windows(device, given.seconds, given.settle)
    a, b = fp8_products.matrices(torch, "normal", n, n, n, 1, "cuda")
    rows, checks = fp8_products.some_rows(torch, n, device), {}
    mark_clock(device)

    def window(name: str, call: Callable[[], object], scales: str) -> None:
        windows.repeat(name, call, flop=fp8.flops(n, n, n))["scales"] = scales
        windows.warmup_s = given.warmup

    left, right = a.bfloat16(), b.bfloat16()
    window("bf16, library", lambda: left @ right.t(), "none")
    window("bf16, this book's", fp8_steps.bf16_call(torch, n, n, n), "none")
    operands = fp8_products.quantized(torch, fp8.TENSOR, a, b)
    window("fp8, library", fp8_steps.library_call(torch, fp8.TENSOR, *operands, fast=True), fp8.TENSOR)
    for rung in rungs:
        operands = fp8_products.quantized(torch, rung.scales, a, b)
        out = fp8_products.poisoned(torch, n, n, device)
        window(f"fp8, {rung.step.name}", fp8_steps.call_of(rung, *operands, out), rung.scales)
        dequantized = [
            x.dequantized(rung.scales, weights) for x, weights in zip(operands, (False, True), strict=True)
        ]
        error = fp8_products.errors(torch, out[rows], dequantized[0][rows] @ dequantized[1].t())["error"]
        allowed = fp8_products.ALLOWED if rung.promoted else fp8_products.ALLOWED_RAW
        checks[rung.step.variant] = Check(error <= allowed, f"error {error:.1e}, allowed {allowed:.0e}")
    mark_clock(device)
    record = common.Record(
        PROGRAM,
        given.variant,
        common.parameters_of(given),
        {"windows": windows.entries},
        checks,
        common.gpu_info(torch, device),
    )
    return common.finish(record, given.json)


if __name__ == "__main__":
    common.run(PROGRAM, main)
