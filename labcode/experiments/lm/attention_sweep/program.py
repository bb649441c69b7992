"""Attention alone over head widths and lengths: flags in, a JSON record of times and memory out.

One head's attention, causal, for a batch of texts; forward and backward pass timed by CUDA events, and what
the GPU holds when the backward pass begins. Variants:

- ``naive``: scores, mask, softmax, weighted values written out, in fp32;
- ``naive_bf16``: the same in bf16;
- ``compiled``: `torch.compile` of ``naive``;
- ``compiled_bf16``: the same in bf16;
- ``flash``: the flash kernel, in bf16.

A case that does not fit into the GPU's memory is recorded as such; the others go on.
"""

from __future__ import annotations

import argparse
import gc
import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from labcode.analysis.lm.decoder import attention_flops
from labcode.experiments.shared import common
from labcode.experiments.shared.common import Check, synchronize
from labcode.timing import spread

if TYPE_CHECKING:
    import torch

PROGRAM = "attention_sweep"
VARIANTS = ("naive", "naive_bf16", "compiled", "compiled_bf16", "flash")
WIDTHS = (16, 32, 64, 128)
LENGTHS = (256, 512, 1024, 2048, 4096, 8192, 16384)
LARGEST_ERROR = {"float32": 1e-4, "bfloat16": 3e-2}  # relative, against float64
CHECKED_LENGTH = 96
Attend = Callable[[Any, Any, Any], Any]


@dataclass(frozen=True)
class Case:
    """What one width and length took: ms of each repetition, bytes held before the backward pass."""

    d_head: int
    length: int
    forward_ms: tuple[float, ...] = ()
    backward_ms: tuple[float, ...] = ()
    before_backward_bytes: int = 0
    peak_bytes: int = 0
    fits: bool = True


def attention_of(torch: Any, variant: str, length: int, device: torch.device) -> tuple[Attend, Any]:
    """How a variant computes attention of [batch, 1, length, d] tensors, and in which dtype."""
    from labcode.experiments.lm.transformer import model

    dtype = torch.bfloat16 if variant in ("naive_bf16", "compiled_bf16", "flash") else torch.float32
    if variant == "flash":
        return (lambda query, key, value: model.attend_fused(query, key, value, "flash")), dtype
    hidden = model.hidden_places(length, device)

    def naive(query: Any, key: Any, value: Any) -> Any:
        return model.attend_naive(query, key, value, hidden)

    # each length anew: shapes that vary would make it a general and slower kernel
    return (torch.compile(naive, dynamic=False) if variant.startswith("compiled") else naive), dtype


def measure(torch: Any, given: argparse.Namespace, d_head: int, length: int, device: torch.device) -> Case:
    """Time one case; one that does not fit is marked as such."""
    try:
        return _measure(torch, given, d_head, length, device)
    except torch.OutOfMemoryError:
        return Case(d_head, length, fits=False)
    finally:
        gc.collect()  # what the case leaves must not take the next one's memory
        if device.type == "cuda":
            torch.cuda.empty_cache()


def _measure(torch: Any, given: argparse.Namespace, d_head: int, length: int, device: torch.device) -> Case:
    attend, dtype = attention_of(torch, given.variant, length, device)
    torch.manual_seed(given.seed)
    shape = (given.batch, 1, length, d_head)
    inputs = [torch.randn(shape, device=device, dtype=dtype, requires_grad=True) for _ in range(3)]
    gradient = torch.randn(shape, device=device, dtype=dtype)
    cuda = torch.cuda if device.type == "cuda" else None
    forward_ms, backward_ms, held = [], [], 0
    if cuda:
        cuda.reset_peak_memory_stats(device)
    base = cuda.memory_allocated(device) if cuda else 0
    for repetition in range(given.warmup + given.repetitions):
        for tensor in inputs:
            tensor.grad = None
        timer = _timer(torch, device)
        result = attend(*inputs)
        forward = timer()
        if cuda:
            held = cuda.memory_allocated(device) - base
        timer = _timer(torch, device)
        result.backward(gradient)
        backward = timer()
        del result
        if repetition >= given.warmup:
            forward_ms.append(forward)
            backward_ms.append(backward)
    peak = cuda.max_memory_allocated(device) if cuda else 0
    return Case(d_head, length, tuple(forward_ms), tuple(backward_ms), held, peak)


def _timer(torch: Any, device: torch.device) -> Callable[[], float]:
    """Starts a timer (events, or the host's clock on the CPU); the function gives the ms until then."""
    if device.type != "cuda":
        began = time.perf_counter()
        return lambda: 1e3 * (time.perf_counter() - began)
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    synchronize(device)
    start.record()

    def done() -> float:
        stop.record()
        stop.synchronize()
        return float(start.elapsed_time(stop))

    return done


