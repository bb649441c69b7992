"""Which processes there are, without `ps`, which small systems lack."""

import time

import psutil


def gone(pid: int, within_s: float = 2.0) -> bool:
    """Whether a process ends in time, if only its parent has not asked for its exit code yet."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.02)
    return False


def commands() -> list[list[str]]:
    """The words that each process was started by, of those that tell."""
    return [words for one in psutil.process_iter() if (words := one.as_dict(["cmdline"])["cmdline"])]
