"""`labcode kit`: what is in the file it writes, and what it says where it cannot write one."""

import dataclasses
import hashlib
import json
import platform
import shutil
import subprocess
import sys
import tarfile
from collections import namedtuple
from pathlib import Path

import pytest

from labcode.errors import LabError
from labcode.kit import gather
from tests.kit.conftest import HERE
from tests.support.programs import program

LIBRARIES = ["lib/copyright-any.txt", "lib/libdw.so.1", "lib/libelf.so.1", "lib/more/libz.so.1"]


def names(kit: Path) -> list[str]:
    with tarfile.open(kit) as tar:
        return [member.name.removeprefix("kit/") for member in tar]


def test_a_kit_holds_the_wheels_libdw_and_the_repository(checkout, wanted, tmp_path):
    made = gather.make(tmp_path / "kit.tar", wanted)
    found = names(tmp_path / "kit.tar")
    assert [name for name in found if name.startswith("wheels/")] == [
        f"wheels/{name}-1.0-py3-none-any.whl" for name in ("alpha", "beta", "gamma")
    ]
    assert [name for name in found if name.startswith("lib/")] == LIBRARIES
    assert {"env.sh", "unpack.py", "lab/pyproject.toml", "lab/labcode/__main__.py"} <= set(found)
    assert "lab/_build/page.html" not in found
    assert len(made.wheels) == 3
    assert made.notes == ()


def test_its_checksums_are_those_of_all_files_and_nobody_owns_them(checkout, wanted, tmp_path):
    gather.make(tmp_path / "kit.tar", wanted)
    with tarfile.open(tmp_path / "kit.tar") as tar:
        held = {m.name.removeprefix("kit/"): tar.extractfile(m).read() for m in tar}
        assert {(m.uid, m.gid, m.uname, m.gname) for m in tar} == {(0, 0, "", "")}
    lines = held.pop("SHA256SUMS").decode().splitlines()
    assert dict(reversed(line.split("  ")) for line in lines) == {
        name: hashlib.sha256(content).hexdigest() for name, content in held.items()
    }
    assert json.loads(held["kit.json"]) == {"python": HERE, "machine": platform.machine(), "glibc": "2.28"}


def test_in_a_git_checkout_the_tracked_files_come_along(checkout, wanted, tmp_path):
    for command in ("init", "add labcode pyproject.toml"):
        subprocess.run(["/usr/bin/git", *command.split()], cwd=checkout, check=True, capture_output=True)
    gather.make(tmp_path / "kit.tar", wanted)
    found = [name for name in names(tmp_path / "kit.tar") if name.startswith("lab/")]
    assert "lab/labcode/tools.py" in found
    assert "lab/constraints.txt" not in found


def test_packages_are_added_and_left_out_with_what_only_they_need(checkout, wanted, tmp_path):
    asked = dataclasses.replace(wanted, more=("delta",), without=("Alpha",), lab=False)
    made = gather.make(tmp_path / "kit.tar", asked)
    assert made.wheels == ("beta-1.0-py3-none-any.whl", "delta-1.0-py3-none-any.whl")
    assert not any(name.startswith("lab/") for name in names(tmp_path / "kit.tar"))
    *_, last = gather.summary(tmp_path / "kit.tar", asked, made)
    assert last == (
        "there, in the folder of the book: tar xf kit.tar && . kit/env.sh && python3 -m labcode doctor"
    )


@pytest.mark.parametrize(
    ("packages", "machine", "why"),
    [
        ("", platform.machine(), "apt-cache: not found; install it or put it on PATH"),
        ("echo nothing", platform.machine(), "apt-get knows no libdw1; `apt-get update` may help"),
        (None, "aarch64" if platform.machine() == "x86_64" else "x86_64", "the packages at hand are for"),
    ],
)
def test_without_libdw_a_note_says_what_to_copy(
    checkout, wanted, tmp_path, monkeypatch, packages, machine, why
):
    if packages is not None:
        monkeypatch.setenv("PATH", str(tmp_path / "none"))
    if packages:
        program(tmp_path / "none" / "apt-cache", packages)
    made = gather.make(tmp_path / "kit.tar", dataclasses.replace(wanted, machine=machine))
    assert len(made.notes) == 1
    assert made.notes[0].startswith(f"without libdw ({why}")
    assert made.notes[0].endswith("until libdw.so.1 and libelf.so.1 of one like it lie in kit/lib")
    assert not any(name.startswith("lib/") for name in names(tmp_path / "kit.tar"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"python": "3.10"}, "kit: --python 3.10: give a version as 3.12; the lab needs 3.11 or newer"),
        ({"python": "newest"}, "kit: --python newest: give a version as 3.12"),
        ({"machine": "x86"}, "kit: --machine x86: did you mean x86_64? There are: x86_64, aarch64"),
        ({"more": ("--help",)}, "kit: --with --help: no requirement; name a package, such as einops"),
        ({"without": ("alpa",)}, "kit: --without alpa: it would not be in the kit; did you mean alpha?"),
        (
            {"more": ("epsilon",)},
            f"kit: there is no wheel of epsilon for Python {HERE} on {platform.machine()}; choose another",
        ),
    ],
)
def test_what_nobody_has_is_refused(checkout, wanted, tmp_path, change, message):
    with pytest.raises(LabError) as refused:
        gather.make(tmp_path / "kit.tar", dataclasses.replace(wanted, **change))
    assert str(refused.value).startswith(message)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith((".labcode", "kit"))]


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("kit.zip", "kit.zip: the kit's name must end in .tar"),
        ("nowhere/kit.tar", "nowhere; create it first"),
    ],
)
def test_a_wrong_name_for_the_output_is_refused(wanted, tmp_path, output, message):
    with pytest.raises(LabError, match=message):
        gather.make(tmp_path / output, wanted)


def test_a_full_disk_is_told_before_anything_is_fetched(wanted, tmp_path, monkeypatch):
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage(1_000_000))
    with pytest.raises(LabError, match="1 MB free, and a kit takes 300 MB; free some space"):
        gather.make(tmp_path / "kit.tar", wanted)


def test_without_a_checkout_there_is_nothing_to_pack(wanted, tmp_path, monkeypatch):
    monkeypatch.setenv("LABCODE_HOME", str(tmp_path))
    with pytest.raises(LabError, match="no checkout of the lab; run `labcode kit` in one"):
        gather.make(tmp_path / "kit.tar", wanted)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("/usr/bin/python3: No module named pip", "pip: not in this Python; run `python -m ensurepip`"),
        (
            "WARNING: Retrying: NewConnectionError('Failed to establish a new connection')\n"
            "ERROR: No matching distribution found for alpha>=1",
            "kit: the package index cannot be reached; run this on a machine with network",
        ),
        ("ERROR: Could not install: [Errno 28] No space left on device", "No space left on device"),
        (
            "ERROR: Cannot install alpha>=1 because these package versions have conflicting dependencies.\n"
            "ERROR: ResolutionImpossible: for help visit https://example.org",
            f"kit: there is no wheel of alpha>=1 for Python {HERE}",
        ),
        ("noise\nERROR: something else\nmore noise", "pip: something else"),
        ("", "pip: it printed nothing"),
    ],
)
def test_why_pip_failed_is_one_line(checkout, wanted, tmp_path, monkeypatch, said, message):
    program(tmp_path / "python", f"cat >&2 <<'EOT'\n{said}\nEOT\nexit 1")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises((LabError, OSError)) as failed:
        gather.make(tmp_path / "kit.tar", wanted)
    assert message in str(failed.value)
    assert not (tmp_path / "kit.tar").exists()
