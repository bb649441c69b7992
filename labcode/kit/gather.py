"""What a GPU machine without network lacks in; one .tar to carry there out. Needs network, pip, and apt-get.

.. code-block:: text

    kit/env.sh       to source there, in bash; it calls
    kit/unpack.py    which checks the kit, unpacks its wheels, and prints what the shell is to set
    kit/SHA256SUMS   of all other files, as ``sha256sum -c`` reads it
    kit/kit.json     for which Python, processor and C library the kit is
    kit/wheels/      the dependencies of the lab and of its tests
    kit/lib/         libdw and libelf for nsys' importer; in lib/more the libraries that those need
    kit/lab/         the repository: the files that git tracks

The kit is written whole or not at all.
"""

import errno
import hashlib
import io
import json
import os
import platform
import re
import shutil
import sys
import tarfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from labcode.errors import LabError, ToolError, nearest
from labcode.kit.unpack import SUMS
from labcode.outputs import private_folder, whole
from labcode.show import byte_text
from labcode.store import file_sha256, repository_root
from labcode.tools import ToolResult, run_tool

LONG_AGO = 315_532_800  # 1980, the first year that archives of all kinds can say


MACHINES = ("x86_64", "aarch64")
_TOP = "kit"
_GLIBC = 28  # minor version: of RHEL 8, Debian 10, Ubuntu 20.04 and all later ones
_TESTS = ("hypothesis", "pytest", "pytest-timeout")
_LARGE = frozenset(("cupy-cuda13x", "torch"))  # gigabytes, and most GPU machines have them
_LEAST_FREE = 300_000_000  # bytes: two copies of what a kit for this package alone holds
_PIP_LIMIT_S = 3600.0
_APT_LIMIT_S = 300.0
_OFFLINE = re.compile(
    r"NewConnectionError|Failed to establish|Name or service not known|name resolution|Network is unreachable"
    r"|ConnectTimeout|Read timed out|ProxyError|Connection refused"
)
_NEEDED = re.compile(r"lib(?:z|lzma|bz2|zstd)\.so\.\d+(?:\.0)?")  # by libdw and libelf
_OWN = re.compile(r"libc6|libgcc-s1|libcrypt1|gcc-\d+-base")  # of the machine itself
_MADE = frozenset((".git", ".nox", ".venv", "__pycache__", "_build", "build", "dist"))


@dataclass(frozen=True)
class Wanted:
    """For which machine a kit is (``python`` as ``"3.12"``), and what it holds.

    ``more`` are requirements beside the lab's own, ``without`` names of packages that the machine has;
    ``lab``: whether the repository comes along.
    """

    python: str
    machine: str
    more: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    lab: bool = True


@dataclass(frozen=True)
class Kit:
    """What was packed: the wheels' file names, sizes in bytes, and notes for the person who asked for it."""

    wheels: tuple[str, ...]
    wheel_bytes: int
    lab_bytes: int
    total_bytes: int
    notes: tuple[str, ...]


def make(output: Path, wanted: Wanted) -> Kit:
    """Gather everything and write it to ``output``, whole or not at all.

    Raises `LabError` for a version or a processor there is nothing for, a package nobody has, and where the
    network, pip or room on the disk is missing. Without libdw a kit is made all the same: a note says so.
    """
    _check(output, wanted)
    root = repository_root()
    with private_folder(output.parent) as work:
        wheels = _wheels(work / "wheels", root, wanted)
        notes = _libdw(work / "lib", work / "debs", wanted.machine)
        files = {f"wheels/{wheel.name}": wheel for wheel in wheels}
        found = sorted(path for path in (work / "lib").rglob("*") if path.is_file())
        files |= {path.relative_to(work).as_posix(): path for path in found}
        files |= {name: Path(__file__).parent / name for name in ("env.sh", "unpack.py")}
        lab = (
            {f"lab/{path.relative_to(root).as_posix()}": path for path in tracked(root)} if wanted.lab else {}
        )
        about = {"python": wanted.python, "machine": wanted.machine, "glibc": f"2.{_GLIBC}"}
        with whole(output) as made:
            _pack(made, files | lab, json.dumps(about).encode())
        return Kit(
            wheels=tuple(wheel.name for wheel in wheels),
            wheel_bytes=sum(wheel.stat().st_size for wheel in wheels),
            lab_bytes=sum(path.stat().st_size for path in lab.values()),
            total_bytes=output.stat().st_size,
            notes=tuple(notes),
        )


