"""Files for a folder in; all of them there, whole, or none of them, out. Needs the standard library alone.

    with staged(Path("tables"), force=False) as work:
        (work / "a.csv").write_text("...")

Files are written into a hidden folder beside their places and moved when the last one is done. On an error,
a full disk or Ctrl-C nothing of them is left.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from labcode.errors import LabError

_KNOWN = (
    *(".sqlite.xz", ".sqlite", ".nsys-rep", ".ncu-rep", ".qdrep", ".db"),
    *(".memory.json.xz", ".memory.json", ".trace.json.gz", ".trace.json", ".json.gz", ".json"),
)


@contextlib.contextmanager
def staged(folder: Path, *, force: bool) -> Iterator[Path]:
    """A hidden folder to write into; on the way out its files are moved into ``folder``, which is made.

    Raises `LabError` where ``folder`` is a file, or would lose a file of the same name without ``force``.
    """
    made = _make(folder)
    done = False
    try:
        work = Path(tempfile.mkdtemp(dir=folder, prefix=".labcode-"))
        try:
            yield work
            files = sorted(path for path in work.iterdir() if path.is_file())
            refuse_existing(folder, (path.name for path in files), force=force)
            for path in files:
                path.replace(folder / path.name)
            done = True
        finally:
            shutil.rmtree(work, ignore_errors=True)
    except OSError as error:
        if error.filename is None:  # a full disk does not say where
            error.filename = str(folder)
        raise
    finally:
        if not done:
            for path in made:
                with contextlib.suppress(OSError):
                    path.rmdir()


def refuse_existing(folder: Path, names: Iterable[str], *, force: bool) -> None:
    """`LabError` when one of the files is in the folder already, unless ``force`` says to overwrite it."""
    there = [name for name in names if (folder / name).exists()]
    if there and not force:
        more = f" (and {len(there) - 1} more)" if len(there) > 1 else ""
        raise LabError(
            f"{folder / there[0]}: there already{more}; overwrite with --force or choose another folder"
        )


def base_names(files: Iterable[Path]) -> dict[Path, str]:
    """A name for what is made of each file: its own without suffix, with its folder's where two are alike.

    Files that are named twice come once. `LabError` when two of them cannot be told apart by their folder.
    """
    distinct = list({file.resolve(): file for file in files}.values())
    plain = {file: _without_suffix(file) for file in distinct}
    twice = {name for name in plain.values() if list(plain.values()).count(name) > 1}
    names = {
        file: f"{file.resolve().parent.name}-{name}" if name in twice else name
        for file, name in plain.items()
    }
    seen: dict[str, Path] = {}
    for file, name in names.items():
        if name in seen:
            raise LabError(
                f"{file}: what is made of it would be named {name}, as for {seen[name]}; give them separately"
            )
        seen[name] = file
    return names


def _without_suffix(file: Path) -> str:
    for suffix in _KNOWN:
        if file.name.endswith(suffix) and len(file.name) > len(suffix):
            return file.name[: -len(suffix)]
    return file.name


def _make(folder: Path) -> list[Path]:
    """Make a folder and those above it; give back the ones that were not there, the innermost first."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise LabError(f"{folder}: a file, not a folder; name a folder to write into") from None
    return missing
