"""Data-parallel training on several GPUs, one process each: flags in, a JSON record of times out.

Each process trains the same network on its own part of the data; in each step the gradients are summed over
the processes (an all-reduce), so that all take the same step. The two variants differ in when that happens:

- ``baseline``: after the backward pass, one all-reduce a parameter, then waiting for all of them;
- ``improved``: in buckets, each started as soon as the backward pass has made the last gradient in it, so
  that it runs beside the rest of that pass.

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
from dataclasses import asdict
from typing import Any

from labcode.experiments.nsys.multi_gpu.data_parallel import (
    Batch,
    Member,
    Size,
    all_passed,
    all_reduce_ms,
    check_agreement,
    check_gradients,
    check_losses,
    fingerprint,
    gather,
    make_batch,
    make_model,
    needed_bytes,
    run_steps,
    train_step,
)
from labcode.experiments.nsys.multi_gpu.gradients import make_reduction
from labcode.experiments.shared import common
from labcode.timing import quantile

PROGRAM = "multi_gpu"
VARIANTS = ("baseline", "improved")
LEARNING_RATE, MOMENTUM = 0.01, 0.9
MB = 10**6
_MEETING_PLACE = "LABCODE_MULTI_GPU_STORE"  # the file in which the processes we start find each other


def command_line() -> argparse.ArgumentParser:
    """The flags. The CPU's defaults are tiny: it is there to try the program out."""
    parser = common.parser(
        PROGRAM, "Trains a network on several GPUs; gradients reduced after or in the pass.", VARIANTS
    )
    whole = common.whole
    parser.add_argument(
        "--gpus", type=whole(2, 64), help="processes, one a GPU (default: all GPUs, at most 4)"
    )
    parser.add_argument("--steps", type=whole(1, 1000), default=6, help="measured steps (default 6)")
    parser.add_argument("--warmup", type=whole(1, 1000), default=4, help="steps before those (default 4)")
    parser.add_argument("--layers", type=whole(1, 1000), help="blocks of the network (default 12; CPU: 2)")
    parser.add_argument("--width", type=whole(8, 65536), help="width of a block (default 2048; CPU: 32)")
    parser.add_argument(
        "--batch", type=whole(1, 10**6), help="rows a process and step (default 4096; CPU: 16)"
    )
    parser.add_argument(
        "--bucket-mb", type=common.positive, default=25.0, help="bucket of `improved`, MB (default 25)"
    )
    parser.add_argument(
        "--nccl-ctas", type=whole(0, 64), default=0, help="most blocks of an NCCL kernel; 0: its choice"
    )
    parser.add_argument(
        "--reserve-sms", type=whole(0, 128), default=0, help="keep so many SMs out of `improved`'s products"
    )
    parser.add_argument("--seed", type=whole(0, 2**31), default=1, help="of data and model (default 1)")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: Gloo instead of NCCL")
    return parser


def size_of(given: argparse.Namespace) -> Size:
    """The flags with the device's defaults filled in."""
    layers, width, batch = (12, 2048, 4096) if given.device == "cuda" else (2, 32, 16)
    return Size(given.layers or layers, given.width or width, given.batch or batch, given.seed)


