"""Summing gradients over processes: a model in, a `Reduction` out: after or during the backward pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from labcode.workloads.common import nvtx_range

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

    def sizes(self) -> list[int]:
        """The elements of each all-reduce of a step, in the order they start."""


def make_reduction(
    torch: Any, variant: str, model: Any, bucket_bytes: float, device: torch.device
) -> Reduction:
    """The reduction of a variant: ``baseline`` after the backward pass, ``improved`` during it."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if variant == "baseline":
        return AfterBackward(torch, parameters, device)
    return DuringBackward(torch, parameters, bucket_bytes, device)


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

    def sizes(self) -> list[int]:
        """One a parameter."""
        return [parameter.numel() for parameter in self._parameters]


@dataclass
class Bucket:
    """Gradients that travel together: a flat tensor, its views, and how many the backward pass still owes."""

    flat: torch.Tensor
    views: list[tuple[Any, torch.Tensor]]
    missing: int = 0


def split(sizes: list[int], limit: float) -> list[list[int]]:
    """Group the indices of ``sizes`` (bytes), in order, into buckets of at least ``limit`` bytes."""
    groups: list[list[int]] = [[]]
    filled = 0
    for index, size in enumerate(sizes):
        if groups[-1] and filled >= limit:
            groups.append([])
            filled = 0
        groups[-1].append(index)
        filled += size
    return groups


class DuringBackward:
    """Buckets of gradients, each reduced as soon as it is complete, while the backward pass goes on.

    The backward pass reaches the last layer's parameters first, so the buckets are filled in reverse order.
    Each parameter's ``grad`` is a view into its bucket: autograd adds to it in place, nothing is copied in or
    out. All processes must start their all-reduces in one order, so a bucket waits for the ones before.
    """

    def __init__(self, torch: Any, parameters: list[Any], bucket_bytes: float, device: torch.device) -> None:
        self._torch, self._device, self._active = torch, device, True
        self._works: list[Any] = []
        self._started = 0
        backwards = parameters[::-1]
        groups = split([p.numel() * p.element_size() for p in backwards], bucket_bytes)
        self._buckets = [self._make_bucket([backwards[i] for i in group]) for group in groups]
        for bucket in self._buckets:
            for parameter, _ in bucket.views:
                parameter.register_post_accumulate_grad_hook(lambda _, bucket=bucket: self._arrived(bucket))

    def prepare(self) -> None:
        """Clear the buckets and let each parameter's gradient be its place in one."""
        self._works, self._started = [], 0
        for bucket in self._buckets:
            bucket.flat.zero_()
            bucket.missing = len(bucket.views)
            for parameter, view in bucket.views:
                parameter.grad = view

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

    def sizes(self) -> list[int]:
        """One a bucket."""
        return [bucket.flat.numel() for bucket in self._buckets]

    def _make_bucket(self, parameters: list[Any]) -> Bucket:
        first = parameters[0]
        flat = self._torch.zeros(sum(p.numel() for p in parameters), dtype=first.dtype, device=first.device)
        views, start = [], 0
        for parameter in parameters:
            views.append((parameter, flat[start : start + parameter.numel()].view_as(parameter)))
            start += parameter.numel()
        return Bucket(flat, views)

    def _arrived(self, bucket: Bucket) -> None:
        """A gradient is complete; start the reductions of the buckets that now are."""
        bucket.missing -= 1
        if not self._active:
            return
        while self._started < len(self._buckets) and self._buckets[self._started].missing == 0:
            with nvtx_range("launch all-reduce", self._device):
                flat = self._buckets[self._started].flat
                self._works.append(self._torch.distributed.all_reduce(flat, async_op=True))
            self._started += 1
