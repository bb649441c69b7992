"""`labcode export`: captures in; their tables, or the exports themselves, as files out."""

from collections.abc import Sequence
from pathlib import Path

from labcode.reports import doing


def export(
    files: Sequence[Path], folder: Path, fmt: str = "csv", *, tables: Sequence[str] = (), force: bool = False
) -> list[Path]:
    """Write what the format of each file declares into ``folder``, all files or none; the paths.

    Raises `LabError` for bad use and files that are not exported, and what writing them raises.
    """
    writers = {doing("export", file): file for file in files}
    (write,) = writers  # files of one format, for one alone declares it
    written: list[Path] = write(files, folder, fmt, tables=tables, force=force)
    return written