def work(member: Member, given: argparse.Namespace) -> int:
    """What one process does: train, measure, check, and, on rank 0, write the record. The exit code."""
    size = size_of(given)
    model = make_model(member, size)
    optimizer = member.torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM)
    bucket_bytes = MB * given.bucket_mb
    reduction = make_reduction(
        member.torch,
        given.variant,
        model,
        bucket_bytes,
        member.device,
        given.reserve_sms if member.cuda else 0,
    )

    def step(batch: Batch) -> Any:
        return train_step(member, model, optimizer, reduction, batch)

    for k in range(given.warmup):
        step(make_batch(member, size, k))
    batches = [make_batch(member, size, given.warmup + k) for k in range(given.steps)]
    step_ms, losses = run_steps(member, batches, step, measured=True)
    prints = gather(member, fingerprint(member, model))
    times = gather(member, member.torch.tensor(step_ms, dtype=member.torch.float64, device=member.device))
    checks = {
        "ranks_agree": check_agreement(member, prints),
        "loss_falls": check_losses(losses),
        "gradients_match_reference": check_gradients(member, size, model, reduction),
    }
    passed = all_passed(member, all(check.passed for check in checks.values()))

    with reduction.paused():  # the same steps without any communication
        alone_ms, _ = run_steps(member, batches, step, measured=False)
    calls = reduction.sizes()
    gradient_bytes = member.dtype.itemsize * sum(calls)
    calls_ms, once_ms = all_reduce_ms(member, calls), all_reduce_ms(member, [sum(calls)])
    if member.rank != 0:
        return 0 if passed else common.EXIT_CHECK_FAILED
    moved = 2 * (member.world - 1) / member.world * gradient_bytes  # what a ring sends and receives a process
    typical, alone = quantile(step_ms, 0.5), quantile(alone_ms, 0.5)
    results = {
        "step_ms": round(typical, 4),
        "step_per_rank_ms": [common.rounded(part.tolist()) for part in times],
        "step_without_communication_ms": round(alone, 4),
        "all_reduce_alone_ms": round(calls_ms, 4),
        "all_reduce_calls": len(calls),
        "all_reduce_in_one_call_ms": round(once_ms, 4),
        "bus_bandwidth_gbps": round(moved / calls_ms / 1e6, 2),
        "bus_bandwidth_in_one_call_gbps": round(moved / once_ms / 1e6, 2),
        "reduced_bytes_per_step": gradient_bytes,
        "hidden_share_estimate": round(1 - (typical - alone) / calls_ms, 4),
        "losses": common.rounded(losses, 7),
        "fingerprint": f"{int(prints[0].sum()) & (2**64 - 1):016x}",
    }
    parameters = common.parameters_of(given) | asdict(size) | {"processes": member.world}
    gpu = common.gpu_info(member.torch, member.device)
    record = common.Record(PROGRAM, given.variant, parameters, results, checks, gpu)
    print(
        f"{gpu['name']} x {member.world}: {given.variant}, {gradient_bytes / MB:.0f} MB of gradients a step"
    )
    print(f"  step {typical:.3f} ms; without communication {alone:.3f} ms")
    print(f"  communication alone: {calls_ms:.3f} ms in {len(calls)} calls, {once_ms:.3f} ms in one")
    print(f"  bus bandwidth: {moved / calls_ms / 1e6:.0f} and {moved / once_ms / 1e6:.0f} GB/s")
    print(f"  hidden share, estimated from these times: {results['hidden_share_estimate']:.3f}")
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
        common.require_memory(
            torch, needed_bytes(size_of(given)), "choose fewer --layers or a smaller --width"
        )
        # High priority: a reduction starts when a multiprocessor has room, not after a whole matmul.
        settings = torch.distributed.ProcessGroupNCCL.Options()
        settings.is_high_priority_stream = True
        if given.nccl_ctas:
            settings.config.max_ctas = given.nccl_ctas
        if given.reserve_sms:
            torch.backends.cuda.preferred_blas_library("cublaslt")  # which can be told how many SMs to use
        group |= {"backend": "nccl", "device_id": device, "pg_options": settings}
    else:
        torch.set_num_threads(1)
        device = torch.device("cpu")
        group["backend"] = "gloo"
    torch.distributed.init_process_group(**group)
    try:
        return work(Member(torch, rank, world, device), given)
    finally:
        torch.distributed.destroy_process_group()


def start_processes(arguments: Sequence[str], count: int) -> int:
    """Start one process a GPU with the same flags; when one fails, end the others. The worst exit code."""
    with tempfile.TemporaryDirectory() as folder:
        processes = []
        try:
            for rank in range(count):
                place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count}
                environment = (
                    os.environ | {k: str(v) for k, v in place.items()} | {_MEETING_PLACE: f"{folder}/store"}
                )
                command = [sys.executable, "-m", "labcode.workloads.multi_gpu", *arguments]
                processes.append(subprocess.Popen(command, env=environment))
            return wait_for_all(processes)
        finally:
            for process in processes:
                if process.poll() is None:
                    process.terminate()
                    process.wait()


def wait_for_all(processes: Sequence[subprocess.Popen[bytes]]) -> int:
    """Wait until all have ended well or one has not: 0, or the largest exit code (2 for a signal)."""
    while True:
        codes = [process.poll() for process in processes]
        failed = [code if code > 0 else common.EXIT_BAD_USE for code in codes if code]
        if failed or None not in codes:
            return max(failed, default=0)
        time.sleep(0.02)


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
