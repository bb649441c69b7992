"""Is the built book still what a build would give? Everything a build reads and what it wrote in, yes or no
out.

A build that succeeded without a warning leaves a record: one digest over what it read (its own code, pages,
sources, sets, installed packages) and one over what it wrote. While both are as they were, another build
would write the same. A file whose content cannot matter to this (a trace of a set, a page's picture that was
built) counts by its size and time; everything else by its content.
"""

import hashlib
import json
import os
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

from labcode.outputs import whole

RECORD = "unchanged.json"
_PACKAGE = Path(__file__).resolve().parents[1]
_FOLDERS = ("book", "cluster", "cuda", "exercises", "labcode", "solutions", "tests")
_READ_OF_SETS = ("/manifest.json", "/claims.json")


def inputs(root: Path, sets_root: Path, current: str) -> str:
    """A digest of all that a build around a set reads; an empty text where something cannot be read.

    ``root`` is the repository, ``sets_root`` the folder of all sets, ``current`` the name of the one.
    """
    digest = hashlib.sha256(f"{root}\0{sets_root}\0{current}\0{sys.version}\0{sys.prefix}\0".encode())
    try:
        for name in _installed():
            digest.update(f"{name}\0".encode())
        for path in _sources(root):
            content = Path(path).read_bytes()
            digest.update(f"{path}\0{len(content)}\0".encode() + content)
        for path in _files(sets_root):
            content = Path(path).read_bytes() if path.endswith(_READ_OF_SETS) else b""
            digest.update(_stated(path) + content)
    except OSError:
        return ""
    return digest.hexdigest()


def remember(root: Path, folder: Path, read: str, files: Collection[Path], sets_root: Path) -> None:
    """Record that a build of ``folder`` succeeded on inputs whose digest was ``read`` before it began.

    ``files`` are what the pages include, modules of packages among them. Where one of them is nothing that
    `inputs` looks at, there is no record, and the next build is one.
    """
    if not read:
        return
    house, cells_output = root.resolve(), folder.parent.resolve()
    packages = {place for place in map(Path.resolve, map(Path, sys.path)) if not house.is_relative_to(place)}
    sources = (house / name for name in _FOLDERS)
    places = [_PACKAGE, sets_root.resolve(), cells_output, *sources, *packages]
    for place in {parent.resolve() for parent in {file.parent for file in files}}:
        if place != house and not any(place.is_relative_to(known) for known in places):
            return
    record = {"read": read, "written": _written(folder)}
    with whole(folder.parent / RECORD) as path:
        path.write_text(json.dumps(record), encoding="utf-8")


def is_current(folder: Path, read: str) -> bool:
    """Whether a build of ``folder`` from inputs of this digest succeeded, and nothing was written there
    since.
    """
    try:
        record = json.loads((folder.parent / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(read) and bool(record == {"read": read, "written": _written(folder)})


def _written(folder: Path) -> str:
    return hashlib.sha256(b"".join(map(_stated, _files(folder)))).hexdigest()


def _installed() -> Iterator[str]:
    """Packages and their versions, as folders are called; this one's code counts itself."""
    for place in map(Path, sys.path):
        if place.is_dir():
            found = sorted(name for name in os.listdir(place) if name.endswith(".dist-info"))  # noqa: PTH208
            yield from (f"{place}/{name}" for name in found if not name.startswith("profiling_lab-"))


def _sources(root: Path) -> Iterator[str]:
    own = sorted(path for path in root.iterdir() if path.is_file() and not path.name.startswith("."))
    yield from map(str, own)
    for folder in dict.fromkeys((*(root / name for name in _FOLDERS), _PACKAGE)):
        yield from _files(folder)


def _files(folder: Path) -> Iterator[str]:
    """All files below a folder in a fixed order, links followed; no caches, and nothing hidden but Sphinx's
    own record.
    """
    for place, folders, names in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if name != "__pycache__" and not name.startswith("."))
        for name in sorted(names):
            path = os.path.join(place, name)  # noqa: PTH118 (there are thousands)
            if (not name.startswith(".") or name == ".buildinfo") and os.path.isfile(path):  # noqa: PTH113
                yield path


def _stated(path: str) -> bytes:
    state = os.stat(path)  # noqa: PTH116
    return f"{path}\0{state.st_size}\0{state.st_mtime_ns}\0".encode()
