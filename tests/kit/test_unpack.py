"""The kit on the machine without network: what sourcing its env.sh sets, and what it refuses."""

import ast
import json
import os
import shlex
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from labcode.kit import gather, unpack
from labcode.store import unpack_tar
from tests.kit.conftest import make_checkout
from tests.support.programs import program


@pytest.fixture(scope="session")
def packed(wanted: gather.Wanted, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packed")
    with pytest.MonkeyPatch.context() as monkeypatch:
        make_checkout(folder, monkeypatch)
        gather.make(folder / "kit.tar", wanted)
    return folder / "kit.tar"


@pytest.fixture
def kit(packed: Path, tmp_path: Path) -> Path:
    """An unpacked kit with its repository; ``python3`` is the Python that runs the tests."""
    folder = tmp_path / "node"
    with tarfile.open(packed) as tar:
        unpack_tar(tar, folder)
    program(folder / "bin" / "python3", f'exec {shlex.quote(sys.executable)} -S "$@"')
    return folder / "kit"


def source(kit: Path, then: str = "env", **more: str) -> subprocess.CompletedProcess[str]:
    """Source the kit's env.sh in a strict shell with next to no environment, then run something."""
    script = f"set -eu; . '{kit}/env.sh'; {then}"
    environment = {"PATH": f"{kit.parent}/bin:/usr/bin:/bin", "LABCODE_NCU": "", **more}
    return subprocess.run(
        ["bash", "-c", script], env=environment, cwd="/", capture_output=True, text=True, check=False
    )


def variables(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    assert done.returncode == 0, done.stderr
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)


def test_a_strict_shell_sources_it_and_imports_what_it_holds(kit):
    load = "python3 -c 'import alpha, beta, gamma, labcode.tools as t; print(alpha.__file__, t.__file__)'"
    done = source(kit, load)
    assert done.returncode == 0, done.stderr
    alpha, tools = done.stdout.split()
    (site,) = kit.glob("site-*")
    assert Path(alpha) == site / "alpha.py"
    assert Path(tools) == kit / "lab" / "labcode" / "tools.py"
    assert done.stderr.startswith("kit for Python")
    assert not list(kit.glob(".site-*"))


def test_what_was_set_before_stays_and_a_second_time_adds_nothing(kit):
    once = variables(source(kit, PYTHONPATH="/own"))
    assert once["PYTHONPATH"].split(":")[2:] == ["/own"]
    twice = variables(source(kit, f". '{kit}/env.sh'; env", PYTHONPATH="/own"))
    assert twice["PYTHONPATH"] == once["PYTHONPATH"]
    assert twice["PATH"] == once["PATH"]
    assert "labcode_kit" not in twice


def test_the_programs_that_the_lab_finds_are_put_at_the_end_of_the_path(kit):
    program(kit.parent / "inside" / "nsys", "echo 2025.3")
    found = source(kit, LABCODE_NSYS=str(kit.parent / "inside" / "nsys"))
    assert variables(found)["PATH"].endswith(f":{kit.parent}/inside")
    assert f"nsys is {kit.parent}/inside/nsys" in found.stderr
    wrong = source(kit, LABCODE_NSYS="/no/nsys")
    assert "no /no/nsys: LABCODE_NSYS names no program; correct it or unset it" in wrong.stderr


def test_two_that_unpack_at_once_share_one_folder(kit):
    command = ["bash", "-c", f". '{kit}/env.sh'"]
    environment = {"PATH": f"{kit.parent}/bin:/usr/bin:/bin"}
    both = [subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    assert len(list(kit.glob("*site-*"))) == 1


def damage(kit: Path) -> str:
    (kit / "wheels" / "alpha-1.0-py3-none-any.whl").write_bytes(b"short")
    return "wheels/alpha-1.0-py3-none-any.whl is not the file that was packed; copy the kit again"


def lose(kit: Path) -> str:
    (kit / "lib" / "libdw.so.1").unlink()
    return "lib/libdw.so.1 is missing; unpack the kit again"


def lose_all(kit: Path) -> str:
    (kit / "SHA256SUMS").unlink()
    return "SHA256SUMS: No such file or directory; unpack the kit again"


def for_other(key: str, value: str, message: str):
    def change(kit: Path) -> str:
        about = json.loads((kit / "kit.json").read_text())
        (kit / "kit.json").write_text(json.dumps({**about, key: value}))
        return message

    return change


@pytest.mark.parametrize(
    "change",
    [
        damage,
        lose,
        lose_all,
        for_other("python", "3.99", "for Python 3.99, and python3 here is"),
        for_other("machine", "sparc", "for sparc, and this is"),
        for_other("glibc", "2.999", "its wheels need glibc 2.999, and here is 2."),
    ],
)
def test_a_kit_that_is_not_whole_or_not_for_this_machine_is_refused(kit, change):
    message = change(kit)
    done = source(kit, "echo went on")
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
    assert not list(kit.glob("*site-*"))


def test_without_the_repository_it_is_sourced_in_the_folder_of_the_book(kit):
    lab = (kit / "lab").rename(kit.parent / "book")
    sums = [line for line in (kit / "SHA256SUMS").read_text().splitlines() if "  lab/" not in line]
    (kit / "SHA256SUMS").write_text("".join(f"{line}\n" for line in sums))
    assert "made without the repository: source it in the folder of the book" in source(kit).stderr
    command = ["bash", "-c", f". '{kit}/env.sh' && python3 -c 'import labcode; print(labcode.__file__)'"]
    environment = {"PATH": f"{kit.parent}/bin:/usr/bin:/bin"}
    done = subprocess.run(command, cwd=lab, env=environment, capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()) == lab / "labcode" / "__init__.py"


@pytest.mark.parametrize(
    ("enough", "folders", "said"),
    [
        (0, [], "libdw is this machine's"),
        (1, ["lib"], "libdw is the kit's"),
        (2, ["lib", "lib/more"], "libdw is the kit's"),
        (3, [], "no libdw, without which nsys writes no reports: copy libdw.so.1 and libelf.so.1 into"),
    ],
)
def test_of_the_kit_s_libraries_only_those_that_are_missing_are_used(monkeypatch, enough, folders, said):
    monkeypatch.setattr(unpack, "loads", lambda tried: len(tried) >= enough)
    found, why = unpack.library_path(Path("/kit"))
    assert found == [f"/kit/{folder}" for folder in folders]
    assert why.startswith(said)


def test_a_library_that_does_not_load_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(unpack, "LIBRARY", "libnone.so.9")
    assert not unpack.loads([str(tmp_path)])
    monkeypatch.setattr(unpack, "LIBRARY", "libc.so.6")
    assert unpack.loads([])


def test_an_old_python_can_read_what_tells_it_that_it_is_too_old():
    text = Path(unpack.__file__).read_text(encoding="utf-8")
    ast.parse(text, feature_version=(3, 6))
    assert "import annotations" not in text


def test_a_folder_without_permission_is_named(kit, monkeypatch):
    def refuse(**_: object) -> str:
        raise PermissionError(13, "Permission denied", os.fspath(kit))

    monkeypatch.setattr(unpack.tempfile, "mkdtemp", refuse)
    with pytest.raises(
        unpack.KitError, match="no permission to write here; copy the kit to a folder of your own"
    ):
        unpack.unpack(kit)
