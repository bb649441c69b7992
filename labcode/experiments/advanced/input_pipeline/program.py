"""Training from files through a `DataLoader` that starves the GPU, and mended: flags in, a record out.

A convolutional network learns to tell pictures apart. Each picture is read from its own file, decoded and
transformed by the CPU; the variants compute the same losses from the same batches:

- ``baseline``: the training loop itself reads and decodes, partly in Python loops, into pageable memory;
- ``workers``: the same by several processes, ahead of time; ``pinned``: also into pinned memory, copied while
  the GPU computes; ``improved``: also without the Python loops;
- ``slow_disk``: ``improved``, but the files come from the disk in small pieces;
- ``shared_log``: ``improved``, where each picture is noted in a log common to all workers;
- ``throttled``: ``improved``, where each worker keeps a limit of files a second.
"""

from __future__ import annotations

import argparse
import copy
import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labcode.errors import LabError
from labcode.experiments.advanced.input_pipeline.feed import STAGES, Setup, make_loader, make_plan
from labcode.experiments.advanced.input_pipeline.files import (
    comes_from_disk,
    settle,
    temporary_folder,
    write_pictures,
)
from labcode.experiments.advanced.input_pipeline.pictures import CHANNELS, CLASSES, CROPPED
from labcode.experiments.shared import common
from labcode.experiments.shared.common import Check, nvtx_range, synchronize
from labcode.timing import spread

if TYPE_CHECKING:
    import torch

PROGRAM = "input_pipeline"
SLOW_WAYS = ("decode", "gamma", "equalize", "pieces", "cold", "log", "throttle")
_LOOPS = frozenset({"decode", "gamma"})
VARIANTS = {
    "baseline": Setup(slow=_LOOPS),
    "workers": Setup(workers=8, slow=_LOOPS),
    "pinned": Setup(workers=8, pin=True, slow=_LOOPS),
    "improved": Setup(workers=8, ahead=4, pin=True, persistent=True),
    "slow_disk": Setup(workers=8, pin=True, persistent=True, slow=frozenset({"pieces", "cold"})),
    "shared_log": Setup(workers=8, pin=True, persistent=True, slow=frozenset({"pieces", "log"})),
    "throttled": Setup(workers=8, pin=True, persistent=True, slow=frozenset({"pieces", "throttle"})),
}
LEARNING_RATE, MOMENTUM = 0.01, 0.9
LOSS_TOLERANCE = 1e-4  # relative; the variants run the same kernels on the same data
LOSS_MUST_FALL_TO = 0.95  # of the first loss, at the last step
PROBED_FILES = 32


@dataclass(frozen=True)
class Outcome:
    """What a loop gives: each step's loss (warm-up included); of the measured steps, times in ms.

    ``waited_ms`` is the loop's time until it had the batch, ``copy_ms`` until the copy was on its way
    (pinned) or done (pageable), ``gpu_ms`` its wait for the GPU; ``stage_us`` each stage's mean a picture.
    """

    losses: list[float]
    first_batch_s: float
    total_ms: float
    step_ms: list[float]
    waited_ms: list[float]
    copy_ms: list[float]
    gpu_ms: list[float]
    stage_us: dict[str, float]


def make_model(torch: Any, width: int, seed: int, device: torch.device) -> Any:
    """A small convolutional network; the same seed gives the same weights."""
    torch.manual_seed(seed)
    layers: list[Any] = []
    inputs = CHANNELS
    for outputs in (width, 2 * width, 4 * width):
        for stride in (2, 1):
            layers += [
                torch.nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False),
                torch.nn.BatchNorm2d(outputs),
                torch.nn.ReLU(),
            ]
            inputs = outputs
    head = [torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(inputs, CLASSES)]
    return torch.nn.Sequential(*layers, *head).to(device)


