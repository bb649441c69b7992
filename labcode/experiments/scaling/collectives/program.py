"""Collectives alone, by size: flags in, a JSON record of times out.

Each case is one collective on one number of GPUs and one size, with the time of a call in each repetition:
that of the slowest rank, over calls that follow each other without a pause, as nccl-tests does it. ``bytes``
is what nccl-tests calls the size: of an all-reduce the buffer of a rank, of an all-gather what each rank has
at the end, of a reduce-scatter what each rank has at the start.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

from labcode.analysis.scaling.bus import OPERATIONS, bus_bandwidth_gbps
from labcode.experiments.nsys.multi_gpu.data_parallel import Member
from labcode.experiments.scaling import group
from labcode.experiments.scaling.group import Case
from labcode.experiments.shared import common
from labcode.experiments.shared.common import Check, synchronize
from labcode.timing import quantile

MODULE = "labcode.workloads.scaling.collectives"
PROGRAM = "collectives"
VARIANTS = ("sweep", *OPERATIONS)
_ITEM = 4  # bytes of a float32
_WARMUP = 5
_MOST_CALLS, _CALLS_TIMES_BYTES = 200, 2**34  # calls in one repetition: fewer, the larger they are


def command_line() -> argparse.ArgumentParser:
    """The flags."""
    parser = group.parser(PROGRAM, "Times collectives by size on 1, 2, 4 … GPUs.", VARIANTS)
    whole = common.whole
    parser.add_argument(
        "--least", type=whole(6, 40), default=10, help="smallest size, 2^N bytes (default 10)"
    )
    parser.add_argument("--most", type=whole(6, 40), help="largest size, 2^N bytes (default 32; CPU: 16)")
    parser.add_argument("--repetitions", type=whole(1, 1000), default=7, help="default 7")
    return parser


def work(member: Member, given: argparse.Namespace) -> list[Case]:
    """The cases of one group; a group of one has nothing to send."""
    if member.world == 1:
        return []
    most = given.most or (32 if member.cuda else 16)
    found = []
    for operation in OPERATIONS if given.variant == "sweep" else (given.variant,):
        for power in range(given.least, most + 1):
            size = 2**power // (_ITEM * member.world) * _ITEM * member.world
            call, right = _prepare(member, operation, size)
            calls = max(2, min(_MOST_CALLS, _CALLS_TIMES_BYTES // size)) if member.cuda else 3
            times = group.slowest(member, _timed(member, call, calls, given.repetitions))
            found.append(
                {
                    "operation": operation,
                    "count": member.world,
                    "bytes": size,
                    "times_us": times,
                    "right": right,
                }
            )
            del call
            group.tidy(member)
            if member.rank == 0:
                typical = quantile(times, 0.5)
                rate = bus_bandwidth_gbps(operation, member.world, size, typical * 1e-6)
                print(
                    f"  {operation} on {member.world}: {size} B, {typical:.1f} µs, {rate:.1f} GB/s",
                    flush=True,
                )
    return found


def _prepare(member: Member, operation: str, size: int) -> tuple[Callable[[], object], bool]:
    """A call on buffers of this size, and whether every rank got the right numbers from it."""
    torch, distributed = member.torch, member.torch.distributed
    gather, scatter = group.all_gather(torch), group.reduce_scatter(torch)
    whole = torch.full((size // _ITEM,), member.rank + 1.0, device=member.device)
    part = torch.full((size // _ITEM // member.world,), member.rank + 1.0, device=member.device)
    total = member.world * (member.world + 1) / 2
    call: Callable[[], object]
    if operation == "all_reduce":
        distributed.all_reduce(whole)
        right = bool((whole == total).all())
        call = lambda: distributed.all_reduce(whole)  # noqa: E731
    elif operation == "all_gather":
        gather(whole, part)
        ranks = torch.arange(1.0, member.world + 1, device=member.device)
        right = bool((whole.view(member.world, -1) == ranks[:, None]).all())
        call = lambda: gather(whole, part)  # noqa: E731
    else:
        scatter(part, whole)
        right = bool((part == total).all())
        call = lambda: scatter(part, whole)  # noqa: E731
    whole.uniform_(1e-3, 2e-3)  # small: sums in place grow with every call
    return call, group.slowest(member, [float(not right)]) == [0.0]


def _timed(member: Member, call: Callable[[], object], calls: int, repetitions: int) -> list[float]:
    """Microseconds of a call, one number a repetition of so many calls in a row."""
    for _ in range(_WARMUP):
        call()
    times = []
    for _ in range(repetitions):
        member.meet()
        if member.cuda:
            marks = [member.torch.cuda.Event(enable_timing=True) for _ in range(2)]
            marks[0].record()
        began = time.perf_counter()
        for _ in range(calls):
            call()
        if member.cuda:
            marks[1].record()
        synchronize(member.device)
        took = 1e3 * (time.perf_counter() - began)
        if member.cuda:
            took = marks[0].elapsed_time(marks[1])
        times.append(1e3 * took / calls)
    return times


def finish(given: argparse.Namespace, cases: list[Case], gpu: dict[str, Any]) -> int:
    """Write the record; the exit code."""
    wrong = [case for case in cases if not case.pop("right")]
    checks = {
        "something_measured": Check(bool(cases), f"{len(cases)} cases on groups of two and more"),
        "results_right": Check(not wrong, f"{len(wrong)} of {len(cases)} collectives gave wrong numbers"),
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
