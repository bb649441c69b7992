"""Matmuls and attention whose energy is to be measured: sizes and kernels in; windows in which each ran, out.

``record``: bf16 matmuls on normal random data of several sizes, by cuBLAS and by this book's own kernel in
turns; then, of one size, on uniform random numbers from 0 to 1, whose signs and exponents hardly change.
Then, as `ladders` does, the first and the last step of the ladders of the matmul and of attention.
"""

from __future__ import annotations

import argparse
import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from labcode.errors import LabError
from labcode.experiments.compute.attention import steps as attention_steps
from labcode.experiments.energy.ladders import program as ladders
from labcode.experiments.energy.matmul import program as matmul
from labcode.experiments.shared import common
from labcode.experiments.shared.common import Check
from labcode.experiments.shared.windows import Windows, mark_clock
from labcode.kernels import launch
from labcode.kernels.catalogue import Problem, entry
from labcode.kernels.tensor_maps import Boxes, encode
from labcode.kernels.topics import attention as attention_ladder
from labcode.kernels.topics import gemm

if TYPE_CHECKING:
    import torch

PROGRAM = "energy_products"
VARIANTS = ("record",)
LIBRARY, OWN = "cuBLAS", "this book's"
STEP = "store"  # of the ladder in `labcode.kernels.topics.gemm`
BOX = 64  # columns of what the copy engine moves at once, and its rows in B and C


@dataclass(frozen=True)
class Case:
    """Who multiplies what: two square matrices of so many rows."""

    kernel: str
    values: str
    size: int

    @property
    def name(self) -> str:
        """Of its window."""
        return f"{self.kernel}, {self.size} {self.values}"

    def make(self, torch: Any, device: torch.device) -> matmul.Matmul:
        """Its operands, and the call."""
        made = matmul.make(torch, "bf16", "random", self.size, device)
        if self.values == "uniform":
            made.left.uniform_()
            made.right.uniform_()
        return own(made) if self.kernel == OWN else made