def summary(output: Path, wanted: Wanted, kit: Kit) -> list[str]:
    """What was packed and what to do with it, in a few lines."""
    lab = f"the repository ({byte_text(kit.lab_bytes)})" if wanted.lab else "no repository"
    found = f"{len(kit.wheels)} packages ({byte_text(kit.wheel_bytes)})"
    machine = f"Python {wanted.python} on {wanted.machine} with glibc 2.{_GLIBC} or newer"
    use = f"tar xf {output.name} && . {_TOP}/env.sh && python3 -m labcode doctor"
    return [
        f"{output}: {byte_text(kit.total_bytes)}, for {machine}: {found}, {lab}",
        *(f"note: {note}" for note in kit.notes),
        f"there: {use}" if wanted.lab else f"there, in the folder of the book: {use}",
    ]


def _check(output: Path, wanted: Wanted) -> None:
    if output.suffix != ".tar":
        raise LabError(f"{output}: the kit's name must end in .tar")
    if not output.parent.is_dir():
        raise LabError(f"{output}: there is no folder {output.parent}; create it first")
    if not re.fullmatch(r"3\.\d{1,2}", wanted.python) or int(wanted.python[2:]) < 11:
        raise LabError(f"kit: --python {wanted.python}: give a version as 3.12; the lab needs 3.11 or newer")
    if wanted.machine not in MACHINES:
        raise LabError(f"kit: --machine {wanted.machine}: {nearest(wanted.machine, MACHINES)}")
    for word in wanted.more:
        if word.startswith("-") or not word.strip():
            raise LabError(f"kit: --with {word}: no requirement; name a package, such as einops or 'numpy<3'")
    if (free := shutil.disk_usage(output.parent).free) < _LEAST_FREE:
        raise LabError(
            f"{output.parent}: {byte_text(free)} free, and a kit takes {byte_text(_LEAST_FREE)}; "
            "free some space or choose another --output"
        )


def _wheels(folder: Path, root: Path, wanted: Wanted) -> list[Path]:
    """The wheels of everything wanted, downloaded by pip from the user's own index."""
    try:
        project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        constraints = (root / "constraints.txt").resolve(strict=True)
    except FileNotFoundError:
        raise LabError(f"{root}: no checkout of the lab; run `labcode kit` in one") from None
    small = [name for name in project["optional-dependencies"]["gpu"] if name not in _LARGE]
    own = {_canonical(line): line for line in (*project["dependencies"], *small, *_TESTS)}
    left_out = {_canonical(name) for name in wanted.without}
    asked = [line for name, line in own.items() if name not in left_out]
    command = [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--progress-bar", "off"),
        *("--disable-pip-version-check", "--retries", "2", "--only-binary", ":all:"),
        *("--implementation", "cp", "--python-version", wanted.python),
        *(word for tag in _platforms(wanted.machine) for word in ("--platform", tag)),
        *("--constraint", constraints, "--dest", folder, "--", *asked, *wanted.more),
    ]
    result = run_tool(command, _PIP_LIMIT_S, what="pip")
    if result.returncode:
        raise _pip_error(result, wanted, folder)
    wheels = sorted(folder.glob("*.whl"))
    there = {_canonical(wheel.name): wheel for wheel in wheels}
    for name in left_out - {*there, *own}:
        known = sorted({*there, *own})
        raise LabError(f"kit: --without {name}: it would not be in the kit; {nearest(name, known)}")
    return [wheel for name, wheel in there.items() if name not in left_out]


def _canonical(requirement: str) -> str:
    """A package's name from a requirement or a wheel's file name, as all spellings of it are compared."""
    named = re.match(r"[A-Za-z0-9._]+(?:-(?!\d)[A-Za-z0-9._]+)*", requirement)
    return re.sub(r"[-_.]+", "-", named[0] if named else requirement).lower()


def _platforms(machine: str) -> list[str]:
    """All tags of wheels that a machine with this C library takes: pip matches each by its letters."""
    newer = [f"manylinux_2_{minor}_{machine}" for minor in range(_GLIBC, 16, -1)]
    return [*newer, *(f"manylinux{old}_{machine}" for old in ("2014", "2010", "1")), f"linux_{machine}"]


