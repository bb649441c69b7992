"""The kit beside this file and the machine's Python in; ``export`` lines for the shell out.

`env.sh` calls this on the machine without network, where nothing of the lab is installed: it needs the
standard library alone. Any Python since 3.6 can read it, so that one which is too old is told so.
"""

import hashlib
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

SUMS = "SHA256SUMS"
LIBRARY = "libdw.so.1"


class KitError(Exception):
    """Why the kit cannot be used here: one line."""


def main() -> int:
    """Print what the shell is to set, and on stderr one on what was found; 2 where the kit is of no use."""
    kit = Path(__file__).resolve().parent
    try:
        about = json.loads((kit / "kit.json").read_text())
        check_machine(about)
        site = unpack(kit)
        search = python_path(kit, site)
    except (KitError, ValueError) as error:
        print(f"{kit.name}: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"{error.filename or kit}: {error.strerror}; unpack the kit again", file=sys.stderr)
        return 2
    libraries, said = library_path(kit)
    sys.path[:0] = search
    programs, found = program_path()
    print_exports({"PYTHONPATH": search, "LD_LIBRARY_PATH": libraries}, {"PATH": programs})
    print(f"kit for Python {about['python']}: {said}; {found}", file=sys.stderr)
    return 0


def check_machine(about: "dict[str, str]") -> None:
    """`KitError` where the kit was made for another Python, processor or a newer C library."""
    here = "{}.{}".format(*sys.version_info)
    again = f"make another with `labcode kit --python {here} --machine {platform.machine()}`"
    if here != about["python"]:
        raise KitError("for Python {}, and python3 here is {}; {}".format(about["python"], here, again))
    if platform.machine() != about["machine"]:
        raise KitError("for {}, and this is {}; {}".format(about["machine"], platform.machine(), again))
    name, version = platform.libc_ver()
    if name == "glibc" and numbers(version) < numbers(about["glibc"]):
        raise KitError("its wheels need glibc {}, and here is {}".format(about["glibc"], version))


def numbers(version: str) -> "list[int]":
    """A version to compare: ``"2.28"`` → ``[2, 28]``."""
    return [int(part) for part in version.split(".") if part.isdigit()]


def unpack(kit: Path) -> Path:
    """The folder of the unpacked wheels; the first time all of the kit is checked, and they are unpacked.

    The folder's name comes from the list of checksums, so that another kit in the same place is unpacked
    again. It appears whole: of two processes that unpack at once the second uses the first one's.
    """
    sums = (kit / SUMS).read_bytes()
    site = kit / f"site-{hashlib.sha256(sums).hexdigest()[:12]}"
    if site.is_dir():
        return site
    wheels = [kit / name for name in check(kit, sums.decode()) if name.startswith("wheels/")]
    try:
        work = Path(tempfile.mkdtemp(dir=str(kit), prefix=".site-"))
    except PermissionError:
        raise KitError("no permission to write here; copy the kit to a folder of your own") from None
    try:
        for wheel in wheels:
            with zipfile.ZipFile(str(wheel)) as packed:
                packed.extractall(str(work))
        for inner in [*work.glob("*.data/purelib"), *work.glob("*.data/platlib")]:
            for path in inner.iterdir():
                path.rename(work / path.name)
        work.chmod(0o755)
        try:
            work.rename(site)
        except OSError:
            if not site.is_dir():
                raise
    finally:
        shutil.rmtree(str(work), ignore_errors=True)
    return site


def check(kit: Path, sums: str) -> "list[str]":
    """The names of all files of the kit; `KitError` where one is missing or is not what was packed."""
    names = []
    for line in sums.splitlines():
        expected, name = line.split("  ", 1)
        digest = hashlib.sha256()
        try:
            with (kit / name).open("rb") as file:
                for block in iter(lambda: file.read(1 << 20), b""):
                    digest.update(block)
        except FileNotFoundError:
            raise KitError(f"{name} is missing; unpack the kit again") from None
        if digest.hexdigest() != expected:
            raise KitError(f"{name} is not the file that was packed; copy the kit again")
        names.append(name)
    return names


def python_path(kit: Path, site: Path) -> "list[str]":
    """Where Python finds the lab, in the kit or else in the current folder, and the unpacked wheels."""
    for lab in (kit / "lab", Path.cwd()):
        if (lab / "labcode" / "__main__.py").is_file():
            return [str(lab), str(site)]
    raise KitError("made without the repository: source it in the folder of the book")


def library_path(kit: Path) -> "tuple[list[str], str]":
    """What LD_LIBRARY_PATH needs for libdw, the machine's own before the kit's; and a word on which it is."""
    lib = str(kit / "lib")
    for folders, which in (([], "this machine's"), ([lib], "the kit's"), ([lib, f"{lib}/more"], "the kit's")):
        if loads(folders):
            return folders, f"libdw is {which}"
    return [], f"no libdw, without which nsys writes no reports: copy {LIBRARY} and libelf.so.1 into {lib}"


def loads(folders: "list[str]") -> bool:
    """Whether a new process finds libdw with these folders before its LD_LIBRARY_PATH."""
    environment = {**os.environ, "LD_LIBRARY_PATH": joined(folders, "LD_LIBRARY_PATH")}
    load = [sys.executable, "-c", f"import ctypes; ctypes.CDLL({LIBRARY!r})"]
    return subprocess.call(load, env=environment, stderr=subprocess.DEVNULL) == 0


def program_path() -> "tuple[list[str], str]":
    """What PATH needs for nsys and ncu, wherever the lab finds them; and a word on what was found."""
    from labcode.errors import LabError
    from labcode.tools import find_ncu, find_nsys

    folders, said = [], []
    for name, find in (("nsys", find_nsys), ("ncu", find_ncu)):
        try:
            place = find()
        except LabError as error:
            place, name = None, str(error)
        said.append(f"{name} is {place}" if place else f"no {name}")
        if place and not shutil.which(name):
            folders.append(str(place.parent))
    return folders, ", ".join(said)


def print_exports(before: "dict[str, list[str]]", after: "dict[str, list[str]]") -> None:
    """``export`` lines of variables that get folders before or after what they hold."""
    for name, folders in before.items():
        if folders:
            print(f"export {name}={shlex.quote(joined(folders, name))}")
    for name, folders in after.items():
        if folders:
            print("export {}={}".format(name, shlex.quote(":".join([os.environ[name], *folders]))))


def joined(folders: "list[str]", name: str) -> str:
    """Folders before those that the variable holds, each once."""
    held = [folder for folder in os.environ.get(name, "").split(":") if folder]
    return ":".join([*folders, *(folder for folder in held if folder not in folders)])


if __name__ == "__main__":
    sys.exit(main())
