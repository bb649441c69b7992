"""Training steps by what moves the gradients, and when: flags in, a JSON record of times out.

A case is the training step of the decoder on all GPUs of a group, with one way of summing gradients and one
batch a GPU: ``naive``, ``flat`` and ``bucketed`` as in `strategies`, by NCCL; ``engines`` by copy engines,
with the last buckets behind the optimizer (`labcode.workloads.scaling.engines`). Timed are the step, the step
without communication by the same processes, and the communication alone; on one GPU, the step.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from labcode.analysis.lm import decoder
from labcode.timing import quantile
from labcode.workloads.models.data_parallel import Member, all_reduce_ms, run_steps
from labcode.workloads.scaling import group, strategies
from labcode.workloads.scaling.engines import ByCopyEngines
from labcode.workloads.scaling.group import Case
from labcode.workloads.scaling.training import Task, train_step
from labcode.workloads.shared import common
from labcode.workloads.shared.common import Check

MODULE = "labcode.workloads.scaling.hiding"
PROGRAM = "hiding"
VARIANTS = ("weak",)
ENGINES = "engines"
WAYS = ("naive", "flat", "bucketed", ENGINES)
DEFAULT = "naive,flat,bucketed:25,engines:12,engines:25"
TOLERANCE = (
    1e-2  # of a gradient, against that of «flat», relative: atomic sums of bf16 differ from run to run
)
Way = tuple[str, float]


def command_line() -> argparse.ArgumentParser:
    """The flags."""
    parser = group.parser(PROGRAM, "Times training steps by what moves the gradients.", VARIANTS)
    whole = common.whole
    parser.add_argument(
        "--ways", type=_ways, default=_ways(DEFAULT), help=f"way:MiB of a bucket, by commas ({DEFAULT})"
    )
    parser.add_argument("--size", choices=list(decoder.SIZES), default="medium", help="default medium")
    parser.add_argument(
        "--batches", type=group.numbers, default=(16, 32), help="a GPU's sequences (default 16,32)"
    )
    parser.add_argument("--context", type=whole(2, 65536), default=512, help="tokens of one (default 512)")
    parser.add_argument("--steps", type=whole(1, 1000), default=10, help="measured steps (default 10)")
    parser.add_argument("--warmup", type=whole(1, 1000), default=3, help="steps before those (default 3)")
    return parser


def _ways(text: str) -> tuple[Way, ...]:
    """An argparse type: ways and MiB of their buckets, by commas."""
    found = []
    for word in text.split(","):
        name, _, mib = word.partition(":")
        if name not in WAYS:
            raise argparse.ArgumentTypeError(f"{name}: no such way (there are: {', '.join(WAYS)})")
        found.append((name, common.positive(mib or "25")))
    return tuple(found)


def make(way: Way, member: Member, model: Any) -> Any:
    """A `strategies.Strategy`."""
    name, mib = way
    if name == ENGINES:
        return ByCopyEngines(member, model, mib)
    return strategies.make(name, member, model, mib)


def release(strategy: Any) -> None:
    """Let go of the others' memory, and of the gradients' hooks, which would keep the model."""
    if isinstance(strategy, ByCopyEngines):
        strategy.exchange.close()
    for parameter in strategy.model.parameters():
        hooks = parameter._post_accumulate_grad_hooks
        if hooks:
            hooks.clear()


def work(member: Member, given: argparse.Namespace) -> list[Case]:
    """The cases of one group: one GPU alone with each batch, or all ways with each."""
    size = decoder.SIZES[given.size]
    tasks = [Task(size, given.context, batch, given.seed) for batch in given.batches]
    if member.world == 1:
        return [_case(member, given, (strategies.SINGLE, 25.0), task, {}) for task in tasks]
    first = Task(size, given.context, 1, given.seed)
    wanted = _gradients(member, ("flat", 25.0), first)
    errors = {way: _error(member, wanted, _gradients(member, way, first)) for way in given.ways}
    del wanted
    group.tidy(member)
    found = []
    for task in tasks:
        for way in given.ways:
            found.append(_case(member, given, way, task, {"gradient_error": errors[way]}))
            group.tidy(member)
    return found


def _gradients(member: Member, way: Way, task: Task) -> list[Any]:
    """The summed gradients of a first step."""
    strategy = make(way, member, task.model(member))
    train_step(member, strategy, task.tokens(member, 0), member.world)
    found = [gradient.clone() for gradient in strategy.gradients()]
    release(strategy)
    group.tidy(member)
    return found


def _error(member: Member, wanted: list[Any], found: list[Any]) -> float:
    """The worst gradient, ‖difference‖ / ‖wanted‖, of all ranks."""
    pairs = zip(found, wanted, strict=True)
    return group.slowest(member, [max(float((one - two).norm() / two.norm()) for one, two in pairs)])[0]


def _case(member: Member, given: argparse.Namespace, way: Way, task: Task, errors: dict[str, float]) -> Case:
    """Train a fresh model and time it: with communication, without, and communication alone."""
    name, mib = way
    strategy = make(way, member, task.model(member))
    batches = [task.tokens(member, k) for k in range(given.steps)]

    def step(tokens: Any) -> Any:
        return train_step(member, strategy, tokens, member.world)

    for k in range(given.warmup):
        step(batches[k % given.steps])
    times, losses = run_steps(member, batches, step, measured=True)
    case: Case = {
        "strategy": name,
        "bucket_mib": mib,
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
    if name != strategies.SINGLE:
        with strategy.paused():
            alone, _ = run_steps(member, batches, step, measured=False)
        case["alone_ms"] = group.slowest(member, alone)
        if name == ENGINES:
            sent = strategy.exchange.alone_ms()
        else:  # gradients are fp32, what is timed is of the member's type: as many bytes
            sent = all_reduce_ms(member, [count * 4 // member.dtype.itemsize for count in strategy.calls()])
        case["all_reduce_ms"] = group.slowest(member, [sent])[0]
    release(strategy)
    if member.rank == 0:
        typical, left = quantile(case["step_ms"], 0.5), quantile(case["alone_ms"] or [0.0], 0.5)
        beside = f", {left:.2f} without, {case['all_reduce_ms']:.2f} to send" if case["alone_ms"] else ""
        what = f"{name}:{mib:g} on {member.world}, batch {task.batch}"
        print(f"  {what}: {typical:.2f} ms{beside} {errors or ''}", flush=True)
    return case


def finish(given: argparse.Namespace, cases: list[Case], gpu: dict[str, Any]) -> int:
    """Check and write the record; the exit code."""
    worst = max((case["gradient_error"] for case in cases if "gradient_error" in case), default=float("inf"))
    checks = {
        "gradients_agree": Check(worst <= TOLERANCE, f"largest error {worst:.1e}, allowed {TOLERANCE:.0e}"),
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