def plan(sizes: Sequence[int]) -> Iterator[Case]:
    """Normal data of each size, then uniform of the middle one; the kernels in turns."""
    cases = [("normal", size) for size in sizes] + [("uniform", sizes[len(sizes) // 2])]
    return (Case(kernel, values, size) for values, size in cases for kernel in (LIBRARY, OWN))


def own(made: matmul.Matmul) -> matmul.Matmul:
    """The same product by the last step of this book's ladder that helped; `LabError` where it cannot run."""
    out = made.result()
    size, device = out.shape[0], out.device.index
    gpu = launch.this_gpu(device)
    if gpu.compute_capability != 90:
        raise LabError(f"{OWN} kernel is made for compute capability 9.0, and this GPU has another")
    step = next(one for one in gemm.BF16.steps if one.name == STEP)
    problem = Problem((size, size, size), "bfloat16")
    kernel = launch.function(gemm.BF16.header, entry(step, problem), device)
    sizes = step.launch(problem, gpu)
    kernel.max_dynamic_shared_size_bytes = sizes.shared_bytes
    matrices = ((made.left, gemm.TILE_M), (made.right, BOX), (out, BOX))
    maps = [encode(one.data_ptr(), Boxes((size, size), (BOX, rows))) for one, rows in matrices]
    arguments = [*maps, ctypes.c_uint64(out.data_ptr()), *(ctypes.c_int(size) for _ in range(4))]
    call = attention_steps._launcher(
        kernel.kernel.ptr, (sizes.grid, 1), sizes.block, sizes.shared_bytes, arguments, made
    )
    return matmul.Matmul(call, made.result, made.left, made.right)


def ladder_ends(torch: Any, windows: Windows, device: torch.device) -> dict[str, Check]:
    """Both ends of the ladders of the matmul, in fp32 and bf16, and of attention in bf16."""
    checks = ladders.ladder(torch, windows, gemm.FP32, launch.this_gpu(device.index))
    problem = gemm.BF16.timed[0]
    made = matmul.make(torch, "bf16", "random", problem.shape[0], device)
    first = gemm.BF16.steps[0]
    prepared = launch.prepare(gemm.BF16, first, problem, (made.left, made.right), made.result())
    for place, step, call in (("baseline", first.name, prepared), ("improved", STEP, own(made).call)):
        made.result().fill_(float("nan"))
        windows.repeat(
            f"{gemm.BF16.name} {place}",
            call,
            kernel=gemm.BF16.name,
            step=step,
            place=place,
            problem=str(problem),
            flop=gemm.BF16.flops(problem),
        )
        checks[f"{gemm.BF16.name} {place}"] = matmul.check(torch, made, "bf16")
    return checks | attention_ends(torch, windows, device)


def attention_ends(torch: Any, windows: Windows, device: torch.device) -> dict[str, Check]:
    """The first and the last step on tensor cores, causal."""
    texts, heads, tokens, width = ladders.ATTENTION
    tensors = torch.randn(3, texts * heads, tokens, width, device=device, dtype=torch.bfloat16).unbind()
    out = torch.empty_like(tensors[0])
    q, k, v = (tensor[:1].double() for tensor in tensors)
    wanted = attention_steps.written_out(torch, q, k, v, causal=True)
    steps = attention_ladder.TENSOR_STEPS
    ends = steps[0], [step for step in steps if step.helped][-1]
    checks = {}
    for place, step in zip(("baseline", "improved"), ends, strict=True):
        out.fill_(float("nan"))
        way = attention_steps.IMPLEMENTATIONS[step.name]
        windows.repeat(
            f"attention_bf16 {place}",
            attention_steps.call_of(torch, way, tensors, out, causal=True),
            kernel="attention_bf16",
            step=step.name,
            place=place,
            problem=f"{texts * heads}×{tokens}×{width} bfloat16",
            flop=2 * texts * heads * tokens**2 * width,  # two products, half of them masked
        )
        error = float((out[:1].double() - wanted).norm() / wanted.norm())
        allowed = ladders.ATTENTION_ERROR
        checks[f"attention_bf16 {place}"] = Check(
            error <= allowed, f"relative error {error:.1e}, allowed {allowed:.0e}"
        )
    return checks


def command_line() -> argparse.ArgumentParser:
    """The flags."""
    parser = common.parser(PROGRAM, "Repeats bf16 matmuls in windows, for a meter of power.", VARIANTS)
    parser.add_argument(
        "--sizes", type=_sizes, default=(4096, 8192, 16384), help="rows, by commas (4096,8192,16384)"
    )
    parser.add_argument("--seconds", type=common.positive, default=3.0, help="of a window (default 3)")
    parser.add_argument("--warmup", type=common.positive, default=0.3, help="seconds before each (0.3)")
    parser.add_argument("--settle", type=common.positive, default=3.0, help="seconds before the first (3)")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: to try it out")
    return parser


def _sizes(text: str) -> tuple[int, ...]:
    """An argparse type: rows of matrices, by commas."""
    rows = common.whole(8, 65536)
    return tuple(rows(word) for word in text.split(","))


def main(arguments: Sequence[str]) -> int:
    """Run all windows, check each result, print and write the record; the exit code."""
    given = command_line().parse_args(arguments)
    torch = common.import_torch()
    if given.device == "cuda":
        common.require_gpus(torch)
    device = torch.device(given.device, 0)
    torch.manual_seed(1)
    windows = Windows(device, given.seconds, given.settle)
    checks, left_out = {}, {}
    mark_clock(device)
    for case in plan(given.sizes):
        try:
            made = case.make(torch, device)
        except LabError as error:
            left_out[case.name] = str(error)
            continue
        flop = 2 * case.size**3
        windows.repeat(case.name, made.call, kernel=case.kernel, values=case.values, flop=flop)["size"] = (
            case.size
        )
        windows.warmup_s = given.warmup
        checks[f"{case.name} matches float64"] = matmul.check(torch, made, "bf16")
        del made
    if OWN in {entry["kernel"] for entry in windows.entries.values()}:
        checks |= ladder_ends(torch, windows, device)
    mark_clock(device)
    record = common.Record(
        PROGRAM,
        given.variant,
        common.parameters_of(given),
        {"windows": windows.entries, "left_out": left_out},
        checks,
        common.gpu_info(torch, device),
    )
    return common.finish(record, given.json)


if __name__ == "__main__":
    common.run(PROGRAM, main)
