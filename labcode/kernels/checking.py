"""Correctness: a step of a kernel and a problem in; what is wrong with its output, if anything, out.

Inputs are random and drawn anew for every case. The output is filled with NaN beforehand and lies between
guards of one byte pattern, so that an element that is not written, and one written outside, are found.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from labcode.errors import LabError
from labcode.kernels.catalogue import Array, Gpu, Kernel, Problem, Step
from labcode.kernels.launch import import_cupy, prepare, reason_unfit

GUARD = 64  # elements on either side of an output
GUARD_BYTE = 0xA5  # no NaN, and no number that comes up by chance: what is written there shows, even a NaN
LARGE = {"float32": 1e30, "float64": 1e200, "float16": 4e3, "bfloat16": 1e30}


@dataclass(frozen=True)
class Case:
    """What one check varies. Offsets: elements by which input and output miss a 16-byte boundary."""

    problem: Problem
    values: str = "normal"  # "normal", "large", "masked" (some are −∞)
    offset_in: int = 0
    offset_out: int = 0

    def __str__(self) -> str:
        shifted = f", starts {self.offset_in}, {self.offset_out}" if self.offset_in or self.offset_out else ""
        return f"{self.problem}, {self.values}{shifted}"


@dataclass(frozen=True)
class Outcome:
    """How a check ended; ``error`` is ‖out − reference‖ over the reference's norm or the kernel's scale."""

    passed: bool
    error: float
    detail: str


def cases(kernel: Kernel) -> Iterator[Case]:
    """Every problem to check, with each kind of values, and from unaligned starts."""
    for problem in kernel.checked:
        for values in kernel.values:
            yield Case(problem, values)
        for offset_in, offset_out in ((1, 1), (1, 0), (0, 3)):
            yield Case(problem, kernel.values[0], offset_in, offset_out)


def torch_dtype(torch: Any, name: str) -> Any:
    """torch's type of this name."""
    return getattr(torch, name)


def make_input(
    torch: Any, array: Array, dtype: str, seed: int, values: str = "normal", offset: int = 0
) -> Any:
    """A GPU tensor of random values; ``offset`` elements behind an allocation's start."""
    kind = array.dtype or dtype
    count = math.prod(array.shape)
    storage = torch.empty(count + offset, dtype=torch_dtype(torch, kind), device="cuda")
    flat = storage[offset:]
    if array.fill is not None:
        flat.copy_(torch.from_numpy(array.fill(array.shape, seed)).reshape(-1))
        return flat.view(array.shape)
    generator = torch.Generator(device="cuda").manual_seed(seed)
    flat.normal_(generator=generator)
    if values == "large":
        flat.mul_(LARGE[kind])
    elif values == "masked":
        flat.masked_fill_(torch.rand(count, generator=generator, device="cuda") < 0.3, float("-inf"))
    elif values != "normal":
        raise LabError(f"{values}: there are no such values; take normal, large or masked")
    return flat.view(array.shape)


def expected(torch: Any, kernel: Kernel, inputs: list[Any]) -> tuple[Any, float]:
    """The reference in float64, as a torch tensor, and what errors are divided by."""
    cupy = import_cupy()
    wide = [x.double() if x.is_floating_point() else x for x in inputs]
    arrays = [cupy.from_dlpack(x) for x in wide]
    with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
        reference = cupy.ascontiguousarray(kernel.reference(*arrays))
        scale = kernel.scale(*arrays) if kernel.scale else float("nan")
    result = torch.from_dlpack(reference)
    return result, scale if kernel.scale else float(result.norm())


def judge(torch: Any, allowed: float, output: Any, reference: Any, scale: float) -> Outcome:
    """Compare an output with the reference; NaN never passes."""
    unwritten = int(torch.isnan(output).sum())
    if unwritten:
        return Outcome(
            False, float("nan"), f"{unwritten} of {output.numel()} elements are NaN or not written"
        )
    if allowed == 0:
        wrong = int((output != reference.to(output.dtype)).sum())
        return Outcome(wrong == 0, float(wrong), f"{wrong} of {output.numel()} elements differ")
    finite = torch.isfinite(reference)
    same = bool((output[~finite].double() == reference[~finite]).all())
    difference = torch.where(finite, output.double() - torch.where(finite, reference, 0.0), 0.0)
    error = float(difference.norm()) / max(scale, 1e-300)
    return Outcome(same and error <= allowed, error, f"relative error {error:.1e}, allowed {allowed:.0e}")


def allowance(kernel: Kernel, step: Step, problem: Problem) -> float:
    """The relative error that a step may make."""
    if step.tolerance is not None:
        return step.tolerance
    return kernel.tolerance[kernel.output(problem).dtype or problem.dtype]


def changed(torch: Any, guard: Any) -> int:
    """How many elements of a guard are no longer as they were filled."""
    touched = guard.view(torch.uint8) != GUARD_BYTE
    return int(touched.view(-1, guard.element_size()).any(dim=1).sum())


def run_case(torch: Any, kernel: Kernel, step: Step, case: Case, seed: int) -> Outcome:
    """Run a step on fresh inputs and judge its output; `LabError` when the launch fails."""
    problem = case.problem
    inputs = [
        make_input(torch, array, problem.dtype, seed + k, case.values, case.offset_in)
        for k, array in enumerate(kernel.inputs(problem))
    ]
    wanted = kernel.output(problem)
    count = math.prod(wanted.shape)
    dtype = torch_dtype(torch, wanted.dtype or problem.dtype)
    storage = torch.empty(GUARD + case.offset_out + count + GUARD, dtype=dtype, device="cuda")
    storage.view(torch.uint8).fill_(GUARD_BYTE)
    start = GUARD + case.offset_out
    output = storage[start : start + count].fill_(float("nan")).view(wanted.shape)
    run = prepare(kernel, step, problem, inputs, output)
    run()
    try:
        torch.cuda.synchronize()
    except RuntimeError as error:
        raise LabError(f"{kernel.name}, {step.name} on {case}: {str(error).splitlines()[0]}") from None
    outside = changed(torch, storage[:start]) + changed(torch, storage[start + count :])
    if outside:
        return Outcome(False, float("nan"), f"{outside} elements outside the output were written")
    reference, scale = expected(torch, kernel, inputs)
    return judge(torch, allowance(kernel, step, problem), output, reference, scale)


def check_step(torch: Any, kernel: Kernel, step: Step, gpu: Gpu, seed: int = 1) -> Outcome:
    """All cases of a step: the first that fails, or the largest error."""
    worst, count = 0.0, 0
    for number, case in enumerate(cases(kernel)):
        if reason_unfit(step, case.problem, gpu):
            continue
        outcome = run_case(torch, kernel, step, case, seed + 100 * number)
        if not outcome.passed:
            return Outcome(False, outcome.error, f"{case}: {outcome.detail}")
        worst, count = max(worst, outcome.error), count + 1
    return Outcome(True, worst, f"{count} cases, largest relative error {worst:.1e}")
