"""A training loop that leaves the GPU idle, and the same work without: flags in, a JSON record of losses and times out.

A small network learns to tell noisy pictures apart. The CPU augments each batch (random crop, flip, contrast, normalization)
with NumPy; the GPU trains on it. The three variants compute the same losses from the same batches:

- ``baseline``: one thread does everything in turn, waits for the GPU after each phase, copies from pageable memory and
  reads the loss in each step;
- ``nosync``: without those waits; the losses stay on the GPU until the end;
- ``improved``: ``nosync``, and two threads prepare the next batches in pinned buffers and copy them on a stream of their own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from labcode.timing import spread
from labcode.workloads import common
from labcode.workloads.common import Check, nvtx_range, synchronize

if TYPE_CHECKING:
    import torch

PROGRAM = "timeline_basics"
VARIANTS = ("baseline", "nosync", "improved")
CLASSES, CHANNELS, STORED, CROPPED = 10, 3, 40, 32  # pictures are stored 40 × 40 and cropped to 32 × 32
FEATURES = CHANNELS * CROPPED * CROPPED
PICTURES = 4096
LEARNING_RATE, MOMENTUM = 0.02, 0.9
LOSS_TOLERANCE = 1e-4  # relative; the variants run the same kernels on the same data
LOSS_MUST_FALL_TO = 0.95  # of the first loss, at the last step


@dataclass(frozen=True)
class Options:
    """What a run is made of; the same values give the same batches in each variant."""

    variant: str
    steps: int
    warmup: int
    batch: int
    width: int
    cpu_work: int
    seed: int
    workers: int
    slots: int


@dataclass(frozen=True)
class Pictures:
    """The data set: ``pixels`` uint8 [picture, channel, 40, 40], ``labels`` int64 [picture], mean and scale of a pixel."""

    pixels: npt.NDArray[np.uint8]
    labels: npt.NDArray[np.int64]
    mean: float
    scale: float


@dataclass
class Batch:
    """A batch on the device: inputs [batch, features], label shares [batch, classes], and who to tell when it was used."""

    inputs: torch.Tensor
    targets: torch.Tensor
    slot: int = -1


class Source(Protocol):
    """Where the loop gets its batches from."""

    def get(self, step: int) -> Batch:
        """The batch of a step, on the device."""

    def used(self, batch: Batch) -> None:
        """The loop has launched all work that reads the batch."""

    def close(self) -> None:
        """No more batches are wanted."""


def make_pictures(seed: int, count: int = PICTURES) -> Pictures:
    """Pictures of ten kinds: a smooth pattern a class, under noise, so that there is something to learn."""
    rng = np.random.default_rng(seed)
    coarse = rng.normal(size=(CLASSES, CHANNELS, 5, 5))
    patterns = np.kron(coarse, np.ones((STORED // 5, STORED // 5)))
    labels = rng.integers(0, CLASSES, count)
    noise = rng.normal(size=(count, CHANNELS, STORED, STORED)).astype(np.float32)
    pixels = np.clip(128 + 24 * patterns[labels] + 40 * noise, 0, 255).astype(np.uint8)
    return Pictures(pixels, labels, float(pixels.mean()), 1.0 / float(pixels.std()))


def prepare(
    pictures: Pictures,
    options: Options,
    step: int,
    inputs: npt.NDArray[np.float32],
    targets: npt.NDArray[np.float32],
) -> None:
    """Make the batch of a step: fills ``inputs`` [batch, 3, 32, 32] and ``targets`` [batch, classes].

    A batch depends on the seed and the step alone, whoever prepares it. Each picture of it is a random crop, flipped or
    not, of random contrast; with ``--cpu-work`` above 1, a mixture of so many of them («mix-up»), its label likewise.
    """
    rng = np.random.default_rng((options.seed, step))
    windows = np.lib.stride_tricks.sliding_window_view(pictures.pixels, (CROPPED, CROPPED), axis=(2, 3))
    places = STORED - CROPPED + 1
    count = len(inputs)
    rows = np.arange(count)
    shares = rng.dirichlet(np.full(options.cpu_work, 0.5), count).astype(np.float32)
    shares.sort(axis=1)  # the last picture is the strongest
    contrast = rng.uniform(0.8, 1.2, (count, 1, 1, 1)).astype(np.float32)
    inputs.fill(0)
    targets.fill(0)
    for k in range(options.cpu_work):
        chosen = rng.integers(0, len(pictures.labels), count)
        top, left = rng.integers(0, places, count), rng.integers(0, places, count)
        crops = windows[chosen, :, top, left].astype(np.float32)
        flip = rng.random(count) < 0.5
        crops[flip] = crops[flip, :, :, ::-1]
        crops -= np.float32(pictures.mean)
        crops *= contrast * (shares[:, k, None, None, None] * np.float32(pictures.scale))
        inputs += crops
        targets[rows, pictures.labels[chosen]] += shares[:, k]


class InTurn:
    """Prepares each batch when the loop asks for it, in ordinary memory, and copies it with ``Tensor.to``."""

    def __init__(
        self, torch: Any, pictures: Pictures, options: Options, device: torch.device, *, wait: bool
    ) -> None:
        self._torch, self._pictures, self._options, self._device, self._wait = (
            torch,
            pictures,
            options,
            device,
            wait,
        )

    def get(self, step: int) -> Batch:
        """Prepare, then copy; both on the loop's own thread."""
        with nvtx_range("load batch", self._device):
            inputs = np.empty((self._options.batch, CHANNELS, CROPPED, CROPPED), np.float32)
            targets = np.empty((self._options.batch, CLASSES), np.float32)
            prepare(self._pictures, self._options, step, inputs, targets)
        with nvtx_range("copy to GPU", self._device):
            batch = Batch(
                self._torch.from_numpy(inputs.reshape(-1, FEATURES)).to(self._device),
                self._torch.from_numpy(targets).to(self._device),
            )
            if self._wait:
                synchronize(self._device)
        return batch

    def used(self, batch: Batch) -> None:
        """Nothing to give back: each batch has memory of its own."""

    def close(self) -> None:
        """Nothing to end."""


