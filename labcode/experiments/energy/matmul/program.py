"""Matmuls whose energy is to be measured: operands and precisions in; the windows in which each ran, out.

``record``: a square bf16 matmul on random data in long windows, one after another (do they agree, with each
other and with Zeus?); then on zeros and on one constant; then random data in other precisions.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from labcode.experiments.shared import common
from labcode.experiments.shared.common import Check
from labcode.experiments.shared.windows import Windows, Zeus, mark_clock

if TYPE_CHECKING:
    import torch

PROGRAM = "energy_matmul"
VARIANTS = ("record",)
CONSTANT = 0.7
PRECISIONS = ("bf16", "fp16", "tf32", "fp32", "fp8")
TOLERANCE = {"bf16": 1e-2, "fp16": 2e-3, "tf32": 5e-3, "fp32": 1e-4, "fp8": 1e-2}
CHECKED_ROWS = 4


@dataclass(frozen=True)
class Matmul:
    """A call, its result after it, and the operands as the reference sees them."""

    call: Callable[[], object]
    result: Callable[[], Any]
    left: Any
    right: Any


def operands(torch: Any, kind: str, size: int, device: torch.device) -> Iterator[Any]:
    """Two matrices in fp32: zeros, one constant, or random normal."""
    for _ in range(2):
        if kind == "random":
            yield torch.randn(size, size, device=device)
        else:
            yield torch.full((size, size), CONSTANT if kind == "constant" else 0.0, device=device)


def make(torch: Any, precision: str, kind: str, size: int, device: torch.device) -> Matmul:
    """A matmul in a precision; its result is poisoned before the first call."""
    left, right = operands(torch, kind, size, device)
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    if precision == "fp8":
        left, right = left.to(torch.float8_e4m3fn), right.to(torch.float8_e4m3fn)
        one, made = torch.ones((), device=device), {}
        columns = right.t().contiguous().t()  # the second operand column by column, as the hardware wants it

        def scaled() -> None:
            made["out"] = torch._scaled_mm(left, columns, one, one, out_dtype=torch.bfloat16)

        return Matmul(scaled, lambda: made["out"], left, right)
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision, torch.float32)
    left, right = left.to(dtype), right.to(dtype)
    out = torch.full((size, size), float("nan"), dtype=dtype, device=device)
    return Matmul(lambda: torch.mm(left, right, out=out), lambda: out, left, right)


def check(torch: Any, matmul: Matmul, precision: str) -> Check:
    """Some rows against float64."""
    rows = slice(None, None, max(1, matmul.left.shape[0] // CHECKED_ROWS))
    wanted = matmul.left[rows].double() @ matmul.right.double()
    error = float((matmul.result()[rows].double() - wanted).norm() / max(float(wanted.norm()), 1e-300))
    allowed = TOLERANCE[precision]
    return Check(error <= allowed, f"relative error {error:.1e}, allowed {allowed:.0e}")


def plan(given: argparse.Namespace) -> Iterator[tuple[str, str, str, float]]:
    """What is measured: the window's name, precision, operands, seconds."""
    for number in range(1, given.repeats + 1):
        yield f"repeat {number}", "bf16", "random", given.long
    for kind in ("random", "constant", "zeros"):
        yield f"bf16 {kind}", "bf16", kind, given.seconds
    for precision in PRECISIONS[1:]:
        yield f"{precision} random", precision, "random", given.seconds


def command_line() -> argparse.ArgumentParser:
    """The flags."""
    parser = common.parser(PROGRAM, "Repeats matmuls in windows of seconds, for a meter of power.", VARIANTS)
    parser.add_argument("--size", type=common.whole(1, 65536), default=8192, help="rows (default 8192)")
    parser.add_argument("--seconds", type=common.positive, default=3.0, help="of a window (default 3)")
    parser.add_argument("--long", type=common.positive, default=10.0, help="of a repeated one (default 10)")
    parser.add_argument("--repeats", type=common.whole(0, 100), default=3, help="long windows (default 3)")
    parser.add_argument("--warmup", type=common.positive, default=0.3, help="seconds before each (0.3)")
    parser.add_argument("--settle", type=common.positive, default=3.0, help="seconds before the first (3)")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: to try it out")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run all windows, check each result, print and write the record; the exit code."""
    given = command_line().parse_args(arguments)
    torch = common.import_torch()
    if given.device == "cuda":
        common.require_gpus(torch)
    device = torch.device(given.device, 0)
    torch.manual_seed(1)
    windows, zeus = Windows(device, given.seconds, given.warmup), Zeus(device)
    flop, checks, left_out = 2 * given.size**3, {}, {}
    mark_clock(device)
    matmul, shape = None, ("", "")
    for name, precision, kind, seconds in plan(given):
        if (precision, kind) != shape:
            matmul, shape = None, (precision, kind)
            if precision == "fp8" and not fp8_here(torch, device):
                left_out[name] = "this GPU has no tensor cores for fp8"
                continue
            matmul = make(torch, precision, kind, given.size, device)
        assert matmul is not None
        first = not windows.entries
        windows.warmup_s = given.settle if first else given.warmup
        windows.repeat(
            *(name, matmul.call),
            seconds=seconds,
            around=zeus.over,
            kind=kind,
            precision=precision,
            flop=flop,
        )
        checks[f"{name} matches float64"] = check(torch, matmul, precision)
    mark_clock(device)
    record = common.Record(
        PROGRAM,
        given.variant,
        common.parameters_of(given),
        {"windows": windows.entries, "zeus": zeus.version, "left_out": left_out},
        checks,
        common.gpu_info(torch, device),
    )
    return common.finish(record, given.json)


def fp8_here(torch: Any, device: torch.device) -> bool:
    """Whether there are tensor cores for fp8: from compute capability 8.9."""
    return device.type == "cuda" and bool(torch.cuda.get_device_capability(device) >= (8, 9))


if __name__ == "__main__":
    common.run(PROGRAM, main)
