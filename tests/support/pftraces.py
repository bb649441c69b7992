"""Traces of Perfetto as others write them: packets put together field by field, bytes out."""

import struct
import zlib
from typing import Any

CLEARED, NEEDED = 1, 2
BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    made.append(value)
    return bytes(made)


def field(number: int, value: int | bytes | str | float) -> bytes:
    """A varint, a text or message, or a double, by what the value is."""
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    content = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(content)) + content


def fixed(number: int, value: int) -> bytes:
    return varint(number << 3 | 1) + struct.pack("<Q", value)


def message(*fields: tuple[int, Any]) -> bytes:
    return b"".join(field(number, value) for number, value in fields)


def trace(*packets: bytes) -> bytes:
    return b"".join(field(1, packet) for packet in packets)


def packed(*packets: bytes) -> bytes:
    """A packet that holds others."""
    return field(50, zlib.compress(trace(*packets)))


def thread(uuid: int, pid: int, tid: int, name: str) -> bytes:
    return message((60, message((1, uuid), (4, message((1, pid), (2, tid), (5, name))))))


def track(uuid: int, name: str, parent: int = 0) -> bytes:
    return message((60, message((1, uuid), (2, name), (5, parent))))


def event(
    at: int, kind: int, uuid: int, name: str = "", category: str = "", *arguments: tuple[str, Any],
    starts: int = 0, ends: int = 0, more: bytes = b"", sequence: int = 1,
) -> bytes:  # fmt: skip
    """A packet with an event whose texts stand in it."""
    content = message((9, kind), (11, uuid))
    if name:
        content += field(23, name)
    if category:
        content += field(22, category)
    for key, value in arguments:
        number = 6 if isinstance(value, str) else 5 if isinstance(value, float) else 4
        content += field(4, message((10, key), (number, value)))
    content += (fixed(47, starts) if starts else b"") + (fixed(48, ends) if ends else b"")
    return message((8, at), (10, sequence)) + field(11, content) + more


def rocprof() -> bytes:
    """What tools of other vendors write: threads, queues of GPUs, names in place, arrows, no correlations."""
    return trace(
        thread(10, 77, 78, "worker"),
        track(20, "AGENT [2] QUEUE [1] (GPU)"),
        track(21, "COPY to AGENT [2] THREAD [0]"),
        event(1000, BEGIN, 10, "hipLaunchKernel", "hip_api", starts=5),
        event(1500, END, 10),
        event(2000, BEGIN, 20, "add(float*)", "kernel_dispatch", ("grid_size", 64), ends=5),
        event(5000, END, 20),
        event(1600, BEGIN, 10, "hipMemcpyAsync", "hip_api", starts=6),
        event(1700, END, 10),
        event(6000, BEGIN, 21, "MEMORY_COPY_HOST_TO_DEVICE", "memory_copy", ("bytes", 4096), ends=6),
        event(7000, END, 21),
        event(900, BEGIN, 10, "step 1", "my category"),
        event(8000, END, 10),
    )
