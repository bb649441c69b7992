"""``labcode …`` and ``python -m labcode …``: the command line, imported where Ctrl-C is one line already."""

import _signal  # type: ignore[import-not-found]  # `signal` without its enumerations, which take a while
import os


def _end(number: int, frame: object) -> None:
    """Ctrl-C while importing, when there is nothing to clean up and an exception might be lost."""
    os.write(2, b"labcode: interrupted before it began\n")
    os._exit(130)


if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _end)


def main() -> None:
    """Import the command line, which takes a tenth of a second, and run it."""
    from labcode.cli import main as run

    try:
        run()
    finally:
        if _signal.getsignal(_signal.SIGINT) is _end:
            _signal.signal(_signal.SIGINT, _signal.SIG_DFL)  # all is said: end at once


if __name__ == "__main__":
    main()
