"""Training steps of the decoder over strategies and numbers of GPUs: flags in, a JSON record of times out.

Variants:

- ``strong``: the whole batch stays the same, and each GPU gets its part of it;
- ``weak``: each GPU's batch stays the same, and the whole grows with their number.

On one GPU the step is timed with the batches that a GPU has on 1, 2, 4 … GPUs (``--parts``), so that what is
left of a step without communication is known also for numbers of GPUs that are not at hand. Before it is
timed, each strategy trains a few steps beside one process that has the whole batch: gradients and losses must
agree.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from labcode.analysis.lm import decoder
from labcode.errors import InputError
from labcode.experiments.nsys.multi_gpu.data_parallel import Member, all_reduce_ms, run_steps
from labcode.experiments.scaling import group
from labcode.experiments.scaling.group import Case
from labcode.experiments.scaling.training import strategies
from labcode.experiments.scaling.training.strategies import SINGLE, STRATEGIES, Strategy
from labcode.experiments.shared import common
from labcode.experiments.shared.common import Check, nvtx_range
from labcode.timing import quantile

MODULE = "labcode.workloads.scaling.training"
PROGRAM = "scaling_training"
VARIANTS = ("strong", "weak")
TOLERANCE = {"cuda": 5e-2, "cpu": 1e-4}  # of a gradient and of losses, relative (bf16; fp32)
_CHECKED_STEPS = 3


def command_line() -> argparse.ArgumentParser:
    """The flags."""
    parser = group.parser(PROGRAM, "Times training steps of a decoder on 1, 2, 4 … GPUs.", VARIANTS)
    whole = common.whole
    parser.add_argument("--strategies", type=_names, default=STRATEGIES, help="by commas (default: all)")
    parser.add_argument("--size", choices=list(decoder.SIZES), default="medium", help="default medium")
    parser.add_argument(
        "--batch", type=whole(1, 65536), help="sequences: all (strong, default 32), a GPU's (weak, default 8)"
    )
    parser.add_argument(
        "--context", type=whole(2, 65536), default=512, help="tokens a sequence (default 512)"
    )
    parser.add_argument("--parts", type=group.numbers, default=(1, 2, 4, 8), help="default 1,2,4,8")
    parser.add_argument("--steps", type=whole(1, 1000), default=12, help="measured steps (default 12)")
    parser.add_argument("--warmup", type=whole(1, 1000), default=4, help="steps before those (default 4)")
    parser.add_argument("--bucket-mib", type=common.positive, default=25.0, help="of a bucket (default 25)")
    return parser


def _names(text: str) -> tuple[str, ...]:
    """An argparse type: strategies, by commas."""
    words = tuple(text.split(","))
    if unknown := [word for word in words if word not in STRATEGIES]:
        raise argparse.ArgumentTypeError(
            f"{', '.join(unknown)}: no such strategy (there are: {', '.join(STRATEGIES)})"
        )
    return words


@dataclass(frozen=True)
class Task:
    """What a group trains: a decoder of this size on so many sequences a rank and step."""

    size: decoder.Size
    context: int
    batch: int
    seed: int

    def model(self, member: Member) -> Any:
        """The same model on every rank."""
        from labcode.experiments.lm.transformer.model import Decoder

        member.torch.manual_seed(self.seed)
        with member.device:
            return Decoder(self.size, self.context, attention="sdpa")

    def tokens(self, member: Member, step: int, *, all_ranks: bool = False) -> Any:
        """[batch, context + 1] tokens of this rank and step: its rows of what all ranks have together."""
        generator = member.torch.Generator(device=member.device).manual_seed(1000 * self.seed + step)
        shape = (self.batch * member.world, self.context + 1)
        every = member.torch.randint(self.size.vocabulary, shape, generator=generator, device=member.device)
        return every if all_ranks else every[self.batch * member.rank :][: self.batch]


def train_step(member: Member, strategy: Strategy, tokens: Any, world: int) -> Any:
    """One step; this rank's share of the loss, as a tensor."""
    with nvtx_range("forward", member.device):
        loss = _loss(member, strategy.model, tokens) / world
    strategy.backward(loss)
    with nvtx_range("optimizer", member.device):
        strategy.update()
    return loss.detach()


def _loss(member: Member, model: Any, tokens: Any) -> Any:
    """Mean loss over a batch, products in bf16 on a GPU."""
    from labcode.experiments.lm.transformer.model import loss_of

    bf16 = member.torch.bfloat16
    with member.torch.autocast("cuda", dtype=bf16) if member.cuda else nullcontext():
        return loss_of(model(tokens[:, :-1]), tokens[:, 1:])


def _reference(member: Member, task: Task) -> tuple[list[Any], list[float]]:
    """What one process finds that has the batches of all: gradients of the first step, losses of some."""
    alone = strategies.make(SINGLE, member, task.model(member), 0)
    gradients, losses = [], []
    for number in range(_CHECKED_STEPS):
        tokens = task.tokens(member, number, all_ranks=True)
        losses.append(float(train_step(member, alone, tokens, 1)))
        if number == 0:
            gradients = [gradient.clone() for gradient in alone.gradients()]
    return gradients, losses


