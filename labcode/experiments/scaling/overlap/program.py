"""What overlapping costs, by how many multiprocessors it may take: flags in, a JSON record of times out.

NCCL's kernels take multiprocessors from the backward pass that they run beside. A case is the training step
of the decoder with gradients reduced in buckets, for one setting: at most so many CTAs of an NCCL kernel, and
so many multiprocessors kept out of the backward pass's matmuls (`DuringBackward`). Timed are the step, the
step without communication, and the all-reduces alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from labcode.analysis.lm import decoder
from labcode.experiments.nsys.multi_gpu.data_parallel import Member, all_reduce_ms, run_steps
from labcode.experiments.nsys.multi_gpu.gradients import DuringBackward
from labcode.experiments.scaling import group
from labcode.experiments.scaling.group import Case
from labcode.experiments.scaling.training.program import Task, train_step
from labcode.experiments.scaling.training.strategies import MIB, Reduced
from labcode.experiments.shared import common
from labcode.experiments.shared.common import Check
from labcode.timing import quantile

MODULE = "labcode.workloads.scaling.overlap"
PROGRAM = "overlap"
VARIANTS = ("bucketed",)
TOLERANCE = 1e-3  # of the last loss, between settings, relative


class _Collectives:
    """`torch.distributed`, whose all-reduces are those of one group."""

    def __init__(self, distributed: Any, members: Any) -> None:
        self._distributed, self._members = distributed, members

    def __getattr__(self, name: str) -> Any:
        return getattr(self._distributed, name)

    def all_reduce(self, tensor: Any, **options: Any) -> Any:
        """In the group."""
        return self._distributed.all_reduce(tensor, group=self._members, **options)


class _Within:
    """PyTorch, whose all-reduces are those of one group."""

    def __init__(self, torch: Any, members: Any) -> None:
        self._torch, self.distributed = torch, _Collectives(torch.distributed, members)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._torch, name)


class Apart(Reduced):
    """Buckets reduced during the backward pass, which leaves multiprocessors to them."""

    def backward(self, loss: Any) -> None:
        """With the reserved multiprocessors kept out of its matmuls."""
        with self.reduction.beside():
            super().backward(loss)


def command_line() -> argparse.ArgumentParser:
    """The flags."""
    parser = group.parser(PROGRAM, "Times overlapped training steps by what NCCL may take.", VARIANTS)
    whole = common.whole
    parser.add_argument(
        "--settings",
        type=_settings,
        default=((0, 0), (16, 16), (8, 0), (8, 8)),
        help="CTAs:reserved SMs, by commas; 0: NCCL's choice, none (default 0:0,16:16,8:0,8:8)",
    )
    parser.add_argument("--size", choices=list(decoder.SIZES), default="medium", help="default medium")
    parser.add_argument("--batch", type=whole(1, 65536), default=16, help="a GPU's sequences (default 16)")
    parser.add_argument("--context", type=whole(2, 65536), default=512, help="tokens of one (default 512)")
    parser.add_argument("--steps", type=whole(1, 1000), default=10, help="measured steps (default 10)")
    parser.add_argument("--warmup", type=whole(1, 1000), default=4, help="steps before those (default 4)")
    parser.add_argument("--bucket-mib", type=common.positive, default=25.0, help="of a bucket (default 25)")
    return parser


def _settings(text: str) -> tuple[tuple[int, int], ...]:
    """An argparse type: pairs of whole numbers, each with a colon between, by commas."""
    pairs = [tuple(common.whole(0, 128)(number) for number in word.split(":")) for word in text.split(",")]
    if any(len(pair) != 2 for pair in pairs):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list such as 0:0,8:8")
    return tuple((pair[0], pair[1]) for pair in pairs)


def work(member: Member, given: argparse.Namespace) -> list[Case]:
    """The cases of the largest group; smaller ones have nothing to say here."""
    if member.world == 1:
        return []
    if member.cuda:
        member.torch.backends.cuda.preferred_blas_library("cublaslt")  # which can be told how many SMs to use
    found = []
    for ctas, reserved in given.settings:
        found.append(_case(member, given, ctas, reserved))
        group.tidy(member)
    return found


def _case(member: Member, given: argparse.Namespace, ctas: int, reserved: int) -> Case:
    """Train a fresh model in a group of these CTAs."""
    options = None
    if member.cuda:
        options = member.torch.distributed.ProcessGroupNCCL.Options()
        options.is_high_priority_stream = True
        if ctas:
            options.config.max_ctas = ctas
    members = member.torch.distributed.new_group(pg_options=options)
    inside = Member(_Within(member.torch, members), member.rank, member.world, member.device)
    task = Task(decoder.SIZES[given.size], given.context, given.batch, given.seed)
    model = task.model(member)
    limit, kept = MIB * given.bucket_mib, reserved if member.cuda else 0
    reduction = DuringBackward(inside.torch, list(model.parameters()), limit, member.device, kept)
    strategy = Apart(member, model, reduction)
    batches = [task.tokens(member, k) for k in range(given.steps)]

    def step(tokens: Any) -> Any:
        return train_step(member, strategy, tokens, member.world)

    for k in range(given.warmup):
        step(batches[k % given.steps])
    times, losses = run_steps(member, batches, step, measured=True)
    with reduction.paused():
        alone, _ = run_steps(member, batches, step, measured=False)
    items = [count * 4 // member.dtype.itemsize for count in reduction.sizes()]  # as many bytes as in fp32
    case = {
        "ctas": ctas,
        "reserved_sms": reserved,
        "count": member.world,
        "batch": given.batch,
        "step_ms": group.slowest(member, times),
        "alone_ms": group.slowest(member, alone),
        "all_reduce_ms": group.slowest(member, [all_reduce_ms(inside, items)])[0],
        "calls": len(items),
        "gradient_bytes": 4 * sum(reduction.sizes()),
        "last_loss": common.rounded(losses)[-1],
    }
    if member.rank == 0:
        typical, left = quantile(case["step_ms"], 0.5), quantile(case["alone_ms"], 0.5)
        sent = case["all_reduce_ms"]
        print(
            f"  {ctas} CTAs, {reserved} SMs kept: {typical:.2f} ms, alone {left:.2f}, {sent:.2f} to send",
            flush=True,
        )
    return case


def finish(given: argparse.Namespace, cases: list[Case], gpu: dict[str, Any]) -> int:
    """Check and write the record; the exit code."""
    losses = [case["last_loss"] for case in cases]
    apart = max(losses) / min(losses) - 1 if losses else float("inf")
    checks = {"losses_agree": Check(apart <= TOLERANCE, f"{len(losses)} settings, apart by {apart:.1e}")}
    parameters = common.parameters_of(given)
    return common.finish(
        common.Record(PROGRAM, given.variant, parameters, {"cases": cases}, checks, gpu), given.json
    )


def main(arguments: Sequence[str]) -> int:
    """Start the processes, or be one of them; the exit code."""
    return group.run(MODULE, command_line().parse_args(arguments), arguments, work, finish)


if __name__ == "__main__":
    common.run(PROGRAM, main)
