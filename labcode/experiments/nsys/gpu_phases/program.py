"""Phases that load different parts of a GPU, each for a while: flags in, a JSON record of times out.

To be recorded with the GPU's own counters over time (`nsys profile --gpu-metrics-devices`). In each phase one
operation is repeated in a range of its name; in most of them the timeline shows a busy GPU:

- ``copies in``: pinned memory to the GPU;
- ``small kernels``: additions to a vector so short that launching takes longer;
- ``few rows``: softmax of 8 long rows, which PyTorch gives to 8 blocks;
- ``many rows``: softmax of as many numbers in rows of 2048;
- ``sum``: of two long vectors;
- ``fp32 product``, ``bf16 product``: of two square matrices, without and with tensor cores.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from labcode.experiments.shared import common
from labcode.experiments.shared.common import Check, nvtx_range, synchronize

if TYPE_CHECKING:
    import torch

PROGRAM = "gpu_phases"
FEW, SHORT, SMALL = 8, 2048, 1024  # rows; numbers in a row; numbers in the short vector
CORNER = 64
PAUSE_S = 0.004
MOST = 5000  # repetitions of one operation
LARGEST_ERROR = {"softmax": 1e-3, "fp32 product": 1e-4, "bf16 product": 1e-2}

Work = Callable[[], Any]


class Phases:
    """The operations: ``work`` by name, and the factors of the products."""

    def __init__(self, torch: Any, given: argparse.Namespace, device: torch.device) -> None:
        torch.manual_seed(given.seed)
        numbers = torch.randn(given.numbers, device=device)
        other, result = torch.randn_like(numbers), torch.empty_like(numbers)
        short = torch.zeros(SMALL, device=device)
        host = torch.empty(given.numbers, pin_memory=device.type == "cuda")
        few, many = numbers.view(FEW, -1), numbers.view(-1, SHORT)
        self.factors = {
            name: tuple(torch.randn(side, side, device=device, dtype=kind) for _ in range(2))
            for name, side, kind in (
                ("fp32 product", given.side, torch.float32),
                ("bf16 product", 2 * given.side, torch.bfloat16),
            )
        }
        self.work: dict[str, Work] = {
            "copies in": lambda: result.copy_(host, non_blocking=True),
            "small kernels": lambda: short.add_(1.0),
            "few rows": lambda: torch.softmax(few, 1),
            "many rows": lambda: torch.softmax(many, 1),
            "sum": lambda: torch.add(numbers, other, out=result),
            "fp32 product": lambda: torch.mm(*self.factors["fp32 product"]),
            "bf16 product": lambda: torch.mm(*self.factors["bf16 product"]),
        }


def repetitions(work: Work, device: torch.device, wanted_s: float) -> int:
    """How often to repeat an operation so that it takes about so long; it is warm then."""
    took = 0.0
    for _ in range(2):  # the first time loads code
        began = time.perf_counter()
        for _ in range(5):
            work()
        synchronize(device)
        took = time.perf_counter() - began
    return max(1, min(MOST, round(5 * wanted_s / took)))


def run_phases(
    phases: Phases, given: argparse.Namespace, device: torch.device
) -> dict[str, tuple[int, float]]:
    """Run each phase in turn, a pause before each: how often its operation ran, and the host's ms of it."""
    counts = {name: repetitions(work, device, 1e-3 * given.phase_ms) for name, work in phases.work.items()}
    found = {}
    with nvtx_range(common.MEASURED, device):
        for name, work in phases.work.items():
            time.sleep(PAUSE_S)
            began = time.perf_counter()
            with nvtx_range(name, device):
                for _ in range(counts[name]):
                    work()
                synchronize(device)
            found[name] = counts[name], 1e3 * (time.perf_counter() - began) / counts[name]
        time.sleep(PAUSE_S)
    return found


def check(torch: Any, phases: Phases) -> dict[str, Check]:
    """Rows of softmax sum to 1 in both shapes; a corner of each product is that of float64."""
    worst = max(float((phases.work[name]().sum(1) - 1).abs().max()) for name in ("few rows", "many rows"))
    checks = {"rows_sum_to_one": _within(worst, LARGEST_ERROR["softmax"])}
    for name, (left, right) in phases.factors.items():
        wanted = left[:CORNER].double() @ right[:, :CORNER].double()
        error = (phases.work[name]()[:CORNER, :CORNER].double() - wanted).norm() / wanted.norm()
        checks[f"{name.replace(' ', '_')}_matches_float64"] = _within(float(error), LARGEST_ERROR[name])
    return checks


def _within(error: float, allowed: float) -> Check:
    return Check(error <= allowed, f"off by {error:.1e}, allowed {allowed:.0e}")


def command_line() -> argparse.ArgumentParser:
    """The flags."""
    parser = common.parser(PROGRAM, "Loads different parts of a GPU, one after the other.", ["phases"])
    whole = common.whole
    parser.add_argument("--numbers", type=_numbers, default=1 << 25, help="in a vector (default 2^25)")
    parser.add_argument("--side", type=whole(CORNER, 1 << 15), default=4096, help="of fp32 (default 4096)")
    parser.add_argument("--phase-ms", type=common.positive, default=40.0, help="about (default 40)")
    parser.add_argument("--seed", type=whole(0, 2**31), default=1, help="of the numbers (default 1)")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: to try it out")
    return parser


def _numbers(text: str) -> int:
    count = common.whole(FEW * SHORT, 1 << 32)(text)
    if count % (FEW * SHORT):
        raise argparse.ArgumentTypeError(f"{count} is no multiple of {FEW * SHORT}")
    return count


def main(arguments: Sequence[str]) -> int:
    """Run the phases, check them, print and write the record; the exit code."""
    given = command_line().parse_args(arguments)
    torch = common.import_torch()
    if given.device == "cuda":
        common.require_gpus(torch)
        common.require_memory(torch, 6 * 4 * given.numbers + 40 * given.side**2, "choose smaller --numbers")
    device = torch.device(given.device, 0)
    torch.backends.cuda.matmul.allow_tf32 = False
    with torch.inference_mode():
        phases = Phases(torch, given, device)
        times = run_phases(phases, given, device)
        checks = check(torch, phases)
    record = common.Record(
        PROGRAM,
        given.variant,
        common.parameters_of(given),
        {
            "repetitions": {name: count for name, (count, _) in times.items()},
            "host_ms": {name: float(f"{ms:.5g}") for name, (_, ms) in times.items()},
        },
        checks,
        common.gpu_info(torch, device),
    )
    for name, (count, ms) in times.items():
        print(f"  {name}: {count} times, {ms:.4f} ms each")
    return common.finish(record, given.json)


if __name__ == "__main__":
    common.run(PROGRAM, main)
