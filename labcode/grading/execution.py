"""Run a learner's file under a time limit: a file and calls in, an outcome for each call out.

The file runs in a process of its own (`labcode.grading.worker`), in an empty folder, without writing
bytecode, with its output caught, under `labcode.grading.guard`, and where that is asked for in a
`labcode.grading.jail`. A call that takes too long ends the process and everything it started.
"""

import contextlib
import errno
import json
import math
import os
import pickle
import queue
import re
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Literal

import labcode
from labcode import store
from labcode.grading import guard, jail, sealed
from labcode.inputs import Closing
from labcode.outputs import swept

CALL_LIMIT_S = 10.0
LOAD_LIMIT_S = 10.0  # of the learner's file
START_LIMIT_S = 60.0  # of Python and its packages, before
_PRINTED_KEPT = 4000
PRIVATE = ("LABCODE_GRADES_KEY",)  # of the environment: an answer has no business with it
_MOST_BYTES = 64 << 20  # of all answers of a file together
_REMOVALS = 200  # attempts to remove a folder: a second
_POLL_S = 0.005
_LOOK_S = 0.1  # how often what may interrupt is asked
interrupting: list[Callable[[], bool]] = []  # the last one says whether a grading is wanted no longer


class InterruptedGradingError(Exception):
    """The grading is wanted no longer: the file was saved again."""


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

    ``load_error`` says, once outcomes were asked for, why the file could not be loaded. ``forbidden`` are
    modules that it may not import.
    """

    def __init__(
        self, file: Path, *, forbidden: Sequence[str] = (), load_limit_s: float = LOAD_LIMIT_S
    ) -> None:
        self.load_error: tuple[str, ...] = ()
        self._load_limit_s = load_limit_s
        self._limit_s = START_LIMIT_S
        self._folder = tempfile.TemporaryDirectory(prefix=swept())
        folder, confined = Path(self._folder.name), jail.current()
        (folder / "work").mkdir()
        (folder / "inputs").mkdir()  # files that are arguments; they go with the folder
        answer, work = file.absolute(), str(folder)
        shut: tuple[str, ...] = ()
        if confined is not None:
            (folder / "answer").mkdir()
            jail.take(file, folder / "answer")
            answer, work = Path(jail.ANSWER) / file.name, jail.WORK
        elif not file.absolute().is_relative_to(_solutions()):
            shut = _secret()
        self._rules = guard.Rules(shut, tuple(forbidden), work)
        self._processes = jail.PROCESSES if confined else 0
        with self._pipe(folder, confined is not None) as (name, hands):
            command = [sys.executable, "-B", "-m", "labcode.grading.worker", str(answer), name]
            if confined is not None:
                away = guard.does_it(forbidden)
                command = confined.command(command, folder / "answer", empty=away)
            environment = {"TMPDIR": str(folder / "inputs")}
            self._running = start(command, folder / "work", environment, listens=True, hands=hands)
        self._events: queue.SimpleQueue[tuple[float, bytes] | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    @contextlib.contextmanager
    def _pipe(self, folder: Path, handed: bool) -> Iterator[tuple[str, list[int]]]:
        """A pipe for events: how the process calls it, and what is handed to one that sees no folder."""
        hands: list[int] = []
        if handed:
            self._reads, writes = os.pipe()
            name, hands = f"/dev/fd/{writes}", [writes]
        else:
            name = str(folder / "events")
            self._reads = open_pipe(Path(name))
        try:
            yield name, hands
        except BaseException:
            os.close(self._reads)
            raise
        finally:
            for number in hands:
                os.close(number)

    def close(self) -> None:
        """End the process and remove its folder, to which what it had started may write until it is dead."""
        self._running.close()
        if not jail.current():
            _end_all_of(self._folder.name)
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
        from labcode.grading import codec, worker  # which loads pandas, while the process does, too

        confined = self._processes > 0
        packed = [(call.function, codec.pack(call.arguments, carry=confined)) for call in calls]
        job = worker.Job(packed, self._rules, self._processes)
        self._running.tell(pickle.dumps(job, pickle.HIGHEST_PROTOCOL))
        return self._outcomes(calls)

    def _outcomes(self, calls: Sequence[Call]) -> Iterator[Outcome]:
        from labcode.grading import remote

        loaded, began, ended = False, False, 0
        attendant: remote.Attendant | None = None
        for event in self._each_event():
            match event:
                case {"event": "loading"} if not loaded:
                    self._limit_s = self._load_limit_s
                    self._restart()
                case {"event": "load error", "lines": list(lines)} if not loaded:
                    self.load_error = tuple(map(str, lines))
                    return
                case {"event": "loaded"} if not loaded:
                    loaded, self._limit_s = True, self._load_limit_s
                    self._restart()
                case {"event": "begin"} if loaded and not began and ended < len(calls):
                    began, self._limit_s = True, calls[ended].limit_s
                    attendant = remote.Attendant() if remote.counting(calls[ended].arguments) else None
                    self._restart()
                case {"event": "ask", "what": str(what), "given": list(given)} if attendant is not None:
                    self._running.say(json.dumps(attendant.reply(what, given)).encode() + b"\n")
                case {"event": "end", **rest} if began:
                    counting, counts = remote.counting(calls[ended].arguments), {}
                    if attendant is not None:
                        counts = attendant.machine.counts
                    began, ended, self._limit_s = False, ended + 1, self._load_limit_s
                    outcome = _outcome(rest)
                    if counting is not None and outcome.kind == "value":
                        outcome = replace(outcome, value=counting.told(outcome.value, counts))
                    yield outcome
                    if ended == len(calls):
                        return
                    self._restart()
        code = self._running.process.poll()
        if loaded and code is None:
            yield Outcome("timeout", None, (self._why_stopped(),), self.printed())
        elif loaded:
            yield Outcome("died", None, (_how_it_died(code or 0),), self.printed())
        elif code is None:
            self.load_error = (f"{self._why_stopped()} before any function was called",)
        else:
            self.load_error = (_how_it_died(code), *self.printed().splitlines()[-3:])

    def _why_stopped(self) -> str:
        if self._too_much:
            return f"gave more than {_MOST_BYTES >> 20} MiB of answers"
        return f"took longer than {self._limit_s:g} s"

    def _restart(self) -> None:
        """What is waited for now begins with the event that came last."""
        self._until = min(self._last + self._limit_s, self.until)

    until = math.inf  # when no outcome is waited for any more, by `time.monotonic`
    _too_much, _last, _until = False, 0.0, 0.0

    def _read(self) -> None:
        """Events as they come, each with its time, until all who might write some are gone."""
        taken, rest = 0, b""
        with os.fdopen(self._reads, "rb", buffering=0) as stream:
            await_writer(stream.fileno(), self._running)
            while chunk := stream.read(1 << 16):
                taken += len(chunk)
                if taken > _MOST_BYTES:
                    self._too_much = True
                    break
                *lines, rest = (rest + chunk).split(b"\n") if b"\n" in chunk else (rest + chunk,)
                now = time.monotonic()
                for line in lines:
                    self._events.put((now, line))
            self._events.put(None)

    def _each_event(self) -> Iterator[dict[str, Any]]:
        """The events as they come, until the process has ended, or what is waited for takes too long.

        What a learner's code may have written there itself is no event.
        """
        self._last = time.monotonic()
        self._restart()
        while True:
            left = self._until - time.monotonic()
            try:
                found = self._events.get(timeout=max(0.0, min(left, _LOOK_S)))
            except queue.Empty:
                if interrupting and interrupting[-1]():
                    raise InterruptedGradingError from None
                if left > _LOOK_S:
                    continue
                return
            if found is None:
                if not self._too_much:
                    wait(self._running, 2.0)
                return
            self._last, line = found
            if self._last > self._until:
                return
            with contextlib.suppress(ValueError, RecursionError):
                event = _read(line)
                if isinstance(event, dict):
                    yield event


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

    def tell(self, data: bytes, *, last: bool = False) -> None:
        """Write what a program which listens gets first, without waiting until it has read it."""

        def write() -> None:
            self._say(data)
            if last:
                self._hang_up()

        self._teller = threading.Thread(target=write, daemon=True)
        self._teller.start()

    def say(self, data: bytes) -> None:
        """Write a little more."""
        if self._teller is not None:
            self._teller.join()
        self._say(data)

    _teller: threading.Thread | None = None

    def _hang_up(self) -> None:
        if self.process.stdin is not None:
            with contextlib.suppress(OSError, ValueError):
                self.process.stdin.close()

    def _say(self, data: bytes) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            self.process.stdin.write(data)
            self.process.stdin.flush()

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
        self._hang_up()


def start(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str] | None = None,
    *,
    listens: bool = False,
    hands: Sequence[int] = (),
) -> Running:
    """Start a program in ``folder``, in a process group of its own, able to import this labcode.

    One that ``listens`` gets what `Running.tell` says on its standard input; ``hands`` are open files that it
    gets as well.
    """
    package_home = str(Path(labcode.__file__).resolve().parent.parent)
    paths = [package_home, *filter(None, [os.environ.get("PYTHONPATH")])]
    own = {name: text for name, text in os.environ.items() if name not in PRIVATE}
    env = {**own, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
    env |= {"PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8", **(environment or {})}
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=env,
        stdin=subprocess.PIPE if listens else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=os.name == "posix",
        pass_fds=tuple(hands),
    )
    return Running(process)


def open_pipe(name: Path) -> int:
    """Make a pipe that is a file of this name, which may be opened for writing at any time; its end here."""
    os.mkfifo(name)
    return os.open(name, os.O_RDONLY | os.O_NONBLOCK)


def await_writer(pipe: int, running: Running) -> None:
    """Return when there is something to be read, or a process has ended without opening the other end."""
    while not select.select([pipe], [], [], _POLL_S)[0]:
        if running.process.poll() is not None:
            break
    os.set_blocking(pipe, True)


def wait(running: Running, limit_s: float) -> bool:
    """Wait for a process to end; False when the time was up first."""
    try:
        running.process.wait(timeout=limit_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def _solutions() -> Path:
    return sealed.root(store.repository_root()).absolute()


def _secret() -> tuple[str, ...]:
    """What an answer may not read: the solutions, wherever they are, and the history that they are in."""
    home = store.repository_root()
    history = home / ".git" / "objects"
    return tuple(dict.fromkeys(map(str, (_solutions(), home / "solutions", history))))


def _end_all_of(folder: str) -> None:
    """End what a learner's file has started and sent away: all processes that were given this folder."""
    mark = os.fsencode(folder)
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            if mark in (place / "environ").read_bytes():
                os.kill(int(place.name), signal.SIGKILL)


def _read(line: bytes) -> Any:
    """What JSON says; halves of letters, which no file takes, become question marks."""
    found = json.loads(line.decode(errors="replace"))
    if re.search(rb"\\ud", line, re.IGNORECASE):
        found = json.loads(json.dumps(found, ensure_ascii=False).encode(errors="replace"))
    return found


def _outcome(event: Mapping[str, Any]) -> Outcome:
    from labcode.grading import codec

    printed = str(event.get("printed", ""))
    try:
        if "lines" in event:
            return Outcome("error", None, tuple(map(str, event["lines"])), printed)
        return Outcome("value", codec.decode(event["value"]), (), printed)
    except Exception:  # who wrote it may have written anything: what cannot be made of it is theirs
        return Outcome("error", lines=("the answer cannot be read",))


def _how_it_died(code: int) -> str:
    if code < 0:
        name = signal.Signals(-code).name if -code in signal.valid_signals() else str(-code)
        return f"the process was killed by {name} (often: out of memory, or a crash in a compiled library)"
    return f"the file ended the whole program (exit code {code}) instead of returning"
