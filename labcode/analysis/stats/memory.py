"""`labcode stats` of histories of the allocator: files and report names in; tables as text out."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TextIO

import pandas as pd

from labcode.analysis.memory import history as memory_history
from labcode.analysis.stats.kineto import ENDINGS, write_tables
from labcode.analysis.stats.text import write
from labcode.analysis.stats.writer import FORMATS
from labcode.errors import LabError
from labcode.outputs import base_names, staged
from labcode.reports.memory.history import MemoryHistory, is_history, open_history

REPORTS: Mapping[str, Callable[[MemoryHistory], pd.DataFrame]] = {
    "peak": memory_history.peak,
    "sites": memory_history.sites,
    "leaks": memory_history.leaks,
    "allocations": memory_history.allocations,
    "live_bytes": memory_history.live_bytes,
}
DEFAULT_REPORTS = ("peak", "sites", "leaks")


def run(
    files: Sequence[Path],
    reports: Sequence[str],
    fmt: str,
    output: TextIO,
    *,
    every: bool = False,
    folder: Path | None = None,
    force: bool = False,
    notes: TextIO | None = None,
) -> list[Path]:
    """Write reports of histories to ``output`` or into ``folder``; see `kineto_stats.run`."""
    for file in files:
        if not is_history(file):
            raise LabError(f"{file}: name reports of one kind at once; the others are memory histories")
    for name in reports:
        if name not in REPORTS:
            close = difflib.get_close_matches(name, REPORTS, n=1)
            hint = f"did you mean {close[0]}? " if close else ""
            raise LabError(
                f"{name!r} is not a report of memory histories; {hint}There are: {', '.join(REPORTS)}"
            )
    if fmt not in FORMATS:
        raise LabError(f"{fmt!r} is not a format; choose one of {', '.join(FORMATS)}")
    if every and reports:
        raise LabError("stats: --all takes every report that has data; leave out --report or --all")
    wanted = tuple(dict.fromkeys(reports)) or (tuple(REPORTS) if every else DEFAULT_REPORTS)
    stream = sys.stderr if notes is None else notes

    def tables(file: Path) -> dict[str, pd.DataFrame]:
        history = open_history(file)
        made = {name: REPORTS[name](history) for name in wanted}
        stream.writelines(f"note: {line}\n" for line in history.warnings)
        return made

    if folder is None:
        for place, file in enumerate(files):
            made = tables(file)
            if len(files) > 1:
                output.write("\n" * (place > 0) + f"{'# ' if fmt in ('csv', 'md') else ''}{file}\n")
            write_tables(made, fmt, output)
        return []
    written = []
    with staged(folder, force=force, reads=files) as work:
        for file, base in base_names(files).items():
            for name, table in tables(file).items():
                target = f"{base}_{name}{ENDINGS[fmt]}"
                with (work / target).open("w", encoding="utf-8", newline="") as handle:
                    write(table, fmt, handle)
                written.append(folder / target)
    return written
