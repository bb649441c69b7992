"""All-reduces by the GPUs' copy engines: gradients in; their sums out, while no multiprocessor is taken.

NCCL's kernels take multiprocessors from the backward pass that they run beside, and a matmul that counted on
all of them takes about twice as long as long as they run. Copy engines move data without any. What they
cannot do is add, so each rank adds up one part of every bucket, in a kernel of microseconds:

1. ``out``: every rank writes its gradients of a part into the memory of the rank that adds that part up;
2. that rank adds, when all have arrived;
3. ``back``: and writes the sums into the memory of all others.

Each of the two lanes is a stream. A rank that has written says so by a number in the others' memory, for
which their streams wait; no kernel spins. All ranks are processes of one host whose GPUs reach each other.
"""

from __future__ import annotations

import ctypes
from contextlib import AbstractContextManager
from typing import Any, Protocol

from labcode.errors import LabError
from labcode.experiments.nsys.multi_gpu.data_parallel import Member
from labcode.experiments.scaling.hiding.exchanges import Bucket, Exchange

OUT, BACK, HOME = "out", "back", "home"  # home: where a rank waits for what others bring back
_LANES = (OUT, BACK)
_ENABLE_PEERS, _AT_LEAST = 1, 0  # CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, CU_STREAM_WAIT_VALUE_GEQ


class Transport(Protocol):
    """Memory that other ranks write into, and two lanes that write into theirs."""

    memory: Any  # [elements], fp32

    def follow(self, lane: str) -> None:
        """The lane goes on when what the current stream has so far is done."""

    def copy(self, lane: str, rank: int, place: int, values: Any) -> None:
        """Write a tensor into another rank's memory, from an element on."""

    def signal(self, lane: str, number: int) -> None:
        """Tell all others that what the lane had so far is written."""

    def wait(self, lane: str, number: int, on: str) -> None:
        """Stream ``on`` goes on when all others have told this number or more in a lane."""

    def within(self, lane: str) -> AbstractContextManager[Any]:
        """A block whose kernels go to the lane."""

    def mark(self, on: str) -> Any:
        """A point in a stream."""

    def join(self, mark: Any) -> None:
        """The current stream goes on when that stream has come to this point."""

    def close(self) -> None:
        """Give back what belongs to others."""


class _Handle(ctypes.Structure):
    """CUipcMemHandle: an allocation of one process, for others of the same host."""

    _fields_ = (("words", ctypes.c_ubyte * 64),)


class CopyEngines:
    """The transport of GPUs, by the driver's own functions."""

    def __init__(self, member: Member, elements: int) -> None:
        torch = member.torch
        self._torch, self._member = torch, member
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._others = [rank for rank in range(member.world) if rank != member.rank]
        # behind the elements: for each lane what each rank told, then what this rank tells
        self._flags = 4 * elements
        self.memory = torch.zeros(elements + len(_LANES) * (member.world + 1), device=member.device)
        self._base = self.memory.data_ptr()
        self._streams = {on: torch.cuda.Stream(member.device, priority=-1) for on in (OUT, BACK, HOME)}
        start, size = ctypes.c_uint64(), ctypes.c_size_t()
        self._call("cuMemGetAddressRange_v2", *map(ctypes.byref, (start, size)), ctypes.c_uint64(self._base))
        handle = _Handle()
        self._call("cuIpcGetMemHandle", ctypes.byref(handle), ctypes.c_uint64(self._base))
        mine = (bytes(handle.words), self._base - start.value)
        told: list[Any] = [None] * member.world
        torch.distributed.all_gather_object(told, mine)
        self._opened: list[ctypes.c_uint64] = []
        self._bases = {rank: self._open(*told[rank]) for rank in self._others}
        member.meet()

    def _open(self, words: bytes, offset: int) -> int:
        found = ctypes.c_uint64()
        handle = _Handle((ctypes.c_ubyte * 64).from_buffer_copy(words))
        self._call("cuIpcOpenMemHandle_v2", ctypes.byref(found), handle, ctypes.c_uint(_ENABLE_PEERS))
        self._opened.append(found)
        return found.value + offset

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._driver, name)(*arguments)
        if code != 0:
            raise LabError(f"copy engines: {name} failed (CUDA error {code}); do the GPUs reach each other?")

    def _stream(self, on: str) -> ctypes.c_void_p:
        return ctypes.c_void_p(self._streams[on].cuda_stream)

    def _flag(self, lane: str, rank: int) -> int:
        """Where a rank's memory has what this one told in a lane, in bytes from its start."""
        return self._flags + 4 * (_LANES.index(lane) * (self._member.world + 1) + rank)

    def _copy(self, lane: str, target: int, source: int, size: int) -> None:
        places = ctypes.c_uint64(target), ctypes.c_uint64(source)
        self._call("cuMemcpyDtoDAsync_v2", *places, ctypes.c_size_t(size), self._stream(lane))

    def follow(self, lane: str) -> None:
        """By an event."""
        self._streams[lane].wait_stream(self._torch.cuda.current_stream())

    def copy(self, lane: str, rank: int, place: int, values: Any) -> None:
        """By a copy engine: source and target are on different GPUs."""
        self._copy(lane, self._bases[rank] + 4 * place, values.data_ptr(), values.nbytes)

    def signal(self, lane: str, number: int) -> None:
        """The number is written here first, then copied as the data were, and in their order."""
        told = self._base + self._flag(lane, self._member.world)
        value, plain = ctypes.c_uint32(number), ctypes.c_uint(0)
        self._call("cuStreamWriteValue32_v2", self._stream(lane), ctypes.c_uint64(told), value, plain)
        for rank in self._others:
            self._copy(lane, self._bases[rank] + self._flag(lane, self._member.rank), told, 4)

    def wait(self, lane: str, number: int, on: str) -> None:
        """The stream waits, by itself: nothing runs meanwhile."""
        for rank in self._others:
            place = ctypes.c_uint64(self._base + self._flag(lane, rank))
            arguments = place, ctypes.c_uint32(number), ctypes.c_uint(_AT_LEAST)
            self._call("cuStreamWaitValue32_v2", self._stream(on), *arguments)

    def within(self, lane: str) -> AbstractContextManager[Any]:
        """The lane's stream as the current one."""
        return self._torch.cuda.stream(self._streams[lane])  # type: ignore[no-any-return]

    def mark(self, on: str) -> Any:
        """An event."""
        return self._streams[on].record_event()

    def join(self, mark: Any) -> None:
        """By the event."""
        self._torch.cuda.current_stream().wait_event(mark)

    def close(self) -> None:
        """Unmap the others' memory, before they free it."""
        self._member.meet()
        for opened in self._opened:
            self._call("cuIpcCloseMemHandle", opened)
        self._member.meet()


