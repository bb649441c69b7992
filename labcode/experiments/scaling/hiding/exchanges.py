"""Gradients summed while the backward pass goes on, whatever moves them: buckets in; views of their sums out.

An `Exchange` starts a bucket as soon as it is complete; `Hidden` is the training strategy on top, whose
AdamW either waits for all sums or takes its step in two parts, so that the last buckets travel meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from labcode.errors import InputError
from labcode.experiments.nsys.multi_gpu.data_parallel import Member
from labcode.experiments.nsys.multi_gpu.gradients import plan_buckets
from labcode.experiments.scaling.training.strategies import adamw
from labcode.experiments.shared.common import nvtx_range, synchronize
from labcode.timing import quantile

LATE = 2  # buckets that arrive last: where the optimizer's step is split, that on all others hides them
_ALIGNED = 64  # elements: parts start on 256 bytes


@dataclass(eq=False)
class Bucket:
    """Gradients that travel together.

    Each of those who share the sums has a part of so many elements; ``offset``: elements of all parts before.
    """

    parameters: list[Any]
    offset: int
    part: int
    missing: int = 0
    done: Any = None  # where its sums are here
    sums: Any = None


class Exchange:
    """Buckets of gradients, each summed over the ranks as soon as it is complete."""

    def __init__(self, member: Member, parameters: list[Any], bucket_bytes: float, *, shared_by: int) -> None:
        self._member, self._torch, self._active = member, member.torch, True
        backwards = parameters[::-1]
        self.buckets: list[Bucket] = []
        self._elements = self._started = 0
        for indices in plan_buckets([p.numel() * p.element_size() for p in backwards], bucket_bytes):
            chosen = [backwards[i] for i in indices]
            part = -(-sum(p.numel() for p in chosen) // (shared_by * _ALIGNED)) * _ALIGNED
            self.buckets.append(Bucket(chosen, self._elements, part))
            self._elements += part
        if len(self.buckets) <= LATE:
            raise InputError(
                f"{len(self.buckets)} buckets of {bucket_bytes / 2**20:g} MiB: "
                f"at least {LATE + 1} are needed; make them smaller"
            )
        for bucket in self.buckets:
            for parameter in bucket.parameters:
                parameter.register_post_accumulate_grad_hook(lambda _, bucket=bucket: self._arrived(bucket))

    def launch(self, bucket: Bucket) -> None:
        """Put a complete bucket on its way."""
        raise NotImplementedError

    def _wait(self, buckets: list[Bucket], behind: int) -> None:
        """The current stream goes on when the sums of these are here, behind which so many more were sent."""
        raise NotImplementedError

    def _sums(self, bucket: Bucket) -> Any:
        """The sums of a bucket's gradients, one behind the other."""
        return bucket.sums

    def close(self) -> None:
        """Let go of what belongs to others; all ranks at once."""

    def prepare(self) -> None:
        """Drop the gradients: the backward pass makes new ones."""
        self._started = 0
        for bucket in self.buckets:
            bucket.missing, bucket.sums = len(bucket.parameters), None
            for parameter in bucket.parameters:
                parameter.grad = None

    def finish(self, *, late: bool) -> None:
        """Wait for all buckets but the last, or for those, and let ``grad`` be views of the sums."""
        if not self._active:
            return
        there = self.buckets[-LATE:] if late else self.buckets[:-LATE]
        with nvtx_range("wait", self._member.device):
            self._wait(there, 0 if late else LATE)
        for bucket in there:
            sums, place = self._sums(bucket), 0
            for parameter in bucket.parameters:
                parameter.grad = sums[place : place + parameter.numel()].view_as(parameter)
                place += parameter.numel()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Exchange nothing inside."""
        self._active = False
        try:
            yield
        finally:
            self._active = True

    def sizes(self) -> list[int]:
        """Elements of each bucket."""
        return [sum(p.numel() for p in bucket.parameters) for bucket in self.buckets]

    def alone_ms(self, repetitions: int = 5) -> float:
        """Milliseconds for all buckets, nothing else running; the median. Gradients must be there."""
        times = []
        for _ in range(repetitions + 2):
            self._member.meet()
            began = time.perf_counter()
            for bucket in self.buckets:
                self.launch(bucket)
            self._wait(self.buckets, 0)
            synchronize(self._member.device)
            times.append(1e3 * (time.perf_counter() - began))
        return quantile(times[2:], 0.5)

    def _arrived(self, bucket: Bucket) -> None:
        """A gradient is complete; start the buckets that now are, in their order on all ranks."""
        bucket.missing -= 1
        while self._active and self._started < len(self.buckets) and not self.buckets[self._started].missing:
            with nvtx_range("launch exchange", self._member.device):
                self.launch(self.buckets[self._started])
            self._started += 1

    def _packed(self, bucket: Bucket, room: Any = None) -> Any:
        """A bucket's gradients one behind the other: in a tensor of that length, or wherever one lies."""
        grads = [parameter.grad.flatten() for parameter in bucket.parameters]
        if room is not None:
            return self._torch.cat(grads, out=room)
        return grads[0] if len(grads) == 1 else self._torch.cat(grads)


class Hidden:
    """A `Strategy`: the model whole on every rank, gradients summed by an exchange.

    With ``split``, AdamW's step on the gradients that are there hides the last ones' way.
    """

    def __init__(self, member: Member, model: Any, exchange: Exchange, *, split: bool) -> None:
        self.member, self.model, self.exchange = member, model, exchange
        self.parameters = list(model.parameters())
        buckets = exchange.buckets
        together = [buckets[:-LATE], buckets[-LATE:]] if split else [buckets]
        self._optimizers = [
            adamw(member, [parameter for bucket in some for parameter in bucket.parameters])
            for some in together
        ]

    def backward(self, loss: Any) -> None:
        """Gradients, put on their way by hooks."""
        with nvtx_range("backward", self.member.device):
            self.exchange.prepare()
            with self.member.torch.autograd.set_multithreading_enabled(False):
                loss.backward()

    def update(self) -> None:
        """In one part or two."""
        self.exchange.finish(late=False)
        for optimizer in self._optimizers[:-1]:
            optimizer.step()
        self.exchange.finish(late=True)
        self._optimizers[-1].step()

    def gradients(self) -> list[Any]:
        """They are whole on every rank."""
        return [parameter.grad for parameter in self.parameters]

    def paused(self) -> AbstractContextManager[Any]:
        """The exchange's."""
        return self.exchange.paused()

    def calls(self) -> list[int]:
        """The exchange's."""
        return self.exchange.sizes()
