"""Ways to train one model on several GPUs: a model in; losses, summed gradients and updated parameters out.

Every process has its own part of the batch, and its loss is its share of the mean over all. Strategies:

- ``single``: nothing is exchanged; what one GPU alone does;
- ``naive``: after the backward pass, one all-reduce a parameter;
- ``flat``: after it, all gradients copied into one tensor and reduced in one call;
- ``overlapped``: each gradient reduced as soon as the backward pass has made it;
- ``bucketed``: small gradients gathered into buckets first, each reduced when it is full;
- ``ddp``: `torch.nn.parallel.DistributedDataParallel`, which does the same;
- ``fsdp2``: `torch.distributed.fsdp.fully_shard`: parameters, gradients and moments in parts, gathered when
  used;
- ``zero``: parameters whole; gradients reduce-scattered, AdamW on a part, parameters all-gathered (a ZeRO of
  stage 1: Rajbhandari and others, *ZeRO*, 2020).
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

from labcode.experiments.nsys.multi_gpu.data_parallel import Member
from labcode.experiments.nsys.multi_gpu.gradients import AfterBackward, DuringBackward, Reduction
from labcode.experiments.scaling.group import all_gather, reduce_scatter
from labcode.experiments.shared.common import nvtx_range

STRATEGIES = ("naive", "flat", "overlapped", "bucketed", "ddp", "fsdp2", "zero")
SINGLE = "single"
LEARNING_RATE = 3e-4
MIB = 2**20


class Strategy(Protocol):
    """How gradients are summed and parameters updated. Everything is done by all ranks at once."""

    model: Any  # what the forward pass calls

    def backward(self, loss: Any) -> None:
        """Clear the gradients and make new ones; the current stream sees their sums afterwards."""

    def update(self) -> None:
        """AdamW's step: every rank then has what the next forward pass needs."""

    def gradients(self) -> list[Any]:
        """The summed gradients, whole, in the order of the model's parameters."""

    def paused(self) -> AbstractContextManager[Any] | None:
        """A block in which nothing is exchanged; None where the strategy cannot do without."""

    def calls(self) -> list[int]:
        """Elements of each all-reduce of a step, in their order; empty where other collectives are used."""


def make(name: str, member: Member, model: Any, bucket_mib: float) -> Strategy:
    """The strategy of this name for a model that is the same on every rank."""
    if name == "ddp":
        return Wrapped(member, model, bucket_mib)
    if name == "fsdp2":
        return FullySharded(member, model)
    if name == "zero":
        return ShardedOptimizer(member, model)
    return Reduced(member, model, _reduction(name, member, list(model.parameters()), bucket_mib))


def _reduction(name: str, member: Member, parameters: list[Any], bucket_mib: float) -> Reduction:
    if name in ("overlapped", "bucketed"):
        limit = MIB * bucket_mib if name == "bucketed" else 0.0  # of nothing: each gradient travels alone
        return DuringBackward(member.torch, parameters, limit, member.device)
    kinds = {SINGLE: Nothing, "naive": AfterBackward, "flat": InOneCall}
    return kinds[name](member.torch, parameters, member.device)


def adamw(member: Member, parameters: Any) -> Any:
    """The optimizer of every strategy; on a GPU one kernel for many parameters."""
    return member.torch.optim.AdamW(parameters, lr=LEARNING_RATE, fused=member.cuda)


class Nothing(AfterBackward):
    """Reduces nothing."""

    def finish(self) -> None:
        """Leave the gradients as they are."""

    def sizes(self) -> list[int]:
        """No all-reduce."""
        return []


class InOneCall(AfterBackward):
    """All gradients in one all-reduce, after the backward pass: a copy into one tensor, and views of it."""

    def finish(self) -> None:
        """Pack, reduce, and let each parameter's ``grad`` be a view of the sums."""
        if not self._active:
            return
        flat = self._torch.cat([p.grad.flatten() for p in self._parameters])
        self._torch.distributed.all_reduce(flat)
        parts = flat.split([p.numel() for p in self._parameters])
        for parameter, part in zip(self._parameters, parts, strict=True):
            parameter.grad = part.view_as(parameter)

    def sizes(self) -> list[int]:
        """All at once."""
        return [sum(super().sizes())]


