"""Training loops of which some keep memory they need no more: flags in, a JSON record of live bytes out.

Variants:

- ``leak``: a curve of losses on other data, computed as for training: each is kept with its graph and with
  all that a backward pass would need, which never comes;
- ``fixed``: the same curve, computed under `torch.no_grad`;
- ``hook``: a hook that was to look at one step's activations keeps those of all;
- ``cache``: outputs are kept by step to be compared later, and nothing ever drops them.

The record has the bytes in use after each step.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from labcode.experiments.shared import common
from labcode.experiments.shared.common import Check, nvtx_range, synchronize
from labcode.experiments.shared.recording import recording

if TYPE_CHECKING:
    import torch

PROGRAM = "memory_leak"
VARIANTS = ("leak", "fixed", "hook", "cache")
NEGLIGIBLE_BYTES = 1024  # the curve itself: a number a step, which takes a block of 512 bytes


def train(torch: Any, given: argparse.Namespace, device: torch.device) -> tuple[list[int], list[float]]:
    """Run the loop: bytes in use after each measured step, the losses of all steps."""
    from labcode.experiments.pytorch.memory_leak import model

    torch.manual_seed(given.seed)
    network = model.Network(given.width, given.layers).to(device)
    inputs = torch.randn(given.batch, given.width, device=device)
    others = torch.randn(given.batch, given.width, device=device)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, **model.fused(device))
    kept = model.Kept()
    if given.variant == "hook":
        network.layers[given.layers // 2].register_forward_hook(kept.remember_activation)

    def one_step() -> None:
        outputs = network(inputs)
        loss = model.loss_of(outputs, inputs)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # frees what its graph held
        optimizer.step()
        with nullcontext() if given.variant == "leak" else torch.no_grad():
            kept.losses.append(model.loss_of(network(others), others))
        if given.variant == "cache":
            kept.outputs[len(kept.losses)] = outputs.detach()

    used = []
    with recording(torch, device, warmup=given.warmup, steps=given.steps) as tick:
        for _ in range(given.warmup):
            one_step()
            tick()
        synchronize(device)
        with nvtx_range(common.MEASURED, device):
            for _ in range(given.steps):
                one_step()
                used.append(model.bytes_in_use(device, kept))
                tick()
            synchronize(device)
    return used, [float(loss.detach()) for loss in kept.losses]


def check(variant: str, used: Sequence[int], losses: Sequence[float]) -> dict[str, Check]:
    """The loss falls; memory grows in every step where something is kept, and does not where nothing is."""
    growth = [after - before for before, after in pairwise(used)]
    stays = all(step <= NEGLIGIBLE_BYTES for step in growth)
    holds = stays if variant == "fixed" else all(step > NEGLIGIBLE_BYTES for step in growth)
    wanted = "stays" if variant == "fixed" else "grows"
    return {
        f"memory_{wanted}": Check(holds, f"from {used[0]} to {used[-1]} bytes in {len(used)} steps"),
        "loss_falls": Check(losses[-1] < losses[0], f"from {losses[0]:.4f} to {losses[-1]:.4f}"),
    }


def command_line() -> argparse.ArgumentParser:
    """The flags."""
    parser = common.parser(
        PROGRAM, "Trains a small network; some variants keep memory that they need no more.", VARIANTS
    )
    whole = common.whole
    parser.add_argument("--steps", type=whole(2, 10000), default=8, help="measured steps (default 8)")
    parser.add_argument("--warmup", type=whole(1, 10000), default=2, help="steps before those (default 2)")
    parser.add_argument("--batch", type=whole(1, 1 << 20), default=4096, help="rows a step (default 4096)")
    parser.add_argument("--width", type=whole(8, 65536), default=1024, help="of a layer (default 1024)")
    parser.add_argument("--layers", type=whole(2, 256), default=6, help="of the network (default 6)")
    parser.add_argument("--seed", type=whole(0, 2**31), default=1, help="of data and model (default 1)")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: to try it out")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run a variant, check it, print and write the record; the exit code."""
    given = command_line().parse_args(arguments)
    torch = common.import_torch()
    if given.device == "cuda":
        common.require_gpus(torch)
    device = torch.device(given.device, 0)
    used, losses = train(torch, given, device)
    per_step = (used[-1] - used[0]) / (len(used) - 1)
    record = common.Record(
        PROGRAM,
        given.variant,
        common.parameters_of(given),
        {
            "used_bytes": used,
            "growth_bytes_per_step": round(per_step, 1),
            "losses": common.rounded(losses, 7),
        },
        check(given.variant, used, losses),
        common.gpu_info(torch, device),
    )
    print(f"{record.gpu['name']}: {given.variant}, {given.steps} steps of {given.batch} rows")
    print(f"  {used[-1] / 1e6:.1f} MB in use at the end, {per_step / 1e6:.2f} MB more with each step")
    return common.finish(record, given.json)


if __name__ == "__main__":
    common.run(PROGRAM, main)
