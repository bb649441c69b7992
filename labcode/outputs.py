"""Files to be written in; all of them whole, or none, out. Needs only the standard library::

    with whole(Path("a.svg"), reads=[capture]) as part:
        part.write_bytes(picture)
    with staged(Path("tables"), force=False, reads=[capture]) as work:
        (work / "a.csv").write_text("...")

Files are written in a temporary folder (mode 0700) beside their destination and moved when the last one is
done. After an error, a full disk, Ctrl-C or a signal that ends the process, none of them is left and what was
there before stays; what a killed process left is removed by the next one.
"""

import contextlib
import fcntl
import os
import re
import shutil
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from labcode.errors import InputError, LabError

_KNOWN = (
    *(".nsys.xz", ".sqlite.xz", ".sqlite", ".nsys-rep", ".ncu-rep", ".qdrep", ".db"),
    *(
        ".memory.json.xz",
        ".memory.json",
        ".power.json.xz",
        ".power.json",
        ".trace.json.gz",
        ".trace.json",
        ".json.gz",
        ".json",
    ),
)
DOCUMENT_SCHEMA = 1  # of documents in JSON; one more when a member leaves, or means something else
WORK = ".labcode-"
_NAME = re.compile(rf"{re.escape(WORK)}(?P<machine>\w+)-(?P<pid>\d+)-(?P<began>\d+)-\w+")


@contextlib.contextmanager
def whole(output: Path, *, reads: Iterable[Path] = ()) -> Iterator[Path]:
    """A temporary path to write to; on a clean exit the file there replaces ``output``, following links.

    ``reads`` are the files it is made from. Raises `LabError` if ``output`` is one of them, if its folder is
    missing, or if it exists and is not a regular file.
    """
    place = Path(os.path.realpath(output))
    refuse_inputs([output], reads)
    if not place.parent.is_dir():
        raise LabError(f"{output}: there is no folder {output.parent}; create it first")
    if place.exists() and not place.is_file():
        raise LabError(f"{output}: a folder or a device, not a file; choose another name for the output")
    with private_folder(place.parent) as work, _named(output):
        yield work / place.name
        _move(work / place.name, place)


@contextlib.contextmanager
def staged(folder: Path, *, force: bool, reads: Iterable[Path] = ()) -> Iterator[Path]:
    """A hidden folder to write into; on a clean exit its files are moved into ``folder``, created if needed.

    Raises `LabError` if ``folder`` is a file, if a file would be overwritten without ``force``, or if it is
    one of the files they are made from (``reads``).
    """
    made = _make(folder)
    done = False
    try:
        with private_folder(folder) as work:
            yield work
            files = sorted(path for path in work.iterdir() if path.is_file())
            with _alone(folder):
                refuse_inputs((folder / path.name for path in files), reads)
                refuse_existing(folder, (path.name for path in files), force=force)
                for path in files:
                    _move(path, folder / path.name)
            done = True
    finally:
        if not done:
            for path in made:
                with contextlib.suppress(OSError):
                    path.rmdir()


@contextlib.contextmanager
def private_folder(parent: Path | None = None) -> Iterator[Path]:
    """A folder that only this user can read, removed on exit; by default in the folder for temporary files.

    Leftovers of killed processes are removed first.
    """
    parent = _temporary() if parent is None else parent
    prefix = swept(parent)
    folder = parent / f"{prefix}{os.urandom(8).hex()}"  # named first: a signal finds what to remove
    with _named(parent):
        try:
            folder.mkdir(mode=0o700)
            yield folder
        finally:
            try:
                shutil.rmtree(folder, ignore_errors=True)
            except BaseException:  # a signal meanwhile, the first: the next ones are not heard
                shutil.rmtree(folder, ignore_errors=True)
                raise


def swept(parent: Path | None = None) -> str:
    """The prefix for names of folders that this process makes, by default in the folder for temporary files.

    Leftovers of killed processes are removed first: folders whose name says that they were made on this
    machine, by a process of this user that has ended.
    """
    parent = _temporary() if parent is None else parent
    machine = _machine()
    with contextlib.suppress(OSError):
        for name in (entry.name for entry in os.scandir(parent)):
            made = _NAME.fullmatch(name) if name.startswith(WORK) else None
            if made and made["machine"] == machine and _began(made["pid"]) != made["began"]:
                with contextlib.suppress(OSError):
                    if (parent / name).lstat().st_uid == os.geteuid():
                        shutil.rmtree(parent / name, ignore_errors=True)
    return f"{WORK}{machine}-{os.getpid()}-{_began('self')}-"


