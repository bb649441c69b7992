"""Data-parallel training of the decoder, recorded rank by rank: flags in, a JSON record of times out.

One process a GPU; each takes a batch of its own, gradients are averaged over all. Variants:

- ``baseline``: after the backward pass, one all-reduce a parameter;
- ``improved``: by `torch.nn.parallel.DistributedDataParallel`, in buckets, during the backward pass;
- ``straggler``: ``improved``, and one rank has more to do than the others, who wait for it.

Started plainly, the program starts one process a GPU itself; started by ``torchrun`` it is one of them.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from labcode.analysis.lm import decoder
from labcode.experiments.nsys.multi_gpu.program import wait_for_all
from labcode.experiments.shared import common
from labcode.experiments.shared.common import Check, nvtx_range, synchronize
from labcode.experiments.shared.marks import KINDS, marks
from labcode.experiments.shared.recording import recording
from labcode.timing import quantile

PROGRAM = "distributed_training"
VARIANTS = ("baseline", "improved", "straggler")
LEARNING_RATE = 3e-4
STRAGGLER = 1  # the rank that has more to do
_MEETING_PLACE = "LABCODE_DISTRIBUTED_STORE"  # the file in which the processes we start find each other


def command_line() -> argparse.ArgumentParser:
    """The flags."""
    parser = common.parser(
        PROGRAM, "Trains a decoder on several GPUs; variants differ in when gradients travel.", VARIANTS
    )
    whole = common.whole
    parser.add_argument("--gpus", type=whole(2, 64), help="processes, one a GPU (default: all, at most 4)")
    parser.add_argument("--size", choices=list(decoder.SIZES), default="small", help="default small")
    parser.add_argument("--layers", type=whole(1, 1000), help="blocks of the decoder (default: the size's)")
    parser.add_argument("--batch", type=whole(1, 65536), default=4, help="texts a process (default 4)")
    parser.add_argument("--context", type=whole(2, 65536), default=256, help="tokens a text (default 256)")
    parser.add_argument("--steps", type=whole(1, 1000), default=2, help="measured steps (default 2)")
    parser.add_argument("--warmup", type=whole(1, 1000), default=4, help="steps before those (default 4)")
    parser.add_argument(
        "--bucket-mb", type=common.positive, default=25.0, help="of DistributedDataParallel, MiB (default 25)"
    )
    parser.add_argument(
        "--extra", type=whole(1, 65536), default=1024, help="rows of the straggler's matrices (default 1024)"
    )
    parser.add_argument("--ranges", choices=KINDS, default="record", help="how parts are named")
    parser.add_argument("--seed", type=whole(0, 2**31), default=1, help="of data and model (default 1)")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: Gloo instead of NCCL")
    return parser


def train(
    torch: Any, given: argparse.Namespace, device: Any, rank: int
) -> tuple[list[float], list[float], Any]:
    """Run the loop on one rank: ms of each measured step, the losses of all, the model."""
    from labcode.experiments.lm.transformer.model import Decoder, loss_of

    distributed = torch.distributed
    torch.manual_seed(given.seed)
    size = decoder.SIZES[given.size]
    size = replace(size, layers=given.layers or size.layers)
    with device:
        model: Any = Decoder(size, given.context, attention="sdpa")
    wrapped: Any = model
    if given.variant != "baseline":
        wrapped = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=given.bucket_mb)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    torch.manual_seed(given.seed * 1000 + rank)
    tokens = torch.randint(size.vocabulary, (given.batch, given.context + 1), device=device)
    mark, world = marks(given.ranges, device), distributed.get_world_size()
    extra = torch.randn(given.extra, given.extra, device=device)

    def one_step() -> Any:
        with mark("forward"):
            loss = loss_of(wrapped(tokens[:, :-1]), tokens[:, 1:])
            if given.variant == "straggler" and rank == STRAGGLER:
                with mark("more to do"):
                    for _ in range(100):
                        extra @ extra
        with mark("backward"):
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
        if given.variant == "baseline":
            with mark("all-reduce"):
                for parameter in model.parameters():
                    distributed.all_reduce(parameter.grad)
                    parameter.grad /= world
        with mark("optimizer"):
            optimizer.step()
        return loss.detach()

    losses, times = [], []
    with recording(torch, device, warmup=given.warmup, steps=given.steps) as tick:
        for _ in range(given.warmup):
            losses.append(one_step())
            tick()
        synchronize(device)
        distributed.barrier()
        with nvtx_range(common.MEASURED, device):
            for number in range(given.steps):
                began = time.perf_counter()
                with mark(f"step {number}"):
                    losses.append(one_step())
                    synchronize(device)
                times.append(1e3 * (time.perf_counter() - began))
                tick()
    return times, [float(loss) for loss in losses], model


def check(torch: Any, model: Any, losses: Sequence[float], device: Any) -> dict[str, Check]:
    """Every rank has the same parameters, and the mean of the losses falls."""
    distributed = torch.distributed
    sums = torch.stack([p.detach().double().sum() for p in model.parameters()])
    both = torch.stack([sums, -sums])
    distributed.all_reduce(both, op=distributed.ReduceOp.MAX)  # the largest, and minus the smallest
    spread = float((both[0] + both[1]).abs().max())
    mean = torch.tensor([losses[0], losses[-1]], device=device)
    distributed.all_reduce(mean)
    first, last = (float(x) / distributed.get_world_size() for x in mean)
    return {
        "ranks_agree": Check(spread == 0, f"sums of parameters differ by at most {spread:.1e}"),
        "loss_falls": Check(last < first, f"from {first:.4f} to {last:.4f}, the mean of the ranks"),
    }


def work(torch: Any, given: argparse.Namespace, device: Any) -> int:
    """What one process does: train, check, and, on rank 0, write the record. The exit code."""
    distributed = torch.distributed
    rank, world = distributed.get_rank(), distributed.get_world_size()
    times, losses, model = train(torch, given, device, rank)
    checks = check(torch, model, losses, device)
    mine = torch.tensor(times, dtype=torch.float64, device=device)
    everyone = [torch.empty_like(mine) for _ in range(world)]
    distributed.all_gather(everyone, mine)
    if rank != 0:
        return 0
    gradient_bytes = sum(p.numel() * p.element_size() for p in model.parameters())
    typical = quantile(times, 0.5)
    record = common.Record(
        PROGRAM,
        given.variant,
        common.parameters_of(given) | {"processes": world},
        {
            "step_ms": round(typical, 4),
            "step_per_rank_ms": [common.rounded(part.tolist()) for part in everyone],
            "gradient_bytes": gradient_bytes,
            "losses": common.rounded(losses, 7),
        },
        checks,
        common.gpu_info(torch, device),
    )
    print(f"{record.gpu['name']} x {world}: {given.variant}, {gradient_bytes / 1e6:.1f} MB of gradients")
    print(f"  step {typical:.3f} ms")
    return common.finish(record, given.json)


def join(torch: Any, given: argparse.Namespace) -> int:
    """Be one of the processes: join the group, work, leave it. The exit code."""
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = os.environ.get(_MEETING_PLACE)
    group: dict[str, Any] = {
        "init_method": f"file://{store}" if store else "env://",
        "rank": rank,
        "world_size": world,
    }
    if given.device == "cuda":
        local = int(os.environ.get("LOCAL_RANK", rank))
        common.require_gpus(torch, local + 1)
        device = torch.device("cuda", local)
        torch.cuda.set_device(device)
        group |= {"backend": "nccl", "device_id": device}
    else:
        torch.set_num_threads(1)
        device = torch.device("cpu")
        group["backend"] = "gloo"
    torch.distributed.init_process_group(**group)
    try:
        return work(torch, given, device)
    finally:
        torch.distributed.destroy_process_group()


def start_processes(arguments: Sequence[str], count: int) -> int:
    """Start one process a GPU with the same flags; when one fails, end the others. The worst exit code."""
    with tempfile.TemporaryDirectory() as folder:
        processes = []
        try:
            for rank in range(count):
                place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count}
                environment = {key: str(value) for key, value in place.items()}
                environment[_MEETING_PLACE] = f"{folder}/store"
                command = [sys.executable, "-m", "labcode.workloads.distributed_training", *arguments]
                processes.append(subprocess.Popen(command, env=os.environ | environment))
            return wait_for_all(processes)
        finally:
            for process in processes:
                if process.poll() is None:
                    process.terminate()
                    process.wait()


def main(arguments: Sequence[str]) -> int:
    """Start the processes, or be one of them; the exit code."""
    given = command_line().parse_args(arguments)
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        return join(common.import_torch(), given)
    if given.device == "cpu":
        return start_processes(arguments, given.gpus or 2)
    torch = common.import_torch()
    count = given.gpus or min(4, common.require_gpus(torch, 2))
    common.require_gpus(torch, count)
    return start_processes(arguments, count)


if __name__ == "__main__":
    common.run(PROGRAM, main)
