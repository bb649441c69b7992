"""The files of `input_pipeline`: a seed and a count in, a folder of pictures out; ways to read them."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from labcode.errors import LabError, describe_os_error
from labcode.experiments.advanced.input_pipeline.pictures import CLASSES, encode, make_patterns, make_pixels

POLL_S = 0.0005  # what a waiting reader sleeps between two looks at the clock


@contextmanager
def temporary_folder(parent: Path | None) -> Iterator[Path]:
    """A folder that is gone afterwards: also after an error, Ctrl-C, and a request to end (SIGTERM)."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    on_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, interrupt) if on_main else None
    try:
        folder = Path(tempfile.mkdtemp(prefix="labcode-pictures-", dir=parent))
    except OSError as error:
        raise LabError(describe_os_error(error)) from None
    try:
        yield folder
    except BaseException:
        end_workers()  # they may be writing there
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if on_main:
            signal.signal(signal.SIGTERM, before)


def end_workers() -> None:
    """End the processes that a loader left behind, and wait until they are gone."""
    for child in multiprocessing.active_children():
        child.terminate()
        child.join()


def picture_path(folder: Path, number: int) -> Path:
    """Where a picture lies."""
    return folder / f"{number:05}.labp"


def write_pictures(folder: Path, seed: int, count: int) -> list[Path]:
    """Fill a folder with ``count`` pictures, the same for the same seed. `LabError` on a full disk."""
    rng = np.random.default_rng(seed)
    patterns = make_patterns(rng)
    paths = []
    for number, label in enumerate(rng.integers(0, CLASSES, count).tolist()):
        path = picture_path(folder, number)
        try:
            path.write_bytes(encode(make_pixels(label, rng, patterns), label))
        except OSError as error:
            if error.filename is None:
                error.filename = str(path)
            raise LabError(describe_os_error(error)) from None
        paths.append(path)
    return paths


def settle() -> None:
    """Have the system write what it holds back: only then can pages be dropped from memory."""
    os.sync()


def drop_pages(fd: int) -> None:
    """Ask the system to forget a file's pages, so that the next read comes from the disk."""
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def comes_from_disk(path: Path) -> bool:
    """Whether a read would go to the disk once the file's pages have been dropped.

    A read that must not wait (``RWF_NOWAIT``) fails exactly then. File systems that live in memory, and those
    that ignore the request to drop pages, answer at once.
    """
    fd = os.open(path, os.O_RDONLY)
    try:
        drop_pages(fd)
        os.preadv(fd, [bytearray(512)], 0, os.RWF_NOWAIT)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(fd)
    return False


def read_whole(path: Path, *, cold: bool = False) -> bytes:
    """A file's content in one call."""
    fd = os.open(path, os.O_RDONLY)
    try:
        if cold:
            drop_pages(fd)
        return os.read(fd, os.fstat(fd).st_size)
    finally:
        os.close(fd)


def read_in_pieces(path: Path, piece: int, *, cold: bool = False) -> bytes:
    """A file's content, ``piece`` bytes a call; ``cold``: each piece from the disk, nothing read ahead."""
    fd = os.open(path, os.O_RDONLY)
    try:
        if cold:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        pieces: list[bytes] = []
        while True:
            if cold:
                drop_pages(fd)
            got = os.read(fd, piece)
            if not got:
                return b"".join(pieces)
            pieces.append(got)
    finally:
        os.close(fd)


@dataclass
class Reader:
    """Reads files in the way of a variant; one lives in each worker.

    ``slow`` may name ``pieces`` (small reads), ``cold`` (from the disk), ``log`` (each picture is noted on
    the disk, under a lock that all workers share) and ``throttle`` (a limit on files a second, kept by
    polling the clock).
    """

    slow: Collection[str]
    piece: int
    rate_per_s: float
    log: Path
    _due: float = 0.0

    def read(self, path: Path) -> bytes:
        """A file's content."""
        if "throttle" in self.slow:
            self._due = wait_for_turn(self._due, self.rate_per_s)
        cold = "cold" in self.slow
        data = (
            read_in_pieces(path, self.piece, cold=cold)
            if "pieces" in self.slow
            else read_whole(path, cold=cold)
        )
        if "log" in self.slow:
            self._note(f"{path.name} {len(data)}\n".encode())
        return data

    def _note(self, line: bytes) -> None:
        with locked(self.log.with_suffix(".lock")):
            append_to_disk(self.log, line)
            replace_on_disk(self.log.with_suffix(".last"), line)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file that other processes (and other openings in this one) wait for."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)  # gives the lock back


def append_to_disk(path: Path, line: bytes) -> None:
    """Append a line to a file; return when it is on the disk."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(fd, line)
        os.fsync(fd)
    finally:
        os.close(fd)


def replace_on_disk(path: Path, content: bytes) -> None:
    """Replace a file whole or not at all, even if the power fails; return when that is on the disk."""
    partial = path.with_suffix(".part")
    with partial.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def wait_for_turn(due: float, rate_per_s: float, clock: Callable[[], float] = time.monotonic) -> float:
    """Sleep in small steps until ``due``; returns when the next turn is due (seconds of ``clock``)."""
    while clock() < due:
        time.sleep(POLL_S)
    return max(due, clock() - 1 / rate_per_s) + 1 / rate_per_s
