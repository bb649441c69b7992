"""A training loop that leaves the GPU idle, and the same work without: flags in, a JSON record out.

A small network learns to tell noisy pictures apart. The CPU augments each batch (random crop, flip, contrast,
normalization) with NumPy; the GPU trains on it. All variants compute the same losses from the same batches:

- ``baseline``: one thread does everything in turn, waits for the GPU after each phase, copies from pageable
  memory and reads the loss in each step;
- ``nosync``: without those waits; the losses stay on the GPU until the end;
- ``improved``: ``nosync``, and two threads prepare the next batches in pinned buffers and copy them on a
  stream of their own.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from labcode.experiments.nsys.timeline_basics.loaders import Ahead, InTurn, Source
from labcode.experiments.nsys.timeline_basics.pictures import (
    CLASSES,
    FEATURES,
    BatchPlan,
    Pictures,
    make_pictures,
)
from labcode.experiments.shared import common
from labcode.experiments.shared.common import Check, nvtx_range, synchronize
from labcode.timing import spread

if TYPE_CHECKING:
    import torch

PROGRAM = "timeline_basics"
VARIANTS = ("baseline", "nosync", "improved")
LEARNING_RATE, MOMENTUM = 0.02, 0.9
LOSS_TOLERANCE = 1e-4  # relative; the variants run the same kernels on the same data
LOSS_MUST_FALL_TO = 0.95  # of the first loss, at the last step


@dataclass(frozen=True)
class Options:
    """What a run is made of; the same values give the same batches in each variant."""

    variant: str
    steps: int
    warmup: int
    width: int
    plan: BatchPlan
    workers: int
    slots: int


@dataclass(frozen=True)
class Outcome:
    """What a run gives: each step's loss (warm-up included), the host's time of each measured step."""

    losses: list[float]
    step_ms: list[float]
    total_ms: float


def train(
    torch: Any, options: Options, pictures: Pictures, device: torch.device, variant: str, *, measured: bool
) -> Outcome:
    """Run the loop of a variant from a fresh model. Only a ``measured`` run is marked for the profiler."""
    functional = torch.nn.functional
    torch.manual_seed(options.plan.seed)
    layers: list[Any] = []
    for inputs in (FEATURES, options.width, options.width):
        layers += [torch.nn.Linear(inputs, options.width), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(options.width, CLASSES)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM)
    wait = variant == "baseline"
    last = options.warmup + options.steps
    source: Source = (
        Ahead(torch, pictures, options.plan, device, last, workers=options.workers, slots=options.slots)
        if variant == "improved"
        else InTurn(torch, pictures, options.plan, device, wait=wait)
    )

    def phase_done() -> None:
        if wait:
            synchronize(device)

    def one_step(step: int) -> Any:
        batch = source.get(step)
        with nvtx_range("forward", device):
            loss = functional.cross_entropy(model(batch.inputs), batch.targets)
            phase_done()
        with nvtx_range("backward", device):
            optimizer.zero_grad(set_to_none=True)
            # On this thread: PyTorch would launch the backward pass from another, outside this range.
            with torch.autograd.set_multithreading_enabled(False):
                loss.backward()
            phase_done()
        source.used(batch)
        with nvtx_range("optimizer", device):
            optimizer.step()
            phase_done()
        if not wait:
            return loss.detach()
        with nvtx_range("read loss", device):
            return loss.item()

    losses = []
    step_ms = []
    try:
        for step in range(options.warmup):
            losses.append(one_step(step))
        synchronize(device)
        start = time.perf_counter()
        with nvtx_range(common.MEASURED, device) if measured else nullcontext():
            for step in range(options.warmup, last):
                begin = time.perf_counter()
                with nvtx_range(f"step {step - options.warmup}", device):
                    losses.append(one_step(step))
                step_ms.append(1e3 * (time.perf_counter() - begin))
            if not wait:
                with nvtx_range("read loss", device):
                    losses = torch.stack([torch.as_tensor(x, device=device) for x in losses]).tolist()
            synchronize(device)
        total_ms = 1e3 * (time.perf_counter() - start)
    finally:
        source.close()
    return Outcome([float(x) for x in losses], step_ms, total_ms)


def check(outcome: Outcome, plain: Outcome) -> dict[str, Check]:
    """The losses are those of the plain loop, and they fall."""
    pairs = list(zip(outcome.losses, plain.losses, strict=True))
    worst = max(abs(a - b) / abs(b) for a, b in pairs)
    same = worst <= LOSS_TOLERANCE and not any(math.isnan(a) for a, _ in pairs)
    first, final = outcome.losses[0], outcome.losses[-1]
    return {
        "losses_match_plain_loop": Check(
            same,
            f"{len(pairs)} losses, largest relative difference {worst:.1e}, allowed {LOSS_TOLERANCE:.0e}",
        ),
        "loss_falls": Check(final <= LOSS_MUST_FALL_TO * first, f"from {first:.4f} to {final:.4f}"),
    }


def command_line() -> argparse.ArgumentParser:
    """The flags."""
    parser = common.parser(
        PROGRAM, "Trains a small network; the variants differ in how the GPU is kept busy.", VARIANTS
    )
    whole = common.whole
    parser.add_argument("--steps", type=whole(1, 10000), default=20, help="measured steps (default 20)")
    parser.add_argument("--warmup", type=whole(1, 10000), default=5, help="steps before those (default 5)")
    parser.add_argument("--batch", type=whole(1, 65536), default=512, help="pictures a step (default 512)")
    parser.add_argument(
        "--width", type=whole(16, 65536), default=4096, help="width of the network (default 4096)"
    )
    parser.add_argument(
        "--cpu-work", type=whole(1, 64), default=1, help="pictures mixed into one (default 1)"
    )
    parser.add_argument("--workers", type=whole(1, 64), default=2, help="threads of `improved` (default 2)")
    parser.add_argument("--slots", type=whole(2, 64), default=4, help="buffers of `improved` (default 4)")
    parser.add_argument("--seed", type=whole(0, 2**32 - 1), default=1, help="of data and model (default 1)")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: to try it out")
    return parser


def needed_bytes(width: int, batch: int) -> int:
    """GPU memory of a run: weights, gradients, momentum, one more for the optimizer; batches, activations."""
    weights = width * (FEATURES + 2 * width + CLASSES)
    return 4 * (4 * weights + 8 * batch * (FEATURES + width))


def main(arguments: Sequence[str]) -> int:
    """Run a variant, check its losses against the plain loop's, print and write the record; the exit code."""
    given = command_line().parse_args(arguments)
    torch = common.import_torch()
    if given.device == "cuda":
        common.require_gpus(torch)
        common.require_memory(torch, needed_bytes(given.width, given.batch), "choose a smaller --width")
    device = torch.device(given.device, 0)
    torch.backends.cuda.matmul.allow_tf32 = False
    plan = BatchPlan(given.batch, given.cpu_work, given.seed)
    options = Options(given.variant, given.steps, given.warmup, given.width, plan, given.workers, given.slots)
    pictures = make_pictures(plan.seed)
    outcome = train(torch, options, pictures, device, options.variant, measured=True)
    plain = train(torch, options, pictures, device, "baseline", measured=False)
    per_step = outcome.total_ms / options.steps
    record = common.Record(
        PROGRAM,
        options.variant,
        common.parameters_of(given),
        {
            "total_ms": round(outcome.total_ms, 4),
            "per_step_ms": round(per_step, 4),
            "pictures_per_s": round(1e3 * plan.batch / per_step, 1),
            "step_host_ms": common.rounded(outcome.step_ms, 5),
            "losses": common.rounded(outcome.losses, 7),
        },
        check(outcome, plain),
        common.gpu_info(torch, device),
    )
    host = spread(outcome.step_ms)
    print(f"{record.gpu['name']}: {options.variant}, {options.steps} steps of {plan.batch} pictures")
    print(f"  {per_step:.3f} ms a step, {record.results['pictures_per_s']:.0f} pictures a second")
    print(f"  host's share of a step: median {host.median:.3f} ms, quartiles {host.q1:.3f} and {host.q3:.3f}")
    print(f"  loss from {outcome.losses[0]:.4f} to {outcome.losses[-1]:.4f}")
    return common.finish(record, given.json)


if __name__ == "__main__":
    common.run(PROGRAM, main)
