"""Buckets of gradients summed by NCCL: by its ring, by kernels on registered memory, or by its copy engines.

NCCL does more with memory that all ranks have registered as a window at the same place (from 2.27 on): an
all-reduce there is a kernel that reads and writes the others' memory, without staging. Collectives that add
nothing up are then done by copy engines, on a communicator whose policy is to take no multiprocessors
(``NCCL_CTA_POLICY_ZERO``, from 2.28 on). An all-reduce is none of these, so `Gathered` gathers the gradients
of all ranks and adds them up here; on two GPUs that moves as many bytes as a ring does, on more of them more.
Multicast stays off.
"""

from __future__ import annotations

import os
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

from labcode.errors import ToolError
from labcode.experiments.nsys.multi_gpu.data_parallel import Member
from labcode.experiments.scaling.group import all_gather
from labcode.experiments.scaling.hiding.exchanges import Bucket, Exchange

_LIMIT = timedelta(seconds=60)  # of a collective: what does not work should end soon
_MULTICAST_OFF = "TORCH_SYMM_MEM_DISABLE_MULTICAST"


class ByNCCL(Exchange):
    """An all-reduce a bucket, on whatever memory its gradients have."""

    members: Any = None  # the group: the default one

    def __init__(self, member: Member, parameters: list[Any], bucket_bytes: float) -> None:
        super().__init__(member, parameters, bucket_bytes, shared_by=1)

    def launch(self, bucket: Bucket) -> None:
        """Start the all-reduce."""
        bucket.sums = self._packed(bucket)
        bucket.done = self._torch.distributed.all_reduce(bucket.sums, group=self.members, async_op=True)

    def _wait(self, buckets: list[Bucket], behind: int) -> None:
        """For each of them."""
        for bucket in buckets:
            bucket.done.wait()


class OnWindow(ByNCCL):
    """An all-reduce a bucket, in memory that all ranks have registered."""

    def __init__(self, member: Member, parameters: list[Any], bucket_bytes: float, windows: Windows) -> None:
        super().__init__(member, parameters, bucket_bytes)
        self.members, self._memory = windows.open(self._elements)

    def launch(self, bucket: Bucket) -> None:
        """Copy the gradients into the window, start the all-reduce."""
        count = sum(parameter.numel() for parameter in bucket.parameters)
        bucket.sums = self._packed(bucket, self._memory[bucket.offset : bucket.offset + count])
        bucket.done = self._torch.distributed.all_reduce(bucket.sums, group=self.members, async_op=True)


class Gathered(ByNCCL):
    """An all-gather a bucket, by copy engines where NCCL has it so, and a sum on a stream beside."""

    def __init__(self, member: Member, parameters: list[Any], bucket_bytes: float, windows: Windows) -> None:
        super().__init__(member, parameters, bucket_bytes)
        self.members, self._memory = windows.open(member.world * self._elements, zero_ctas=True)
        self._all_sums = member.torch.zeros(self._elements, device=member.device)
        self._beside = member.torch.cuda.Stream(member.device, priority=-1) if member.cuda else None

    def launch(self, bucket: Bucket) -> None:
        """Copy the gradients into the window, start the all-gather, and the sum behind it."""
        world, count = self._member.world, sum(parameter.numel() for parameter in bucket.parameters)
        everyone = self._memory[world * bucket.offset : world * (bucket.offset + bucket.part)]
        parts = everyone.split(bucket.part)
        mine = parts[self._member.rank]
        self._packed(bucket, mine[:count])
        gather: Any = all_gather(self._torch)
        arrived = gather(everyone, mine, group=self.members, async_op=True)
        bucket.sums = self._all_sums[bucket.offset : bucket.offset + count]
        with self._torch.cuda.stream(self._beside) if self._beside else nullcontext():
            arrived.wait()
            own = parts[0][:count]
            for other in parts[1:]:
                own = self._torch.add(own, other[:count], out=bucket.sums)
        bucket.done = self._beside.record_event() if self._beside else None

    def _wait(self, buckets: list[Bucket], behind: int) -> None:
        """For the last sum, which comes behind the others."""
        if self._beside:
            self._torch.cuda.current_stream().wait_event(buckets[-1].done)


class Windows:
    """Memory that all ranks have registered with NCCL, and the groups whose collectives know it.

    Both are made once and kept: a window belongs to its communicator.
    """

    def __init__(self, member: Member) -> None:
        self._member = member
        self._groups: dict[bool, Any] = {}
        self._kept: dict[tuple[bool, int], Any] = {}

    def open(self, elements: int, *, zero_ctas: bool = False) -> tuple[Any, Any]:
        """A group, by its policy, and [elements] fp32; without GPUs the default group and plain memory."""
        if not self._member.cuda:
            return None, self._member.torch.zeros(elements)
        if zero_ctas not in self._groups:
            self._groups[zero_ctas] = _members(self._member, zero_ctas=zero_ctas)
        members, key = self._groups[zero_ctas], (zero_ctas, elements)
        if key not in self._kept:
            self._kept[key] = _window(self._member, members, elements)
        return members, self._kept[key]


def _members(member: Member, *, zero_ctas: bool) -> Any:
    """A group of all ranks with a communicator of its own."""
    nccl = member.torch.distributed.ProcessGroupNCCL
    options = nccl.Options()
    options.is_high_priority_stream = True
    if zero_ctas:
        if not hasattr(nccl, "NCCL_CTA_POLICY_ZERO"):
            raise ToolError("this PyTorch does not know NCCL's policy of taking no multiprocessors (2.28)")
        options.config.cta_policy = nccl.NCCL_CTA_POLICY_ZERO
    members = member.torch.distributed.new_group(pg_options=options, timeout=_LIMIT)
    # opens the communicator, which registering needs
    member.torch.distributed.all_reduce(
        member.torch.ones(1, device=member.device), group=members, async_op=True
    ).wait()
    return members


def _window(member: Member, members: Any, elements: int) -> Any:
    """[elements] fp32 that every rank of the group has, registered with NCCL."""
    os.environ.setdefault(_MULTICAST_OFF, "1")
    from torch.distributed import _symmetric_memory as symmetric

    if symmetric.get_backend(member.device) != "NCCL":
        symmetric.set_backend("NCCL")
    memory = symmetric.empty(elements, dtype=member.torch.float32, device=member.device)
    memory.zero_()
    symmetric.rendezvous(memory, members.group_name)
    return memory
