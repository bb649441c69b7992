"""Errors a user can act on: one line in, one line on stderr and exit code 2 out."""

import errno
from collections.abc import Iterable


class LabError(Exception):
    """A problem with what the lab was given: a file, a flag, a missing tool or permission.

    The message is one line that names the file (or tool) and says what to do about it. The command line
    prints it without a traceback and exits with code 2.
    """

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


class ToolError(LabError):
    """A program the lab calls (nsys, nvcc, ncu …) is missing, failed or timed out."""


class InputError(LabError):
    """A file that is missing, damaged, foreign, or of a version the lab does not know."""


def describe_os_error(error: OSError) -> str:
    """One line for an operating system error: the file, the reason, and what to do about it."""
    where = f"{error.filename}: " if error.filename else ""
    reason = error.strerror or str(error)
    advice = {
        errno.ENOSPC: "; free some space and run the command again, nothing was left half-written",
        errno.EFBIG: "; it would be larger than this process may write (see `ulimit -f`), nothing was left",
        errno.EDQUOT: "; your disk quota is used up, free some space and run the command again",
        errno.EACCES: "; you do not have the permission, choose another place or change the file's mode",
        errno.EPERM: "; you do not have the permission, choose another place or change the file's mode",
        errno.EROFS: "; the file system is read-only, choose another place",
        errno.ENOENT: "; check the path",
    }.get(error.errno or 0, "")
    return " ".join(f"{where}{reason}{advice}".split())


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest known one, if any is near, and all of them."""
    import difflib

    names = list(known)
    close = difflib.get_close_matches(name, names, n=1)
    return (f"did you mean {close[0]}? There" if close else "there") + f" are: {', '.join(names)}"
