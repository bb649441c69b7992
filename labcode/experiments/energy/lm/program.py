"""The language model's energy: sizes, precisions, batches, passes, parts in; windows of each, out.

- ``sizes``: training steps of each size in fp32, TF32 and bf16 (the largest in bf16 only);
- ``passes``: forward, forward and backward, the optimizer alone, the whole step;
- ``batches``: forward passes, as for inference, of more and more texts at once;
- ``parts``: a forward pass, and each of its parts alone, over and over: a part within a pass is far too
  short for any sensor.

All in one process, so that what is compared ran on one GPU within minutes.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from labcode.analysis.lm import decoder
from labcode.experiments.shared import common
from labcode.experiments.shared.common import Check
from labcode.experiments.shared.windows import Windows, mark_clock

if TYPE_CHECKING:
    import torch

    from labcode.experiments.lm.transformer.steps import Setup, Trainer

PROGRAM = "energy_lm"
VARIANTS = ("record",)
STUDIES = ("sizes", "passes", "batches", "parts")
SIZES = ("small", "medium", "large", "xl", "2.7B")
IN_ALL_PRECISIONS = ("small", "medium")
BATCHES = (1, 4, 16, 64)
LARGEST_ERROR = {"fp32": 1e-5, "tf32": 1e-2, "bf16": 5e-2}  # of logits, relative to float64


def size_cases(given: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Sizes and precisions, the small sizes first."""
    for size in given.sizes:
        precisions = ("fp32", "tf32", "bf16") if size in IN_ALL_PRECISIONS else ("bf16",)
        yield from ((size, precision) for precision in precisions)


class Lab:
    """What the studies share: flags, device, windows, what did not fit, the losses seen."""

    def __init__(self, given: argparse.Namespace, device: torch.device) -> None:
        self.given, self.device = given, device
        self.windows = Windows(device, given.seconds, given.warmup)
        self.left_out: dict[str, str] = {}
        self.losses: dict[str, float] = {}

    def setup(self, size: str, precision: str, batch: int, attention: str = "naive") -> Setup:
        """How a model runs."""
        from labcode.experiments.lm.transformer.steps import Setup

        return Setup(decoder.SIZES[size], batch, self.given.context, precision, attention)

    def facts(self, setup: Setup, size: str, study: str) -> dict[str, Any]:
        """What each call of a window does; numbers are added up."""
        return {
            "study": study,
            "size": size,
            "precision": setup.precision,
            "batch": str(setup.batch),
            "tokens": setup.batch * setup.context,
        }

    def train(self, name: str, setup: Setup, passes: str, facts: dict[str, Any]) -> None:
        """A window of steps of a fresh model; one that does not fit is left out."""
        import torch

        from labcode.experiments.lm.transformer.steps import PASSES, make_trainer, step

        try:
            trainer = make_trainer(setup, self.device)
            seen: list[Any] = [None]

            def one() -> None:
                seen[0] = step(trainer, PASSES[passes])

            self.windows.repeat(name, one, passes=passes, **facts)
            self.losses[name] = float(seen[0])
        except torch.OutOfMemoryError:
            self.windows.entries.pop(name, None)
            self.left_out[name] = "does not fit into this GPU's memory"
        self.clean()

    def clean(self) -> None:
        """Give memory back before the next model."""
        import torch

        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()


def sizes(lab: Lab) -> None:
    """Training steps of each size and precision."""
    for size, precision in size_cases(lab.given):
        setup = lab.setup(size, precision, lab.given.batch)
        lab.train(f"train {size} {precision}", setup, "train", lab.facts(setup, size, "sizes"))


