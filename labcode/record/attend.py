"""A user's command, run to its end beside the terminal: its words in; its exit code and how it ended out."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

from labcode import tools
from labcode.ending import passing_on
from labcode.errors import ToolError
from labcode.record.began import plain

GRACE_S = 60.0  # for profilers to write what they have, when a program has to end
LIMIT = "limit"  # why a program was ended: its time was over
LIMITED = 124  # its exit code then, as of `timeout`
SLOW_S = 60.0  # a recording that takes so long is told once what it may be about
_LOOK_S = 0.2


@dataclass(frozen=True)
class Attended:
    """How a command ended: exit code (128 + N for signal N), the signals that came, seconds, and why it was
    ended from outside ('': it was not)."""

    code: int
    signals: tuple[int, ...]
    seconds: float
    cut: str = ""


class Recorded(NamedTuple):
    """What a tool left of a program that talked to the terminal: a recording (None: the program failed before
    there was one), the program's exit code, what there is to say."""

    file: Path | None
    code: int
    notes: tuple[str, ...] = ()


def start(
    words: Sequence[str],
    *,
    stdout: int | IO[bytes] | None = None,
    stderr: int | None = None,
    keep: Sequence[int] = (),
    env: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a command, which talks to the terminal itself; `ToolError` where it cannot be started.

    ``stdout`` and ``stderr`` are as of `subprocess.Popen`, ``keep`` descriptors that it inherits.
    """
    try:
        return subprocess.Popen(list(words), stdout=stdout, stderr=stderr, pass_fds=keep, env=env)
    except FileNotFoundError:
        raise ToolError(f"{words[0]}: not found; check the command after --") from None
    except PermissionError:
        raise ToolError(f"{words[0]}: no permission to execute it; `chmod +x` it or choose another") from None
    except OSError as error:
        raise ToolError(f"{words[0]}: cannot be started ({error.strerror}); check the command") from None


def attend(
    starting: Callable[[], subprocess.Popen[bytes]],
    *,
    look: Callable[[float], None] | None = None,
    limit_s: float | None = None,
    mark: str = "",
) -> Attended:
    """Run the process that ``starting`` starts to its end, passing on signals that end programs.

    ``look`` is called with the elapsed seconds while it runs. Given a ``mark`` that it and all its children
    carry in their environment (`labcode.tools.MARK`), it has `GRACE_S` seconds to end after ``limit_s`` or a
    signal; then, or at a second signal, all of them are killed.
    """
    cut, last_s = "", None
    with passing_on() as passed:
        began = time.monotonic()
        process = starting()
        passed(process)
        while True:
            with suppress(subprocess.TimeoutExpired):
                code = process.wait(_LOOK_S if look or mark else None)
                break
            now = time.monotonic() - began
            if look is not None:
                look(now)
            if not mark:
                continue
            if passed.numbers and not cut:
                cut, last_s = signal.Signals(passed.numbers[0]).name, now + GRACE_S
            elif limit_s is not None and now > limit_s and not cut:
                cut, last_s = LIMIT, now + GRACE_S
                process.terminate()
            elif last_s is not None and (now > last_s or len(passed.numbers) > 1):
                tools.end_all(process, mark)
                code = process.wait()
                break
        seconds = time.monotonic() - began
    if passed.numbers and not cut:
        cut = signal.Signals(passed.numbers[0]).name
    return Attended(code if code >= 0 else 128 - code, tuple(passed.numbers), seconds, cut)


def patience() -> Callable[[float], None]:
    """A ``look`` for `attend` that says once on stderr what to do if a recording takes long."""
    told = False

    def look(seconds: float) -> None:
        nonlocal told
        if seconds >= SLOW_S and not told:
            told = True
            sys.stderr.write(
                f"note: the program has run for {SLOW_S:g} s under the recorder, where compiling "
                "(torch.compile) takes longer; Ctrl-C ends it and keeps what was recorded, so does --limit\n"
            )
            sys.stderr.flush()

    return look


def limited(tool: str, limit_s: float | None) -> str:
    """What is said of a program that was ended at its time limit."""
    return (
        f"{tool}: the program was ended at the time limit of {limit_s or 0:g} s (--limit); what was recorded "
        "until then is judged"
    )


def neutral(words: Sequence[str]) -> str:
    """A command without folders and arguments: the program's name, and a script's or module's."""
    words = plain(words)
    name = Path(words[0]).name
    rest = list(words[1:])
    if name.startswith(("python", "torchrun", "bash", "sh")) and rest:
        if rest[0] == "-m" and len(rest) > 1:
            return f"{name} -m {rest[1]}"
        if not rest[0].startswith("-"):
            return f"{name} {Path(rest[0]).name}"
    return name


def ending(code: int) -> str:
    """How a program with this exit code ended, in words that follow its name."""
    if code > 128:
        with suppress(ValueError):
            name = signal.Signals(code - 128).name
            return f"ended by {name}" + (" (the host ran out of memory?)" if name == "SIGKILL" else "")
    return f"failed with exit code {code}"
