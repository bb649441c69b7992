"""A matmul, and its tensor cores alone, on the same data at the same clock: windows in which each ran, out.

``record``: this book's bf16 matmul, and the same multiplications on tiles that stay in shared memory
(``cuda/energy/cores.cuh``), on normal and on uniform random numbers. On all multiprocessors the power cap
holds each down to a clock of its own; on a third of them neither needs to be held down. Before all that a
window in which nothing runs.
"""

from __future__ import annotations

import argparse
import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from labcode.errors import LabError
from labcode.experiments.compute.attention.steps import _launcher
from labcode.experiments.energy.matmul import program as matmul
from labcode.experiments.energy.products.program import BOX, STEP, Case
from labcode.experiments.shared import common
from labcode.experiments.shared.common import Check
from labcode.experiments.shared.windows import Windows, mark_clock
from labcode.kernels import launch
from labcode.kernels.catalogue import Problem, entry
from labcode.kernels.tensor_maps import Boxes, encode
from labcode.kernels.topics import gemm

PROGRAM = "energy_cores"
VARIANTS = ("record",)
WHOLE, ALONE = "whole matmul", "tensor cores alone"
VALUES = ("normal", "uniform")
STAGES, DEPTH = 4, 64  # of the ring in shared memory, and the columns of A in each
TOLERANCE = 1e-2


def alone(made: matmul.Matmul, blocks: int) -> matmul.Matmul:
    """The multiplications of `whole` on so many multiprocessors, of tiles that are fetched once a launch."""
    shared_bytes = STAGES * gemm.STAGE_BYTES[gemm.RING_N] + gemm.ALIGNMENT
    return _launched(made, "energy/cores.cuh", "lab::energy::cores<lab::gemm::Deep>", 2, blocks, shared_bytes)


def whole(made: matmul.Matmul, blocks: int) -> matmul.Matmul:
    """This book's matmul on so many multiprocessors, an even number."""
    step = next(one for one in gemm.BF16.steps if one.name == STEP)
    problem = Problem((made.result().shape[0],) * 3, "bfloat16")
    shared_bytes = step.launch(problem, launch.this_gpu(made.result().device.index)).shared_bytes
    return _launched(made, gemm.BF16.header, entry(step, problem), 3, blocks, shared_bytes)


def _launched(
    made: matmul.Matmul, header: str, expression: str, maps: int, blocks: int, shared_bytes: int
) -> matmul.Matmul:
    """A kernel that takes tensor maps of the first ``maps`` of A, B and C, then C and its sizes."""
    out = made.result()
    size = out.shape[0]
    kernel = launch.function(header, expression, out.device.index)
    kernel.max_dynamic_shared_size_bytes = shared_bytes
    matrices = ((made.left, gemm.TILE_M), (made.right, BOX), (out, BOX))[:maps]
    arguments = [
        *(encode(one.data_ptr(), Boxes((size, size), (BOX, rows))) for one, rows in matrices),
        ctypes.c_uint64(out.data_ptr()),
        *(ctypes.c_int(size) for _ in range(4)),
    ]
    call = _launcher(kernel.kernel.ptr, (blocks, 1), gemm.WORK_THREADS, shared_bytes, arguments, made)
    return matmul.Matmul(call, made.result, made.left, made.right)


def check_alone(made: matmul.Matmul) -> Check:
    """The first block's tile: the product of its stages, as often as a row of A has such."""
    held = STAGES * DEPTH
    rounds = made.left.shape[1] // held
    wanted = rounds * made.left[: gemm.TILE_M, :held].double() @ made.right[:held, : gemm.RING_N].double()
    found = made.result()[: gemm.TILE_M, : gemm.RING_N].double()
    error = float((found - wanted).norm() / wanted.norm())
    return Check(error <= TOLERANCE, f"relative error {error:.1e}, allowed {TOLERANCE:.0e}")


def measure(torch: Any, windows: Windows, size: int, counts: Sequence[int]) -> dict[str, Check]:
    """A window for each kind of operands, number of multiprocessors and work; the checks of each result."""
    checks: dict[str, Check] = {}
    works: tuple[tuple[str, Callable[[matmul.Matmul, int], matmul.Matmul]], ...] = (
        (ALONE, alone),
        (WHOLE, whole),
    )
    for values in VALUES:
        made = Case("", values, size).make(torch, windows.device)
        for count in counts:
            for work, of in works:
                made.result().fill_(float("nan"))
                name = f"{work}, {values}, {count} SMs"
                entry = windows.repeat(name, of(made, count).call, kind=work, values=values, flop=2 * size**3)
                entry["sms"] = count
                checks[name] = check_alone(made) if work == ALONE else matmul.check(torch, made, "bf16")
    return checks


def command_line() -> argparse.ArgumentParser:
    """The flags."""
    parser = common.parser(PROGRAM, "Repeats a matmul and its tensor cores' part in windows.", VARIANTS)
    parser.add_argument("--size", type=_whole_tiles, default=8192, help="rows, in 256s (default 8192)")
    parser.add_argument("--seconds", type=common.positive, default=3.0, help="of a window (default 3)")
    parser.add_argument("--warmup", type=common.positive, default=0.3, help="seconds before each (0.3)")
    return parser


def _whole_tiles(text: str) -> int:
    """An argparse type: whole rounds of the ring and whole tiles."""
    size = common.whole(256, 65536)(text)
    if size % 256:
        raise argparse.ArgumentTypeError(f"{text}: rows come in whole tiles of 256")
    return size


def main(arguments: Sequence[str]) -> int:
    """Run all windows, check each result, print and write the record; the exit code."""
    given = command_line().parse_args(arguments)
    torch = common.import_torch()
    common.require_gpus(torch)
    device = torch.device("cuda", 0)
    gpu = launch.this_gpu(0)
    if gpu.compute_capability != 90:
        raise LabError("the kernels of this program are made for compute capability 9.0: use an H100 or H200")
    torch.manual_seed(1)
    windows = Windows(device, given.seconds, given.warmup)
    mark_clock(device)
    torch.zeros(1, device=device)
    windows.idle("idle", given.seconds, kind="idle")
    all_of_them, third = gpu.sm_count // 2 * 2, gpu.sm_count // 3 // 2 * 2  # clusters have two blocks
    checks = measure(torch, windows, given.size, (third, all_of_them))
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
