"""The frame of an ``.ncu-rep`` file: bytes in, its blocks and their fields out, or one line on what is wrong.

NVIDIA's reader skips what it cannot parse without a word, so a truncated report looks like one with fewer
launches. This module walks the frame, which is plain protobuf (NVIDIA documents it in the folder
``extras/FileFormat`` of Nsight Compute): four bytes ``NVR\\0``, a length and a header with the format's
number, then blocks. A block is a length, a header (fields 1 and 2: how many sources and results follow; 3:
facts of the session; 5: bytes that follow; 6: the process), then each source and result after its length.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

MAGIC = b"NVR\0"
NEWEST_FORMAT = 7
SOURCES, RESULTS, SESSION, PAYLOAD, PROCESS = 1, 2, 3, 5, 6  # fields of a block's header
SYSTEM, RESOURCE, DEVICE, COMMAND, CLIENT = 4, 5, 6, 11, 8  # fields of a session
_TEXT = re.compile(rb"(?:[\x20-\x7e]\0?){4}")
_BINARY = re.compile(rb"[^\x09\x0a\x0d\x20-\x7e]")
Value = int | bytes
Field = tuple[int, int, Value]  # number, wire type, value


class WireError(ValueError):
    """Bytes that are not the protobuf they should be; the message says what, without the file's name."""


class FileBytes:
    """The bytes of an open file, read where they are asked for: ``len(data)`` and ``data[low:high]``."""

    def __init__(self, handle: BinaryIO) -> None:
        self._handle = handle
        self._size = os.fstat(handle.fileno()).st_size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, part: slice) -> bytes:
        low, high, _ = part.indices(self._size)
        self._handle.seek(low)
        return self._handle.read(max(high - low, 0))


Data = bytes | FileBytes


@dataclass(frozen=True)
class Block:
    """One block: where its header begins, the header's fields, and its sources' and results' spans."""

    offset: int
    header: tuple[Field, ...]
    sources: tuple[tuple[int, int], ...]
    results: tuple[tuple[int, int], ...]

    @property
    def process(self) -> tuple[int, str, str]:
        """Process id, host name and path of the program; zeros and empty texts where the report has none."""
        for number, _, value in self.header:
            if number == PROCESS and isinstance(value, bytes):
                inner = dict_of(value)
                return number_of(inner, 1), text_of(inner, 2), text_of(inner, 3)
        return 0, "", ""


def varint(data: bytes, place: int) -> tuple[int, int]:
    """An integer of variable length at ``place``, and where the next byte is."""
    result = shift = 0
    while True:
        if place >= len(data) or shift > 63:
            raise WireError("a number that does not end")
        byte = data[place]
        place += 1
        result |= (byte & 127) << shift
        if byte < 128:
            return result, place
        shift += 7


def put_varint(number: int) -> bytes:
    """An integer as protobuf writes it."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def fields(data: bytes) -> Iterator[Field]:
    """The fields of a message, in their order; `WireError` when the bytes are no message."""
    place, end = 0, len(data)
    while place < end:
        key = data[place]
        place += 1
        if key > 127:  # numbers of one byte, which most are, are read here
            key, place = varint(data, place - 1)
        number, kind = key >> 3, key & 7
        if number == 0:
            raise WireError("a field without a number")
        if kind in (0, 2):
            size = data[place] if place < end else 128
            if size < 128:
                place += 1
            else:
                size, place = varint(data, place)
            if kind == 0:
                yield number, kind, size
                continue
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise WireError(f"a field of kind {kind}, which protobuf does not have")
        start, place = place, place + size
        if place > end:
            raise WireError("a field longer than what holds it")
        yield number, kind, data[start:place]


def leaves(data: bytes, seen: set[bytes]) -> list[bytes]:
    """The texts and bytes in a message and in its messages; of bytes that are no message, themselves.

    Messages that were ``seen`` before are left out; those of this one are added.
    """
    found: list[bytes] = []
    _add_leaves(data, found, seen)
    return found


def _add_leaves(data: bytes, found: list[bytes], seen: set[bytes]) -> None:
    if data in seen:
        return
    seen.add(data)
    try:
        held = [value for _, kind, value in fields(data) if kind == 2 and isinstance(value, bytes)]
    except WireError:
        found.append(data)
        return
    for value in held:
        if not _TEXT.search(value):
            continue
        if is_text(value) and not value.startswith(b"\n"):  # also the mark of a message's first text
            found.append(value)
        else:
            _add_leaves(value, found, seen)


def is_text(data: bytes) -> bool:
    """Whether bytes are printable ASCII, with lines."""
    return not _BINARY.search(data)


def put_field(number: int, kind: int, value: Value) -> bytes:
    """A field as protobuf writes it."""
    key = put_varint(number << 3 | kind)
    if isinstance(value, int):
        return key + put_varint(value)
    return key + (put_varint(len(value)) if kind == 2 else b"") + value


def dict_of(data: bytes) -> dict[int, Value]:
    """The last value of each field of a message."""
    return {number: value for number, _, value in fields(data)}


def number_of(message: dict[int, Value], field: int) -> int:
    """A field's number; 0 where there is none."""
    value = message.get(field, 0)
    return value if isinstance(value, int) else 0


def text_of(message: dict[int, Value], field: int) -> str:
    """A field's text; '' where there is none."""
    value = message.get(field, b"")
    return value.decode("utf-8", errors="replace") if isinstance(value, bytes) else ""


def format_number(data: Data) -> int:
    """The number of the file's format; `WireError` when the file does not begin like a report."""
    if len(data) < 8:
        raise WireError("it ends within its header")
    size = int.from_bytes(data[4:8], "little")
    if 8 + size > len(data):
        raise WireError("it ends within its header")
    return number_of(dict_of(data[8 : 8 + size]), 1)


def blocks(data: Data) -> Iterator[Block]:
    """Every block of a report; `WireError` where the file ends early or its parts do not fit.

    Of sources and results only the lengths are read.
    """
    place = 8 + int.from_bytes(data[4:8], "little")
    while place < len(data):
        offset = place
        first, place = _sized(data, place, len(data), "the header of a block")
        header = tuple(fields(data[first:place]))
        if not header:
            raise WireError("a block without a header")
        counts = {number: value for number, _, value in header if isinstance(value, int)}
        end = place + counts.get(PAYLOAD, 0)
        if end > len(data):
            raise WireError(f"{end - len(data)} bytes are missing at its end")
        spans = []
        for _ in range(counts.get(SOURCES, 0) + counts.get(RESULTS, 0)):
            spans.append(_sized(data, place, end, "an entry of a block"))
            place = spans[-1][1]
        if place != end:
            raise WireError("a block holds more than its entries")
        count = counts.get(SOURCES, 0)
        yield Block(offset, header, tuple(spans[:count]), tuple(spans[count:]))


def check_entries(data: Data, block: Block) -> None:
    """`WireError` unless every source and result of a block is a message, two levels deep for results."""
    for begin, end in block.sources:
        for _ in fields(data[begin:end]):
            pass
    for begin, end in block.results:
        for number, kind, value in fields(data[begin:end]):
            if kind == 2 and number == 13 and isinstance(value, bytes):  # a metric: id, value, instances
                for _ in fields(value):
                    pass


def _sized(data: Data, place: int, end: int, what: str) -> tuple[int, int]:
    """Where what follows its length begins and ends."""
    size = int.from_bytes(data[place : place + 4], "little")
    if place + 4 + size > end:
        raise WireError(f"it ends within {what}")
    return place + 4, place + 4 + size
