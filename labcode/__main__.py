"""``labcode …`` and ``python -m labcode …``: the command line, imported where Ctrl-C is one line already."""

import sys


def main() -> None:
    """Import the command line, which takes a tenth of a second, and run it."""
    try:
        from labcode.cli import main as run
    except KeyboardInterrupt:
        print("labcode: interrupted before it began", file=sys.stderr)
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
