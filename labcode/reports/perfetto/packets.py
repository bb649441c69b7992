"""A file in; the packets of its trace out, one after the other, and how far the file is whole.

A trace is a message of protocol buffers of which field 1 comes as often as there are packets. A packet may
hold others, compressed.
"""

import zlib
from collections.abc import Iterator
from pathlib import Path

from labcode.errors import InputError
from labcode.reports.kineto.text import blocks
from labcode.reports.ncu.wire import WireError, fields, varint
from labcode.store import endless, unpack_limit

PACKED = 50  # the field of a packet that holds others
_LARGEST = 1 << 28  # bytes of a packet
_PACKET = 0x0A  # the key before each
_UNPACKED = 1 << 27  # bytes of the packets that one holds


class Packets:
    """One reading of a file.

    Afterwards ``cut_off`` says how it ends ('' where it is whole), ``unreadable`` how many packets are none,
    ``bytes_read`` how many there were.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cut_off = ""
        self.unreadable = 0
        self.bytes_read = 0
        self._left = unpack_limit(path.stat().st_size)

    def all(self) -> Iterator[bytes]:
        """The packets; raises `InputError` for a file that does not begin with one."""
        for packet in self._outer():
            if not packet.startswith(b"\x92\x03"):  # the key of the packed ones, which stand alone
                yield packet
                continue
            try:
                held = [value for number, kind, value in fields(packet) if (number, kind) == (PACKED, 2)]
                for one in held:
                    assert isinstance(one, bytes)
                    yield from self._inner(self._unpacked(one))
            except (WireError, zlib.error):
                self.unreadable += 1

    def _outer(self) -> Iterator[bytes]:
        data, place, any_yet = b"", 0, False
        source = blocks(self.path, self._note)
        for block in source:
            self.bytes_read += len(block)
            data, place = data[place:] + block, 0
            while True:
                try:
                    found = _packet(data, place)
                except WireError as error:
                    if not any_yet:
                        raise self._no_trace() from None
                    self._note(str(error))
                    return
                if found is None:
                    break
                packet, place = found
                any_yet = True
                if packet is not None:
                    yield packet
        if not any_yet and not data:
            raise InputError(f"{self.path}: empty; record the trace again")
        if place < len(data):
            self._note("it ends within a packet")

    def _inner(self, data: bytes) -> Iterator[bytes]:
        for number, kind, value in fields(data):
            if (number, kind) == (1, 2):
                assert isinstance(value, bytes)
                if value.startswith(b"\x92\x03"):  # packed twice, as nothing writes it
                    raise WireError("packets in packets in packets")
                yield value

    def _unpacked(self, packed: bytes) -> bytes:
        unpack = zlib.decompressobj()
        data = unpack.decompress(packed, _UNPACKED)
        self._left -= len(data)
        if self._left < 0:
            raise endless(self.path, unpack_limit(self.path.stat().st_size))
        if not unpack.eof:
            raise WireError("packed packets that do not end")
        return data

    def _no_trace(self) -> InputError:
        return InputError(
            f"{self.path}: no trace in Perfetto's format; name one that ui.perfetto.dev opens as it is, or "
            "the .json it was made of"
        )

    def _note(self, reason: str) -> None:
        self.cut_off = self.cut_off or reason


def _packet(data: bytes, place: int) -> tuple[bytes | None, int] | None:
    """The packet at a place, None for another field, and where what follows begins; None: the data end."""
    if place >= len(data):
        return None
    if data[place] != _PACKET:
        return _other(data, place)
    try:
        size, begin = varint(data, place + 1)
    except WireError:
        if len(data) - place > 11:
            raise
        return None
    if size > _LARGEST:
        raise WireError(f"what follows there is no packet, of {size:,} bytes")
    end = begin + size
    return None if end > len(data) else (data[begin:end], end)


def _other(data: bytes, place: int) -> tuple[None, int] | None:
    """A field of the trace that is no packet."""
    try:
        key, at = varint(data, place)
        kind = key & 7
        if not key >> 3 or kind not in (0, 1, 2, 5):
            raise WireError("what follows there is no packet")
        size, at = varint(data, at) if kind in (0, 2) else (8 if kind == 1 else 4, at)
    except WireError as error:
        if len(data) - place > 21 or "packet" in str(error):
            raise WireError("what follows there is no packet") from None
        return None
    if kind == 0:
        return None, at
    if size > _LARGEST:
        raise WireError("what follows there is no packet")
    return None if at + size > len(data) else (None, at + size)
