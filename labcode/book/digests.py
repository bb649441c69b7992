"""Digests of what pages depend on: folders of sources and a capture set in, short hexadecimal digests out.

Executed pages are cached, and a cache that knows only a page's own cells would keep showing numbers of
yesterday's code. The *reading digest* names everything a page's cells can see: the reading wing, the CUDA
sources and the capture set. The *build digest* adds what the Sphinx side of a page shows: the other modules,
the other sets, the exercises.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from labcode.store import SHIPPED_SET

READING_WING = ("analysis", "book", "figures", "reports")
OF_EXPERIMENTS = ("expected.py", "picture.py")  # what pages import of an experiment
_SOURCE_SUFFIXES = {
    *(".py", ".js", ".css", ".html", ".cu", ".cuh", ".h", ".hpp", ".cpp"),
    *(".csv", ".toml", ".json", ".mplstyle"),
}
_DIGEST_LENGTH = 16


def tree_digest(paths: Iterable[Path], root: Path) -> str:
    """SHA-256 (first 16 digits) over the names, relative to ``root``, and the bytes of source files.

    A folder stands for all sources below it; what does not exist counts as absent, hidden and cache folders
    are left out. The order of ``paths`` does not matter.
    """
    return _digest(sorted({file for path in paths for file in _sources(path)}), root)


def reading_digest(root: Path, set_folder: Path) -> str:
    """The digest an executed page is cached under.

    ``root`` is the repository, ``set_folder`` the folder of the current capture set. Of this set and the
    others, which fill its holes or stand beside it, only the manifests are read: they hold the SHA-256 of
    every file.
    """
    package = root / "labcode"
    paths = [package / name for name in READING_WING]
    paths += [file for name in OF_EXPERIMENTS for file in package.glob(f"experiments/*/*/{name}")]
    paths += [file for file in package.glob("*.py") if file.name != "__main__.py"]
    manifests = set_folder.parent.glob("*/manifest.json")
    verdicts = (root / "benchmarks" / "diagnosis").glob("*.*")  # what was judged of them, which a page reads
    return tree_digest([*paths, root / "cuda", *manifests, *verdicts], root) + f"-{set_folder.name}"


def build_digest(root: Path, sets_root: Path, current: str) -> str:
    """The digest of everything the book shows besides the pages themselves; a change makes Sphinx read all
    pages again.

    What the current set records of its claims is shown where its traces are elsewhere, never of the shipped
    set, which is whole.
    """
    manifests = sorted(sets_root.glob("*/manifest.json"))
    claims = [
        path
        for path in sorted(sets_root.glob("*/claims.json"))
        if path.parent.name != current or current != SHIPPED_SET
    ]
    paths = [root / "labcode", root / "cuda", root / "solutions", *manifests, *claims]
    return tree_digest(paths, root) + f"-{current}"


def folder_digest(folder: Path) -> str:
    """A digest of all files of a folder, of any kind (Sphinx copies static files only beside a page)."""
    return _digest(sorted(file for file in folder.rglob("*") if file.is_file()), folder)


def _digest(files: Iterable[Path], root: Path) -> str:
    digest = hashlib.sha256()
    for file in files:
        name = file.relative_to(root).as_posix() if file.is_relative_to(root) else file.name
        content = file.read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:_DIGEST_LENGTH]


def _sources(path: Path) -> Iterable[Path]:
    if path.is_file():
        return [path]
    return (
        file
        for file in path.rglob("*")
        if file.suffix in _SOURCE_SUFFIXES
        and file.is_file()
        and not any(part.startswith(".") or part == "__pycache__" for part in file.relative_to(path).parts)
    )