@dataclass
class Slot:
    """One place of the ring: pinned buffers, their copies on the device, and the events that say when each may be reused."""

    host_inputs: torch.Tensor
    host_targets: torch.Tensor
    inputs: torch.Tensor
    targets: torch.Tensor
    copied: Any = None  # the copy from the pinned buffers is done: they may be filled again
    consumed: Any = None  # the training step has read the device's copy: it may be overwritten
    ready: threading.Semaphore = field(
        default_factory=lambda: threading.Semaphore(0)
    )  # a batch is on its way
    free: threading.Semaphore = field(
        default_factory=lambda: threading.Semaphore(1)
    )  # the loop has used the last one


class Ahead:
    """Prepares batches on background threads into a ring of pinned buffers and copies them on a stream of their own.

    The batch of step k lies in slot k mod S, so the threads may finish in any order. A thread waits (on the host) until
    the loop has launched step k − S; the copy waits (on the GPU) until that step has run. The loop never waits on the host
    for a copy: its stream does, for the slot's event.
    """

    def __init__(
        self, torch: Any, pictures: Pictures, options: Options, device: torch.device, last: int
    ) -> None:
        self._torch, self._pictures, self._options, self._device, self._last = (
            torch,
            pictures,
            options,
            device,
            last,
        )
        self._cuda = device.type == "cuda"
        self._stream: Any = torch.cuda.Stream(device) if self._cuda else None
        self._slots = [self._make_slot() for _ in range(options.slots)]
        self._next = 0
        self._lock = threading.Lock()
        self._stop = False
        self._failure: BaseException | None = None
        self._threads = [
            threading.Thread(target=self._work, name=f"loader {i}", daemon=True)
            for i in range(options.workers)
        ]
        for thread in self._threads:
            thread.start()

    def get(self, step: int) -> Batch:
        """The batch of a step; the current stream waits for its copy, the host only for its preparation."""
        slot = self._slots[step % len(self._slots)]
        with nvtx_range("wait for batch", self._device):
            slot.ready.acquire()
        if self._failure is not None:
            raise self._failure
        if self._cuda:
            self._torch.cuda.current_stream().wait_event(slot.copied)
        return Batch(slot.inputs, slot.targets, step % len(self._slots))

    def used(self, batch: Batch) -> None:
        """Note when the step is done with the device's buffers and let a thread refill the slot."""
        slot = self._slots[batch.slot]
        if self._cuda:
            slot.consumed.record()
        slot.free.release()

    def close(self) -> None:
        """End the threads and wait for them."""
        self._stop = True
        for slot in self._slots:
            slot.free.release()
        for thread in self._threads:
            thread.join()

    def _make_slot(self) -> Slot:
        torch, batch = self._torch, self._options.batch
        return Slot(
            torch.empty(batch, FEATURES, pin_memory=self._cuda),
            torch.empty(batch, CLASSES, pin_memory=self._cuda),
            torch.empty(batch, FEATURES, device=self._device),
            torch.empty(batch, CLASSES, device=self._device),
            torch.cuda.Event() if self._cuda else None,
            torch.cuda.Event() if self._cuda else None,
        )

    def _work(self) -> None:
        try:
            if self._cuda:
                self._torch.cuda.set_device(self._device)
            while True:
                with self._lock:
                    step, self._next = self._next, self._next + 1
                if step >= self._last:
                    return
                slot = self._slots[step % len(self._slots)]
                slot.free.acquire()
                if self._stop:
                    return
                self._fill(slot, step)
                slot.ready.release()
        except BaseException as error:  # handed to the loop, which raises it
            self._failure = error
            for slot in self._slots:
                slot.ready.release()

    def _fill(self, slot: Slot, step: int) -> None:
        if self._cuda:
            slot.copied.synchronize()
        with nvtx_range("load batch", self._device):
            inputs = slot.host_inputs.numpy().reshape(-1, CHANNELS, CROPPED, CROPPED)
            prepare(self._pictures, self._options, step, inputs, slot.host_targets.numpy())
        with (
            nvtx_range("copy to GPU", self._device),
            self._torch.cuda.stream(self._stream) if self._cuda else nullcontext(),
        ):
            if self._cuda:
                self._stream.wait_event(slot.consumed)
            slot.inputs.copy_(slot.host_inputs, non_blocking=True)
            slot.targets.copy_(slot.host_targets, non_blocking=True)
            if self._cuda:
                slot.copied.record(self._stream)