def _pip_error(result: ToolResult, wanted: Wanted, folder: Path) -> Exception:
    text = result.stderr
    if "No module named pip" in text:
        return ToolError("pip: not in this Python; run `python -m ensurepip`, then this again")
    if "No space left on device" in text:
        return OSError(errno.ENOSPC, "No space left on device", str(folder))
    if _OFFLINE.search(text):
        return ToolError("kit: the package index cannot be reached; run this on a machine with network")
    if missing := re.search(r"(?:No matching distribution found for|Cannot install) (\S+)", text):
        return LabError(
            f"kit: there is no wheel of {missing[1]} for Python {wanted.python} on {wanted.machine}; "
            "choose another --python, or leave it out with --without where the machine has it"
        )
    errors = [line for line in text.splitlines() if line.startswith("ERROR: ")] or [result.last_line()]
    return ToolError(f"pip: {errors[-1].removeprefix('ERROR: ')}")


def _libdw(lib: Path, debs: Path, machine: str) -> list[str]:
    """Fill ``lib`` from the distribution's packages, without root; a note where that is not possible."""
    debs.mkdir()
    try:
        if machine != platform.machine():
            raise ToolError(f"the packages at hand are for {platform.machine()}")
        _run(["apt-get", "download", *_packages()], debs)
        for deb in debs.glob("*.deb"):
            _run(["dpkg-deb", "--extract", deb, debs / "root"], debs)
        for path in (debs / "root").rglob("*"):
            if path.name in ("libdw.so.1", "libelf.so.1"):
                _copy(path, lib / path.name)
            elif _NEEDED.fullmatch(path.name):
                _copy(path, lib / "more" / path.name)
            elif path.name == "copyright":
                _copy(path, lib / f"copyright-{path.parent.name}.txt")
        if not (lib / "libdw.so.1").is_file():
            raise ToolError("its package holds no libdw.so.1")
    except ToolError as error:
        shutil.rmtree(lib, ignore_errors=True)
        return [
            f"without libdw ({error}): where the machine lacks it too, as `labcode doctor` says there, nsys "
            f"writes no reports until libdw.so.1 and libelf.so.1 of one like it lie in {_TOP}/lib"
        ]
    return []


def _packages() -> list[str]:
    """The packages of libdw and of the libraries that it needs, by the names of this distribution."""
    for name in ("libdw1t64", "libdw1"):
        listed = run_tool(["apt-cache", "depends", "--recurse", "--important", name], _APT_LIMIT_S)
        names = [line for line in listed.stdout.splitlines() if re.fullmatch(r"[a-z0-9.+-]+", line)]
        if listed.returncode == 0 and name in names:
            return [name for name in names if not _OWN.fullmatch(name)]
    raise ToolError("apt-get knows no libdw1; `apt-get update` may help")


def _run(argv: Sequence[str | Path], folder: Path) -> None:
    result = run_tool(argv, _APT_LIMIT_S, cwd=folder)
    if result.returncode:
        raise ToolError(f"{argv[0]}: {result.last_line()}")


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def tracked(root: Path) -> list[Path]:
    """The repository's files: those git knows, or all but what is made, where this is no git checkout."""
    if (root / ".git").exists():
        listed = run_tool(["git", "ls-files", "-z"], _APT_LIMIT_S, cwd=root)
        if listed.returncode:
            raise ToolError(f"git: {listed.last_line()}")
        paths = [root / name for name in listed.stdout.split("\0") if name]
    else:
        paths = [path for path in root.rglob("*") if not _MADE.intersection(path.relative_to(root).parts)]
    return sorted(path for path in paths if path.is_file())


def _pack(tar_file: Path, files: dict[str, Path], about: bytes) -> None:
    """Write the files under their names in the kit, what it is for, and the checksums of all of them."""
    sums = {name: file_sha256(path) for name, path in files.items()}
    sums["kit.json"] = hashlib.sha256(about).hexdigest()
    lines = "".join(f"{digest}  {name}\n" for name, digest in sums.items()).encode()
    with tarfile.open(tar_file, "w", format=tarfile.PAX_FORMAT) as tar:
        for name, text in (("kit.json", about), (SUMS, lines)):
            info = tarfile.TarInfo(f"{_TOP}/{name}")
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text))
        for name, path in files.items():
            tar.add(path, f"{_TOP}/{name}", filter=neutral)


def neutral(info: tarfile.TarInfo) -> tarfile.TarInfo:
    """A member without its owner and its date; of its mode only whether it is a program."""
    info.uid = info.gid = 0
    info.mtime = int(os.environ.get("SOURCE_DATE_EPOCH") or LONG_AGO)
    info.uname = info.gname = ""
    info.mode = 0o755 if info.mode & 0o100 else 0o644
    return info
