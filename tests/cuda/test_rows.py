"""Row kernels in C++: registers and spills of every instance, choices equal to those of Python, flags."""

import json
import re
from pathlib import Path

import pytest

from labcode.kernels.catalogue import Kernel, Problem, entry
from labcode.kernels.topics import rmsnorm, softmax
from tests.cuda.conftest import ARCHITECTURES, NO_SPILLS, Assemble, Built
from tests.cuda.ncu_programs import NO_GPU, run

KERNELS: dict[str, Kernel] = {"softmax": softmax.SOFTMAX, "rmsnorm": rmsnorm.RMSNORM}
ELEMENTS_IN_REGISTERS = {8: 40, 16: 64, 32: 128}  # elements a thread → the most registers it should take
TYPES = {"float": "float32", "bf16": "bfloat16"}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_no_instance_spills(assembled: Assemble, name: str, architecture: str) -> None:
    report = assembled(name, architecture).report
    stacks = re.findall(r"\d+ bytes stack frame.*", report)
    assert len(stacks) > 20
    assert set(stacks) == {NO_SPILLS}


@pytest.mark.parametrize("name", KERNELS)
def test_registers_leave_room_for_the_blocks_meant(assembled: Assemble, name: str) -> None:
    report = assembled(name, "90a").report
    found = re.findall(r"Compiling entry function '(\S+)'.*?Used (\d+) registers", report, re.DOTALL)
    instances = {}
    for mangled, registers in found:
        sizes = tuple(int(size) for size in re.findall(r"Li(\d+)E", mangled))
        if sizes and "bench" not in mangled:
            instances[(mangled, sizes)] = int(registers)
    assert len(instances) > 20
    for (mangled, sizes), registers in instances.items():
        assert registers <= ELEMENTS_IN_REGISTERS[sizes[0]], mangled
        assert registers * sizes[1] <= 65536, mangled


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(
    "columns",
    [
        1,
        300,
        600,
        1024,
        1025,
        3000,
        4096,
        5000,
        8191,
        8192,
        16384,
        16388,
        40000,
        65536,
        131072,
        262144,
        300001,
    ],
)
def test_the_program_takes_the_kernels_that_python_takes(
    built: Built, name: str, kind: str, columns: int
) -> None:
    shown = run([built(name), "--plan", "1", "--type", kind, "--columns", columns])
    assert shown.returncode == 0, shown.stderr
    said = dict(line.split(": ", 1) for line in shown.stdout.splitlines())
    kernel, problem = KERNELS[name], Problem((1000, columns), TYPES[kind])
    expected = {}
    for step in kernel.steps:
        refused = step.unfit(problem) if step.unfit else None
        if step.name == "on chip":  # the program asks the GPU how much shared memory there is
            refused = None
        expected[step.variant] = refused or entry(step, problem).removeprefix(f"lab::{name}::")
    assert said == expected


@pytest.mark.parametrize("name", KERNELS)
def test_flags_variants_and_bad_use(built: Built, tmp_path: Path, name: str) -> None:
    program = built(name)
    listed = run([program, "--list"]).stdout.split()
    assert listed[0] == "all"
    assert len(listed) == len(KERNELS[name].steps) + 1
    for flags, message in (
        (["--variant", "fast"], "--variant fast: there is no such choice"),
        (["--columns", "0"], "--columns 0: give a whole number from 1 to"),
        (["--type", "half"], "--type half: there is no such choice"),
    ):
        done = run([program, *flags])
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"{name}: {message}")
        assert len(done.stderr.splitlines()) == 1
    done = run([program, "--json", tmp_path / "r.json"], env=NO_GPU)
    assert done.returncode == 2
    assert done.stderr.startswith(f"{name}: no NVIDIA GPU: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.gpu
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(
    ("columns", "rows", "offset"),
    [(1, 5, 0), (1000, 33, 1), (8192, 500, 0), (16383, 40, 0), (65536, 50, 4), (131072, 300, 0)],
)
def test_the_program_checks_itself(
    tmp_path: Path, name: str, kind: str, columns: int, rows: int, offset: int
) -> None:
    from labcode.kernels.build import build

    path = tmp_path / "record.json"
    sizes = ["--columns", columns, "--rows", rows, "--offset", offset, "--type", kind]
    done = run([build(name), *sizes, "--repetitions", "2", "--json", path])
    assert done.returncode == 0, done.stderr
    record = json.loads(path.read_text())
    assert set(record) == {"program", "variant", "parameters", "results", "checks", "gpu"}
    assert record["checks"]["chosen"]["passed"]
    assert all(check["passed"] for check in record["checks"].values())
