"""Training steps by what moves the gradients, and when: flags in, a JSON record of times out.

A case is the training step of the decoder on all GPUs of a group, with one way of summing gradients and one
batch a GPU. ``naive`` and ``flat`` are as in `strategies`; the others send buckets during the backward pass:
``bucketed`` by NCCL, ``symmetric`` by NCCL on registered memory, ``gathered`` by NCCL's copy engines
(``registered.py``), ``engines`` by copy engines without NCCL
(``engines.py``). With ``+split`` behind its name the optimizer takes its step in two
parts, and the last buckets travel behind the first. Timed are the step, the step without communication by
the same processes, and the communication alone; on one GPU, the step. What registered memory needs is not
everywhere: a way that cannot be taken becomes a case that says why.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from labcode.analysis.lm import decoder
from labcode.experiments.nsys.multi_gpu.data_parallel import Member, all_reduce_ms, run_steps
from labcode.experiments.scaling import group
from labcode.experiments.scaling.group import Case
from labcode.experiments.scaling.hiding.engines import ByCopyEngines
from labcode.experiments.scaling.hiding.exchanges import Exchange, Hidden
from labcode.experiments.scaling.hiding.registered import ByNCCL, Gathered, OnWindow, Windows
from labcode.experiments.scaling.training import strategies
from labcode.experiments.scaling.training.program import Task, train_step
from labcode.experiments.shared import common
from labcode.experiments.shared.common import Check
from labcode.timing import quantile

MODULE = "labcode.workloads.scaling.hiding"
PROGRAM = "hiding"
VARIANTS = ("weak",)
SPLIT = "+split"
AFTER = ("naive", "flat")
REGISTERED = ("symmetric", "gathered")  # what may be missing here
DURING = ("bucketed", "engines", *REGISTERED)
WAYS = (*AFTER, *(name + how for name in DURING for how in ("", SPLIT)))
DEFAULT = (
    "naive,flat,bucketed:12,bucketed:25,bucketed+split:12,bucketed+split:25,"
    "engines:12,engines+split:12,engines+split:25"
)
TOLERANCE = (
    1e-2  # of a gradient, against that of «flat», relative: atomic sums of bf16 differ from run to run
)
Way = tuple[str, float]
_FOLDERS = re.compile(r"(?:/[\w.+-]+)*/(?=[\w.+-]+)")


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
    parser.add_argument(
        "--seen", action="store_true", help="at the end, one step of each way under PyTorch's profiler"
    )
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


def make(way: Way, member: Member, model: Any, windows: Windows) -> Any:
    """A `strategies.Strategy`."""
    name, mib = way
    if name in AFTER or name == strategies.SINGLE:
        return strategies.make(name, member, model, mib)
    mover, parameters, limit = name.removesuffix(SPLIT), list(model.parameters()), strategies.MIB * mib
    exchange: Exchange
    if mover in REGISTERED:
        exchange = {"symmetric": OnWindow, "gathered": Gathered}[mover](member, parameters, limit, windows)
    else:
        exchange = {"bucketed": ByNCCL, "engines": ByCopyEngines}[mover](member, parameters, limit)
    return Hidden(member, model, exchange, split=name.endswith(SPLIT))


def release(strategy: Any) -> None:
    """Let go of the others' memory, and of the gradients' hooks, which would keep the model."""
    if isinstance(strategy, Hidden):
        strategy.exchange.close()
    for parameter in strategy.model.parameters():
        hooks = parameter._post_accumulate_grad_hooks
        if hooks:
            hooks.clear()


def work(member: Member, given: argparse.Namespace) -> list[Case]:
    """The cases of one group: one GPU alone with each batch, or all ways with each."""
    size = decoder.SIZES[given.size]
    tasks = [Task(size, given.context, batch, given.seed) for batch in given.batches]
    windows = Windows(member)
    if member.world == 1:
        return [_case(member, given, (strategies.SINGLE, 25.0), task, {}, windows) for task in tasks]
    first = Task(size, given.context, 1, given.seed)
    wanted = _gradients(member, ("flat", 25.0), first, windows)
    told = {way: _tried(member, way, first, wanted, windows) for way in given.ways}
    del wanted
    group.tidy(member)
    found = []
    for task in tasks:
        for way in given.ways:
            found.append(_case(member, given, way, task, told[way], windows))
            group.tidy(member)
    if given.seen:
        for way in given.ways:
            seen = {} if "failed" in told[way] else _seen(member, way, tasks[0], windows)
            for case in found:
                if (case["strategy"], case["bucket_mib"]) == way:
                    case |= seen
            group.tidy(member)
    return found


def _tried(
    member: Member, way: Way, task: Task, wanted: list[Any], windows: Windows
) -> dict[str, float | str]:
    """How far the summed gradients are from those wanted, or why there are none, the same on all ranks."""
    error, why = 0.0, ""
    try:
        pairs = zip(_gradients(member, way, task, windows), wanted, strict=True)
        error = max(float((one - two).norm() / two.norm()) for one, two in pairs)
    except Exception as failure:  # whatever a driver, NCCL or PyTorch lacks
        if way[0].removesuffix(SPLIT) not in REGISTERED:
            raise
        why = reason(failure)
    everyone: list[Any] = [None] * member.world
    member.torch.distributed.all_gather_object(everyone, why)
    if any(everyone):
        why = next(one for one in everyone if one)
        if member.rank == 0:
            print(f"  {way[0]}:{way[1]:g} cannot be taken here: {why}", flush=True)
        return {"failed": why}
    return {"gradient_error": group.slowest(member, [error])[0]}


def reason(failure: Exception) -> str:
    """What an exception says, in one line, without folders and without the stack that PyTorch adds."""
    text = " ".join(str(failure).split("Exception raised from")[0].split())
    return f"{type(failure).__name__}: {_FOLDERS.sub('', text)}"[:240]


def _gradients(member: Member, way: Way, task: Task, windows: Windows) -> list[Any]:
    """The summed gradients of a first step."""
    strategy = make(way, member, task.model(member), windows)
    train_step(member, strategy, task.tokens(member, 0), member.world)
    found = [gradient.clone() for gradient in strategy.gradients()]
    release(strategy)
    group.tidy(member)
    return found


def _case(
    member: Member,
    given: argparse.Namespace,
    way: Way,
    task: Task,
    told: dict[str, float | str],
    windows: Windows,
) -> Case:
    """Train a fresh model and time it: with communication, without, and communication alone."""
    name, mib = way
    case: Case = {"strategy": name, "bucket_mib": mib, "count": member.world, "batch": task.batch, **told}
    if "failed" in told:
        return case
    strategy = make(way, member, task.model(member), windows)
    batches = [task.tokens(member, k) for k in range(given.steps)]

    def step(tokens: Any) -> Any:
        return train_step(member, strategy, tokens, member.world)

    for k in range(given.warmup):
        step(batches[k % given.steps])
    times, losses = run_steps(member, batches, step, measured=True)
    case |= {
        "step_ms": group.slowest(member, times),
        "alone_ms": [],
        "all_reduce_ms": None,
        "calls": len(strategy.calls()),
        "gradient_bytes": 4 * decoder.parameter_count(task.size, task.context),
        "tokens": task.batch * member.world * task.context,
        "last_loss": common.rounded(losses)[-1],
    }
    if name != strategies.SINGLE:
        with strategy.paused():
            alone, _ = run_steps(member, batches, step, measured=False)
        case["alone_ms"] = group.slowest(member, alone)
        if isinstance(strategy, Hidden):
            sent = strategy.exchange.alone_ms()
        else:  # gradients are fp32, what is timed is of the member's type: as many bytes
            sent = all_reduce_ms(member, [count * 4 // member.dtype.itemsize for count in strategy.calls()])
        case["all_reduce_ms"] = group.slowest(member, [sent])[0]
    release(strategy)
    if member.rank == 0:
        typical, left = quantile(case["step_ms"], 0.25), quantile(case["alone_ms"] or [0.0], 0.25)
        beside = f", {left:.2f} without, {case['all_reduce_ms']:.2f} to send" if case["alone_ms"] else ""
        what = f"{name}:{mib:g} on {member.world}, batch {task.batch}"
        print(f"  {what}: {typical:.2f} ms{beside} {told or ''}", flush=True)
    return case


def _seen(member: Member, way: Way, task: Task, windows: Windows) -> dict[str, Any]:
    """What moved data in a step on rank 0: by name and CTAs, launches and their time, in µs."""
    strategy = make(way, member, task.model(member), windows)
    batch = task.tokens(member, 0)
    for _ in range(2):
        train_step(member, strategy, batch, member.world)
    member.meet()
    profile = None
    if member.rank == 0 and member.cuda:
        with suppress(RuntimeError):  # under another profiler there is none
            profile = member.torch.profiler.profile(activities=[member.torch.profiler.ProfilerActivity.CUDA])
            profile.start()
    train_step(member, strategy, batch, member.world)
    member.meet()
    found: dict[tuple[str, int], list[float]] = defaultdict(list)
    if profile is not None:
        with suppress(RuntimeError, OSError, ValueError), tempfile.TemporaryDirectory() as folder:
            profile.stop()
            path = Path(folder) / "trace.json"
            profile.export_chrome_trace(str(path))
            for what, ctas, us in moved(json.loads(path.read_text())["traceEvents"]):
                found[what, ctas].append(us)
    release(strategy)
    return {
        "seen": [
            {"what": what, "ctas": ctas, "launches": len(times), "us": round(sum(times), 1)}
            for (what, ctas), times in sorted(found.items())
        ]
    }


def moved(events: Sequence[dict[str, Any]]) -> list[tuple[str, int, float]]:
    """Of a Chrome trace's events: NCCL's kernels and all copies, each with its CTAs (0: a copy) and µs."""
    found = []
    for event in events:
        if event.get("cat") == "kernel" and "nccl" in event["name"].lower():
            found.append((event["name"].split("(")[0], int(event["args"]["grid"][0]), float(event["dur"])))
        elif event.get("cat") == "gpu_memcpy":
            found.append((event["name"], 0, float(event["dur"])))
    return found


def finish(given: argparse.Namespace, cases: list[Case], gpu: dict[str, Any]) -> int:
    """Check and write the record; the exit code."""
    worst = max((case["gradient_error"] for case in cases if "gradient_error" in case), default=float("inf"))
    trained = [case for case in cases if "failed" not in case]
    checks = {
        "gradients_agree": Check(worst <= TOLERANCE, f"largest error {worst:.1e}, allowed {TOLERANCE:.0e}"),
        "losses_finite": Check(
            all(0 < case["last_loss"] < 20 for case in trained), f"{len(trained)} cases, one loss each"
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
