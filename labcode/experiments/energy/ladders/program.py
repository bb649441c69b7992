"""The book's kernels, first and last step of each ladder: nothing in; windows in which each ran, out.

``record``: copy, transpose, sum, softmax, RMSNorm and the bilateral filter; attention written out and fused.
Faster kernels draw more power; whether they need less energy is what the windows are for.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from labcode.experiments.shared import common
from labcode.experiments.shared.common import Check
from labcode.experiments.shared.windows import Windows, mark_clock
from labcode.kernels import checking
from labcode.kernels.catalogue import Gpu, Kernel, Step
from labcode.kernels.launch import prepare, reason_unfit, this_gpu
from labcode.kernels.topics import kernels

PROGRAM = "energy_ladders"
VARIANTS = ("record",)
NAMES = ("copy", "transpose", "sum", "softmax", "rmsnorm", "bilateral")
ATTENTION = (8, 16, 4096, 64)  # texts, heads, tokens, width of a head
ATTENTION_ERROR = 2e-2  # of bf16, relative to float64


def ends(kernel: Kernel, gpu: Gpu) -> tuple[Step, Step]:
    """The first step of a ladder and the last that helped, of those that fit this GPU."""
    able = [step for step in kernel.steps if not reason_unfit(step, kernel.timed[0], gpu)]
    return able[0], [step for step in able if step.helped][-1]


def ladder(torch: Any, windows: Windows, kernel: Kernel, gpu: Gpu) -> dict[str, Check]:
    """Both ends of a ladder in a window each, the outputs checked."""
    problem = kernel.timed[0]
    inputs = [
        checking.make_input(torch, array, problem.dtype, 11 + k)
        for k, array in enumerate(kernel.inputs(problem))
    ]
    wanted = kernel.output(problem)
    output = torch.empty(
        wanted.shape, dtype=checking.torch_dtype(torch, wanted.dtype or problem.dtype), device="cuda"
    )
    reference, scale = checking.expected(torch, kernel, inputs)
    checks = {}
    for step, place in zip(ends(kernel, gpu), ("baseline", "improved"), strict=True):
        output.fill_(float("nan"))
        windows.repeat(
            f"{kernel.name} {place}",
            prepare(kernel, step, problem, inputs, output),
            kernel=kernel.name,
            step=step.name,
            place=place,
            problem=str(problem),
            bytes_moved=kernel.bytes_moved(problem),
            flop=kernel.flops(problem),
        )
        found = checking.judge(torch, checking.allowance(kernel, step, problem), output, reference, scale)
        checks[f"{kernel.name} {place}"] = Check(found.passed, found.detail)
    return checks


def attention(torch: Any, windows: Windows) -> dict[str, Check]:
    """Causal attention in bf16: written out, and by the flash kernel."""
    from labcode.experiments.lm.transformer.model import attend_fused, attend_naive, hidden_places

    texts, heads, tokens, width = ATTENTION
    query, key, value = torch.randn(3, texts, heads, tokens, width, device="cuda", dtype=torch.bfloat16)
    hidden = hidden_places(tokens, query.device)
    made: dict[str, Any] = {}
    first = [x[:1, :1].double() for x in (query, key, value)]
    reference = attend_naive(first[0], first[1], first[2], hidden)
    ways: dict[str, tuple[str, Callable[[], Any]]] = {
        "baseline": ("written out", lambda: attend_naive(query, key, value, hidden)),
        "improved": ("flash", lambda: attend_fused(query, key, value, "flash")),
    }
    checks = {}
    for place, (step, call) in ways.items():

        def keep(call: Callable[[], Any] = call) -> None:
            made["out"] = None
            made["out"] = call()

        with torch.no_grad():
            windows.repeat(
                f"attention {place}",
                keep,
                kernel="attention",
                step=step,
                place=place,
                problem="×".join(map(str, ATTENTION)) + " bfloat16",
                bytes_moved=4 * 2 * texts * heads * tokens * width,
                flop=2 * texts * heads * tokens**2 * width,  # two products, half of them masked
            )
        error = float((made["out"][:1, :1].double() - reference).norm() / reference.norm())
        checks[f"attention {place}"] = Check(
            error <= ATTENTION_ERROR, f"relative error {error:.1e}, allowed {ATTENTION_ERROR:.0e}"
        )
    return checks


def command_line() -> argparse.ArgumentParser:
    """The flags."""
    parser = common.parser(
        PROGRAM, "Repeats the book's kernels in windows of seconds, for a meter of power.", VARIANTS
    )
    parser.add_argument("--seconds", type=common.positive, default=3.0, help="of a window (default 3)")
    parser.add_argument("--warmup", type=common.positive, default=0.3, help="seconds before each (0.3)")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run all windows, print and write the record; the exit code."""
    given = command_line().parse_args(arguments)
    torch = common.import_torch()
    common.require_gpus(torch)
    device = torch.device("cuda", 0)
    gpu = this_gpu(0)
    windows = Windows(device, given.seconds, given.warmup)
    checks: dict[str, Check] = {}
    mark_clock(device)
    for name in NAMES:
        checks.update(ladder(torch, windows, kernels([name])[0], gpu))
        torch.cuda.empty_cache()
    checks.update(attention(torch, windows))
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
