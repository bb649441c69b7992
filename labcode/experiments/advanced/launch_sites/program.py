"""A training step with kernels from lines nobody suspects, and the same without: flags in, a JSON record out.

A small network learns which token follows which. Both variants compute the same losses from the same texts;
``baseline`` has some steps (``--hidden``) written in the way that launches more kernels, or slower ones, than
its line looks like:

- ``marks``: each place gets what belongs to its kind by advanced indexing of a small table;
- ``bias``: a bias by distance is looked up by advanced indexing;
- ``norms``: the norm of the gradients is read parameter by parameter;
- ``heads``: attention in a Python loop over the heads;
- ``mask``: the places that count are picked out by a boolean mask.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from labcode.errors import LabError
from labcode.experiments.shared import common
from labcode.experiments.shared.common import Check, nvtx_range, synchronize
from labcode.timing import spread

if TYPE_CHECKING:
    import torch

PROGRAM = "launch_sites"
HIDDEN = ("marks", "bias", "norms", "heads", "mask")
VARIANTS = {"baseline": frozenset({"marks", "norms"}), "improved": frozenset[str]()}
TOLERANCE = 1e-3  # relative; the ways of a pair add the same numbers in another order
LOSS_MUST_FALL_TO = 0.95  # of the first loss, at the last step


@dataclass(frozen=True)
class Outcome:
    """What a loop gives: each step's loss and norm of gradients (warm-up included); times in ms."""

    losses: list[float]
    norms: list[float]
    host_ms: list[float]
    total_ms: float


def train(
    torch: Any, given: argparse.Namespace, hidden: Collection[str], device: torch.device, *, measured: bool
) -> Outcome:
    """Run the loop from a fresh model. Only a ``measured`` run is marked for the profiler."""
    from labcode.experiments.advanced.launch_sites import model

    torch.manual_seed(given.seed)
    shape = model.Shape(given.length, given.width, given.heads, given.layers, given.tokens)
    network = model.Network(shape, hidden).to(device)
    optimizer = torch.optim.SGD(network.parameters(), lr=given.rate, momentum=0.9)
    steps = given.warmup + given.steps
    texts, targets = (x.to(device) for x in model.make_texts(shape, given.batch, steps, given.seed))
    marked = device if measured else torch.device("cpu")  # no ranges for the latter
    losses, norms, host_ms = [], [], []

    def one_step(step: int) -> None:
        with nvtx_range("forward", marked):
            loss = network(texts[step], targets[step])
        with nvtx_range("backward", marked):
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
        with nvtx_range("optimizer", marked):
            optimizer.step()
        with nvtx_range("log", marked):
            losses.append(loss.detach())
            norms.append(network.gradient_norm())

    for step in range(given.warmup):
        one_step(step)
    synchronize(device)
    start = time.perf_counter()
    with nvtx_range(common.MEASURED, device) if measured else nullcontext():
        for step in range(given.warmup, steps):
            begin = time.perf_counter()
            with nvtx_range(f"step {step - given.warmup}", marked):
                one_step(step)
            host_ms.append(1e3 * (time.perf_counter() - begin))
        synchronize(device)
    total_ms = 1e3 * (time.perf_counter() - start)
    return Outcome([float(x) for x in losses], [float(x) for x in norms], host_ms, total_ms)


def check(outcome: Outcome, plain: Outcome) -> dict[str, Check]:
    """Losses and norms are those without hidden work, and the loss falls."""
    checks = {}
    for name in ("losses", "norms"):
        pairs = list(zip(getattr(outcome, name), getattr(plain, name), strict=True))
        worst = max(abs(a - b) / abs(b) for a, b in pairs)
        same = worst <= TOLERANCE and not any(math.isnan(a) for a, _ in pairs)
        detail = f"{len(pairs)} {name}, largest relative difference {worst:.1e}, allowed {TOLERANCE:.0e}"
        checks[f"{name}_match_improved"] = Check(same, detail)
    first, final = outcome.losses[0], outcome.losses[-1]
    falls = final <= LOSS_MUST_FALL_TO * first
    return {**checks, "loss_falls": Check(falls, f"from {first:.4f} to {final:.4f}")}


