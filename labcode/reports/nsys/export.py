"""Captures in; the reader's tables as CSV or Parquet files, or the SQLite exports themselves, out.

An ``.nsys-rep`` is exported by the nsys of this machine, and only such a file needs one. Tables hold what the
reader gives out: no environment, no process list.
"""

import shutil
from collections.abc import Sequence
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import pandas as pd

from labcode.errors import InputError, LabError, nearest
from labcode.outputs import base_names, refuse_existing, refuse_inputs, staged
from labcode.reports.nsys.open import open_export
from labcode.reports.nsys.report import NsysReport, open_report
from labcode.reports.nsys.source import Source

FORMATS = ("csv", "parquet", "sqlite")
_NO_TABLES = ("close", "window", "gpu_ops")


def table_names() -> tuple[str, ...]:
    """The reader's tables, as `NsysReport` has them; ``gpu_ops`` is left out, for it repeats others."""
    found = []
    for name, member in vars(NsysReport).items():
        if name.startswith("_") or name in _NO_TABLES or not callable(member):
            continue
        if "DataFrame" in str(getattr(member, "__annotations__", {}).get("return", "")):
            found.append(name)
    return tuple(found)


def export_all(
    files: Sequence[Path], folder: Path, fmt: str = "csv", *, tables: Sequence[str] = (), force: bool = False
) -> list[Path]:
    """Write the tables of each capture as ``<capture>_<table>.csv``, or with ``sqlite`` the export itself.

    All files are written or none. Tables without rows are left out. Raises `LabError` for bad use, a file
    that exists (without ``force``) or a missing package, `InputError` for a capture that cannot be read or
    that has no rows at all, and `ToolError` for an ``.nsys-rep`` where there is no nsys.
    """
    _check(files, fmt, tables)
    bases = base_names(files)
    if fmt == "sqlite":
        return _copies(bases, folder, force=force)
    written: list[Path] = []
    with staged(folder, force=force, reads=files) as work:
        for file, base in bases.items():
            with open_report(file) as report:
                count = len(written)
                for name in tables or table_names():
                    table: pd.DataFrame = getattr(report, name)()
                    if table.empty:
                        continue
                    target = f"{base}_{name}.{fmt}"
                    if fmt == "csv":
                        table.to_csv(work / target, index=False, lineterminator="\n")
                    else:
                        table.to_parquet(work / target, index=False)
                    written.append(folder / target)
                if count == len(written):
                    raise InputError(
                        f"{file}: no rows in {', '.join(tables) or 'any table'}; nothing to export"
                    )
    return written


def _copies(bases: dict[Path, str], folder: Path, *, force: bool) -> list[Path]:
    names = [f"{base}.sqlite" for base in bases.values()]
    refuse_inputs((folder / name for name in names), bases)
    refuse_existing(folder, names, force=force)
    with staged(folder, force=force, reads=bases) as work:
        for file, base in bases.items():
            opened = open_export(file)  # exports an .nsys-rep, unpacks an .xz, checks either
            with closing(Source(opened)):
                shutil.copyfile(opened.sqlite, work / f"{base}.sqlite")
    return [folder / f"{base}.sqlite" for base in bases.values()]


def _check(files: Sequence[Path], fmt: str, tables: Sequence[str]) -> None:
    if not files:
        raise LabError("export: name at least one capture")
    if fmt not in FORMATS:
        raise LabError(f"{fmt!r} is not a format; choose one of {', '.join(FORMATS)}, pftrace")
    if fmt == "sqlite" and tables:
        raise LabError(
            "export: --table chooses among the reader's tables; an SQLite export holds all of them"
        )
    for name in tables:
        if name not in table_names():
            raise LabError(f"{name!r} is not a table; {nearest(name, table_names())}")
    if fmt == "parquet" and find_spec("pyarrow") is None:
        raise LabError(
            "export: Parquet needs pyarrow; `python -m pip install pyarrow`, or choose --format csv"
        )
