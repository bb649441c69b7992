"""``python -m labcode …`` is the ``labcode`` command."""

from labcode.cli import main

if __name__ == "__main__":
    main()
