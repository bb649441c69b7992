"""A trace file in; its events as JSON arrays of some thousand at a time, and what stands around them, out.

A trace is one JSON object whose member ``traceEvents`` may be a gigabyte long (or, in Chrome's older form,
that array alone). It is read block by block and cut between two events; whether a cut was right, decoding
tells: a cut inside an event leaves brackets or a string open. Where guessing fails, brackets are counted.
"""

import re
import zlib
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from labcode.errors import InputError

BLOCK = 1 << 22  # bytes of text decoded at once
_LARGEST = 1 << 29  # bytes of text; three times as much is held: 1 GiB more than the file has
_MOST_AROUND = 1 << 26  # bytes before or after the events
_LONGEST_EVENT = 1 << 28
_DEEPEST = 500
_PACKED = 1 << 17  # bytes unpacked at once; of a damaged piece, what lies before the damage is kept
_GUESSES = 4
_BETWEEN = re.compile(rb"\}\s*,\s*(?=\{)")
_ARRAY = re.compile(rb'"traceEvents"\s*:\s*\[')
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|["{}\[\]]', re.DOTALL)
_SPACE = b" \t\r\n"
_GZIP = b"\x1f\x8b"
_any = msgspec.json.Decoder()

Decode = Callable[[bytes], None]
DecodeOne = Callable[[bytes], bool]


class TraceText:
    """One reading of a trace file.

    After `read`: ``metadata`` (the object's other members), ``bytes_read`` (of the text), ``cut_off`` (''
    where the file is whole, else how it ends), ``unreadable`` (events that are no JSON or no event).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metadata: dict[str, Any] = {}
        self.bytes_read = 0
        self.cut_off = ""
        self.unreadable = 0
        self._nothing = True
        self._blocks: Iterator[bytes] = iter(())

    def read(self, decode: Decode, decode_one: DecodeOne) -> None:
        """Hand all events to ``decode``, as texts of JSON arrays.

        ``decode`` raises `msgspec.DecodeError` when its text is not what it takes; then its events go to
        ``decode_one``, one by one, which answers whether it could take it. Raises `InputError` for a file
        that is no trace.
        """
        found = self.path.stat()
        self._refuse(min(found.st_size, 512 * found.st_blocks))  # what follows in a sparse file is not read
        with closing(_ahead(blocks(self.path, self._note))) as self._blocks:
            try:
                self._read(decode, decode_one)
            except RecursionError:
                raise self._too_deep() from None

    def _read(self, decode: Decode, decode_one: DecodeOne) -> None:
        data = self._head()
        ended = False
        wanted = BLOCK
        while True:
            if not ended and len(data) < wanted:
                data, ended = self._more(data, wanted)
                continue
            done = _guess(data, decode)
            if done:
                data, wanted, self._nothing = data[done:], BLOCK, False
                continue
            spans, state, end = self._count(data)
            self._hand_over(data, spans, decode, decode_one)
            self._nothing = self._nothing and not spans
            if state == "end":
                self._tail(data[end:], ended)
                return
            if state == "foreign":
                near = data[end : end + 12].strip(b", ").decode("utf-8", "replace")
                if self._nothing:
                    raise InputError(
                        f"{self.path}: JSON, but no trace: its list begins with {near!r}, which is no event; "
                        "name a file that prof.export_chrome_trace wrote"
                    )
                self._stop(f"what follows there is no event ({near!r})")
                return
            data = data[end:].lstrip(_SPACE)
            if ended:
                self._stop("it ends within an event" if data.strip(_SPACE) else "it ends between two events")
                return
            if len(data) > _LONGEST_EVENT:
                raise InputError(f"{self.path}: an event of more than 256 MiB; no trace of torch.profiler")
            wanted = BLOCK if spans else max(BLOCK, 2 * len(data))

    def _more(self, data: bytes, wanted: int) -> tuple[bytes, bool]:
        """The data with as many blocks behind as it takes to have so many bytes; whether the file ended."""
        parts, size = [data], len(data)
        while size < wanted:
            block = self._next()
            if block is None:
                return b"".join(parts), True
            parts.append(block)
            size += len(block)
        return b"".join(parts), False

    def _next(self) -> bytes | None:
        block = next(self._blocks, None)
        if block is not None and (zeros := block.find(0)) >= 0:  # no JSON has one; a sparse file has billions
            self._note("zeros follow")
            block, self._blocks = block[:zeros], iter(())
        if block is not None:
            self.bytes_read += len(block)
            self._refuse(self.bytes_read)
        return block

    def _refuse(self, size: int) -> None:
        if size > _LARGEST:
            from labcode.store import refuse_large  # takes time to import

            refuse_large(self.path, size, _LARGEST)

    def _note(self, reason: str) -> None:
        self.cut_off = self.cut_off or reason

    def _stop(self, reason: str) -> None:
        self.cut_off = self.cut_off or reason

    def _too_deep(self) -> InputError:
        return InputError(
            f"{self.path}: nested more than {_DEEPEST} levels deep, as torch.profiler writes nothing; "
            "this is no trace of it"
        )

    # ---- before and after the events

    def _head(self) -> bytes:
        """Read up to the first event; the bytes read beyond."""
        text = b""
        while not text and (more := self._next()) is not None:
            text = more.removeprefix(b"\xef\xbb\xbf").lstrip(_SPACE)
        if not text:
            raise InputError(f"{self.path}: empty{self._why()}; record the trace again")
        if text.startswith(b"["):
            return text[1:]
        if not text.startswith(b"{"):
            raise InputError(
                f"{self.path}: not JSON, so no trace of torch.profiler; name a file that "
                "prof.export_chrome_trace wrote (.json or .json.gz)"
            )
        while (found := _ARRAY.search(text)) is None:
            more = self._next()
            if more is None or len(text) > _MOST_AROUND:
                raise self._no_events(text, whole=more is None)
            text += more
        try:
            head = _any.decode(text[: found.end()] + b"]}")
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self._check_depth(text[: found.start()])
            raise InputError(
                f"{self.path}: not valid JSON before its events ({error}); record the trace again"
            ) from None
        self.metadata = {key: value for key, value in head.items() if key != "traceEvents"}
        return text[found.end() :]

    def _why(self) -> str:
        return f" ({self.cut_off})" if self.cut_off else ""

    def _no_events(self, text: bytes, *, whole: bool) -> InputError:
        self._check_depth(text)
        try:
            if whole:
                _any.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            what = self.cut_off or str(error)
            return InputError(
                f"{self.path}: not valid JSON, or cut off before the first event ({what}); copy it or "
                "record the trace again"
            )
        return InputError(
            f"{self.path}: JSON, but no trace: it has no list traceEvents; name a file that "
            "prof.export_chrome_trace wrote"
        )

    def _check_depth(self, text: bytes) -> None:
        depth = 0
        for token in _TOKEN.finditer(text):
            mark = token[0]
            depth += mark in b"{[" and len(mark) == 1
            depth -= mark in b"}]" and len(mark) == 1
            if depth > _DEEPEST:
                raise self._too_deep()

    def _tail(self, text: bytes, ended: bool) -> None:
        """What follows the events: the object's last members."""
        while not ended and len(text) < _MOST_AROUND:
            more = self._next()
            ended = more is None
            text += more or b""
        text = text.strip(_SPACE)
        if not text:  # the array stood alone, or the object's last brace is missing
            if self.metadata:
                self._stop("it ends after the events, within the object")
            return
        try:
            last = _any.decode(b'{"":0' + text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            self._stop("it ends after the events, within the object")
            return
        self.metadata |= {key: value for key, value in last.items() if key}

    # ---- the events

    def _count(self, data: bytes) -> tuple[list[tuple[int, int]], str, int]:
        """Whole events by counting brackets: where each lies, what stopped it and where.

        'more': the data end within an event or between two; 'end': at the end of the array; 'foreign':
        at something that is no event.
        """
        spans: list[tuple[int, int]] = []
        depth, begin, expected = 0, 0, 0
        for token in _TOKEN.finditer(data):
            mark = token[0]
            if depth == 0:
                between = data[expected : token.start()].strip(b" \t\r\n,")
                if between or mark not in (b"{", b"]"):
                    return spans, "foreign", expected
                if mark == b"]":
                    return spans, "end", token.end()
                begin = token.start()
            if mark == b'"':  # a string that does not end here
                return spans, "more", begin
            if mark in (b"{", b"["):
                depth += 1
                if depth > _DEEPEST:
                    raise self._too_deep()
            elif mark in (b"}", b"]"):
                depth -= 1
                if depth == 0:
                    expected = token.end()
                    spans.append((begin, expected))
        if depth:
            return spans, "more", begin
        rest = data[expected:].strip(b" \t\r\n,")
        return spans, "foreign" if rest else "more", expected

    def _hand_over(
        self, data: bytes, spans: list[tuple[int, int]], decode: Decode, decode_one: DecodeOne
    ) -> None:
        if not spans:
            return
        try:
            decode(b"[" + data[spans[0][0] : spans[-1][1]] + b"]")
            return
        except msgspec.DecodeError:
            pass
        for begin, end in spans:
            if not decode_one(data[begin:end]):
                self.unreadable += 1


def _guess(data: bytes, decode: Decode) -> int:
    """Decode up to a place that looks like the end of an event; how many bytes are done, 0 for none."""
    near = max(0, len(data) - (1 << 16))
    for found in list(_BETWEEN.finditer(data, near))[: -_GUESSES - 1 : -1]:
        try:
            decode(b"[" + data[: found.start() + 1] + b"]")
        except msgspec.DecodeError:
            continue
        return found.end()
    return 0


def blocks(path: Path, note: Callable[[str], None]) -> Iterator[bytes]:
    """The file's text, unpacked where it is gzip's, in blocks; damage ends it with a note.

    Raises `InputError` for a text without end.
    """
    with path.open("rb") as stream:
        block = stream.read(BLOCK)
        if not block.startswith(_GZIP):
            while block:
                yield block
                block = stream.read(BLOCK)
            return
        from labcode.store import endless, unpack_limit  # takes time to import

        left = limit = unpack_limit(path.stat().st_size)
        unpack = zlib.decompressobj(31)
        while block:
            for low in range(0, len(block), _PACKED):
                packed = block[low : low + _PACKED]
                while packed:
                    before = unpack.copy()
                    try:
                        text, rest = unpack.decompress(packed, BLOCK), unpack.unconsumed_tail
                    except zlib.error:
                        yield _salvage(before, packed)
                        note("its gzip data are damaged")
                        return
                    left -= len(text)
                    if left < 0:
                        raise endless(path, limit)
                    if text:
                        yield text
                    packed = rest
                    if unpack.eof:
                        packed = unpack.unused_data.lstrip(b"\0")  # another member follows, or padding
                        unpack = zlib.decompressobj(31)
                        fresh = not packed
                    else:
                        fresh = False
            block = stream.read(1 << 20)
        if not fresh:
            note("its gzip data end early")


def _salvage(unpack: Any, packed: bytes) -> bytes:
    """What can be unpacked before the damage."""
    found = []
    for low in range(0, len(packed), 16):
        try:
            found.append(unpack.decompress(packed[low : low + 16]))
        except zlib.error:
            break
    return b"".join(found)


def _ahead(blocks: Iterator[bytes]) -> Generator[bytes, None, None]:
    """The same blocks, the next of them read and unpacked on another thread while one is decoded."""
    with ThreadPoolExecutor(1, "read trace") as thread:
        following = thread.submit(next, blocks, None)
        while (block := following.result()) is not None:
            following = thread.submit(next, blocks, None)
            yield block