def passes(lab: Lab) -> None:
    """The passes of a step; the optimizer alone, on gradients that stay."""
    from labcode.experiments.lm.transformer.model import loss_of
    from labcode.experiments.lm.transformer.steps import make_trainer

    size = lab.given.size
    setup = lab.setup(size, "bf16", lab.given.batch)
    facts = lab.facts(setup, size, "passes")
    for name in ("forward", "backward", "train"):
        lab.train(f"pass {name}", setup, name, facts)
    trainer = make_trainer(setup, lab.device)
    with trainer.autocast():
        loss = loss_of(trainer.model(trainer.tokens), trainer.targets)
    loss.backward()
    lab.windows.repeat("pass optimizer", trainer.optimizer.step, passes="optimizer", **facts)


def batches(lab: Lab) -> None:
    """Forward passes with fused attention, of more and more texts."""
    for batch in lab.given.batches:
        setup = lab.setup(lab.given.size, "bf16", batch, "sdpa")
        facts = lab.facts(setup, lab.given.size, "batches")
        lab.train(f"batch of {batch}", setup, "forward", facts)


def parts_of(trainer: Trainer) -> dict[str, tuple[int, Callable[[], object]]]:
    """Each part of a forward pass with naive attention: how often it comes, and a call of it alone.

    Inputs are of the shapes and dtypes the parts see in the model, random instead of computed.
    """
    import math

    import torch
    from torch.nn import functional

    from labcode.experiments.lm.transformer.model import hidden_places, loss_of

    model, setup, device = trainer.model, trainer.setup, trainer.device
    size, block = setup.size, model.blocks[0]
    low = torch.bfloat16 if setup.precision == "bf16" else torch.float32
    shape = (setup.batch, setup.context, size.d_model)
    x = torch.randn(shape, device=device)
    normalized = x.clone()  # autocast normalizes in fp32
    branch = torch.randn(shape, device=device, dtype=low)
    # as views of one tensor, which products of matrices have to copy first
    heads = torch.randn(*shape[:2], 3 * size.d_model, device=device, dtype=low)
    query, key, value = heads.unflatten(2, (3, size.heads, -1)).permute(2, 0, 3, 1, 4)
    scores = query @ key.transpose(2, 3)
    hidden = hidden_places(setup.context, device)
    weights = torch.softmax(scores, dim=3)
    mixed = weights.to(low) @ value
    root = math.sqrt(query.shape[3])
    logits = torch.randn(setup.batch, setup.context, size.vocabulary, device=device, dtype=low)
    places = torch.arange(setup.context, device=device)

    def feed_forward() -> Any:
        return block.narrow(functional.gelu(block.widen(normalized)))

    layers = size.layers
    return {
        "embedding": (1, lambda: model.tokens(trainer.tokens) + model.places(places)),
        "norm": (2 * layers + 1, lambda: block.norm_before_attention(x)),
        "projections": (layers, lambda: block.attention.projections(normalized)),
        "scores": (layers, lambda: query @ key.transpose(2, 3)),
        "mask": (layers, lambda: (scores / root).masked_fill(hidden, -math.inf)),
        "softmax": (layers, lambda: torch.softmax(scores, dim=3)),
        "values": (layers, lambda: weights.to(low) @ value),
        "output": (layers, lambda: block.attention.output(mixed.transpose(1, 2).flatten(2))),
        "feed-forward": (layers, feed_forward),
        "add": (2 * layers, lambda: x + branch),
        "logits": (1, lambda: model.to_logits(normalized)),
        "loss": (1, lambda: loss_of(logits, trainer.targets)),
    }


def parts(lab: Lab) -> None:
    """A forward pass whole, then its parts alone."""
    import torch

    from labcode.experiments.lm.transformer.model import loss_of
    from labcode.experiments.lm.transformer.steps import make_trainer

    size = lab.given.size
    setup = lab.setup(size, "bf16", lab.given.parts_batch)
    facts = lab.facts(setup, size, "parts")
    trainer = make_trainer(setup, lab.device)

    def alone(call: Callable[[], object]) -> Callable[[], object]:
        """The call as in a step of its own: the weights are rounded to 16 bits anew."""

        def one() -> None:
            with trainer.autocast():
                call()

        return one

    def whole() -> None:
        loss_of(trainer.model(trainer.tokens), trainer.targets)

    with torch.no_grad():
        lab.windows.repeat("whole forward", alone(whole), part="whole", **facts)
        with trainer.autocast():
            found = parts_of(trainer)
        for name, (count, call) in found.items():
            entry = lab.windows.repeat(
                *(f"part {name}", alone(call)),
                seconds=lab.given.part_seconds,
                study="parts",
                part=name,
                size=size,
            )
            entry["in_a_pass"] = count


