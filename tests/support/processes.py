"""Which processes there are, without `ps`, which small systems lack."""

import time
from collections.abc import Callable

import psutil

LONG_S = 120.0  # a process that was killed ends when its machine comes to it


def gone(pid: int) -> bool:
    """Whether a process ends in time, if only its parent has not asked for its exit code yet."""

    def ended() -> bool:
        try:
            return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    return _in_time(ended)


def none_runs(words: list[str]) -> bool:
    """Whether in time no process of this machine is left that was started by these words."""

    def none() -> bool:
        return all(one.as_dict(["cmdline"])["cmdline"] != words for one in psutil.process_iter())

    return _in_time(none)


def _in_time(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + LONG_S
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
