"""A command run under the power meter: its words in; a power log with its exit code out."""

import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

from labcode.ending import passing_on
from labcode.errors import ToolError
from labcode.meter.gpus import open_gpus
from labcode.meter.meter import Meter, Metered
from labcode.reports.power.schema import COMMAND, IDLE, Document

_SHOWN_EVERY_S = 0.5


def run(
    words: Sequence[str],
    *,
    period_s: float,
    idle_s: float,
    meanwhile: Callable[[], None] | None = None,
    gpus: Sequence[Metered] | None = None,
    live: TextIO | None = None,
    stdout: int | None = None,
) -> Document:
    """Run a command while all GPUs that it can see are metered; the log has the windows idle and command.

    Signals that end programs are passed on to the command, and the log comes out all the same; its
    ``exit_code`` is 128 and the number of the signal that ended the command. ``meanwhile`` is done in the
    window idle, which lasts ``idle_s`` at least. ``live``: a terminal to show power on while the command
    runs; ``stdout``: a file descriptor for what it prints. Raises `ToolError` where it cannot be started, and
    what `open_gpus` raises.
    """
    with Meter(open_gpus() if gpus is None else gpus, period_s=period_s) as meter:
        if idle_s > 0:
            with meter.window(IDLE):
                began = time.monotonic()
                if meanwhile:
                    meanwhile()
                time.sleep(max(began + idle_s - time.monotonic(), 0))
        meter.begin(COMMAND)
        try:
            with passing_on() as started:
                process = start(words, stdout)
                started(process)
                code = _wait(process, meter, live)
        finally:
            meter.end(COMMAND)
    return meter.document(command=neutral(words), exit_code=code if code >= 0 else 128 - code)


def neutral(words: Sequence[str]) -> str:
    """A command without folders and arguments: the program's name, and a script's or module's."""
    name = Path(words[0]).name
    rest = list(words[1:])
    if name.startswith(("python", "torchrun", "bash", "sh")) and rest:
        if rest[0] == "-m" and len(rest) > 1:
            return f"{name} -m {rest[1]}"
        if not rest[0].startswith("-"):
            return f"{name} {Path(rest[0]).name}"
    return name


def start(
    words: Sequence[str], stdout: int | None = None, *, keep: Sequence[int] | None = None
) -> subprocess.Popen[bytes]:
    """Start a user's command, which talks to the terminal itself; `ToolError` where it cannot be started.

    ``stdout`` is a file descriptor for what it prints; with ``keep``, descriptors that it inherits, for what
    it says on stderr, too.
    """
    try:
        stderr = subprocess.STDOUT if keep else None
        return subprocess.Popen(list(words), stdout=stdout, stderr=stderr, pass_fds=keep or ())
    except FileNotFoundError:
        raise ToolError(f"{words[0]}: not found; check the command after --") from None
    except PermissionError:
        raise ToolError(f"{words[0]}: no permission to execute it; `chmod +x` it or choose another") from None
    except OSError as error:
        raise ToolError(f"{words[0]}: cannot be started ({error.strerror}); check the command") from None


def _wait(process: subprocess.Popen[bytes], meter: Meter, live: TextIO | None) -> int:
    """Wait for the end; the exit code, negative for a signal."""
    if live is None:
        return process.wait()
    began = time.monotonic()
    while True:
        try:
            return process.wait(_SHOWN_EVERY_S)
        except subprocess.TimeoutExpired:
            live.write(f"\r{status(meter, time.monotonic() - began)}\x1b[K")
            live.flush()
        finally:
            if process.returncode is not None:
                live.write("\r\x1b[K")
                live.flush()


def status(meter: Meter, seconds: float) -> str:
    """What the meter shows now, in a line."""
    parts = [f"{seconds:.1f} s"]
    for gpu, columns in zip(meter.gpus, meter.columns, strict=True):
        power = columns.last("instant_mw") or columns.last("average_mw") or 0
        clock, heat = columns.last("sm_mhz"), columns.last("temperature_c")
        parts.append(
            f"GPU {gpu.number} {power / 1000:.0f} W"
            + (f" {clock} MHz" if clock is not None else "")
            + (f" {heat} °C" if heat is not None else "")
        )
    return "  ".join(parts)[: max(20, shutil.get_terminal_size().columns - 1)]
