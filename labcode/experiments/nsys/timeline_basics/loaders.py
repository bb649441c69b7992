"""Who prepares the batches and when: pictures and a plan in, batches on the device out, one a step.

`InTurn` prepares a batch when the loop asks for it. `Ahead` has threads prepare the next ones meanwhile.
"""

from __future__ import annotations

import threading
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from labcode.errors import LabError
from labcode.experiments.nsys.timeline_basics.pictures import (
    CHANNELS,
    CLASSES,
    CROPPED,
    FEATURES,
    BatchPlan,
    Pictures,
    prepare,
)
from labcode.experiments.shared.common import nvtx_range, synchronize

if TYPE_CHECKING:
    import torch


@dataclass
class Batch:
    """A batch on the device: inputs [batch, features], label shares [batch, classes], its slot."""

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


class InTurn:
    """Prepares each batch when the loop asks for it, in ordinary memory, and copies it with ``Tensor.to``."""

    def __init__(
        self, torch: Any, pictures: Pictures, plan: BatchPlan, device: torch.device, *, wait: bool
    ) -> None:
        self._torch, self._pictures, self._plan, self._device, self._wait = (
            torch,
            pictures,
            plan,
            device,
            wait,
        )

    def get(self, step: int) -> Batch:
        """Prepare, then copy; both on the loop's own thread."""
        with nvtx_range("load batch", self._device):
            inputs = np.empty((self._plan.batch, CHANNELS, CROPPED, CROPPED), np.float32)
            targets = np.empty((self._plan.batch, CLASSES), np.float32)
            prepare(self._pictures, self._plan, step, inputs, targets)
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
    """One place of the ring: pinned buffers, their copies on the device, and when each may be reused."""

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
    """Prepares batches on background threads in pinned buffers and copies them on a stream of its own.

    The batch of step k lies in slot k mod S of a ring. Threads take slots in the order of the steps, and may
    finish in any order; more threads than slots would have nothing to fill. A thread waits
    (on the host) until the loop has launched step k − S; the copy waits (on the GPU) until that step has run.
    The loop never waits on the host for a copy: its stream does, for the slot's event.
    """

    def __init__(
        self,
        torch: Any,
        pictures: Pictures,
        plan: BatchPlan,
        device: torch.device,
        last: int,
        *,
        workers: int,
        slots: int,
    ) -> None:
        if workers > slots:
            raise LabError(
                f"{workers} loading threads need as many buffers and there are {slots}; raise --slots"
            )
        self._torch, self._pictures, self._plan, self._device, self._last = (
            torch,
            pictures,
            plan,
            device,
            last,
        )
        self._cuda = device.type == "cuda"
        self._stream: Any = torch.cuda.Stream(device) if self._cuda else None
        self._slots = [self._make_slot() for _ in range(slots)]
        self._next = 0
        self._lock = threading.Lock()
        self._stop = False
        self._failure: BaseException | None = None
        self._threads = [
            threading.Thread(target=self._work, name=f"loader {i}", daemon=True) for i in range(workers)
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
        torch, batch = self._torch, self._plan.batch
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
                self._torch.cuda.set_device(0)
            while True:
                with self._lock:  # waited for inside, so that slots are taken in the order of the steps
                    step = self._next
                    if self._stop or step >= self._last:
                        return
                    slot = self._slots[step % len(self._slots)]
                    slot.free.acquire()
                    if self._stop:
                        return
                    self._next += 1
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
            prepare(self._pictures, self._plan, step, inputs, slot.host_targets.numpy())
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
