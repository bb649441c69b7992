"""Signals that end a process in; an exception out that lets everything clean up, as Ctrl-C does."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

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
