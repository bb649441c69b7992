"""Builds of one checkout take turns: the folder they write into in, the only build that uses it out."""

import contextlib
import fcntl
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

LOCK = "building"
_taken: dict[Path, TextIO] = {}  # by this process; those that it forks have it together with it


@contextlib.contextmanager
def turn(folder: Path) -> Iterator[None]:
    """Inside of the block no other process builds into ``folder``; one that does is waited for, and said."""
    mine = take(folder)
    try:
        yield
    finally:
        if mine:
            leave(folder)


def take(folder: Path) -> bool:
    """Wait for the turn; whether this process did not have it already.

    The turn of a process that ends, however it ends, is over with it and with those that it forked.
    """
    place = folder.resolve()
    if place in _taken:
        return False
    place.mkdir(parents=True, exist_ok=True)
    lock = (place / LOCK).open("a+", encoding="utf-8")
    with contextlib.suppress(OSError):  # a file system without locks
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            who = lock.read().strip() or "unknown"
            said = f"book: process {who} builds in {folder}; waiting until it is done"
            print(said, file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
    _taken[place] = lock
    return True


def leave(folder: Path) -> None:
    """Let the next one begin."""
    with _taken.pop(folder.resolve()) as lock, contextlib.suppress(OSError):
        fcntl.flock(lock, fcntl.LOCK_UN)
