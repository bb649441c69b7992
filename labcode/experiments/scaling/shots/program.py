"""All-reduces by other ways than NCCL's choice, by size: flags in, a JSON record of times and kernels out.

Ways: ``nccl``, which chooses its algorithm; ``ring`` and ``tree``, one of which it is told to take; and two
kernels of PyTorch's symmetric memory, which read the other GPUs' memory: in ``one_shot`` every GPU reads all
that the others have and adds it up itself, in ``two_shot`` each adds up its part and the others fetch the
sums. Multicast, with which switches would add up, stays off.

A case has the time of a call in each repetition, twice: ``launched_us`` of calls that the host launches one
after the other, and ``graph_us`` of the same calls replayed from a CUDA graph, in which no host takes part.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from labcode.errors import ToolError
from labcode.experiments.nsys.multi_gpu.data_parallel import Member
from labcode.experiments.scaling import group
from labcode.experiments.scaling.collectives.program import _timed
from labcode.experiments.scaling.group import Case
from labcode.experiments.shared import common
from labcode.experiments.shared.common import Check
from labcode.timing import quantile

MODULE = "labcode.workloads.scaling.shots"
PROGRAM = "shots"
VARIANTS = ("all_reduce",)
BY_NCCL = {"nccl": None, "ring": "Ring", "tree": "Tree"}  # the way → what NCCL_ALGO says
SHOTS = ("one_shot", "two_shot")
WAYS = (*BY_NCCL, *SHOTS)
_ITEM = 4  # bytes of a float32
_MOST_CALLS, _CALLS_TIMES_BYTES = 100, 2**31  # calls in one repetition: fewer, the larger they are
_IN_A_GRAPH = 20  # calls at most
_MULTICAST_OFF = "TORCH_SYMM_MEM_DISABLE_MULTICAST"

Call = Callable[[], object]


def command_line() -> argparse.ArgumentParser:
    """The flags."""
    parser = group.parser(PROGRAM, "Times all-reduces by size and by way, on one number of GPUs.", VARIANTS)
    whole = common.whole
    parser.add_argument(
        "--least", type=whole(6, 40), default=10, help="smallest size, 2^N bytes (default 10)"
    )
    parser.add_argument("--most", type=whole(6, 40), help="largest size, 2^N bytes (default 28; CPU: 12)")
    parser.add_argument("--repetitions", type=whole(1, 1000), default=7, help="default 7")
    return parser


def work(member: Member, given: argparse.Namespace) -> list[Case]:
    """The cases of one group; a group of one has nothing to send."""
    if member.world == 1:
        return []
    most = given.most or (28 if member.cuda else 12)
    sizes = [2**power for power in range(given.least, most + 1)]
    memory: list[Any] = []  # what the shots read: made once
    return [case for way in WAYS for case in _cases(member, given, way, sizes, memory)]


def _cases(
    member: Member, given: argparse.Namespace, way: str, sizes: list[int], memory: list[Any]
) -> list[Case]:
    """One way at all sizes; where it cannot be taken, one case that says why."""
    why: str | None = None
    try:
        make = _shots(member, way, sizes, memory) if way in SHOTS else _by_nccl(member, way)
    except (RuntimeError, ValueError, AttributeError, ToolError) as failure:
        why = f"{type(failure).__name__}: {str(failure).splitlines()[0][:200]}"
    everyone: list[Any] = [None] * member.world
    member.torch.distributed.all_gather_object(everyone, why)
    if any(everyone):
        return [{"way": way, "count": member.world, "failed": next(one for one in everyone if one)}]
    found = []
    for size in sizes:
        call, right = make(size)
        calls = max(2, min(_MOST_CALLS, _CALLS_TIMES_BYTES // size)) if member.cuda else 3
        launched = group.slowest(member, _timed(member, call, calls, given.repetitions))
        replayed: list[float] = []
        if member.cuda:
            with suppress(RuntimeError):  # what cannot be captured has no time of a replay
                replayed = _replayed(member, call, calls, given.repetitions)
        wrong = group.slowest(member, [float(not right)]) != [0.0]
        found.append(
            {
                "way": way,
                "count": member.world,
                "bytes": size,
                "launched_us": launched,
                "graph_us": replayed,
                "right": not wrong,
            }
        )
        if member.rank == 0:
            text = f"  {way} on {member.world}: {size} B, {quantile(launched, 0.5):.1f} µs"
            print(text + (f", {quantile(replayed, 0.5):.1f} from a graph" if replayed else ""), flush=True)
    for case, kernel in zip(found, _seen(member, [make(size)[0] for size in sizes]), strict=True):
        case["kernel"] = kernel
    group.tidy(member)
    return found


def _by_nccl(member: Member, way: str) -> Callable[[int], tuple[Call, bool]]:
    """NCCL in a group of its own, which it is told the algorithm of when its communicator is made."""
    torch = member.torch
    with _told(BY_NCCL[way]):
        options = None
        if member.cuda:
            options = torch.distributed.ProcessGroupNCCL.Options()
            options.is_high_priority_stream = True
        members = torch.distributed.new_group(pg_options=options)
        torch.distributed.all_reduce(torch.ones(1, device=member.device), group=members)
        member.meet()

    def make(size: int) -> tuple[Call, bool]:
        buffer = torch.full((size // _ITEM,), member.rank + 1.0, device=member.device)
        torch.distributed.all_reduce(buffer, group=members)
        right = bool((buffer == _total(member)).all())
        buffer.uniform_(1e-3, 2e-3)
        return (lambda: torch.distributed.all_reduce(buffer, group=members)), right

    return make


@contextmanager
def _told(algorithm: str | None) -> Iterator[None]:
    """``NCCL_ALGO`` as long as a communicator is made; as it was afterwards."""
    before = os.environ.get("NCCL_ALGO")
    if algorithm:
        os.environ["NCCL_ALGO"] = algorithm
    try:
        yield
    finally:
        if algorithm:
            os.environ.pop("NCCL_ALGO")
            if before is not None:
                os.environ["NCCL_ALGO"] = before


def _shots(
    member: Member, way: str, sizes: list[int], memory: list[Any]
) -> Callable[[int], tuple[Call, bool]]:
    """Kernels of PyTorch's on memory that all ranks have mapped."""
    if not member.cuda:
        raise ToolError("symmetric memory needs GPUs")
    os.environ.setdefault(_MULTICAST_OFF, "1")
    torch = member.torch
    from torch.distributed import _symmetric_memory as symmetric

    name = torch.distributed.group.WORLD.group_name
    if not memory:
        if symmetric.get_backend(member.device) != "CUDA":
            symmetric.set_backend("CUDA")
        memory.append(symmetric.empty(max(sizes) // _ITEM, dtype=torch.float32, device=member.device))
        symmetric.rendezvous(memory[0], name)

    def make(size: int) -> tuple[Call, bool]:
        buffer = memory[0][: size // _ITEM]
        buffer.fill_(member.rank + 1.0)
        member.meet()
        call: Call
        if way == "one_shot":
            sums = torch.empty_like(buffer)
            call = lambda: torch.ops.symm_mem.one_shot_all_reduce_out(buffer, "sum", name, sums)  # noqa: E731
        else:
            sums = buffer
            call = lambda: torch.ops.symm_mem.two_shot_all_reduce_(buffer, "sum", name)  # noqa: E731
        call()
        member.meet()
        right = bool((sums == _total(member)).all())
        member.meet()
        buffer.uniform_(1e-3, 2e-3)
        member.meet()
        return call, right

    return make


def _total(member: Member) -> float:
    """The sum of what ranks put in: 1, 2 …"""
    return member.world * (member.world + 1) / 2


def _replayed(member: Member, call: Call, calls: int, repetitions: int) -> list[float]:
    """Microseconds of a call in a CUDA graph of several, one number a repetition."""
    torch, inside = member.torch, min(calls, _IN_A_GRAPH)
    member.meet()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        for _ in range(inside):
            call()
    times = _timed(member, graph.replay, max(2, calls // inside), repetitions)
    member.meet()
    return group.slowest(member, [time / inside for time in times])


def _seen(member: Member, calls: Sequence[Call]) -> list[dict[str, Any] | None]:
    """The kernel of each of these on rank 0: name and blocks; none where it cannot be told."""
    profile = None
    member.meet()
    if member.rank == 0 and member.cuda:
        with suppress(RuntimeError):  # under another profiler there is none
            profile = member.torch.profiler.profile(activities=[member.torch.profiler.ProfilerActivity.CUDA])
            profile.start()
    for call in calls:
        call()
    common.synchronize(member.device)
    found: list[dict[str, Any]] = []
    if profile is not None:
        with suppress(RuntimeError, OSError, ValueError), tempfile.TemporaryDirectory() as folder:
            profile.stop()
            path = Path(folder) / "trace.json"
            profile.export_chrome_trace(str(path))
            found = reducing(json.loads(path.read_text())["traceEvents"])
    member.meet()
    return list(found) if len(found) == len(calls) else [None] * len(calls)


def reducing(events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of a Chrome trace's events the kernels that reduce over GPUs, in their order: name and blocks."""
    kernels = [
        event
        for event in events
        if event.get("cat") == "kernel" and ("nccl" in event["name"].lower() or "_shot_" in event["name"])
    ]
    return [
        {
            "name": event["name"].split("(")[0].split("<")[0].split(" ")[-1].split("::")[-1],
            "blocks": int(event["args"]["grid"][0]),
        }
        for event in sorted(kernels, key=lambda event: event["ts"])
    ]


def finish(given: argparse.Namespace, cases: list[Case], gpu: dict[str, Any]) -> int:
    """Write the record; the exit code."""
    taken = [case for case in cases if "failed" not in case]
    wrong = [case for case in taken if not case.pop("right")]
    checks = {
        "something_measured": Check(bool(taken), f"{len(taken)} cases on groups of two and more"),
        "results_right": Check(not wrong, f"{len(wrong)} of {len(taken)} all-reduces gave wrong numbers"),
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
