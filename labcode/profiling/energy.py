"""`labcode energy`: a command in; what the GPUs used while it ran, as text, a log and a picture, out."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from labcode.errors import LabError
from labcode.outputs import free, whole
from labcode.record.power import run
from labcode.show.terminal import raw


@dataclass(frozen=True)
class Wishes:
    """How a command is metered and what becomes of the energies: a log, a picture, JSON on stdout."""

    period_s: float
    idle_s: float
    output: Path | None = None
    plot: Path | None = None
    as_json: bool = False
    quiet: bool = False
    force: bool = False


def energy(command: Sequence[str], wishes: Wishes) -> int:
    """Run a command, tell on stderr what it took, or on stdout as JSON, and return its exit code.

    Raises `LabError` for files that cannot be written before anything runs, and what `run` raises.
    """
    output, plot = wishes.output, wishes.plot
    _refuse(output, plot)
    free(output, plot, force=wishes.force)
    document = run(
        command,
        period_s=wishes.period_s,
        idle_s=wishes.idle_s,
        meanwhile=_reader,
        live=raw(sys.stderr) if sys.stderr.isatty() and not wishes.quiet else None,
        stdout=sys.stderr.fileno() if wishes.as_json else None,
    )
    from labcode.reports.power.schema import write_document

    if output is not None:
        with whole(output) as part:
            write_document(document, part)
    from labcode.analysis.energy import summary
    from labcode.reports.power.log import log_of

    log = log_of(document, output or Path("power log"))
    print(
        summary.as_json(log) if wishes.as_json else summary.as_text(log),
        file=sys.stdout if wishes.as_json else sys.stderr,
    )
    if plot is not None:
        from labcode.figures.charts.power import write_power

        write_power(log, plot)
    return document.exit_code or 0


def _refuse(output: Path | None, plot: Path | None) -> None:
    from labcode.meter.meter import check_name

    for file in (output, plot):
        if file is not None and not file.absolute().parent.is_dir():
            raise LabError(f"{file}: there is no folder {file.parent}; create it first")
    if output is not None:
        check_name(output)
    if plot is not None and plot.suffix.lower() != ".svg":
        raise LabError(f"{plot}: the plot is a picture; name a file that ends in .svg")


def _reader() -> None:
    """Import what tells of a log, which takes about as long as the idle window."""
    from labcode.analysis.energy import summary  # noqa: F401
