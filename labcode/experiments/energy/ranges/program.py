"""A program of a few phases under NVTX ranges, long and short: nothing in; what each range did, out.

``record``: epochs of loading (the GPU waits), matmuls, copies, softmax, and one short normalization. Run
under Nsight Systems with a meter of power beside it, each range gets its joules, or is told to be too short.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from labcode.experiments.energy.matmul.program import check as check_matmul
from labcode.experiments.energy.matmul.program import make
from labcode.experiments.energy.sensor.program import calls_in
from labcode.experiments.shared import common
from labcode.experiments.shared.common import nvtx_range, synchronize
from labcode.experiments.shared.windows import mark_clock

if TYPE_CHECKING:
    import torch

PROGRAM = "energy_ranges"
VARIANTS = ("record",)
SHORT_S = 0.03


def phases(torch: Any, given: argparse.Namespace, device: torch.device) -> dict[str, Callable[[], object]]:
    """What each phase repeats; ``load`` has nothing."""
    n = given.size
    matmul = make(torch, "bf16" if device.type == "cuda" else "fp32", "random", n, device)
    table = torch.randn(4 * n, n, device=device)
    copy = torch.empty_like(table)
    weight = torch.ones(n, device=device)
    return {
        "matmul": matmul.call,
        "copy": lambda: copy.copy_(table),
        "softmax": lambda: torch.softmax(table, dim=1),
        "norm": lambda: torch.nn.functional.rms_norm(table, (n,), weight),
    }


def run_epoch(
    calls: dict[str, Callable[[], object]], counts: dict[str, int], load_s: float, device: torch.device
) -> None:
    """All phases once, each under its range and waited for."""
    with nvtx_range("load", device):
        time.sleep(load_s)
    for name, call in calls.items():
        with nvtx_range(name, device):
            for _ in range(counts[name]):
                call()
            synchronize(device)


def command_line() -> argparse.ArgumentParser:
    """The flags."""
    parser = common.parser(PROGRAM, "Phases of work under NVTX ranges, for a meter of power.", VARIANTS)
    parser.add_argument("--size", type=common.whole(1, 65536), default=8192, help="rows (default 8192)")
    parser.add_argument("--epochs", type=common.whole(1, 100), default=2, help="default 2")
    parser.add_argument("--seconds", type=common.positive, default=1.5, help="of a phase (default 1.5)")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: to try it out")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the epochs under ranges, check the matmul, print and write the record; the exit code."""
    given = command_line().parse_args(arguments)
    torch = common.import_torch()
    if given.device == "cuda":
        common.require_gpus(torch)
    device = torch.device(given.device, 0)
    torch.manual_seed(1)
    precision = "bf16" if given.device == "cuda" else "fp32"
    calls = phases(torch, given, device)
    counts = {
        name: calls_in(call, SHORT_S if name == "norm" else given.seconds, device)
        for name, call in calls.items()
    }
    synchronize(device)
    with nvtx_range(common.MEASURED, device):
        begin = time.monotonic_ns()
        mark_clock(device)
        for number in range(given.epochs):
            with nvtx_range(f"epoch {number}", device):
                run_epoch(calls, counts, given.seconds, device)
            mark_clock(device)
        end = time.monotonic_ns()
    matmul = make(torch, precision, "random", given.size, device)
    matmul.call()
    record = common.Record(
        PROGRAM,
        given.variant,
        common.parameters_of(given),
        {
            "windows": {"epochs": {"begin_ns": begin, "end_ns": end}},
            "calls": {name: given.epochs * count for name, count in counts.items()},
        },
        {"matmul_matches_float64": check_matmul(torch, matmul, precision)},
        common.gpu_info(torch, device),
    )
    return common.finish(record, given.json)


if __name__ == "__main__":
    common.run(PROGRAM, main)