def refuse_inputs(outputs: Iterable[Path], reads: Iterable[Path]) -> None:
    """Raise `InputError` if an output is one of the files that are read, under any name or link."""
    inputs = list(reads)
    for output in outputs:
        for file in inputs:
            with contextlib.suppress(OSError):  # one of them is not there
                if output.samefile(file):
                    raise InputError(f"{output}: is the input itself; choose another name for the output")


def free(*outputs: Path | None, force: bool, reads: Iterable[Path] = ()) -> None:
    """Raise `LabError` if a file exists already and ``force`` is not set, or if it is one of those read.

    All commands check this before they begin to work, for outputs they were given and outputs they name
    themselves.
    """
    for output in outputs:
        if output is not None:
            refuse_inputs([output], reads)
            refuse_existing(output.parent, [output.name], force=force)


def refuse_existing(folder: Path, names: Iterable[str], *, force: bool) -> None:
    """Raise `LabError` if one of the files is in the folder already and ``force`` is not set."""
    try:
        there = [name for name in names if os.path.lexists(folder / name)]
    except ValueError:  # a name with a zero
        return
    for name in there:
        if not (folder / name).is_file() and not (folder / name).is_symlink():
            raise LabError(f"{folder / name}: a folder or a device, not a file; choose another output")
    if there and not force:
        more = f" (and {len(there) - 1} more)" if len(there) > 1 else ""
        raise LabError(
            f"{folder / there[0]}: there already{more}; overwrite with --force or name another output"
        )


def base_names(files: Iterable[Path]) -> dict[Path, str]:
    """A base name for the output of each file: its stem, preceded by its folder's name where two are alike.

    A file given twice appears once. Raises `LabError` if the folder does not tell two files apart either.
    """
    distinct = list({os.path.realpath(file): file for file in files}.values())
    plain = {file: _without_suffix(file) for file in distinct}
    twice = {name for name, count in Counter(plain.values()).items() if count > 1}
    names = {
        file: f"{Path(os.path.realpath(file)).parent.name}-{name}" if name in twice else name
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


def _move(made: Path, place: Path) -> None:
    """Put a file that has reached the disk into its place; it takes the mode of the one that was there."""
    with made.open("rb") as handle:
        os.fsync(handle.fileno())
    if place.exists():
        shutil.copymode(place, made)
    made.replace(place)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Meanwhile no other `staged` moves files into the folder, so that those of two do not mix."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def _named(output: Path) -> Iterator[None]:
    """Errors of the system that name no file, or one inside of a hidden folder, name what was to be made."""
    try:
        yield
    except OSError as error:
        if error.filename is None or WORK in f"{error.filename}{error.filename2}":  # a full disk, a copy
            error.filename, error.filename2 = str(output), None
        raise


def _temporary() -> Path:
    import tempfile  # which each start would pay for

    return Path(tempfile.gettempdir())


def _machine() -> str:
    """This machine, or the container whose processes can be seen, as a short word that does not name it."""
    with contextlib.suppress(OSError):
        name = f"{os.uname().nodename} {Path('/proc/self/ns/pid').readlink()}"
        return f"{zlib.crc32(name.encode()):08x}"
    return "0"


def _began(process: str) -> str:
    """When a process began, as the system counts; 0 for one that has ended and where nothing says so."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
        state, *_, began = fields.rpartition(")")[2].split()[:20]
        return "0" if state in "ZX" else began
    return "0"


def _make(folder: Path) -> list[Path]:
    """Make a folder and those above it; give back the ones that were not there, the innermost first."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise LabError(f"{folder}: a file, not a folder; name a folder to write into") from None
    return missing


def repository_root() -> Path:
    """The folder that holds ``captures/`` and ``book/``: ``$LABCODE_HOME``, or this package's checkout."""
    home = os.environ.get("LABCODE_HOME")
    return Path(home) if home else Path(__file__).resolve().parent.parent


def cache_folder() -> Path:
    """The folder for unpacked captures: ``$LABCODE_CACHE``, or ``profiling-lab`` in the user's cache folder.

    Where the user may not write there, it is a private folder among the temporary ones.
    """
    own = os.environ.get("LABCODE_CACHE")
    if own:
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(base) if base else Path.home() / ".cache") / "profiling-lab"
    if may_be_made(folder):
        return folder
    folder = _temporary() / f"profiling-lab-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if folder.is_symlink() or folder.lstat().st_uid != os.getuid() or folder.lstat().st_mode & 0o077:
        raise LabError(
            f"{folder}: not a folder of your own; remove it, or set LABCODE_CACHE to another folder"
        )
    return folder


def may_be_made(folder: Path) -> bool:
    """Whether the user may write to a folder, or create it where it does not exist."""
    return os.access(next(place for place in (folder, *folder.parents) if place.exists()), os.W_OK)
