"""Single keys from a terminal: time to wait in; the key that was pressed meanwhile, or nothing, out."""

import select
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager


def wait(seconds: float) -> str:
    """The key that is pressed within this time; empty for none, and where there is no terminal."""
    if not sys.stdin.isatty():
        time.sleep(seconds)
        return ""
    if not select.select([sys.stdin], [], [], seconds)[0]:
        return ""
    return sys.stdin.read(1).lower()


@contextmanager
def single() -> Iterator[None]:
    """Inside of the block a key counts without Enter, where there is a terminal that knows how."""
    try:
        import termios
        import tty

        before = termios.tcgetattr(sys.stdin)
    except (ImportError, OSError, ValueError, termios.error):
        yield
        return
    try:
        tty.setcbreak(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
