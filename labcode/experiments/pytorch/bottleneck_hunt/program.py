"""A training loop with planted problems, and the same without: flags in, a JSON record of times out.

A small network learns to imitate a fixed one. All variants compute the same losses from the same batches;
``baseline`` has problems in it (``--problems`` chooses others):

- ``item``: the loss and the accuracy are read in every step, so the host waits for the GPU;
- ``cpu_tensors``: tensors that each step needs are made on the CPU and copied;
- ``optimizer``: AdamW goes through the parameters one by one instead of all in a few kernels;
- ``dtype``: inputs are prepared and the loss is computed in float64;
- ``layout``: inputs lie with rows and columns exchanged and are turned around in every block;
- ``tiny_ops``: normalization and activation written out in operators on single elements;
- ``logging``: the norm of each gradient is read and written to a file in every step.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from labcode.experiments.shared import common
from labcode.experiments.shared.common import Check, nvtx_range, synchronize
from labcode.experiments.shared.marks import KINDS, marks
from labcode.experiments.shared.recording import recording
from labcode.timing import spread

if TYPE_CHECKING:
    import torch

PROGRAM = "bottleneck_hunt"
PROBLEMS = ("item", "cpu_tensors", "optimizer", "dtype", "layout", "tiny_ops", "logging")
VARIANTS = {"baseline": PROBLEMS, "improved": ()}
TOLERANCE = 1e-4  # of the first loss: see `apart`
LOSS_MUST_FALL_TO = 0.98  # of the first loss, at the last step


@dataclass(frozen=True)
class Outcome:
    """What a loop gives: each step's loss (warm-up included), the host's time of each measured step."""

    losses: list[float]
    step_ms: list[float]
    total_ms: float


def train(
    torch: Any, given: argparse.Namespace, problems: Collection[str], device: torch.device, *, measured: bool
) -> Outcome:
    """Run the loop from a fresh model. Only a ``measured`` run is marked, and recorded where asked for."""
    from labcode.experiments.pytorch.bottleneck_hunt import model

    torch.manual_seed(given.seed)
    network = model.Network(given.width, given.blocks, given.classes, problems).to(device)
    with torch.no_grad():
        data = model.make_data(given, device)
    fused = device.type == "cuda"
    optimizer = torch.optim.AdamW(
        network.parameters(),
        lr=given.rate,
        **({"foreach": False} if "optimizer" in problems else {"fused": True} if fused else {}),
    )
    mark = marks(given.ranges, device if measured else torch.device("cpu"))
    losses: list[Any] = []

    def one_step(step: int, log: IO[str]) -> None:
        with mark("batch"):
            inputs, targets = model.batch_of(data, step, problems)
        with mark("forward"):
            loss, accuracy = model.loss_of(network, inputs, targets, problems)
        with mark("backward"):
            optimizer.zero_grad(set_to_none=True)
            with torch.autograd.set_multithreading_enabled(False):
                loss.backward()
        with mark("optimizer"):
            optimizer.step()
        with mark("log"):
            if "logging" in problems:
                model.write_norms(network, log, step)
            if "item" in problems:
                losses.append(loss.item())
                log.write(f"step {step}: loss {losses[-1]}, accuracy {accuracy.item()}\n")
            else:
                losses.append(loss.detach())

    step_ms: list[float] = []
    with tempfile.TemporaryFile("w") as log, _recorded(torch, device, given, measured) as tick:
        for step in range(given.warmup):
            one_step(step, log)
            tick()
        synchronize(device)
        start = time.perf_counter()
        with nvtx_range(common.MEASURED if measured else "checked", device):
            for step in range(given.warmup, given.warmup + given.steps):
                begin = time.perf_counter()
                with mark(f"step {step - given.warmup}"):
                    one_step(step, log)
                step_ms.append(1e3 * (time.perf_counter() - begin))
                tick()
            synchronize(device)
        total_ms = 1e3 * (time.perf_counter() - start)
    return Outcome([float(x) for x in losses], step_ms, total_ms)


def _recorded(torch: Any, device: torch.device, given: argparse.Namespace, measured: bool) -> Any:
    """`recording` for the measured run; for the other a function that does nothing."""
    if measured:
        return recording(torch, device, warmup=given.warmup, steps=given.steps)
    from contextlib import nullcontext

    return nullcontext(lambda: None)


def apart(losses: Sequence[float], plain: Sequence[float]) -> float:
    """The largest difference between two loops' losses, as a share of the first loss (NaN: infinite).

    Not as a share of each loss: the loop learns its few batches by heart, and a loss near 0 is what remains
    of two large numbers, the logarithm of a sum over the scores less one score. Their rounding errors stay as
    large as they were, so of a loss near 0 they are any share. Scores are sums of some thousand products in
    fp32, added in whatever order: relative errors of about 1e-6, in gradients too, again in every step; AdamW
    moves no weight by more than about its rate for them. `TOLERANCE` allows a hundred times that. It does not
    allow another formula: GELU in its other form, which nowhere differs by more than 0.0005, changes more.
    """
    worst = max(abs(a - b) for a, b in zip(losses, plain, strict=True)) / abs(plain[0])
    return math.inf if any(math.isnan(loss) for loss in losses) else worst


def check(outcome: Outcome, plain: Outcome) -> dict[str, Check]:
    """The losses are those of the loop without problems, and they fall."""
    worst, count = apart(outcome.losses, plain.losses), len(plain.losses)
    first, final = outcome.losses[0], outcome.losses[-1]
    return {
        "losses_match_improved": Check(
            worst <= TOLERANCE,
            f"{count} losses, largest difference {worst:.1e} of the first loss, allowed {TOLERANCE:.0e}",
        ),
        "loss_falls": Check(final <= LOSS_MUST_FALL_TO * first, f"from {first:.4f} to {final:.4f}"),
    }


def command_line() -> argparse.ArgumentParser:
    """The flags."""
    parser = common.parser(
        PROGRAM, "Trains a small network; the variants differ in what slows the loop down.", list(VARIANTS)
    )
    whole = common.whole
    parser.add_argument("--steps", type=whole(1, 10000), default=10, help="measured steps (default 10)")
    parser.add_argument("--warmup", type=whole(1, 10000), default=5, help="steps before those (default 5)")
    parser.add_argument("--batch", type=whole(2, 65536), default=512, help="rows a step (default 512)")
    parser.add_argument("--width", type=whole(8, 65536), default=1024, help="of the network (default 1024)")
    parser.add_argument("--blocks", type=whole(1, 256), default=6, help="of the network (default 6)")
    parser.add_argument("--classes", type=whole(2, 65536), default=100, help="to tell apart (default 100)")
    parser.add_argument("--rate", type=common.positive, default=1e-3, help="of learning (default 0.001)")
    parser.add_argument(
        "--problems",
        type=_problems,
        metavar="NAME,…",
        help=f"what slows the loop down (default: the variant's; of {', '.join(PROBLEMS)}; or none)",
    )
    parser.add_argument(
        "--ranges", choices=KINDS, default="record", help="how parts are named (default record)"
    )
    parser.add_argument("--seed", type=whole(0, 2**31), default=1, help="of data and model (default 1)")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: to try it out")
    return parser


def _problems(text: str) -> str:
    """An argparse type: names of problems, by commas; the words as given, sorted."""
    words = sorted({word for word in text.split(",") if word not in ("", "none")})
    if unknown := [word for word in words if word not in PROBLEMS]:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: no such problem ({', '.join(PROBLEMS)})")
    return ",".join(words)


def main(arguments: Sequence[str]) -> int:
    """Run a variant, check it against the loop without problems, print and write the record; exit code."""
    given = command_line().parse_args(arguments)
    torch = common.import_torch()
    if given.device == "cuda":
        common.require_gpus(torch)
    device = torch.device(given.device, 0)
    torch.set_float32_matmul_precision("highest")
    problems = frozenset(VARIANTS[given.variant])
    if given.problems is not None:
        problems = frozenset(given.problems.split(",")) - {""}
    outcome = train(torch, given, problems, device, measured=True)
    plain = train(torch, given, (), device, measured=False)
    per_step = outcome.total_ms / given.steps
    record = common.Record(
        PROGRAM,
        given.variant,
        {**common.parameters_of(given), "problems": sorted(problems)},
        {
            "total_ms": round(outcome.total_ms, 4),
            "per_step_ms": round(per_step, 4),
            "rows_per_s": round(1e3 * given.batch / per_step, 1),
            "step_host_ms": common.rounded(outcome.step_ms, 5),
            "losses": common.rounded(outcome.losses, 7),
        },
        check(outcome, plain),
        common.gpu_info(torch, device),
    )
    print(f"{record.gpu['name']}: {given.variant}, {given.steps} steps of {given.batch} rows")
    print(f"  {per_step:.3f} ms a step, host's share: median {spread(outcome.step_ms).median:.3f} ms")
    print(f"  loss from {outcome.losses[0]:.4f} to {outcome.losses[-1]:.4f}")
    return common.finish(record, given.json)


if __name__ == "__main__":
    common.run(PROGRAM, main)
