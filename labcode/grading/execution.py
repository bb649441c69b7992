"""Run a learner's file under a time limit: a file and calls in, an outcome for each call out.

The file runs in a process of its own (`labcode.grading.worker`), in an empty folder, without writing
bytecode, with its output caught. A call that takes too long ends the process and everything it started.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import labcode
from labcode.grading import codec

CALL_LIMIT_S = 10.0
LOAD_LIMIT_S = 60.0
_POLL_S = 0.01
_PRINTED_KEPT = 4000


@dataclass(frozen=True)
class Call:
    """One call of a learner's function, and the seconds it may take."""

    function: str
    arguments: tuple[Any, ...]
    limit_s: float = CALL_LIMIT_S


@dataclass(frozen=True)
class Outcome:
    """What became of a call: a value, or lines that say why there is none."""

    kind: Literal["value", "error", "timeout", "died"]
    value: Any = None
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Execution:
    """What became of a file: why it could not be loaded, what became of the calls begun, what it printed."""

    load_error: tuple[str, ...]
    outcomes: tuple[Outcome, ...]
    printed: str


def run_calls(file: Path, calls: Sequence[Call], *, load_limit_s: float = LOAD_LIMIT_S) -> Execution:
    """Run the calls in order in one process.

    The list of outcomes ends early when a call timed out or killed the process.
    """
    with tempfile.TemporaryDirectory(prefix="labcode-exercise-") as folder:
        work = Path(folder) / "work"
        work.mkdir()
        inputs = Path(folder) / "inputs"  # files that are arguments; they go with the folder
        inputs.mkdir()
        calls_file, events_file = Path(folder) / "calls.json", Path(folder) / "events.jsonl"
        encoded = [
            {"function": call.function, "arguments": [codec.encode(a) for a in call.arguments]}
            for call in calls
        ]
        calls_file.write_text(json.dumps(encoded), encoding="utf-8")
        events_file.touch()
        command = ["-m", "labcode.grading.worker", str(file.resolve()), str(calls_file), str(events_file)]
        with start([sys.executable, "-B", *command], work, {"TMPDIR": str(inputs)}) as running:
            ended = _wait(running, events_file, calls, load_limit_s)
        return _read(events_file, calls, ended, running, load_limit_s)


class Running:
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

    def printed(self) -> str:
        """The end of what the process wrote to stdout and stderr."""
        self._reader.join(timeout=2)
        return b"".join(self._kept).decode(errors="replace")

    def end(self) -> None:
        """Kill the process and what it started."""
        if os.name == "posix":
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        elif self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


def start(command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> Running:
    """Start a program in ``folder``, in a process group of its own, able to import this labcode."""
    package_home = str(Path(labcode.__file__).resolve().parent.parent)
    paths = [package_home, *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
    env |= {"PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8", **(environment or {})}
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
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


def _wait(running: Running, events: Path, calls: Sequence[Call], load_limit_s: float) -> bool:
    """Wait until the process ends by itself (True), or has been busy with one call for too long (False)."""
    size, since, limit = 0, time.monotonic(), load_limit_s
    while running.process.poll() is None:
        now = events.stat().st_size
        if now != size:
            size, since = now, time.monotonic()
            last = _last(events)
            limit = calls[last["call"]].limit_s if last.get("event") == "begin" else load_limit_s
        elif time.monotonic() - since > limit:
            return False
        time.sleep(_POLL_S)
    return True


def _events(file: Path) -> list[dict[str, Any]]:
    whole = file.read_text(encoding="utf-8").rpartition("\n")[0]
    return [json.loads(line) for line in whole.splitlines()]


def _last(file: Path) -> dict[str, Any]:
    events = _events(file)
    return events[-1] if events else {}


def _read(file: Path, calls: Sequence[Call], ended: bool, running: Running, load_limit_s: float) -> Execution:
    events = _events(file)
    printed = running.printed()
    outcomes = [_outcome(event) for event in events if event["event"] == "end"]
    last = events[-1]["event"] if events else ""
    if last == "load error":
        return Execution(tuple(events[-1]["lines"]), (), printed)
    loaded = any(event["event"] == "loaded" for event in events)
    if not ended:
        if not loaded:
            return Execution(
                (f"took longer than {load_limit_s:g} s before any function was called",), (), printed
            )
        limit = calls[min(len(outcomes), len(calls) - 1)].limit_s
        outcomes.append(Outcome("timeout", lines=(f"took longer than {limit:g} s",)))
    elif not loaded:
        return Execution((_how_it_died(running.process.returncode), *printed.splitlines()[-3:]), (), printed)
    elif len(outcomes) < len(calls):
        outcomes.append(Outcome("died", lines=(_how_it_died(running.process.returncode),)))
    return Execution((), tuple(outcomes), printed)


def _outcome(event: Mapping[str, Any]) -> Outcome:
    if "lines" in event:
        return Outcome("error", lines=tuple(event["lines"]))
    return Outcome("value", value=codec.decode(event["value"]))


def _how_it_died(code: int) -> str:
    if code < 0:
        name = signal.Signals(-code).name if -code in signal.valid_signals() else str(-code)
        return f"the process was killed by {name} (often: out of memory, or a crash in a compiled library)"
    return f"the file ended the whole program (exit code {code}) instead of returning"
