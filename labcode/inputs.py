"""Files to read: a path in, the same path out where a plain file of a sensible size lies there.

And what is held of one that was opened: `Closing` lets go of it. SQLite files are read so that nothing in
them runs and nothing is left beside them.
"""

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Self
from urllib.parse import quote

from labcode.errors import InputError, describe_os_error

if TYPE_CHECKING:
    import sqlite3


_KINDS = {
    stat.S_IFDIR: "a folder, not a file; name a file",
    stat.S_IFIFO: "a pipe, not a file; write what comes through it to a file and name that",
    stat.S_IFSOCK: "a socket, not a file; name a file",
    stat.S_IFCHR: "a device, not a file; name a file",
    stat.S_IFBLK: "a device, not a file; name a file",
}
_POINTER = b"version https://git-lfs.github.com/spec/"
_LARGEST_POINTER = 1024


def name_of(path: Path) -> str:
    """A file's name as a text that every table takes; bytes that are no UTF-8 as ``\\xff``."""
    return os.fsencode(path.name).decode("utf-8", "backslashreplace")


class Closing:
    """What lets go of something at the end of a ``with`` block."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of what is held; nothing, where nothing is."""


def plain_file(path: Path, *, most_bytes: int | None = None) -> Path:
    """``path`` itself, links followed; nothing is read of it but what Git LFS left in its place.

    Raises `InputError` for what is missing or no plain file (a pipe or a device would be read for ever), for
    a pointer of Git LFS, and for a file of more than ``most_bytes``, which is given where it is read whole.
    """
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{path}: no such file; check the path") from None
    except OSError as error:
        raise InputError(describe_os_error(error)) from None
    if kind := _KINDS.get(stat.S_IFMT(found.st_mode)):
        raise InputError(f"{path}: {kind}")
    refuse_pointer(path, found.st_size)
    if most_bytes is not None and found.st_size > most_bytes:
        raise InputError(
            f"{path}: {found.st_size / (1 << 30):,.1f} GiB, and such a file can have "
            f"{most_bytes / (1 << 30):,.3g} GiB at most; record less"
        )
    return path


def refuse_pointer(path: Path, size: int) -> None:
    """`InputError` for a small text that Git LFS leaves where the file itself was not fetched."""
    if size > _LARGEST_POINTER:
        return
    try:
        with path.open("rb") as handle:
            head = handle.read(len(_POINTER))
    except OSError:
        return  # whoever reads it will say why it cannot be read
    if head == _POINTER:
        raise InputError(f"{path}: a pointer of Git LFS, not the file itself; fetch it with `git lfs pull`")


def address(path: Path) -> str:
    """The URI under which SQLite reads a file and leaves nothing beside it, neither a journal nor a lock."""
    # Not by Path.as_uri: from CPython 3.14 on that loads urllib.request, with all that it needs.
    return f"file://{quote(os.fsencode(path.resolve()))}?mode=ro&immutable=1"


def open_read_only(path: Path) -> "sqlite3.Connection":
    """A connection that neither writes nor runs what is stored in the file (views, triggers, defaults).

    `sqlite3.Error` for a file that is not there, once it is read.
    """
    import sqlite3  # which only few of those who read files need

    connection = sqlite3.connect(address(path), uri=True)
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection
