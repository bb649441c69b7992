"""Signals that end a process in; an exception that lets everything clean up, or the same to a child, out."""

import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

_PASSED_ON = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
_ENDING = ("SIGTERM", "SIGHUP", "SIGQUIT", "SIGXCPU", "SIGUSR1", "SIGUSR2", "SIGALRM")


class Ended(BaseException):
    """This process was asked to end by the signal ``number``."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


@contextmanager
def signals_as_exceptions() -> Iterator[None]:
    """Raise `Ended` in the main thread at the first signal that would end the process; ignore later ones.

    Signals that are ignored (``nohup``) stay so, and a process that was forked meanwhile ends as ever.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    owner = os.getpid()
    ended = False

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal ended
        if os.getpid() != owner:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        elif not ended:
            ended = True
            raise Ended(number)

    numbers = [getattr(signal, name) for name in _ENDING if hasattr(signal, name)]
    before = {n: signal.signal(n, end) for n in numbers if signal.getsignal(n) is signal.SIG_DFL}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def interruptible() -> Iterator[Sequence[int]]:
    """Meanwhile Ctrl-C raises `KeyboardInterrupt` in the main thread; what is yielded then holds its number,
    whatever became of the exception."""
    came: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        came.append(number)
        raise KeyboardInterrupt

    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        yield came
        return
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield came
    finally:
        signal.signal(signal.SIGINT, before)


class Passed:
    """The signals that came, and the process that gets them; those that came before it, when it is told."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self._process: subprocess.Popen[bytes] | None = None

    def __call__(self, process: subprocess.Popen[bytes]) -> None:
        """Tell the process."""
        self._process = process
        for number in self.numbers:
            process.send_signal(number)

    def take(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        self.numbers.append(number)
        from_terminal = number in (signal.SIGINT, signal.SIGQUIT) and _in_foreground()
        if self._process is not None and not from_terminal:
            self._process.send_signal(number)


@contextmanager
def passing_on() -> Iterator[Passed]:
    """Meanwhile signals go to the process that what is yielded is called with, as a terminal's do anyway."""
    passed = Passed()
    numbers = [getattr(signal, name) for name in _PASSED_ON]
    before = {n: signal.signal(n, passed.take) for n in numbers if signal.getsignal(n) is not signal.SIG_IGN}
    try:
        yield passed
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _in_foreground() -> bool:
    """Whether a terminal sends its signals to this group of processes, and so to the child, too."""
    try:
        with open("/dev/tty", "rb") as terminal:
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:
        return False
