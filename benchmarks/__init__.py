"""Benchmarks of the lab itself, run where the repository is: ``python -m benchmarks.NAME``."""

import sys
from collections.abc import Callable

import typer

from labcode.errors import LabError


def run(main: Callable[..., int | None]) -> None:
    """Run a benchmark as a command; a foreseeable failure is one line and exit code 2."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except LabError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        sys.exit(2)
