"""Grading what was handed in: a command in, the same command inside of a bubblewrap out.

Inside there is Python with its packages, this lab without its solutions, the captures and the answer, all of
them read-only; a small folder to work in, which goes with it; no network, no environment, no other process,
no file of whoever grades. What runs there ends with it, whatever it has started. The grader stays outside.
"""

import functools
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import labcode
from labcode import store
from labcode.errors import LabError

WORK = "/run/labcode/work"
ANSWER = "/run/labcode/answer"
RECORDS = "/run/labcode/records"
PROCESSES = 256
WORK_BYTES = 512 << 20
_MOST_FILES, _MOST_BYTES = 200, 4 << 20  # of the folder that an answer lies in
_HOW = "install Debian's package bubblewrap, and permit user namespaces"
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SETTINGS = tuple(f"/etc/{name}" for name in ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives"))
_GPU = ("/sys", "/opt/nvidia", "/opt/cuda")
_current: list["Jail"] = []


@dataclass(frozen=True)
class Jail:
    """A bubblewrap that works here."""

    program: str

    def command(
        self,
        words: Sequence[str],
        answer: Path,
        *,
        reads: Sequence[Path] = (),
        empty: Sequence[str] = (),
        records: Path | None = None,
        gpu: bool = False,
    ) -> list[str]:
        """These words, run inside: ``answer`` is a folder, ``records`` one that may be written to; nothing is
        seen of the files that are ``empty``.
        """
        home, sets = _home(), store.sets_root().resolve()
        root = store.repository_root().resolve()
        made = [self.program, "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
        made += ["--clearenv", "--hostname", "labcode", "--proc", "/proc", "--dev", "/dev"]
        made += ["--size", str(WORK_BYTES), "--tmpfs", "/tmp"]
        for place in (*_SYSTEM, *_SETTINGS):
            if os.path.islink(place) and place in _SYSTEM:  # noqa: PTH114 - a text goes in, a text comes out
                made += ["--symlink", os.readlink(place), place]  # noqa: PTH115
            else:
                made += ["--ro-bind-try", place, place]
        for path in dict.fromkeys([*_shown(), *(path.absolute() for path in reads)]):
            if not path.is_relative_to("/usr"):
                made += ["--ro-bind-try", str(path), str(path)]
        made += [word for path in empty for word in ("--ro-bind", os.devnull, path)]
        if gpu:
            made += [word for place in _GPU for word in ("--ro-bind-try", place, place)]
            devices = [*Path("/dev").glob("nvidia*"), *Path("/dev").glob("dri")]
            made += [word for place in devices for word in ("--dev-bind", str(place), str(place))]
        made += ["--size", str(WORK_BYTES), "--tmpfs", WORK, "--dir", f"{WORK}/inputs", "--chdir", WORK]
        made += ["--ro-bind", str(answer), ANSWER]
        if records is not None:
            made += ["--bind", str(records), RECORDS]
        environment = {
            "PATH": f"{Path(sys.executable).parent}:/usr/local/cuda/bin:/usr/local/bin:/usr/bin:/bin",
            "HOME": WORK,
            "TMPDIR": f"{WORK}/inputs",
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(home.parent),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
            "PYTHONIOENCODING": "utf-8",
            "PYTHONNOUSERSITE": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "LABCODE_HOME": str(root),
            "LABCODE_SETS": str(sets),
            "LABCODE_CAPTURES": store.current_set(),
        }
        made += [word for name, text in environment.items() for word in ("--setenv", name, text)]
        return [*made, "--", *words]


def _home() -> Path:
    return Path(labcode.__file__).resolve().parent


def _shown() -> list[Path]:
    """What is seen inside beside the system: Python with its packages, `labcode` itself, the sets."""
    python = [Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).parent.parent]
    packages = [Path(path) for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    found = [*python, _home(), store.sets_root().resolve(), *packages]
    return list(dict.fromkeys(path.absolute() for path in found))


def current() -> Jail | None:
    """The jail that answers run in now; None: they run beside the grader."""
    return _current[-1] if _current else None


@contextmanager
def isolated() -> Iterator[Jail]:
    """Inside of the block every answer runs in a jail; `LabError` where there is none to be had."""
    jail, why = _found()
    if jail is None:
        raise LabError(f"--isolated: {why}; {_HOW}, or grade in a virtual machine without --isolated")
    solutions = store.repository_root().resolve() / "solutions"
    for place in (*map(Path, _SYSTEM), *(path.resolve() for path in _shown())):
        if solutions.is_relative_to(place):
            raise LabError(f"--isolated: answers see {place}, where {solutions} lies; move the lab elsewhere")
    _current.append(jail)
    try:
        yield jail
    finally:
        _current.pop()


def missing() -> str:
    """Why there is no jail here; empty where there is one."""
    return _found()[1]


@functools.cache
def _found() -> tuple[Jail | None, str]:
    program = shutil.which("bwrap")
    if program is None:
        return None, "there is no bubblewrap (bwrap) here"
    words = [program, "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--proc", "/proc", "true"]
    try:
        tried = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, f"bubblewrap does not start ({error})"
    if tried.returncode:
        said = (tried.stderr.strip().splitlines() or ["it says nothing"])[-1]
        return None, f"bubblewrap is not permitted to work here ({said})"
    return Jail(program), ""


def take(file: Path, target: Path) -> Path:
    """Copy an answer and the plain files beside it into an empty folder; where the answer is there.

    `ValueError` says why it is not taken: a link, no plain file, too much.
    """
    count, size = 0, 0
    for name in sorted(os.listdir(file.parent)):  # noqa: PTH208 - names are wanted
        place = file.parent / name
        if place.is_symlink():
            raise ValueError(f"{name} is a link: hand in the file itself")
        if not place.is_file():
            continue
        handle = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as stream:
            about = os.fstat(stream.fileno())
            if not stat.S_ISREG(about.st_mode):
                continue
            count, size = count + 1, size + about.st_size
            if count > _MOST_FILES or size > _MOST_BYTES:
                raise ValueError(f"more than {_MOST_FILES} files, or {_MOST_BYTES >> 20} MiB, lie beside it")
            (target / name).write_bytes(stream.read(_MOST_BYTES))
    return target / file.name
