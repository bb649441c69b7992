"""One process a GPU, in groups of growing size: flags and a function in; what it found in each group out.

Starting Python, PyTorch and CUDA takes far longer than what is measured, so the processes start once. They
then form a group of the first one, of the first two, of the first four, and so on; who is not in a group
waits for the next. Started plainly, a program starts its processes itself; started by ``torchrun`` it is one
of them.
"""

from __future__ import annotations

import argparse
import gc
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from labcode.errors import InputError
from labcode.experiments.nsys.multi_gpu.data_parallel import Member
from labcode.experiments.nsys.multi_gpu.program import wait_for_all
from labcode.experiments.shared import common

_MEETING_PLACE = "LABCODE_SCALING_STORE"  # the file in which the processes we start find each other
_MULTICAST = "NCCL_NVLS_ENABLE"  # of NVLink switches: off, since where GPUs are shared it can block them

Case = dict[str, Any]
Work = Callable[[Member, argparse.Namespace], list[Case]]
Finish = Callable[[argparse.Namespace, list[Case], dict[str, Any]], int]


def parser(program: str, description: str, variants: Sequence[str]) -> argparse.ArgumentParser:
    """What the programs of scaling take beside ``--variant`` and ``--json``."""
    result = common.parser(program, description, variants)
    whole = common.whole
    result.add_argument("--gpus", type=whole(1, 1024), help="processes, one a GPU (default: all; CPU: 2)")
    result.add_argument("--counts", type=numbers, help="sizes of groups (default: 1, 2, 4 … and --gpus)")
    result.add_argument("--seed", type=whole(0, 2**31), default=1, help="of data and models (default 1)")
    result.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: Gloo instead of NCCL")
    result.add_argument(
        "--nccl-ctas", type=whole(0, 64), default=0, help="most blocks of an NCCL kernel; 0: its choice"
    )
    return result


def numbers(text: str) -> tuple[int, ...]:
    """An argparse type: different whole numbers from 1 on, by commas, in their order."""
    return tuple(sorted({common.whole(1)(word) for word in text.split(",")}))


def counts_up_to(most: int) -> tuple[int, ...]:
    """1, 2, 4 … and ``most`` itself."""
    return tuple(sorted({most, *(2**k for k in range(most.bit_length()) if 2**k < most)}))


def run(module: str, given: argparse.Namespace, arguments: Sequence[str], work: Work, finish: Finish) -> int:
    """Start the processes, or be one of them: ``work`` in each group, ``finish`` on rank 0. The exit code.

    ``finish`` gets all cases that ``work`` returned on rank 0, and what the record says of the GPU.
    """
    torch = common.import_torch()
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        return _join(torch, given, work, finish)
    count = given.gpus or (2 if given.device == "cpu" else common.require_gpus(torch))
    if given.device == "cuda":
        common.require_gpus(torch, count)
    _counts(given, count)
    return _start(module, arguments, count)


def _counts(given: argparse.Namespace, world: int) -> tuple[int, ...]:
    """The sizes of groups; `InputError` for one larger than there are processes."""
    counts: tuple[int, ...] = given.counts or counts_up_to(world)
    if counts[-1] > world:
        raise InputError(f"--counts asks for a group of {counts[-1]} and there are {world} processes")
    return counts


def _start(module: str, arguments: Sequence[str], count: int) -> int:
    """Start one process a GPU with the same flags; when one fails, end the others. The worst exit code."""
    with tempfile.TemporaryDirectory() as folder:
        processes: list[subprocess.Popen[bytes]] = []
        try:
            for rank in range(count):
                place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count}
                environment = {key: str(value) for key, value in place.items()}
                environment[_MEETING_PLACE] = f"{folder}/store"
                command = [sys.executable, "-m", module, *arguments]
                processes.append(subprocess.Popen(command, env=os.environ | environment))
            return wait_for_all(processes)
        finally:
            for process in processes:
                if process.poll() is None:
                    process.terminate()
                    process.wait()


def _join(torch: Any, given: argparse.Namespace, work: Work, finish: Finish) -> int:
    """Be one of the processes: a member of each group that is large enough."""
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    os.environ.setdefault(_MULTICAST, "0")
    if given.device == "cuda":
        local = int(os.environ.get("LOCAL_RANK", rank))
        common.require_gpus(torch, local + 1)
        device = torch.device("cuda", local)
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(1)
        device = torch.device("cpu")
    place = os.environ.get(_MEETING_PLACE)
    if place:
        store = torch.distributed.FileStore(place, world)
    else:
        store, _, _ = next(torch.distributed.rendezvous("env://"))
    cases: list[Case] = []
    for count in _counts(given, world):
        if rank < count:
            with _group(Member(torch, rank, count, device), store, given.nccl_ctas) as member:
                cases += work(member, given)
    return finish(given, cases, common.gpu_info(torch, device)) if rank == 0 else 0


@contextmanager
def _group(member: Member, store: Any, most_ctas: int) -> Iterator[Member]:
    """The group of the first ``member.world`` processes, as PyTorch's default group."""
    torch = member.torch
    group: dict[str, Any] = {"backend": "gloo"}
    if member.cuda:
        # High priority: a collective starts when a multiprocessor has room, not after a whole matmul.
        settings = torch.distributed.ProcessGroupNCCL.Options()
        settings.is_high_priority_stream = True
        if most_ctas:
            settings.config.max_ctas = most_ctas
        group = {"backend": "nccl", "device_id": member.device, "pg_options": settings}
    own = torch.distributed.PrefixStore(f"group of {member.world}", store)
    torch.distributed.init_process_group(store=own, rank=member.rank, world_size=member.world, **group)
    try:
        yield member
        member.meet()
    finally:
        torch.distributed.destroy_process_group()
        tidy(member)


def all_gather(torch: Any) -> Callable[[Any, Any], Any]:
    """``(whole, part)``: all ranks' parts into one tensor, by the name that this PyTorch has for it."""
    new = getattr(torch.distributed, "all_gather_single", None)
    return new or torch.distributed.all_gather_into_tensor  # type: ignore[no-any-return]


def reduce_scatter(torch: Any) -> Callable[[Any, Any], Any]:
    """``(part, whole)``: a rank's part of the sums, by the name that this PyTorch has for it."""
    new = getattr(torch.distributed, "reduce_scatter_single", None)
    return new or torch.distributed.reduce_scatter_tensor  # type: ignore[no-any-return]


def tidy(member: Member) -> None:
    """Give back the memory of what is no longer used."""
    gc.collect()
    if member.cuda:
        member.torch.cuda.empty_cache()


def slowest(member: Member, values: Sequence[float]) -> list[float]:
    """The largest over the ranks of each value, cut to some digits."""
    mine = member.torch.tensor(list(values), dtype=member.torch.float64, device=member.device)
    member.torch.distributed.all_reduce(mine, op=member.torch.distributed.ReduceOp.MAX)
    return common.rounded(mine.tolist())