@dataclass(frozen=True)
class Outcome:
    """What a run of the loop gives: the loss of each step (warm-up included) and the host's time of each measured one."""

    losses: list[float]
    step_ms: list[float]
    total_ms: float


def train(
    torch: Any, options: Options, pictures: Pictures, device: torch.device, variant: str, *, measured: bool
) -> Outcome:
    """Run the loop of a variant from a fresh model. Only a ``measured`` run is marked for the profiler."""
    functional = torch.nn.functional
    torch.manual_seed(options.seed)
    layers: list[Any] = []
    for inputs in (FEATURES, options.width, options.width):
        layers += [torch.nn.Linear(inputs, options.width), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(options.width, CLASSES)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM)
    wait = variant == "baseline"
    last = options.warmup + options.steps
    source: Source = (
        Ahead(torch, pictures, options, device, last)
        if variant == "improved"
        else InTurn(torch, pictures, options, device, wait=wait)
    )

    def phase_done() -> None:
        if wait:
            synchronize(device)

    def one_step(step: int) -> Any:
        batch = source.get(step)
        with nvtx_range("forward", device):
            loss = functional.cross_entropy(model(batch.inputs), batch.targets)
            phase_done()
        with nvtx_range("backward", device):
            optimizer.zero_grad(set_to_none=True)
            # On this thread: PyTorch would launch the backward pass from another, which this range would not cover.
            with torch.autograd.set_multithreading_enabled(False):
                loss.backward()
            phase_done()
        source.used(batch)
        with nvtx_range("optimizer", device):
            optimizer.step()
            phase_done()
        if not wait:
            return loss.detach()
        with nvtx_range("read loss", device):
            return loss.item()

    losses = []
    step_ms = []
    try:
        for step in range(options.warmup):
            losses.append(one_step(step))
        synchronize(device)
        start = time.perf_counter()
        with nvtx_range(common.MEASURED, device) if measured else nullcontext():
            for step in range(options.warmup, last):
                begin = time.perf_counter()
                with nvtx_range(f"step {step - options.warmup}", device):
                    losses.append(one_step(step))
                step_ms.append(1e3 * (time.perf_counter() - begin))
            if not wait:
                with nvtx_range("read loss", device):
                    losses = torch.stack([torch.as_tensor(x, device=device) for x in losses]).tolist()
            synchronize(device)
        total_ms = 1e3 * (time.perf_counter() - start)
    finally:
        source.close()
    return Outcome([float(x) for x in losses], step_ms, total_ms)


