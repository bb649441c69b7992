"""Summing gradients over processes: a model in, a `Reduction` out: after or during the backward pass."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from labcode.experiments.shared.common import nvtx_range

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import torch


class Reduction(Protocol):
    """How the gradients of all processes become their sum."""

    def prepare(self) -> None:
        """Before a backward pass: clear the gradients."""

    def finish(self) -> None:
        """After it: return when the current stream sees the sums in each parameter's ``grad``."""

    def paused(self) -> AbstractContextManager[None]:
        """A block in which nothing is reduced."""

    def beside(self) -> AbstractContextManager[None]:
        """The block that the backward pass runs in."""

    def sizes(self) -> list[int]:
        """The elements of each all-reduce of a step, in the order they start."""


def make_reduction(
    torch: Any, variant: str, model: Any, bucket_bytes: float, device: torch.device, reserved_sms: int = 0
) -> Reduction:
    """The reduction of a variant: ``baseline`` after the backward pass, ``improved`` during it."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if variant == "baseline":
        return AfterBackward(torch, parameters, device)
    return DuringBackward(torch, parameters, bucket_bytes, device, reserved_sms)


class AfterBackward:
    """One all-reduce a parameter, all started when the backward pass has been launched."""

    def __init__(self, torch: Any, parameters: list[Any], device: torch.device) -> None:
        self._torch, self._parameters, self._device, self._active = torch, parameters, device, True

    def prepare(self) -> None:
        """Drop the gradients: the backward pass makes new ones."""
        for parameter in self._parameters:
            parameter.grad = None

    def finish(self) -> None:
        """Start them all, then wait for them all (on a GPU the stream waits, not the host)."""
        if not self._active:
            return
        with nvtx_range("launch", self._device):
            works = [self._torch.distributed.all_reduce(p.grad, async_op=True) for p in self._parameters]
        with nvtx_range("wait", self._device):
            for work in works:
                work.wait()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Reduce nothing inside."""
        self._active = False
        try:
            yield
        finally:
            self._active = True

    def beside(self) -> AbstractContextManager[None]:
        """Nothing runs beside the backward pass."""
        return nullcontext()

    def sizes(self) -> list[int]:
        """One a parameter."""
        return [parameter.numel() for parameter in self._parameters]


def plan_buckets(sizes: Sequence[float], limit: float) -> list[list[int]]:
    """Group the indices of ``sizes`` (bytes, in the order the gradients arrive) into buckets.

    What reaches the limit alone travels alone; smaller ones are gathered until they reach it together.
    Buckets are in the order in which their last member arrives.
    """
    buckets = [[index] for index, size in enumerate(sizes) if size >= limit]
    small: list[int] = []
    filled = 0.0
    for index, size in enumerate(sizes):
        if size >= limit:
            continue
        small.append(index)
        filled += size
        if filled >= limit:
            buckets.append(small)
            small, filled = [], 0.0
    return sorted([*buckets, small] if small else buckets, key=lambda bucket: bucket[-1])


@dataclass
class Bucket:
    """Gradients that travel together, and how many of them the backward pass still owes.

    A bucket of several has a flat tensor, and views of it in the shapes of its parameters.
    """

    parameters: list[Any]
    flat: torch.Tensor | None = None
    views: list[torch.Tensor] = field(default_factory=list)
    missing: int = 0


class DuringBackward:
    """Buckets of gradients, each reduced as soon as it is complete, while the backward pass goes on.

    A gradient as large as a bucket is reduced where autograd has put it. Small ones are packed into a flat
    tensor first (one copy) and stay there: each parameter's ``grad`` becomes a view. The backward pass
    reaches the last layer first, so buckets are planned in reverse order. All processes must start their
    all-reduces in one order, so a bucket waits for the ones before.

    Reductions take multiprocessors, and a product that was launched for all of them then needs a second round
    for the few blocks that found no place. ``reserved_sms`` keeps that many out of the backward products.
    """

    def __init__(
        self,
        torch: Any,
        parameters: list[Any],
        bucket_bytes: float,
        device: torch.device,
        reserved_sms: int = 0,
    ) -> None:
        self._torch, self._device, self._reserved, self._active = torch, device, reserved_sms, True
        self._works: list[Any] = []
        self._started = 0
        backwards = parameters[::-1]
        plan = plan_buckets([p.numel() * p.element_size() for p in backwards], bucket_bytes)
        self._buckets = [self._make_bucket([backwards[i] for i in indices]) for indices in plan]
        for bucket in self._buckets:
            for parameter in bucket.parameters:
                parameter.register_post_accumulate_grad_hook(lambda _, bucket=bucket: self._arrived(bucket))

    def prepare(self) -> None:
        """Drop the gradients: the backward pass makes new ones."""
        self._works, self._started = [], 0
        for bucket in self._buckets:
            bucket.missing = len(bucket.parameters)
            for parameter in bucket.parameters:
                parameter.grad = None

    def finish(self) -> None:
        """Wait for the reductions; the last of them may still be on its way when the backward pass ends."""
        with nvtx_range("wait", self._device):
            for work in self._works:
                work.wait()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Reduce nothing inside."""
        self._active = False
        try:
            yield
        finally:
            self._active = True

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Keep the reserved multiprocessors out of the matmuls launched inside."""
        if not self._active or not self._reserved:
            yield
            return
        # PyTorch has no public setting for it; this one reaches cuBLASLt's SM count target.
        set_carveout = self._torch._C._set_sm_carveout_experimental
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            set_carveout(self._reserved)
        try:
            yield
        finally:
            set_carveout(None)

    def sizes(self) -> list[int]:
        """One a bucket."""
        return [sum(p.numel() for p in bucket.parameters) for bucket in self._buckets]

    def _make_bucket(self, parameters: list[Any]) -> Bucket:
        if len(parameters) == 1:
            return Bucket(parameters)
        counts = [p.numel() for p in parameters]
        flat = self._torch.empty(sum(counts), dtype=parameters[0].dtype, device=parameters[0].device)
        parts = flat.split(counts)
        return Bucket(parameters, flat, [part.view_as(p) for part, p in zip(parts, parameters, strict=True)])

    def _arrived(self, bucket: Bucket) -> None:
        """A gradient is complete; start the reductions of the buckets that now are."""
        bucket.missing -= 1
        if not self._active:
            return
        while self._started < len(self._buckets) and self._buckets[self._started].missing == 0:
            with nvtx_range("launch all-reduce", self._device):
                gradients = self._packed(self._buckets[self._started])
                self._works.append(self._torch.distributed.all_reduce(gradients, async_op=True))
            self._started += 1

    def _packed(self, bucket: Bucket) -> Any:
        """The gradients of a complete bucket as one tensor."""
        if bucket.flat is None:
            return bucket.parameters[0].grad
        self._torch.cat([p.grad.flatten() for p in bucket.parameters], out=bucket.flat)
        for parameter, view in zip(bucket.parameters, bucket.views, strict=True):
            parameter.grad = view
        return bucket.flat
