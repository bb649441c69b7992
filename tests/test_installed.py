"""The package as a wheel holds it, with its own dependencies alone: every command of README's tool list."""

import gzip
import importlib.metadata
import json
import lzma
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from labcode.reports.power.schema import write_document
from labcode.store import unpack_xz
from tests.support import power

ROOT = Path(__file__).parent.parent
SHIPPED = ROOT / "captures" / "h200"
INPUTS = {
    "report.sqlite": "cpu_sampling/exam_baseline.nsys.xz",
    "before.sqlite": "timeline_basics/baseline.nsys.xz",
    "after.sqlite": "timeline_basics/baseline.nsys.xz",
    "kernels.ncu-rep": "ncu_roofline/fp32.ncu-rep.xz",
    "trace.json": "torch_conv/benchmark.trace.json.gz",
    "before.json": "torch_conv/bf16.trace.json.gz",
}
MORE = (
    "labcode captures compare first second",
    "labcode captures list",
    "labcode capture --list",
    "labcode timeline report.sqlite -o timeline.svg",
    "labcode flame report.sqlite -o flame.svg",
    "labcode --version",
)
# Blocks what is installed beside the package, then runs commands in one process; prints how each ended.
RUN = """
import contextlib, io, json, sys
blocked, commands = json.loads(sys.argv[1])

class Without:
    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in blocked else self.finder.find_spec(name, path, target)

sys.meta_path[:] = map(Without, sys.meta_path)
from labcode.cli import main
ended = []
for words in commands:
    sys.argv, err = words, io.StringIO()
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code
        except BaseException as error:
            code = repr(error)
    ended.append([" ".join(words), code, err.getvalue()])
print(json.dumps([sys.modules["labcode"].__file__, ended]))
"""


def readme_commands() -> list[str]:
    block = re.search(r"```shell\n(python -m pip install -e .*?)```", (ROOT / "README.md").read_text(), re.S)
    assert block
    return [line.partition("#")[0].strip() for line in block[1].splitlines() if line.startswith("labcode ")]


def other_packages() -> list[str]:
    """Top-level names of what is installed here and no dependency of the package."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        asked = [Requirement(line) for line in tomllib.load(file)["project"]["dependencies"]]
    own: set[str] = set()
    while asked:
        name = canonicalize_name(asked.pop().name)
        if name in own:
            continue
        own.add(name)
        lines = importlib.metadata.requires(name) or ()
        found = map(Requirement, lines)
        asked += [each for each in found if each.marker is None or each.marker.evaluate({"extra": ""})]
    holders = importlib.metadata.packages_distributions().items()
    others = (top for top, by in holders if own.isdisjoint(map(canonicalize_name, by)))
    return sorted(top for top in others if top != "labcode")


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder of what the wheel holds: every file of the package, and modules compiled already."""
    shutil.copytree(ROOT / "labcode", tmp_path / "site" / "labcode")
    return tmp_path / "site"


def test_the_tools_need_the_own_dependencies_alone(installed: Path, tmp_path: Path) -> None:
    blocked = other_packages()
    assert {"sphinx", "myst_nb", "docutils", "bokeh", "ncu_report"} <= set(blocked)
    # A process of its own reads reports of Nsight Compute.
    (installed / "ncu_report.py").write_text("raise ModuleNotFoundError(\"No module named 'ncu_report'\")\n")
    folder = tmp_path / "work"
    folder.mkdir()
    for name, source in INPUTS.items():
        if source.endswith(".nsys.xz"):
            unpack_xz(SHIPPED / source, folder / name)
            continue
        opened = lzma.open if source.endswith(".xz") else gzip.open
        with opened(SHIPPED / source) as packed, (folder / name).open("wb") as file:
            shutil.copyfileobj(packed, file)
    write_document(power.document(power.device(power.steady())), folder / "run.power.json")
    for name in ("first", "second"):
        (tmp_path / "sets" / name).mkdir(parents=True)
        for file_name in ("manifest.json", "claims.json"):
            shutil.copy(SHIPPED / file_name, tmp_path / "sets" / name)
        manifest = tmp_path / "sets" / name / "manifest.json"
        manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"experiments": {}}))
    commands = [shlex.split(line) for line in (*readme_commands(), *MORE)]
    assert len(commands) > 15
    done = subprocess.run(
        [sys.executable, "-c", RUN, json.dumps([[*blocked, "torch", "cupy"], commands])],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(installed),
            "LABCODE_SETS": str(tmp_path / "sets"),
            "LABCODE_CACHE": str(tmp_path / "cache"),
        },
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    place, ended = json.loads(done.stdout.splitlines()[-1])
    assert Path(place).is_relative_to(installed)
    for command, code, said in ended:
        if command.startswith("labcode record"):  # of the program's own Python
            without = code == 2 and "has no PyTorch; install it" in said
            assert without or "the program ended with exit code 1" in said, (command, code, said)
        elif ".ncu-rep" in command:  # of the extra for them
            assert code == 2 and "pip install ncu-report (NVIDIA's reader" in said, (command, code, said)
        elif command.endswith(".html") and not command.startswith("labcode report"):  # what Bokeh draws
            assert code == 2 and "pip install bokeh" in said, (command, code, said)
        elif command.startswith("labcode profile"):
            assert code == 2 and "train.py: no such script" in said, (command, code, said)
        elif command.startswith("labcode energy"):  # of the extra for GPU machines
            assert code == 2 and "pip install nvidia-ml-py" in said, (command, code, said)
        else:
            assert code == 0, (command, code, said)


def test_the_book_and_slides_say_what_they_need(installed: Path, tmp_path: Path) -> None:
    commands = [["labcode", "book"], ["labcode", "slides", "nsys/timeline-basics", "-o", "a.html"]]
    ended = subprocess.run(
        [sys.executable, "-c", RUN, json.dumps([other_packages(), commands])],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=True,
    )
    file, answers = json.loads(ended.stdout)
    assert Path(file).is_relative_to(installed)
    wanted = [
        "labcode: book: Sphinx is not installed; in a checkout of the lab use `nox -s book`",
        f"labcode: {installed}: no book here; clone the book's repository and run this there",
    ]
    for start, (_, code, said) in zip(wanted, answers, strict=True):
        assert code == 2 and said.startswith(start), said
