"""``labcode …`` and ``python -m labcode …``: the command line, imported where Ctrl-C is one line already."""

import gc
import sys


def main() -> None:
    """Import the command line, which takes a tenth of a second, and run it."""
    gc.set_threshold(50_000)  # looking for cycles among what importing makes takes a tenth of the start
    try:
        from labcode.cli import main as run
    except KeyboardInterrupt:
        print("labcode: interrupted before it began", file=sys.stderr)
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
