"""One process of a data-parallel training: its rank and a size in; timed steps and checked gradients out."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from labcode.experiments.nsys.multi_gpu.gradients import Reduction
from labcode.experiments.shared import common
from labcode.experiments.shared.common import Check, nvtx_range, synchronize
from labcode.timing import quantile

if TYPE_CHECKING:
    import torch

EXPANSION = 4  # hidden width of a block, in multiples of its width
TOLERANCE = {
    "cuda": 1e-2,
    "cpu": 1e-5,
}  # of a reduced gradient (bf16; fp32): ‖reduced − reference‖ / ‖reference‖

Batch = tuple[Any, Any]


@dataclass(frozen=True)
class Size:
    """What each process trains: ``batch`` rows a step through ``layers`` blocks of ``width``; the seed."""

    layers: int
    width: int
    batch: int
    seed: int


@dataclass(frozen=True)
class Member:
    """One process of the group: torch, its rank, how many there are, its device."""

    torch: Any
    rank: int
    world: int
    device: torch.device

    @property
    def cuda(self) -> bool:
        """Whether the process has a GPU."""
        return bool(self.device.type == "cuda")

    @property
    def dtype(self) -> torch.dtype:
        """What the network computes in: bf16 on a GPU, fp32 on the CPU."""
        return self.torch.bfloat16 if self.cuda else self.torch.float32

    def meet(self) -> None:
        """Wait until every process is here and its device has nothing left to do."""
        synchronize(self.device)
        self.torch.distributed.barrier()
        synchronize(self.device)


def needed_bytes(size: Size) -> int:
    """GPU memory of a process: parameters, gradients, momentum, the checks' fp32 copies; activations."""
    parameters = size.layers * 2 * EXPANSION * size.width**2
    return 14 * parameters + 8 * EXPANSION * size.layers * size.batch * size.width


def make_model(member: Member, size: Size) -> Any:
    """Residual blocks of a normalization and two linear layers, as in a transformer without its attention.

    The same numbers in every process, since all draw them from the same seed.
    """
    torch = member.torch
    torch.manual_seed(size.seed)

    class Block(torch.nn.Module):  # type: ignore[name-defined, misc]
        """x + W₂ gelu(W₁ norm(x))."""

        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.LayerNorm(size.width)
            self.up = torch.nn.Linear(size.width, EXPANSION * size.width)
            self.down = torch.nn.Linear(EXPANSION * size.width, size.width)

        def forward(self, x: Any) -> Any:
            return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))

    blocks = [Block() for _ in range(size.layers)]
    return torch.nn.Sequential(*blocks).to(device=member.device, dtype=member.dtype)


def make_batch(member: Member, size: Size, step: int) -> Batch:
    """Inputs and targets [batch, width] of this process and a step: inputs, shifted by a feature."""
    seed = (size.seed * 1000 + member.rank) * 100_000 + step
    generator = member.torch.Generator(device=member.device).manual_seed(seed)
    inputs = member.torch.randn(
        size.batch, size.width, generator=generator, device=member.device, dtype=member.dtype
    )
    return inputs, inputs.roll(1, dims=1)


def loss_of(model: Any, batch: Batch, world: int) -> Any:
    """This process' share of the mean squared error over all, so that gradients need only be summed."""
    inputs, targets = batch
    return (model(inputs) - targets).float().square().mean() / world


def train_step(member: Member, model: Any, optimizer: Any, reduction: Reduction, batch: Batch) -> Any:
    """One step; this process' share of the loss, as a tensor."""
    with nvtx_range("forward", member.device):
        loss = loss_of(model, batch, member.world)
    with nvtx_range("backward", member.device):
        reduction.prepare()
        # On this thread, so that the range covers what is launched here, reductions from hooks included.
        with reduction.beside(), member.torch.autograd.set_multithreading_enabled(False):
            loss.backward()
    with nvtx_range("all-reduce", member.device):
        reduction.finish()
    with nvtx_range("optimizer", member.device):
        optimizer.step()
    return loss.detach()