def check(torch: Any, variant: str, device: torch.device, seed: int) -> Check:
    """On a short text: result and gradients are those of attention written out in float64."""
    attend, dtype = attention_of(torch, variant, CHECKED_LENGTH, device)
    torch.manual_seed(seed)
    found = []
    drawn = [torch.randn(2, 1, CHECKED_LENGTH, 64, device=device).to(dtype) for _ in range(4)]
    exact = attention_of(torch, "naive", CHECKED_LENGTH, device)[0]
    for way, kind in ((attend, dtype), (exact, torch.float64)):
        inputs = [x.detach().to(kind).requires_grad_() for x in drawn[:3]]
        result = way(*inputs)
        result.backward(drawn[3].to(kind))
        found.append([result.detach(), *(x.grad for x in inputs)])
    worst = max(
        float((got.double() - wanted).norm() / wanted.norm()) for got, wanted in zip(*found, strict=True)
    )
    allowed = LARGEST_ERROR[str(dtype).removeprefix("torch.")]
    return Check(worst <= allowed, f"largest relative error {worst:.1e}, allowed {allowed:.0e}")


def command_line() -> argparse.ArgumentParser:
    """The flags."""
    parser = common.parser(
        PROGRAM, "Times causal attention of one head; variants differ in the way it is computed.", VARIANTS
    )
    whole = common.whole
    parser.add_argument("--widths", type=_numbers, default=WIDTHS, help="widths of a head, by commas")
    parser.add_argument("--lengths", type=_numbers, default=LENGTHS, help="lengths of a text, by commas")
    parser.add_argument("--batch", type=whole(1, 65536), default=8, help="texts (default 8)")
    parser.add_argument("--repetitions", type=whole(1, 10000), default=10, help="timed (default 10)")
    parser.add_argument("--warmup", type=whole(1, 1000), default=3, help="before those (default 3)")
    parser.add_argument("--seed", type=whole(0, 2**31), default=1, help="of the data (default 1)")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: to try it out")
    return parser


def _numbers(text: str) -> tuple[int, ...]:
    """An argparse type: whole numbers from 1 on, by commas."""
    return tuple(common.whole(1, 1 << 20)(word) for word in text.split(","))


def row(case: Case, batch: int) -> dict[str, Any]:
    """A case as the record has it."""
    flops = attention_flops(batch, 1, case.length, case.d_head)
    result: dict[str, Any] = {"d_head": case.d_head, "length": case.length, "fits": case.fits}
    if case.fits:
        result |= {
            "forward_ms": common.rounded(case.forward_ms, 5),
            "backward_ms": common.rounded(case.backward_ms, 5),
            "before_backward_bytes": case.before_backward_bytes,
            "peak_bytes": case.peak_bytes,
            "matmul_flops": flops["scores"] + flops["values"],
        }
    return result


def main(arguments: Sequence[str]) -> int:
    """Run a variant over all widths and lengths, check it, print and write the record; the exit code."""
    given = command_line().parse_args(arguments)
    torch = common.import_torch()
    if given.device == "cuda":
        common.require_gpus(torch)
    device = torch.device(given.device, 0)
    torch.set_float32_matmul_precision("highest")
    cases = []
    with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        for d_head, length in product(given.widths, given.lengths):
            cases.append(measure(torch, given, d_head, length, device))
            if given.variant.startswith("compiled"):
                torch.compiler.reset()
        checks = {"matches_float64": check(torch, given.variant, device, given.seed)}
    times = [spread(case.forward_ms).median for case in cases if case.fits]
    checks["something_fits"] = Check(
        bool(times) and all(math.isfinite(t) for t in times), f"{len(times)} of {len(cases)} cases fit"
    )
    record = common.Record(
        PROGRAM,
        given.variant,
        common.parameters_of(given),
        {"cases": [row(case, given.batch) for case in cases]},
        checks,
        common.gpu_info(torch, device),
    )
    print(f"{record.gpu['name']}: {given.variant}, batch {given.batch}")
    for case in cases:
        if not case.fits:
            print(f"  width {case.d_head:3d}, length {case.length:5d}: out of memory")
            continue
        ahead, back = spread(case.forward_ms).median, spread(case.backward_ms).median
        held = case.before_backward_bytes / 1e6
        print(
            f"  width {case.d_head:3d}, length {case.length:5d}: forward {ahead:.3f} ms, "
            f"backward {back:.3f} ms, {held:.1f} MB held before it"
        )
    return common.finish(record, given.json)


if __name__ == "__main__":
    common.run(PROGRAM, main)