def check(outcome: Outcome, plain: Outcome) -> dict[str, Check]:
    """The losses are those of the plain loop, and they fall."""
    pairs = list(zip(outcome.losses, plain.losses, strict=True))
    worst = max(abs(a - b) / abs(b) for a, b in pairs)
    same = worst <= LOSS_TOLERANCE
    first, final = outcome.losses[0], outcome.losses[-1]
    return {
        "losses_match_plain_loop": Check(
            same,
            f"{len(pairs)} losses, largest relative difference {worst:.1e}, allowed {LOSS_TOLERANCE:.0e}",
        ),
        "loss_falls": Check(final <= LOSS_MUST_FALL_TO * first, f"from {first:.4f} to {final:.4f}"),
    }


def main(arguments: Sequence[str]) -> int:
    """Run a variant, check its losses against the plain loop's, print and write the record; the exit code."""
    parser = common.parser(
        PROGRAM, "Trains a small network; the variants differ in how the GPU is kept busy.", VARIANTS
    )
    parser.add_argument(
        "--steps", type=common.whole(1, 10000), default=20, help="measured steps (default 20)"
    )
    parser.add_argument(
        "--warmup", type=common.whole(1, 10000), default=5, help="steps before those (default 5)"
    )
    parser.add_argument(
        "--batch", type=common.whole(1, 65536), default=512, help="pictures a step (default 512)"
    )
    parser.add_argument(
        "--width", type=common.whole(16, 65536), default=4096, help="width of the network (default 4096)"
    )
    parser.add_argument(
        "--cpu-work",
        type=common.whole(1, 64),
        default=1,
        help="pictures mixed into one on the CPU (default 1)",
    )
    parser.add_argument(
        "--workers", type=common.whole(1, 64), default=2, help="threads of `improved` (default 2)"
    )
    parser.add_argument(
        "--slots", type=common.whole(2, 64), default=4, help="buffers of `improved` (default 4)"
    )
    parser.add_argument(
        "--seed", type=common.whole(0, 2**32 - 1), default=1, help="seed of data and model (default 1)"
    )
    parser.add_argument(
        "--device", choices=["cuda", "cpu"], default="cuda", help="cpu: for trying it out (default cuda)"
    )
    given = parser.parse_args(arguments)
    torch = common.import_torch()
    if given.device == "cuda":
        common.require_gpus(torch)
        parameters = given.width * (FEATURES + 2 * given.width + CLASSES)
        common.require_memory(
            torch,
            4 * (4 * parameters + 8 * given.batch * (FEATURES + given.width)),
            "choose a smaller --width",
        )
    device = torch.device(given.device)
    torch.backends.cuda.matmul.allow_tf32 = False
    options = Options(
        given.variant,
        given.steps,
        given.warmup,
        given.batch,
        given.width,
        given.cpu_work,
        given.seed,
        given.workers,
        given.slots,
    )
    pictures = make_pictures(options.seed)
    outcome = train(torch, options, pictures, device, options.variant, measured=True)
    plain = train(torch, options, pictures, device, "baseline", measured=False)
    per_step = outcome.total_ms / options.steps
    record = common.Record(
        PROGRAM,
        options.variant,
        {name: value for name, value in vars(options).items() if name != "variant"}
        | {"device": given.device},
        {
            "total_ms": round(outcome.total_ms, 4),
            "per_step_ms": round(per_step, 4),
            "pictures_per_s": round(1e3 * options.batch / per_step, 1),
            "step_host_ms": common.rounded(outcome.step_ms, 5),
            "losses": common.rounded(outcome.losses, 7),
        },
        check(outcome, plain),
        common.gpu_info(torch, device),
    )
    host = spread(outcome.step_ms)
    print(
        f"{record.gpu['name']}: {options.variant}, {options.steps} steps of {options.batch} pictures, width {options.width}"
    )
    print(f"  {per_step:.3f} ms a step, {record.results['pictures_per_s']:.0f} pictures a second")
    print(f"  host's share of a step: median {host.median:.3f} ms, quartiles {host.q1:.3f} and {host.q3:.3f}")
    print(f"  loss from {outcome.losses[0]:.4f} to {outcome.losses[-1]:.4f}")
    return common.finish(record, given.json)


if __name__ == "__main__":
    common.run(PROGRAM, main)
