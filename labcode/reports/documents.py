"""JSON that labcode itself wrote: a file and a structure in; its content, or a line on what is wrong, out."""

import gzip
import lzma
import zlib
from pathlib import Path
from typing import TypeVar

import msgspec

from labcode.errors import InputError
from labcode.inputs import plain_file

_LARGEST_TEXT = 1 << 30
T = TypeVar("T")


def text_of(path: Path, *, less: str) -> bytes:
    """A file's text, unpacked if it is packed; `InputError` for one that cannot be, or of more than 1 GiB."""
    with plain_file(path, most_bytes=_LARGEST_TEXT).open("rb") as stream:
        head = stream.read(6)
    opened = lzma.open if head == b"\xfd7zXZ\x00" else gzip.open if head.startswith(b"\x1f\x8b") else open
    try:
        with opened(path, "rb") as unpacked:
            text: bytes = unpacked.read(_LARGEST_TEXT + 1)
    except (lzma.LZMAError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: cannot be unpacked ({error}); copy it or record it again") from None
    if len(text) > _LARGEST_TEXT:
        raise InputError(f"{path}: more than 1 GiB of text; {less}")
    return text


def decoded(
    text: bytes, kind: type[T], path: Path, what: str, *, how: str, again: str = "copy or record it again"
) -> T:
    """The content of a text; `InputError` says why it is none, ``how`` to name one, and what to do ``again``.

    ``what`` it should be comes with its article.
    """
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.ValidationError as error:
        raise InputError(f"{path}: JSON, but no {what.removeprefix('a ')} ({error}); {how}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not valid JSON, or cut off ({error}); {again}") from None
    except RecursionError:
        raise InputError(f"{path}: nested too deep to be {what}; {how}") from None