def _errors(member: Member, task: Task, strategy: Strategy, reference: Any) -> dict[str, float]:
    """How far a strategy is from the reference: the worst gradient, ‖difference‖ / ‖reference‖; losses."""
    gradients, losses = reference
    found = []
    worst = 0.0
    for number in range(_CHECKED_STEPS):
        loss = train_step(member, strategy, task.tokens(member, number), member.world)
        member.torch.distributed.all_reduce(loss)
        found.append(float(loss))
        if number == 0:
            pairs = zip(strategy.gradients(), gradients, strict=True)
            worst = max(float((mine - wanted).norm() / wanted.norm()) for mine, wanted in pairs)
    off = max(abs(a - b) / b for a, b in zip(found, losses, strict=True))
    errors = group.slowest(member, [worst, off])  # the largest over the ranks
    return {"gradient_error": errors[0], "loss_error": errors[1]}


def work(member: Member, given: argparse.Namespace) -> list[Case]:
    """The cases of one group: one process alone with each batch, or all strategies."""
    whole = given.batch or (32 if given.variant == "strong" else 8)
    size = decoder.SIZES[given.size]
    if given.variant == "strong" and (odd := [k for k in (*given.parts, member.world) if whole % k]):
        raise InputError(f"--batch {whole} cannot be shared evenly by {odd[0]} GPUs; choose a multiple")

    def task(batch: int) -> Task:
        return Task(size, given.context, batch, given.seed)

    if member.world == 1:
        batches = {whole // part for part in given.parts} if given.variant == "strong" else {whole}
        return [_case(member, given, SINGLE, task(batch), {}) for batch in sorted(batches, reverse=True)]
    reference = _reference(member, task(1))
    group.tidy(member)
    found = []
    batch = whole // member.world if given.variant == "strong" else whole
    for name in given.strategies:
        strategy = strategies.make(name, member, task(1).model(member), given.bucket_mib)
        errors = _errors(member, task(1), strategy, reference)
        del strategy
        group.tidy(member)
        found.append(_case(member, given, name, task(batch), errors))
        group.tidy(member)
    return found


def _case(member: Member, given: argparse.Namespace, name: str, task: Task, errors: dict[str, float]) -> Case:
    """Train a fresh model and time it: with communication, without, and communication alone."""
    if member.cuda:
        member.torch.cuda.reset_peak_memory_stats(member.device)
    strategy = strategies.make(name, member, task.model(member), given.bucket_mib)
    batches = [task.tokens(member, k) for k in range(given.steps)]

    def step(tokens: Any) -> Any:
        return train_step(member, strategy, tokens, member.world)

    for k in range(given.warmup):
        step(batches[k % given.steps])
    times, losses = run_steps(member, batches, step, measured=True)
    case: Case = {
        "strategy": name,
        "count": member.world,
        "batch": task.batch,
        "step_ms": group.slowest(member, times),
        "alone_ms": [],
        "all_reduce_ms": None,
        "calls": len(strategy.calls()),
        "gradient_bytes": 4 * decoder.parameter_count(task.size, task.context),
        "tokens": task.batch * member.world * task.context,
        "last_loss": common.rounded(losses)[-1],
        **errors,
    }
    if member.cuda:
        case["peak_bytes"] = int(
            group.slowest(member, [member.torch.cuda.max_memory_allocated(member.device)])[0]
        )
    if name != SINGLE and (paused := strategy.paused()) is not None:
        with paused:
            alone, _ = run_steps(member, batches, step, measured=False)
        case["alone_ms"] = group.slowest(member, alone)
    if calls := strategy.calls():
        # gradients are fp32, what is timed is of the member's type: as many bytes
        items = [count * 4 // member.dtype.itemsize for count in calls]
        case["all_reduce_ms"] = group.slowest(member, [all_reduce_ms(member, items)])[0]
    if member.rank == 0:
        typical, peak = quantile(case["step_ms"], 0.5), case.get("peak_bytes", 0) / 1e9
        beside = f", {quantile(case['alone_ms'], 0.5):.2f} without communication" if case["alone_ms"] else ""
        print(
            f"  {name} on {member.world}, batch {task.batch}: {typical:.2f} ms{beside}, {peak:.1f} GB",
            flush=True,
        )
    return case


def finish(given: argparse.Namespace, cases: list[Case], gpu: dict[str, Any]) -> int:
    """Check and write the record; the exit code."""
    allowed = TOLERANCE[given.device]
    compared = [case for case in cases if "gradient_error" in case]
    worst = {
        key: max((case[key] for case in compared), default=0.0) for key in ("gradient_error", "loss_error")
    }
    texts = {
        key: f"largest {value:.1e} of {len(compared)}, allowed {allowed:.0e}" for key, value in worst.items()
    }
    checks = {
        "gradients_match_reference": Check(worst["gradient_error"] <= allowed, texts["gradient_error"]),
        "losses_match_reference": Check(worst["loss_error"] <= allowed, texts["loss_error"]),
        "losses_finite": Check(
            all(0 < case["last_loss"] < 20 for case in cases), f"{len(cases)} cases, one loss each"
        ),
    }
    parameters = common.parameters_of(given)
    return common.finish(
        common.Record(PROGRAM, given.variant, parameters, {"cases": cases}, checks, gpu), given.json
    )


def main(arguments: Sequence[str]) -> int:
    """Start the processes, or be one of them; the exit code."""
    return group.run(MODULE, command_line().parse_args(arguments), arguments, work, finish)


if __name__ == "__main__":
    common.run(PROGRAM, main)
