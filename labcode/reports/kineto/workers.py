"""Texts of trace events in; their columns, decoded by processes beside this one, out.

A large trace is cut into blocks of some megabytes, which do not need each other. Each worker is a Python of
its own (``python -m labcode.reports.kineto.workers``), which gets blocks through a pipe and answers with
columns; so it does not matter what this process is, nor whether it could be forked.
"""

import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any

import msgspec
import numpy as np

import labcode
from labcode.inputs import Closing
from labcode.reports.columns import packed, spread
from labcode.reports.kineto.events import Collector, Columns, together
from labcode.reports.kineto.schema import FIELDS, HOLDS

LARGE = 1 << 26  # bytes of text; less is read sooner than workers start
PACKED = 8  # times that gzip makes a trace smaller, at least
MOST = 8
_SIZE = 8


class UnreadableError(Exception):
    """A block was not what it should be: the trace has to be read more carefully."""


def workers_for(path: Path) -> int:
    """How many workers a file deserves; 0 where it is small, or there is one CPU only."""
    size = path.stat().st_size * (PACKED if path.name.lower().endswith(".gz") else 1)
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(there, MOST) if size >= LARGE and there > 1 else 0


class SpreadCollector(Closing):
    """A `Collector` whose blocks are decoded by workers.

    ``finish`` raises `UnreadableError` where a block cannot be decoded as it is; then a `Collector` has to
    read the trace again.
    """

    def __init__(self, workers: int) -> None:
        env = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        root = str(Path(labcode.__file__).parents[1])
        env["PYTHONPATH"] = os.pathsep.join([root, *filter(None, [env.get("PYTHONPATH")])])
        command = [sys.executable, "-m", "labcode.reports.kineto.workers"]
        self._blocks: SimpleQueue[tuple[int, bytes] | None] = SimpleQueue()
        self._room = threading.Semaphore(2 * workers)
        self._found: dict[int, tuple[Columns, int] | None] = {}
        self._taken = 0
        self._processes = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
            for _ in range(workers)
        ]
        self._threads = [
            threading.Thread(target=self._serve, args=(process,), daemon=True) for process in self._processes
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """End the processes."""
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with suppress(OSError):  # what is left to write has no reader
                        stream.close()

    def take(self, text: bytes) -> None:
        """A JSON array of events."""
        self._room.acquire()
        if None in self._found.values():
            raise UnreadableError
        self._blocks.put((self._taken, text))
        self._taken += 1

    def take_one(self, text: bytes) -> bool:
        """Not called: no block is refused."""
        raise UnreadableError

    def finish(self) -> Columns:
        """Everything that was taken."""
        for _ in self._threads:
            self._blocks.put(None)
        for thread in self._threads:
            thread.join()
        parts = [self._found.pop(number, None) for number in range(self._taken)]
        if not all(parts):
            raise UnreadableError
        return merged([part for part in parts if part is not None])

    def _serve(self, process: subprocess.Popen[bytes]) -> None:
        """Give blocks to one worker and keep its answers, until there are no more."""
        send, receive = process.stdin, process.stdout
        if send is None or receive is None:
            return
        while (block := self._blocks.get()) is not None:
            number, text = block
            try:
                _write(send, text)
                self._found[number] = pickle.loads(_read(receive))
            except (OSError, ValueError, EOFError, pickle.UnpicklingError):  # the worker died
                self._found[number] = None
            self._room.release()


def merged(parts: list[tuple[Columns, int]]) -> Columns:
    """Columns of blocks, each with how many events it had, as one."""
    out = Columns()
    known: dict[str, int] = {}
    pieces: dict[str, list[dict[str, Any]]] = {}
    before = 0
    for columns, count in parts:
        codes = np.array([known.setdefault(text, len(known)) for text in columns.texts] + [-1], np.int64)
        for kind, found in columns.kinds.items():
            for key in ("name", "phase", "category", *(f for f in FIELDS[kind] if HOLDS[f] == "text")):
                if key in found:
                    found[key] = codes[found[key]]
            found["order"] = found["order"] + before
            length = len(found["order"])
            pieces.setdefault(kind, []).append({key: spread(v, length) for key, v in found.items()})
        out.threads += columns.threads
        out.processes += columns.processes
        out.events += columns.events
        out.negative += columns.negative
        out.timeless += columns.timeless
        before += count
    while pieces:
        kind, some = pieces.popitem()
        out.kinds[kind] = together(some)
    out.texts = list(known)
    return out


def _write(stream: IO[bytes], data: bytes) -> None:
    stream.write(len(data).to_bytes(_SIZE, "little"))
    stream.write(data)
    stream.flush()


def _read(stream: IO[bytes]) -> bytes:
    size = int.from_bytes(stream.read(_SIZE), "little")
    data = stream.read(size)
    if not size or len(data) < size:
        raise EOFError
    return data


def main() -> None:
    """Answer each block with its columns and the number of its events; None for what is no block."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that reads decides; with it the pipe ends
    gc.disable()  # events and tuples by the million, and no circle among them
    answers, blocks = sys.stdout.buffer, sys.stdin.buffer
    while True:
        try:
            text = _read(blocks)
        except EOFError:
            return
        collector = Collector()
        try:
            collector.take(text)
            columns = collector.finish()
            for kind, some in columns.kinds.items():  # of a column that is one number, that number
                columns.kinds[kind] = {key: packed(values) for key, values in some.items()}
            found = columns, collector.taken
        except (msgspec.DecodeError, RecursionError):
            found = None
        _write(answers, pickle.dumps(found, 5))


if __name__ == "__main__":
    main()