def train(
    torch: Any,
    make_batches: Callable[[], Any],
    given: argparse.Namespace,
    device: torch.device,
    *,
    pinned: bool,
    measured: bool,
) -> Outcome:
    """Run the loop from a fresh model over a loader's batches; only a ``measured`` run has NVTX ranges."""
    functional = torch.nn.functional
    model = make_model(torch, given.width, given.seed, device)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM)
    marked = device if measured else torch.device("cpu")  # no ranges for the latter
    _try_out(torch, model, given.batch, device)

    began = time.perf_counter()
    source = [iter(make_batches())]
    losses: list[Any] = []
    events: list[Any] = []
    times: list[tuple[float, float, float, float]] = []
    stages: list[Any] = []

    def one_step() -> None:
        begin = time.perf_counter()
        with nvtx_range("data wait", marked):
            inputs, labels, seconds = next_batch(source[0])
        have = time.perf_counter()
        with nvtx_range("copy to GPU", marked):
            inputs = inputs.to(device, non_blocking=pinned)
            labels = labels.to(device, non_blocking=pinned)
        copied = time.perf_counter()
        with nvtx_range("forward", marked):
            loss = functional.cross_entropy(model(inputs), labels)
        with nvtx_range("backward", marked):
            optimizer.zero_grad(set_to_none=True)
            # On this thread: PyTorch would launch the backward pass from another, outside this range.
            with torch.autograd.set_multithreading_enabled(False):
                loss.backward()
        with nvtx_range("optimizer", marked):
            optimizer.step()
        losses.append(loss.detach())
        stages.append(seconds)
        launched = time.perf_counter()
        with nvtx_range("wait for GPU", marked):  # at most one step behind
            if device.type == "cuda":
                events.append(torch.cuda.Event())
                events[-1].record()
                if len(events) > 1:
                    events[-2].synchronize()
        done = time.perf_counter()
        times.append((done - begin, have - begin, copied - have, done - launched))

    one_step()
    first_batch_s = time.perf_counter() - began
    for _ in range(given.warmup - 1):
        one_step()
    synchronize(device)
    times.clear()
    stages.clear()
    start = time.perf_counter()
    with nvtx_range(common.MEASURED, device) if measured else nullcontext():
        for step in range(given.steps):
            with nvtx_range(f"step {step}", marked):
                one_step()
        synchronize(device)
    total_ms = 1e3 * (time.perf_counter() - start)
    for _ in source[0]:  # a worker that is ended while it sends a batch aborts
        pass
    source.clear()
    step_ms, waited_ms, copy_ms, gpu_ms = (
        [1e3 * seconds for seconds in column] for column in zip(*times, strict=True)
    )
    means = torch.cat(stages).mean(dim=0).tolist()
    return Outcome(
        [float(x) for x in torch.stack(losses).tolist()],
        first_batch_s,
        total_ms,
        step_ms,
        waited_ms,
        copy_ms,
        gpu_ms,
        {stage: 1e6 * mean for stage, mean in zip(STAGES, means, strict=True)},
    )


def next_batch(batches: Any) -> Any:
    """The next batch of a loader; `LabError` for what a worker met, and for a worker that died."""
    try:
        return next(batches)
    except LabError as error:  # from a worker it comes with a traceback in its message
        raise type(error)(str(error).rpartition("Error: ")[2]) from None
    except RuntimeError as error:
        if "DataLoader worker" not in str(error):
            raise
        line = str(error).splitlines()[0]
        raise LabError(f"{line}; fewer --workers and a smaller --batch need less memory") from None


def _try_out(torch: Any, model: Any, batch: int, device: Any) -> None:
    """One pass without an update, so that no step pays for loading the GPU's libraries."""
    twin = copy.deepcopy(model)  # the pass changes running means
    twin(torch.zeros(batch, CHANNELS, CROPPED, CROPPED, device=device)).sum().backward()
    synchronize(device)


