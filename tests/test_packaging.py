"""What the first commands take: a Python that README promises, and pins that this Python takes."""

import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

ROOT = Path(__file__).parent.parent
with (ROOT / "pyproject.toml").open("rb") as file:
    PROJECT = tomllib.load(file)["project"]
FLOOR = PROJECT["requires-python"].removeprefix(">=")
PINS = [
    Requirement(line)
    for line in (ROOT / "constraints.txt").read_text().splitlines()
    if line and not line.startswith("#")
]


def test_every_pin_takes_the_oldest_python_that_is_promised() -> None:
    checked, refused = 0, []
    for pin in PINS:
        try:
            about = importlib.metadata.metadata(pin.name)
        except importlib.metadata.PackageNotFoundError:
            continue  # what a GPU machine has alone
        if about["Version"] not in pin.specifier:
            continue  # an environment that is older than the pin
        checked += 1
        wants = about.get("Requires-Python") or ""  # a package may say nothing
        if Version(FLOOR) not in SpecifierSet(wants):
            refused.append(f"{pin} needs Python {wants}")
    assert refused == []
    assert checked > 0.8 * len(PINS)


def test_archives_are_unpacked_by_the_oldest_python_too() -> None:
    """Its `tarfile` takes no filter."""
    files = [path for folder in ("labcode", "tests") for path in (ROOT / folder).rglob("*.py")]
    calls = re.compile(r"extractall\([^)]*filter=")
    assert len(files) > 300
    assert [path.name for path in files if calls.search(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("README.md", "With CPython {} "),
        ("constraints.txt", "CPython {} or newer"),
        (".ci/run", "Needs CPython {} or newer"),
        (".ci/run", "sys.version_info < ({},)"),
        (".github/workflows/ci.yml", "CPython {}, of Debian 12"),
        (".github/workflows/ci.yml", "sys.version_info[:3] == ({},)"),
        ("book/start/how-to-use.md", "Python ≥ {} "),
        ("cluster/Containerfile", "Python {} or newer"),
    ],
)
def test_the_same_python_is_promised_everywhere(name: str, says: str) -> None:
    floor = FLOOR.replace(".", ", ") if "({},)" in says else FLOOR
    assert says.replace("({},)", "({})").format(floor) in (ROOT / name).read_text(encoding="utf-8")
    assert re.fullmatch(r"3\.\d+\.\d+", FLOOR)


def test_what_packages_weigh_and_what_they_are_there_for() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / ".ci" / "weights"], capture_output=True, text=True, check=True
    )
    *rows, total = done.stdout.splitlines()
    sizes = [float(row.split()[0]) for row in rows]
    assert sizes == sorted(sizes, reverse=True) and total.endswith(f"in {len(rows)} packages")
    why = {row.split()[2]: row.rpartition("  for ")[2] for row in rows}
    assert why["pandas"] == why["numpy"] == "the lab" and "matplotlib" in why["contourpy"]
    assert why["hypothesis"] == "the lab's dev"
    wrong = subprocess.run(
        [sys.executable, ROOT / ".ci" / "weights", "none"], capture_output=True, text=True, check=False
    )
    assert wrong.returncode == 2 and wrong.stderr.startswith(".ci/weights: none: not installed for ")
