"""A small checkout with two dependencies, and a folder of wheels for pip to find: no network is asked."""

import platform
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from labcode.kit import gather
from tests.support.programs import program

ROOT = Path(__file__).parents[2]
HERE = "{}.{}".format(*sys.version_info)
PROJECT = """
[project]
name = "profiling-lab"
dependencies = ["alpha>=1"]

[project.optional-dependencies]
gpu = ["beta", "torch"]
"""


def wheel(
    folder: Path, name: str, version: str = "1.0", needs: tuple[str, ...] = (), inside: str = ""
) -> Path:
    """A wheel of one module that holds its own name; ``inside``: below which folder of the wheel."""
    info = f"{name}-{version}.dist-info"
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr(f"{inside}{name}.py", f"NAME = {name!r}\n")
        required = "".join(f"Requires-Dist: {need}\n" for need in needs)
        packed.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{required}"
        )
        packed.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        packed.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout that `labcode kit` packs, with wheels of what it needs and a distribution that has libdw."""
    return make_checkout(tmp_path, monkeypatch)


def make_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The checkout, in ``tmp_path``."""
    root, wheels, programs = tmp_path / "checkout", tmp_path / "index", tmp_path / "bin"
    for folder in (root / "labcode", root / "_build", wheels):
        folder.mkdir(parents=True)
    for name in ("__init__", "__main__", "errors", "tools"):
        shutil.copy(ROOT / "labcode" / f"{name}.py", root / "labcode")
    (root / "pyproject.toml").write_text(PROJECT)
    (root / "constraints.txt").write_text("alpha==1.0\nbeta==1.0\n")
    (root / "_build" / "page.html").touch()
    wheel(wheels, "alpha", needs=("gamma",))
    wheel(wheels, "alpha", "2.0")
    wheel(wheels, "beta", inside="beta-1.0.data/purelib/")
    wheel(wheels, "gamma")
    wheel(wheels, "delta")
    program(
        programs / "apt-cache", '[ "$4" = libdw1 ] && printf "libdw1\\n  Depends: libc6\\nlibelf1\\nlibc6\\n"'
    )
    program(programs / "apt-get", 'shift; for name; do echo "$name" >"$name.deb"; done')
    program(
        programs / "dpkg-deb",
        'lib=$3/usr/lib; doc=$3/usr/share/doc/any; mkdir -p "$lib" "$doc"; echo terms >"$doc/copyright"\n'
        'for name in libdw.so.1 libelf.so.1 libz.so.1 libz.so.1.2; do cat "$2" >"$lib/$name"; done',
    )
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    monkeypatch.setenv("LABCODE_HOME", str(root))
    monkeypatch.setattr(gather, "_TESTS", ())
    return root


@pytest.fixture(scope="session")
def wanted() -> gather.Wanted:
    """A kit for the Python and the machine that run the tests."""
    return gather.Wanted(HERE, platform.machine())