def run_steps(
    member: Member, batches: Sequence[Batch], step: Callable[[Batch], Any], *, measured: bool
) -> tuple[list[float], list[float]]:
    """Run a step on each batch: milliseconds a step, and the losses.

    Times are from CUDA events, or from the host's clock without a GPU. Only a ``measured`` run is
    marked for the profiler.
    """
    marks = (
        [member.torch.cuda.Event(enable_timing=True) for _ in range(len(batches) + 1)] if member.cuda else []
    )
    clock, losses = [], []
    member.meet()
    with nvtx_range(common.MEASURED, member.device) if measured else nullcontext():
        for k, batch in enumerate(batches):
            clock.append(1e3 * time.perf_counter())
            if marks:
                marks[k].record()
            with nvtx_range(f"step {k}", member.device):
                losses.append(step(batch))
        if marks:
            marks[-1].record()
        synchronize(member.device)
    clock.append(1e3 * time.perf_counter())
    step_ms = [b - a for a, b in pairwise(clock)]
    if marks:
        step_ms = [a.elapsed_time(b) for a, b in pairwise(marks)]
    return step_ms, [float(loss) * member.world for loss in losses]


def all_reduce_ms(member: Member, sizes: Sequence[int], repetitions: int = 5) -> float:
    """Milliseconds for all-reduces of these sizes (elements), nothing else running; the median."""
    tensors = [member.torch.ones(size, dtype=member.dtype, device=member.device) for size in sizes]
    times = []
    for _ in range(repetitions + 2):
        member.meet()
        start = time.perf_counter()
        for work in [member.torch.distributed.all_reduce(tensor, async_op=True) for tensor in tensors]:
            work.wait()
        synchronize(member.device)
        times.append(1e3 * (time.perf_counter() - start))
    return quantile(times[2:], 0.5)


def check_gradients(member: Member, size: Size, model: Any, reduction: Reduction) -> Check:
    """The reduced gradients are the sum, in fp32, of what each process finds alone on these parameters."""
    batch = make_batch(member, size, 10_000)
    parameters = list(model.parameters())
    with reduction.paused():
        for parameter in parameters:
            parameter.grad = None
        loss_of(model, batch, member.world).backward()
        expected = [parameter.grad.to(member.torch.float32, copy=True) for parameter in parameters]
    for tensor in expected:
        member.torch.distributed.all_reduce(tensor)
    reduction.prepare()
    loss_of(model, batch, member.world).backward()
    reduction.finish()
    pairs = zip(parameters, expected, strict=True)
    worst = max(
        float((parameter.grad.float() - wanted).norm() / wanted.norm()) for parameter, wanted in pairs
    )
    allowed = TOLERANCE[member.device.type]
    return Check(worst <= allowed, f"largest relative error of a gradient {worst:.1e}, allowed {allowed:.0e}")


def fingerprint(member: Member, model: Any) -> Any:
    """One integer a parameter (int64) that depends on each of its bits and their places."""
    torch = member.torch
    sums = []
    for parameter in model.parameters():
        bits = parameter.detach().flatten()
        bits = bits.view(torch.int16 if bits.element_size() == 2 else torch.int32).to(torch.int64)
        sums.append((bits * (torch.arange(bits.numel(), device=bits.device) % 65521 + 1)).sum())
    return torch.stack(sums)


def check_agreement(member: Member, prints: Sequence[Any]) -> Check:
    """Every process has the same parameters, to the bit."""
    agree = all(bool((other == prints[0]).all()) for other in prints)
    return Check(
        agree, f"parameters of {member.world} processes " + ("agree to the bit" if agree else "differ")
    )


def check_losses(losses: Sequence[float]) -> Check:
    """The losses are numbers, and training lowers them."""
    finite = all(-1e30 < loss < 1e30 for loss in losses)
    falls = len(losses) < 2 or losses[-1] < losses[0]
    return Check(finite and falls, f"from {losses[0]:.4f} to {losses[-1]:.4f}")


def gather(member: Member, tensor: Any) -> list[Any]:
    """A tensor from every process, in the order of their ranks."""
    parts = [member.torch.empty_like(tensor) for _ in range(member.world)]
    member.torch.distributed.all_gather(parts, tensor)
    return parts


def all_passed(member: Member, passed: bool) -> bool:
    """Whether something holds in every process."""
    verdict = member.torch.tensor([int(passed)], device=member.device)
    member.torch.distributed.all_reduce(verdict, op=member.torch.distributed.ReduceOp.MIN)
    return bool(int(verdict))
