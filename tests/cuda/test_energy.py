"""The program for the power meter: nothing spills, flags and wrapper agree; on a GPU, right."""

import json
import re
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from labcode.experiments.energy.kernels.cuda import program as wrapper
from tests.cuda import ncu_programs
from tests.cuda.conftest import ARCHITECTURES, KERNEL, NEWEST, NO_SPILLS, Assemble, Built

PROGRAM = "energy"


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_nothing_is_spilled(assembled: Assemble, architecture: str) -> None:
    report = assembled(PROGRAM, architecture).report
    found = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores", report)
    assert found
    assert set(found) == {("0", "0")}


def test_the_cores_alone_spill_nothing(together: Assemble) -> None:
    report = together("products", NEWEST).report
    kernels = [one for one in KERNEL.finditer(report) if "6energy5cores" in one[1]]
    assert len(kernels) == 1
    assert NO_SPILLS in kernels[0][0]


def test_the_accumulators_are_in_registers(assembled: Assemble) -> None:
    found = ncu_programs.resources(assembled(PROGRAM, "90a").report)
    assert {name for name, kernel in found.items() if kernel.registers > 128} == {
        f"wgmma<{kind}>" for kind in range(5)
    }


def test_wrapper_knows_the_flags_and_variants(built: Built) -> None:
    ncu_programs.check_wrapper(built(PROGRAM), wrapper)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seconds", "0"], "energy: --seconds 0: give a number from 0.01 to 600"),
        (["--variant", "fast"], "energy: --variant fast: there is no such choice; take one of all|idle|"),
        (["--power", "300"], "energy: --power: no such flag; --help shows them all"),
    ],
)
def test_bad_flags_are_one_line(built: Built, words: list[str], message: str) -> None:
    done = subprocess.run([str(built(PROGRAM)), *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == 1


@pytest.mark.gpu
def test_on_a_gpu_results_are_right_and_windows_follow_each_other(built: Built, tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    words = ["--seconds", "0.1", "--warmup", "0.01", "--mebibytes", "64", "--json", str(file)]
    done = subprocess.run([str(built(PROGRAM)), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    record = json.loads(file.read_text())
    assert all(check["passed"] for check in record["checks"].values())
    windows = list(record["results"]["windows"].values())
    assert all(0.09e9 < w["end_ns"] - w["begin_ns"] < 0.5e9 for w in windows)
    assert all(a["end_ns"] <= b["begin_ns"] for a, b in pairwise(windows))
    paces = [w["flop"] for w in windows if w["kind"] == "race"]
    assert len(paces) == 3
    assert len(set(paces)) == 1