class Reduced:
    """The model whole on every rank; gradients summed by a `Reduction`."""

    def __init__(self, member: Member, model: Any, reduction: Reduction) -> None:
        self.member, self.model, self.reduction = member, model, reduction
        self.parameters = list(model.parameters())
        self.optimizer = adamw(member, self.parameters)

    def backward(self, loss: Any) -> None:
        """Gradients, summed when and how the reduction does it."""
        with nvtx_range("backward", self.member.device):
            self.reduction.prepare()
            # On this thread, so that the range covers what is launched here, reductions from hooks included.
            with self.member.torch.autograd.set_multithreading_enabled(False):
                loss.backward()
        with nvtx_range("all-reduce", self.member.device):
            self.reduction.finish()

    def update(self) -> None:
        """The same step on every rank."""
        self.optimizer.step()

    def gradients(self) -> list[Any]:
        """They are whole on every rank."""
        return [parameter.grad for parameter in self.parameters]

    def paused(self) -> AbstractContextManager[Any] | None:
        """The reduction's."""
        return self.reduction.paused()

    def calls(self) -> list[int]:
        """The reduction's."""
        return self.reduction.sizes()


class Wrapped(Reduced):
    """By PyTorch's DistributedDataParallel, which averages: the loss counts whole."""

    def __init__(self, member: Member, model: Any, bucket_mib: float) -> None:
        super().__init__(member, model, Nothing(member.torch, list(model.parameters()), member.device))
        wrap = member.torch.nn.parallel.DistributedDataParallel
        self.model = wrap(model, bucket_cap_mb=bucket_mib, gradient_as_bucket_view=True)

    def backward(self, loss: Any) -> None:
        """DistributedDataParallel reduces from hooks of its own."""
        super().backward(loss * self.member.world)

    def paused(self) -> AbstractContextManager[Any] | None:
        """DistributedDataParallel's own way."""
        return self.model.no_sync()  # type: ignore[no-any-return]


class FullySharded(Reduced):
    """By PyTorch's FSDP2: each block's parameters gathered before use and dropped after; averages as well."""

    def __init__(self, member: Member, model: Any) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh(member.device.type, (member.world,))
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        super().__init__(member, model, Nothing(member.torch, list(model.parameters()), member.device))

    def backward(self, loss: Any) -> None:
        """FSDP2 reduce-scatters from hooks of its own."""
        super().backward(loss * self.member.world)

    def gradients(self) -> list[Any]:
        """Gathered from all ranks."""
        return [parameter.grad.full_tensor() for parameter in self.parameters]

    def paused(self) -> AbstractContextManager[Any] | None:
        """Parameters must be gathered in any case."""
        return None


class ShardedOptimizer:
    """Parameters and gradients whole, in one tensor each; a rank updates its part and gathers the rest."""

    def __init__(self, member: Member, model: Any) -> None:
        torch = member.torch
        self.member, self.model = member, model
        self.parameters = list(model.parameters())
        self.counts = [parameter.numel() for parameter in self.parameters]
        part = -(-sum(self.counts) // member.world)
        self.values = torch.zeros(part * member.world, device=member.device)
        self.sums = torch.zeros_like(self.values)
        pieces = self.values.split([*self.counts, self.values.numel() - sum(self.counts)])
        with torch.no_grad():
            for parameter, piece in zip(self.parameters, pieces, strict=False):
                piece.copy_(parameter.flatten())
                parameter.data = piece.view_as(parameter)
        for parameter, grad in zip(self.parameters, self._whole(self.sums), strict=True):
            parameter.grad = grad
        mine = slice(member.rank * part, (member.rank + 1) * part)
        self.shard = torch.nn.Parameter(self.values[mine])
        self.shard.grad = torch.zeros_like(self.shard)
        self.optimizer = adamw(member, [self.shard])

    def _whole(self, flat: Any) -> list[Any]:
        """Views of a flat tensor in the shapes of the parameters."""
        parts = flat[: sum(self.counts)].split(self.counts)
        return [part.view_as(parameter) for part, parameter in zip(parts, self.parameters, strict=True)]

    def backward(self, loss: Any) -> None:
        """Gradients into the flat tensor; each rank gets the sums of its part."""
        with nvtx_range("backward", self.member.device):
            self.sums.zero_()
            with self.member.torch.autograd.set_multithreading_enabled(False):
                loss.backward()
        with nvtx_range("reduce-scatter", self.member.device):
            reduce_scatter(self.member.torch)(self.shard.grad, self.sums)

    def update(self) -> None:
        """AdamW on this rank's part; then every rank gets all parts."""
        self.optimizer.step()
        with nvtx_range("all-gather", self.member.device):
            all_gather(self.member.torch)(self.values, self.shard.detach())

    def gradients(self) -> list[Any]:
        """Gathered from all ranks."""
        sums = self.member.torch.empty_like(self.values)
        all_gather(self.member.torch)(sums, self.shard.grad)
        return self._whole(sums)

    def paused(self) -> AbstractContextManager[Any] | None:
        """Parts must be gathered in any case."""
        return None

    def calls(self) -> list[int]:
        """A reduce-scatter and an all-gather: no all-reduce."""
        return []
