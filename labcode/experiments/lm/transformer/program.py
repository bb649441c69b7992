"""A language model asked or trained: size, precision, attention in; a JSON record of times and memory out.

A decoder (`labcode.analysis.lm.decoder` has its sizes) runs over one batch of random tokens, again and again:

- ``forward``: the forward pass alone, as for inference;
- ``backward``: forward and backward pass;
- ``train``: forward, backward, a step of AdamW.

After each pass the host waits for the GPU, so that the host's clock, CUDA events and NVTX ranges time the
same thing. The record has each step's times, warm-up steps apart: what they would average to after fewer of
them can be told from one run.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from labcode.analysis.lm import decoder
from labcode.errors import LabError
from labcode.experiments.shared import common
from labcode.experiments.shared.common import Check, nvtx_range, synchronize
from labcode.experiments.shared.marks import KINDS, marks
from labcode.experiments.shared.recording import recording
from labcode.timing import spread

if TYPE_CHECKING:
    import torch

    from labcode.experiments.lm.transformer.steps import Setup, Times, Trainer

PROGRAM = "transformer"
VARIANTS = ("forward", "backward", "train")
ATTENTIONS = ("naive", "sdpa", "flash")
PRECISIONS = ("fp32", "tf32", "bf16")
LARGEST_ERROR = {"fp32": 1e-5, "tf32": 1e-2, "bf16": 5e-2}  # of logits, relative to float64
COMPILED_DIFFERENCE = {"fp32": 1e-4, "tf32": 1e-3, "bf16": 1e-2}  # of the loss, relative to the eager model's


def command_line() -> argparse.ArgumentParser:
    """The flags."""
    parser = common.parser(
        PROGRAM, "Runs a decoder-only Transformer; the variants differ in passes.", VARIANTS
    )
    whole = common.whole
    parser.add_argument("--size", choices=list(decoder.SIZES), default="small", help="default small")
    parser.add_argument("--batch", type=whole(1, 65536), default=4, help="texts (default 4)")
    parser.add_argument("--context", type=whole(1, 65536), default=512, help="tokens a text (default 512)")
    parser.add_argument("--precision", choices=PRECISIONS, default="fp32", help="default fp32")
    parser.add_argument("--attention", choices=ATTENTIONS, default="naive", help="default naive")
    parser.add_argument("--compile", action="store_true", help="use torch.compile")
    parser.add_argument("--recompute", action="store_true", help="checkpoint activations, block by block")
    parser.add_argument("--steps", type=whole(1, 10000), default=10, help="measured steps (default 10)")
    parser.add_argument(
        "--window",
        type=whole(0, 10000),
        default=0,
        help="only so many of the last steps are profiled (0: all)",
    )
    parser.add_argument("--warmup", type=whole(0, 10000), default=5, help="steps before those (default 5)")
    parser.add_argument("--ranges", choices=KINDS, default="nvtx", help="how parts are named (default nvtx)")
    parser.add_argument("--seed", type=whole(0, 2**31), default=1, help="of data and model (default 1)")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: to try it out")
    return parser


def run_loop(
    trainer: Trainer, given: argparse.Namespace, mark: Any
) -> tuple[Times, Times, list[torch.Tensor]]:
    """Warm up, then run the measured steps; times of both, the losses of all.

    Of the measured steps the last ``--window`` are marked for profilers.
    """
    import torch

    from labcode.experiments.lm.transformer.steps import PASSES, Times, step

    device, passes = trainer.device, PASSES[given.variant]
    early, times, losses = Times(), Times(), []
    window = min(given.window or given.steps, given.steps)
    before = given.steps - window
    with recording(torch, device, warmup=given.warmup + before, steps=window) as tick:
        for _ in range(given.warmup):
            losses.append(step(trainer, passes, mark, early))
            tick()
        for _ in range(before):
            losses.append(step(trainer, passes, mark, times))
            tick()
        synchronize(device)
        with nvtx_range(common.MEASURED, device):
            for number in range(before, given.steps):
                with mark(f"step {number}"):
                    losses.append(step(trainer, passes, mark, times))
                tick()
            synchronize(device)
    return early, times, losses


def times_of(early: Times, times: Times) -> dict[str, Any]:
    """Times as the record has them: ``PASS_host_ms``, ``PASS_event_ms``, each also for the warm-up steps."""
    results: dict[str, Any] = {}
    for prefix, part in (("", times), ("warmup_", early)):
        for clock in ("host_ms", "event_ms"):
            for name, values in getattr(part, clock).items():
                results[f"{prefix}{name}_{clock}"] = common.rounded(values, 6)
    passes = times.host_ms.values()
    results["step_host_ms"] = common.rounded([sum(parts) for parts in zip(*passes, strict=True)], 6)
    return results


def check(given: argparse.Namespace, losses: Sequence[float], setup: Setup, device: Any) -> dict[str, Check]:
    """Losses are numbers, training lowers them, and the model computes what it should."""
    from labcode.experiments.lm.transformer.steps import relative_error

    finite = all(math.isfinite(loss) for loss in losses)
    about = f"from {losses[0]:.4f} to {losses[-1]:.4f}"
    checks = {"losses_finite": Check(finite, about)}
    if given.variant == "train" and len(losses) > 1:
        checks["loss_falls"] = Check(losses[-1] < losses[0], about)
    error, allowed = relative_error(setup, device), LARGEST_ERROR[setup.precision]
    checks["matches_float64"] = Check(
        error <= allowed, f"relative error of logits {error:.1e}, allowed {allowed:.0e}"
    )
    return checks


def check_compiled(trainer: Trainer) -> Check:
    """The compiled model's loss is the eager one's."""
    import torch

    from labcode.experiments.lm.transformer.model import loss_of

    losses = []
    for model in (trainer.model, trainer.model._orig_mod):
        with torch.no_grad(), trainer.autocast():
            losses.append(float(loss_of(model(trainer.tokens), trainer.targets)))
    difference = abs(losses[0] - losses[1]) / abs(losses[1])
    allowed = COMPILED_DIFFERENCE[trainer.setup.precision]
    return Check(difference <= allowed, f"loss differs by {difference:.1e} of it, allowed {allowed:.0e}")


def measure(given: argparse.Namespace, device: torch.device) -> common.Record:
    """Make the model, run it, check it; the record."""
    import torch

    from labcode.experiments.lm.transformer import steps

    size = decoder.SIZES[given.size]
    setup = steps.Setup(
        *(size, given.batch, given.context, given.precision, given.attention),
        *(given.compile, given.recompute, given.seed),
    )
    passes, mark = steps.PASSES[given.variant], marks(given.ranges, device)
    trainer = steps.make_trainer(setup, device, mark)
    early, times, recorded = run_loop(trainer, given, mark)
    losses = [float(loss) for loss in recorded]
    results: dict[str, Any] = times_of(early, times)
    if device.type == "cuda":
        results |= {f"memory_{key}": value for key, value in steps.memory_peaks(trainer, passes).items()}
    results |= {
        "losses": common.rounded(losses, 7),
        "parameter_count": sum(p.numel() for p in trainer.model.parameters()),
        "flops": decoder.forward_flops(size, given.batch, given.context),
        "residual_bytes": decoder.residual_bytes(size, given.batch, given.context),
        "dtypes": steps.dtypes(trainer) if "backward" in passes else [],
    }
    checks = {"compiled_matches_eager": check_compiled(trainer)} if given.compile else {}
    del trainer
    if device.type == "cuda":
        torch.cuda.empty_cache()
    checks |= check(given, losses, setup, device)
    parameters = common.parameters_of(given) | {f"model_{key}": value for key, value in asdict(size).items()}
    return common.Record(PROGRAM, given.variant, parameters, results, checks, common.gpu_info(torch, device))


def require_sense(given: argparse.Namespace) -> None:
    """`LabError` for flags that do not go together."""
    if given.attention == "flash" and given.device == "cuda" and given.precision != "bf16":
        raise LabError(
            f"--attention flash takes 16-bit inputs and --precision is {given.precision}; choose bf16"
        )


def main(arguments: Sequence[str]) -> int:
    """Run a variant, check it, print and write the record; the exit code."""
    given = command_line().parse_args(arguments)
    require_sense(given)
    torch = common.import_torch()
    if given.device == "cuda":
        common.require_gpus(torch)
    try:
        record = measure(given, torch.device(given.device, 0))
    except torch.OutOfMemoryError as error:
        raise LabError(
            f"{given.size} ({given.variant}, batch {given.batch}, context {given.context}, "
            f"{given.precision}, {given.attention} attention) does not fit into the GPU's memory; choose "
            f"a smaller --size, --batch or --context ({str(error).splitlines()[0]})"
        ) from None
    results = record.results
    flops = decoder.matmul_flops(
        decoder.SIZES[given.size], given.batch, given.context, backward=given.variant != "forward"
    )
    typical = spread(results["step_host_ms"]).median
    print(
        f"{record.gpu['name']}: {given.size}, {given.variant}, {given.precision}, {given.attention} attention"
    )
    print(f"  {typical:.3f} ms a step, {flops / typical / 1e9:.2f} TFLOP/s in matrix products")
    for name in ("forward", "backward", "optimizer"):
        if f"{name}_host_ms" in results:
            print(f"  {name}: {spread(results[f'{name}_host_ms']).median:.3f} ms")
    print(f"  loss from {results['losses'][0]:.4f} to {results['losses'][-1]:.4f}")
    return common.finish(record, given.json)


if __name__ == "__main__":
    common.run(PROGRAM, main)