def command_line() -> argparse.ArgumentParser:
    """The flags."""
    parser = common.parser(
        PROGRAM, "Trains a small network; the variants differ in what some lines launch.", list(VARIANTS)
    )
    whole = common.whole
    parser.add_argument("--steps", type=whole(1, 10000), default=4, help="measured steps (default 4)")
    parser.add_argument("--warmup", type=whole(1, 10000), default=5, help="steps before those (default 5)")
    parser.add_argument("--batch", type=whole(1, 65536), default=8, help="texts a step (default 8)")
    parser.add_argument("--length", type=whole(2, 8192), default=512, help="tokens of a text (default 512)")
    parser.add_argument("--width", type=whole(8, 65536), default=512, help="of the network (default 512)")
    parser.add_argument("--heads", type=whole(1, 256), default=8, help="heads of attention (default 8)")
    parser.add_argument("--layers", type=whole(1, 256), default=3, help="blocks (default 3)")
    parser.add_argument("--tokens", type=whole(2, 65536), default=256, help="different ones (default 256)")
    parser.add_argument("--rate", type=common.positive, default=0.1, help="of learning (default 0.1)")
    parser.add_argument(
        "--hidden",
        type=_hidden,
        metavar="WAY,…",
        help=f"what is written the costly way (default: the variant's; of {', '.join(HIDDEN)}; or none)",
    )
    parser.add_argument("--seed", type=whole(0, 2**32 - 1), default=1, help="of data and model (default 1)")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: to try it out")
    return parser


def _hidden(text: str) -> str:
    """An argparse type: names of costly ways, by commas; the words as given, sorted."""
    words = sorted({word for word in text.split(",") if word not in ("", "none")})
    if unknown := [word for word in words if word not in HIDDEN]:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: no such way ({', '.join(HIDDEN)})")
    return ",".join(words)


def needed_bytes(given: argparse.Namespace) -> int:
    """GPU memory of a run: what the backward pass needs of each layer, weights thrice, some work space."""
    places = given.batch * given.length
    layer = places * (16 * given.width + 6 * given.heads * given.length)
    weights = given.layers * 12 * given.width**2 + 2 * given.tokens * given.width
    return int(4 * (given.layers * layer + 4 * places * given.tokens + 3 * weights)) + (1 << 30)


def main(arguments: Sequence[str]) -> int:
    """Run a variant, check it against the improved one, print and write the record; the exit code."""
    given = command_line().parse_args(arguments)
    if given.width % given.heads:
        raise LabError(f"--width {given.width} is no multiple of --heads {given.heads}; choose one that is")
    torch = common.import_torch()
    if given.device == "cuda":
        common.require_gpus(torch)
        common.require_memory(torch, needed_bytes(given), "choose a smaller --batch or --length")
    device = torch.device(given.device, 0)
    torch.backends.cuda.matmul.allow_tf32 = False
    hidden = VARIANTS[given.variant]
    if given.hidden is not None:
        hidden = frozenset(given.hidden.split(",")) - {""}
    outcome = train(torch, given, hidden, device, measured=True)
    plain = train(torch, given, (), device, measured=False)
    per_step = outcome.total_ms / given.steps
    record = common.Record(
        PROGRAM,
        given.variant,
        {**common.parameters_of(given), "hidden": sorted(hidden)},
        {
            "total_ms": round(outcome.total_ms, 4),
            "per_step_ms": round(per_step, 4),
            "tokens_per_s": round(1e3 * given.batch * given.length / per_step, 1),
            "step_host_ms": common.rounded(outcome.host_ms, 5),
            "losses": common.rounded(outcome.losses, 7),
            "norms": common.rounded(outcome.norms, 7),
        },
        check(outcome, plain),
        common.gpu_info(torch, device),
    )
    print(f"{record.gpu['name']}: {given.variant}, {given.steps} steps of {given.batch} texts")
    print(f"  {per_step:.3f} ms a step, host's share: median {spread(outcome.host_ms).median:.3f} ms")
    print(f"  loss from {outcome.losses[0]:.4f} to {outcome.losses[-1]:.4f}")
    return common.finish(record, given.json)


if __name__ == "__main__":
    common.run(PROGRAM, main)
