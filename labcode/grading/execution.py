"""Run a learner's file under a time limit: a file and calls in, an outcome for each call out.

The file runs in a process of its own (`labcode.grading.worker`), in an empty folder, without writing
bytecode, with its output caught. A call that takes too long ends the process and everything it started.
"""

import contextlib
import errno
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import labcode
from labcode import store
from labcode.ending import Closing
from labcode.grading import sealed

CALL_LIMIT_S = 10.0
LOAD_LIMIT_S = 60.0
_POLL_S = 0.005
_PRINTED_KEPT = 4000
_REMOVALS = 200  # attempts to remove a folder: a second


@dataclass(frozen=True)
class Call:
    """One call of a learner's function, and the seconds it may take."""

    function: str
    arguments: tuple[Any, ...]
    limit_s: float = CALL_LIMIT_S


@dataclass(frozen=True)
class Outcome:
    """What became of a call: a value, or lines that say why there is none; the end of what it printed."""

    kind: Literal["value", "error", "timeout", "died"]
    value: Any = None
    lines: tuple[str, ...] = ()
    printed: str = ""


class Execution(Closing):
    """A process that runs a learner's file; it gets ready while the calls are being made up.

    ``load_error`` says, once outcomes were asked for, why the file could not be loaded.
    """

    def __init__(self, file: Path, *, load_limit_s: float = LOAD_LIMIT_S) -> None:
        self.load_error: tuple[str, ...] = ()
        self._load_limit_s = self._limit_s = load_limit_s
        self._folder = tempfile.TemporaryDirectory(prefix="labcode-exercise-")
        folder = Path(self._folder.name)
        (folder / "work").mkdir()
        (folder / "inputs").mkdir()  # files that are arguments; they go with the folder
        self._events = folder / "events.jsonl"
        self._events.touch()
        shut = str(sealed.root(store.repository_root()))
        command = ["-m", "labcode.grading.worker", str(file.resolve()), str(self._events), shut]
        inputs = {"TMPDIR": str(folder / "inputs")}
        self._running = start([sys.executable, "-B", *command], folder / "work", inputs, listens=True)

    def close(self) -> None:
        """End the process and remove its folder, to which what it had started may write until it is dead."""
        self._running.close()
        for tries in reversed(range(_REMOVALS)):
            try:
                self._folder.cleanup()
                break
            except OSError as error:
                if error.errno != errno.ENOTEMPTY or not tries:
                    raise
                time.sleep(_POLL_S)

    def printed(self) -> str:
        """The end of what the file has printed; ends the process."""
        self._running.close()
        return self._running.printed()

    def outcomes(self, calls: Sequence[Call]) -> Iterator[Outcome]:
        """Send the calls; what becomes of each, as soon as it is known.

        Ends early, after the one that says so, when a call timed out or killed the process; at once when the
        file could not be loaded.
        """
        from labcode.grading import codec  # which loads pandas, while the process does, too

        packed = [(call.function, codec.pack(call.arguments)) for call in calls]
        self._running.tell(pickle.dumps(packed, pickle.HIGHEST_PROTOCOL))
        return self._outcomes(calls)

    def _outcomes(self, calls: Sequence[Call]) -> Iterator[Outcome]:
        loaded, ended = False, 0
        for event in self._each_event():
            match event:
                case {"event": "load error", "lines": list(lines)}:
                    self.load_error = tuple(map(str, lines))
                    return
                case {"event": "loaded"}:
                    loaded = True
                case {"event": "begin"} if ended < len(calls):
                    self._limit_s = calls[ended].limit_s
                case {"event": "end", **rest} if loaded and ended < len(calls):
                    ended, self._limit_s = ended + 1, self._load_limit_s
                    yield _outcome(rest)
                    if ended == len(calls):
                        return
        code = self._running.process.poll()
        if loaded and code is None:
            yield Outcome("timeout", None, (f"took longer than {self._limit_s:g} s",), self.printed())
        elif loaded:
            yield Outcome("died", None, (_how_it_died(code or 0),), self.printed())
        elif code is None:
            self.load_error = (f"took longer than {self._limit_s:g} s before any function was called",)
        else:
            self.load_error = (_how_it_died(code), *self.printed().splitlines()[-3:])

    def _each_event(self) -> Iterator[dict[str, Any]]:
        """The events as they come, until the process has ended, or has written none for too long.

        What a learner's code may have written there itself is no event.
        """
        since, rest = time.monotonic(), b""
        with self._events.open("rb") as stream:
            while True:
                over = self._running.process.poll() is not None
                *lines, rest = (rest + stream.read()).split(b"\n")
                for line in lines:
                    with contextlib.suppress(ValueError, RecursionError):
                        event = json.loads(line)
                        if isinstance(event, dict):
                            yield event
                    since = time.monotonic()
                if over or time.monotonic() - since > self._limit_s:
                    return
                time.sleep(_POLL_S)


class Running(Closing):
    """A process with its output caught (the end of it) and its whole group ended on the way out."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._kept: deque[bytes] = deque()
        self._size = 0
        assert process.stdout is not None
        self._reader = threading.Thread(target=self._drain, args=(process.stdout,), daemon=True)
        self._reader.start()

    def _drain(self, stream: IO[bytes]) -> None:
        while chunk := os.read(stream.fileno(), 4096):
            self._kept.append(chunk)
            self._size += len(chunk)
            while self._size - len(self._kept[0]) > _PRINTED_KEPT:
                self._size -= len(self._kept.popleft())

    def tell(self, data: bytes) -> None:
        """Write all that a program which listens gets, without waiting until it has read it."""

        def write() -> None:
            assert stream is not None
            with contextlib.suppress(OSError), stream:
                stream.write(data)

        stream = self.process.stdin
        threading.Thread(target=write, daemon=True).start()

    def printed(self) -> str:
        """The end of what the process wrote to stdout and stderr."""
        self._reader.join(timeout=2)
        return b"".join(self._kept).decode(errors="replace")

    def close(self) -> None:
        """Kill the process and what it started."""
        if os.name == "posix":
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        elif self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def start(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str] | None = None,
    *,
    listens: bool = False,
) -> Running:
    """Start a program in ``folder``, in a process group of its own, able to import this labcode.

    One that ``listens`` gets what `Running.tell` says on its standard input.
    """
    package_home = str(Path(labcode.__file__).resolve().parent.parent)
    paths = [package_home, *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
    env |= {"PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8", **(environment or {})}
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=env,
        stdin=subprocess.PIPE if listens else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=os.name == "posix",
    )
    return Running(process)


def wait(running: Running, limit_s: float) -> bool:
    """Wait for a process to end; False when the time was up first."""
    try:
        running.process.wait(timeout=limit_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def _outcome(event: Mapping[str, Any]) -> Outcome:
    from labcode.grading import codec

    printed = str(event.get("printed", ""))
    try:
        if "lines" in event:
            return Outcome("error", None, tuple(map(str, event["lines"])), printed)
        return Outcome("value", codec.decode(event["value"]), (), printed)
    except (ValueError, KeyError, TypeError, RecursionError):
        return Outcome("error", lines=("the answer cannot be read",))


def _how_it_died(code: int) -> str:
    if code < 0:
        name = signal.Signals(-code).name if -code in signal.valid_signals() else str(-code)
        return f"the process was killed by {name} (often: out of memory, or a crash in a compiled library)"
    return f"the file ended the whole program (exit code {code}) instead of returning"
