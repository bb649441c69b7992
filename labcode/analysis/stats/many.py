"""Many captures and many reports in; a file for each pair, or one text of them all, out.

write_all([Path("a.sqlite"), Path("b.sqlite")], ["cuda_gpu_kern_sum"], "csv", Path("tables"))
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from labcode.analysis.stats.nsys.reports import (
    DEFAULT_REPORTS,
    TABLES,
    check_names,
    missing_data,
    stats,
    table_of,
)
from labcode.analysis.stats.writer import FORMATS, write
from labcode.errors import InputError, LabError
from labcode.reports.nsys.open import open_export
from labcode.reports.nsys.source import Source

SUFFIXES = {"csv": ".csv", "json": ".json", "md": ".md", "table": ".txt"}


@dataclass(frozen=True)
class Written:
    """The files that were written, and a line for each report that was not: of which file, and why."""

    files: tuple[Path, ...]
    skipped: tuple[str, ...]


def available(path: Path) -> list[str]:
    """The reports for which a capture has data."""
    with closing(Source(open_export(path))) as source:
        return [name for name in TABLES if not missing_data(source, name)]


def print_all(
    files: Sequence[Path], reports: Sequence[str], fmt: str, output: TextIO, *, every: bool = False
) -> None:
    """Write reports of each capture to ``output``, by default nsys' usual ones, with ``every`` all with data.

    Of several captures each follows its path (in JSON as a member of one object).
    """
    _check(files, reports, fmt, every=every)
    if len(files) == 1:
        stats(files[0], _wanted(files[0], reports, every=every), fmt, output)
        return
    import json

    if fmt == "json":
        output.write("{\n")
    for place, file in enumerate(files):
        text = io.StringIO()
        stats(file, _wanted(file, reports, every=every), fmt, text)
        if fmt == "json":
            output.write(f"{json.dumps(str(file))}: {text.getvalue()}" + "," * (place < len(files) - 1))
        else:
            mark = {"md": "# ", "csv": "# "}.get(fmt, "")
            output.write("\n" * (place > 0) + f"{mark}{file}\n" + "\n" * (fmt == "md") + text.getvalue())
    if fmt == "json":
        output.write("}\n")


def write_all(
    files: Sequence[Path],
    reports: Sequence[str],
    fmt: str,
    folder: Path,
    *,
    every: bool = False,
    force: bool = False,
) -> Written:
    """Write each report of each capture into ``folder``, as ``<capture>_<report>.csv``: all of them or none.

    ``every`` takes all reports for which a capture has data. A report that is named and for which a capture
    has none is skipped with a line. Raises `LabError` for bad use, a file that exists (without ``force``),
    and `InputError` for a capture that cannot be read, or when there is nothing to write at all.
    """
    from labcode.outputs import base_names, refuse_existing, staged

    _check(files, reports, fmt, every=every)
    names = list(dict.fromkeys(reports)) or list(DEFAULT_REPORTS)
    written, skipped = [], []
    bases = base_names(files)
    if not every:
        planned = [f"{base}_{name}{SUFFIXES[fmt]}" for base in bases.values() for name in names]
        refuse_existing(folder, planned, force=force)
    with staged(folder, force=force, reads=files) as work:
        for file, base in bases.items():
            with closing(Source(open_export(file))) as source:
                for name in TABLES if every else names:
                    why = missing_data(source, name)
                    if why and not every:
                        skipped.append(f"{file}: {why}")
                    if why:
                        continue
                    target = f"{base}_{name}{SUFFIXES[fmt]}"
                    with (work / target).open("w", encoding="utf-8", newline="") as stream:
                        write(table_of(name, source), fmt, stream)
                    written.append(folder / target)
        if not written:
            raise InputError(
                skipped[0] if skipped else f"{files[0]}: no report has data; nothing was written"
            )
    return Written(tuple(written), tuple(skipped))


def _check(files: Sequence[Path], reports: Sequence[str], fmt: str, *, every: bool) -> None:
    if not files:
        raise LabError("stats: name at least one capture")
    if every and reports:
        raise LabError("stats: --all takes every report that has data; leave out --report or --all")
    check_names(reports)
    if fmt not in FORMATS:
        raise LabError(f"{fmt!r} is not a format; choose one of {', '.join(FORMATS)}")


def _wanted(file: Path, reports: Sequence[str], *, every: bool) -> list[str]:
    if not every:
        return list(reports)
    found = available(file)
    if not found:
        raise InputError(f"{file}: no report has data; record some with nsys profile --trace=cuda,nvtx")
    return found