def numbers(text: str) -> list[int]:
    """An argparse type: whole numbers above 0, separated by commas."""
    return [common.whole(1, 65536)(word) for word in text.split(",")]


def named_sizes(text: str) -> list[str]:
    """An argparse type: sizes, separated by commas."""
    found = text.split(",")
    wrong = [name for name in found if name not in decoder.SIZES]
    if wrong:
        raise argparse.ArgumentTypeError(f"{', '.join(wrong)}: the sizes are {', '.join(decoder.SIZES)}")
    return found


def command_line() -> argparse.ArgumentParser:
    """The flags."""
    parser = common.parser(PROGRAM, "Runs a decoder in windows of seconds, for a meter of power.", VARIANTS)
    whole = common.whole
    parser.add_argument("--study", action="append", choices=STUDIES, help="only these (default all)")
    parser.add_argument("--sizes", type=named_sizes, default=list(SIZES), help="of `sizes`")
    parser.add_argument(
        "--size", choices=list(decoder.SIZES), default="medium", help="of the others (medium)"
    )
    parser.add_argument("--batch", type=whole(1, 65536), default=4, help="texts (default 4)")
    parser.add_argument("--batches", type=numbers, default=list(BATCHES), help="of `batches` (1,4,16,64)")
    parser.add_argument("--parts-batch", type=whole(1, 65536), default=16, help="of `parts` (default 16)")
    parser.add_argument("--context", type=whole(1, 65536), default=512, help="tokens a text (default 512)")
    parser.add_argument("--seconds", type=common.positive, default=3.0, help="of a window (default 3)")
    parser.add_argument("--part-seconds", type=common.positive, default=1.5, help="of a part (default 1.5)")
    parser.add_argument("--warmup", type=common.positive, default=0.3, help="seconds before each (0.3)")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: to try it out")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the studies, check the losses, print and write the record; the exit code."""
    given = command_line().parse_args(arguments)
    torch = common.import_torch()
    if given.device == "cuda":
        common.require_gpus(torch)
    device = torch.device(given.device, 0)
    lab = Lab(given, device)
    mark_clock(device)
    studies = {"sizes": sizes, "passes": passes, "batches": batches, "parts": parts}
    for name in given.study or STUDIES:
        studies[name](lab)
        lab.clean()
    mark_clock(device)
    finite = [name for name, loss in lab.losses.items() if not abs(loss) < 100]
    checks = {
        "losses_finite": Check(
            not finite, f"{len(lab.losses)} losses; not finite: {', '.join(finite) or 'none'}"
        )
    }
    if given.device == "cuda":
        checks.update(right(lab))
    record = common.Record(
        PROGRAM,
        given.variant,
        common.parameters_of(given),
        {"windows": lab.windows.entries, "losses": lab.losses, "left_out": lab.left_out},
        checks,
        common.gpu_info(torch, device),
    )
    return common.finish(record, given.json)


def right(lab: Lab) -> dict[str, Check]:
    """The model computes what it should, in each precision."""
    from labcode.experiments.lm.transformer.steps import relative_error

    found = {}
    for precision, allowed in LARGEST_ERROR.items():
        error = relative_error(lab.setup("tiny", precision, 1), lab.device)
        found[f"{precision} matches float64"] = Check(
            error <= allowed, f"relative error of logits {error:.1e}, allowed {allowed:.0e}"
        )
    return found


if __name__ == "__main__":
    common.run(PROGRAM, main)