class ByCopyEngines(Exchange):
    """Buckets summed in parts, one a rank, by a transport; the sums stay in its memory."""

    def __init__(
        self, member: Member, parameters: list[Any], bucket_bytes: float, transport: Any = None
    ) -> None:
        super().__init__(member, parameters, bucket_bytes, shared_by=member.world)
        self._others = [rank for rank in range(member.world) if rank != member.rank]
        self._number = 0
        make = transport or CopyEngines
        self._transport: Transport = make(member, 2 * member.world * self._elements)
        self._kept: list[Any] = []  # what lanes still read

    def close(self) -> None:
        """Let go of the others' memory; all ranks at once."""
        self._transport.close()

    def launch(self, bucket: Bucket) -> None:
        """Put a complete bucket on its way: out, sum, back."""
        self.send(bucket)
        self.add(bucket)

    def send(self, bucket: Bucket) -> None:
        """Each other rank gets its part of this rank's gradients."""
        transport, mine = self._transport, self._member.rank
        flat = self._packed(bucket)
        self._kept.append(flat)
        self._pieces = flat.split(bucket.part)
        self._number += 1
        for lane in _LANES:
            transport.follow(lane)
        for rank in self._others:
            if rank < len(self._pieces):
                transport.copy(OUT, rank, self._place(bucket, mine), self._pieces[rank])
        transport.signal(OUT, self._number)

    def add(self, bucket: Bucket) -> None:
        """Sum this rank's part when all have arrived, and give the sums to all."""
        transport, mine = self._transport, self._member.rank
        transport.wait(OUT, self._number, on=BACK)
        if mine < len(self._pieces):
            own = self._pieces[mine]
            start = bucket.part * mine
            sums = self._sums(bucket)[start : start + own.numel()]
            with transport.within(BACK):
                for rank in self._others:
                    place = self._place(bucket, rank)
                    arrived = transport.memory[place : place + own.numel()]
                    own = self._torch.add(own, arrived, out=sums)
            for rank in self._others:
                transport.copy(BACK, rank, bucket.offset * self._member.world + start, sums)
        transport.signal(BACK, self._number)
        bucket.done = transport.mark(BACK)

    def _wait(self, buckets: list[Bucket], behind: int) -> None:
        """Until the sums of the last of these are here, behind which so many more were sent."""
        self._transport.wait(BACK, self._number - behind, on=HOME)
        self._transport.join(self._transport.mark(HOME))
        self._transport.join(buckets[-1].done)
        if not behind:  # the others have told that all is there: the lanes have read what they had to
            self._kept.clear()

    def _sums(self, bucket: Bucket) -> Any:
        """All parts of a bucket's sums, one behind the other."""
        world = self._member.world
        return self._transport.memory[bucket.offset * world :][: bucket.part * world]

    def _place(self, bucket: Bucket, rank: int) -> int:
        """Where a rank's gradients arrive in the memory of the rank that adds them up."""
        return self._elements * (self._member.world + rank) + bucket.offset