def check(outcome: Outcome, plain: Outcome) -> dict[str, Check]:
    """The losses are those of the plain loop, and they fall."""
    pairs = list(zip(outcome.losses, plain.losses, strict=True))
    worst = max(abs(a - b) / abs(b) for a, b in pairs)
    same = worst <= LOSS_TOLERANCE and not any(math.isnan(a) for a, _ in pairs)
    first, final = outcome.losses[0], outcome.losses[-1]
    return {
        "losses_match_plain_loop": Check(
            same,
            f"{len(pairs)} losses, largest relative difference {worst:.1e}, allowed {LOSS_TOLERANCE:.0e}",
        ),
        "loss_falls": Check(final <= LOSS_MUST_FALL_TO * first, f"from {first:.4f} to {final:.4f}"),
    }


def check_cold(paths: Sequence[Path]) -> Check:
    """Whether files do come from the disk where a variant says so: most of a few that are looked at."""
    probed = paths[:: max(1, len(paths) // PROBED_FILES)]
    cold = sum(comes_from_disk(path) for path in probed)
    return Check(
        cold >= 0.9 * len(probed),
        f"{cold} of {len(probed)} files left memory when asked to; if few, choose another place by --folder",
    )


def command_line() -> argparse.ArgumentParser:
    """The flags."""
    parser = common.parser(
        PROGRAM, "Trains on pictures from disk; the variants differ in how the GPU is fed.", list(VARIANTS)
    )
    whole = common.whole
    parser.add_argument("--steps", type=whole(1, 10000), default=16, help="measured steps (default 16)")
    parser.add_argument("--warmup", type=whole(1, 10000), default=20, help="steps before those (default 20)")
    parser.add_argument("--batch", type=whole(1, 65536), default=64, help="pictures a step (default 64)")
    parser.add_argument(
        "--width", type=whole(1, 4096), default=128, help="width of the network (default 128)"
    )
    parser.add_argument("--files", type=whole(1, 99999), default=768, help="pictures on disk (default 768)")
    parser.add_argument("--seed", type=whole(0, 2**32 - 1), default=1, help="of data and model (default 1)")
    parser.add_argument("--workers", type=whole(0, 256), help="worker processes (default: the variant's)")
    parser.add_argument(
        "--slow",
        type=_slow_ways,
        metavar="WAY,…",
        help=f"what is done the slow way (default: the variant's; of {', '.join(SLOW_WAYS)}; or none)",
    )
    parser.add_argument("--piece", type=whole(1, 2**20), help="bytes of a small read (default 256)")
    parser.add_argument("--rate", type=common.positive, help="files a second of a throttled worker (400)")
    parser.add_argument("--folder", type=Path, help="place for the pictures (default: temporary)")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: to try it out")
    return parser


def _slow_ways(text: str) -> str:
    """An argparse type: names of slow ways, by commas; the words as given, sorted."""
    words = sorted({word for word in text.split(",") if word not in ("", "none")})
    if unknown := [word for word in words if word not in SLOW_WAYS]:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: no such way ({', '.join(SLOW_WAYS)})")
    return ",".join(words)


def setup_of(given: argparse.Namespace) -> Setup:
    """The variant's set-up with what the flags change."""
    setup = VARIANTS[given.variant]
    if given.workers is not None:
        setup = replace(setup, workers=given.workers)
    if given.slow is not None:
        setup = replace(setup, slow=frozenset(given.slow.split(",")) - {""})
    if given.piece is not None:
        setup = replace(setup, piece=given.piece)
    if given.rate is not None:
        setup = replace(setup, rate_per_s=given.rate)
    return setup


def needed_bytes(width: int, batch: int) -> int:
    """GPU memory of a run: activations of all layers and their gradients, some work space."""
    pixels = CROPPED * CROPPED
    activations = 3 * 2 * batch * width * pixels * (1 / 4 + 2 / 16 + 4 / 64)
    return int(4 * (2 * activations + 3 * CHANNELS * batch * pixels)) + (1 << 30)


def main(arguments: Sequence[str]) -> int:
    """Run a variant, check its losses against the plain loop's, print and write the record; the exit code."""
    given = command_line().parse_args(arguments)
    torch = common.import_torch()
    if given.device == "cuda":
        common.require_gpus(torch)
        common.require_memory(torch, needed_bytes(given.width, given.batch), "choose a smaller --width")
    if given.folder is not None and not given.folder.is_dir():
        raise LabError(f"{given.folder}: no such folder; make it, or leave out --folder")
    device = torch.device(given.device, 0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.deterministic = True
    setup = setup_of(given)
    used = given.warmup + given.steps
    checks = {}
    with temporary_folder(given.folder) as folder:
        paths = write_pictures(folder, given.seed, given.files)
        if "cold" in setup.slow:
            settle()
            checks["files_come_from_disk"] = check_cold(paths)

        def loader(setup: Setup, device: Any) -> Any:
            # more batches than are used, so that workers have something to do until the end
            plan = make_plan(given.seed, given.batch, used + setup.workers * setup.ahead, len(paths))
            return make_loader(torch, folder, plan, setup, device, folder / "pictures.log")

        outcome = train(torch, lambda: loader(setup, device), given, device, pinned=setup.pin, measured=True)
        plain = train(
            torch,
            lambda: loader(Setup(), torch.device("cpu")),
            given,
            device,
            pinned=False,
            measured=False,
        )
    record = _record(torch, given, setup, device, outcome, {**checks, **check(outcome, plain)})
    _print(record, outcome)
    return common.finish(record, given.json)


def _record(
    torch: Any,
    given: argparse.Namespace,
    setup: Setup,
    device: Any,
    outcome: Outcome,
    checks: dict[str, Check],
) -> common.Record:
    parameters = common.parameters_of(given)
    del parameters["folder"]
    parameters |= {
        "workers": setup.workers,
        "prefetch_factor": setup.ahead if setup.workers else None,
        "pin_memory": setup.pin,
        "persistent_workers": setup.persistent,
        "slow": sorted(setup.slow),
        "piece": setup.piece,
        "rate": setup.rate_per_s,
    }
    per_step = outcome.total_ms / given.steps
    return common.Record(
        PROGRAM,
        given.variant,
        parameters,
        {
            "total_ms": round(outcome.total_ms, 4),
            "per_step_ms": round(per_step, 4),
            "images_per_s": round(1e3 * given.batch / per_step, 1),
            "first_batch_s": round(outcome.first_batch_s, 3),
            "data_wait_share": round(sum(outcome.waited_ms) / outcome.total_ms, 4),
            "gpu_wait_share": round(sum(outcome.gpu_ms) / outcome.total_ms, 4),
            "step_host_ms": common.rounded(outcome.step_ms, 5),
            "data_wait_ms": common.rounded(outcome.waited_ms, 5),
            "copy_ms": common.rounded(outcome.copy_ms, 5),
            "gpu_wait_ms": common.rounded(outcome.gpu_ms, 5),
            **{f"{stage}_us": round(mean, 2) for stage, mean in outcome.stage_us.items()},
            "losses": common.rounded(outcome.losses, 7),
        },
        checks,
        common.gpu_info(torch, device),
    )


def _print(record: common.Record, outcome: Outcome) -> None:
    results, setup = record.results, record.parameters
    copied = spread(outcome.copy_ms)
    print(f"{record.gpu['name']}: {record.variant}, {setup['steps']} steps of {setup['batch']} pictures")
    print(f"  {results['per_step_ms']:.2f} ms a step, {results['images_per_s']:.0f} pictures a second")
    print(f"  waiting for data {results['data_wait_share']:.1%}, for the GPU {results['gpu_wait_share']:.1%}")
    print("  a picture: " + ", ".join(f"{stage} {us:.0f} µs" for stage, us in outcome.stage_us.items()))
    print(f"  copy: median {copied.median:.3f} ms; first batch after {results['first_batch_s']:.1f} s")
    print(f"  loss from {outcome.losses[0]:.4f} to {outcome.losses[-1]:.4f}")


if __name__ == "__main__":
    common.run(PROGRAM, main)
