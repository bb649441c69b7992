"""Matmul: addresses and tiles on the host, no spills, bad use in one line; right on a GPU."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from labcode.experiments.compute.gemm.cuda import program as gemm
from tests.cuda.conftest import NEWEST, Assemble, Built
from tests.cuda.ncu_programs import NO_GPU, check_wrapper, run
from tests.cuda.on_host import compile_on_host

TENSOR_MAPS = ("wgmma_tma", "specialized", "persistent", "cluster", "order", "store", "alone")
STEPS = gemm.variants[2:]
SIZES = {  # m, n, k, pad, offset
    "any": ("1 1 1 0 0", "33 65 17 0 0", "257 129 131 0 0", "300 500 701 3 1", "128 640 16 4 0"),
    "words": ("1 8 8 0 0", "64 64 64 0 0", "257 264 72 0 0", "300 504 712 8 8", "640 8 1000 0 0"),
}
LARGE = {"any": "1000 1100 900 0 0", "words": "5000 5000 200 0 0"}  # … and more tiles than blocks


def flags(sizes: str) -> list[str]:
    names = ("--m", "--n", "--k", "--pad", "--offset")
    return [word for pair in zip(names, sizes.split(), strict=True) for word in pair]


@pytest.fixture(scope="module")
def on_the_host(compiled: Path) -> tuple[Path, list[str]]:
    headers = ("gemm/layout.cuh", "gemm/bf16.cuh", "gemm/fp32.cuh")
    return compile_on_host(compiled, "host_gemm.cpp", *headers)


def test_right_and_within_the_arrays_on_the_host(on_the_host: tuple[Path, list[str]]) -> None:
    done = run([on_the_host[0]], timeout=600)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr[:2000]


@pytest.mark.parametrize(
    ("left_out", "part", "said"),
    [
        ("wait_for(&full, parity", "bf16", r"wgmma_tma, 8 x 8 x 8: \d+ elements are wrong"),
        ("cluster_sync<kBlocks>(", "bf16", r"cluster: its threads wait for each other forever"),
        (
            *("wait_for(&empty[turn.slot], turn.parity ^ 1", "bf16"),
            r"specialized: its threads wait for each other forever",
        ),
        ("products_wait<1>(", "bf16", r"specialized, 260 x 264 x 328: \d+ elements are wrong"),
        ("copies_wait<kMmaStages - 2>(", "mma", r"mma_sync, 130 x 136 x 264: \d+ elements are wrong"),
        ("copies_wait<T::kStages - 2>(", "fp32", r"double_buffer, 33 x 65 x 17: \d+ elements are wrong"),
    ],
)
def test_missing_synchronizations_are_found(
    on_the_host: tuple[Path, list[str]], left_out: str, part: str, said: str
) -> None:
    program, found = on_the_host
    done = run([program, found.index(left_out), part], timeout=600)
    assert done.returncode == 1 and re.match(said, done.stdout), done.stdout + done.stderr[:2000]


@pytest.mark.parametrize("architecture", [pytest.param("80", marks=pytest.mark.slow), NEWEST])
def test_compiles_without_warnings_or_spills(assembled: Assemble, architecture: str) -> None:
    report = assembled("gemm", architecture).report
    found = re.findall(
        r"Function properties for (\S+)\n\s*(\d+) bytes stack frame, (\d+) bytes spill stores", report
    )
    own = {name: numbers for name, *numbers in found if "lab4gemm" in name}
    assert len(own) == len(STEPS), sorted(own)
    assert {tuple(numbers) for numbers in own.values()} == {("0", "0")}, own
    assert "C75" not in report and "serializ" not in report  # no waiting between products of tensor cores


def test_tensor_cores_and_the_copy_engine_are_used(assembled: Assemble) -> None:
    """Registers: what three groups of 128 threads may have at the start; two blocks on a multiprocessor."""
    report = assembled("gemm", NEWEST).report
    used = {
        name: int(registers)
        for name, registers in re.findall(
            r"Compiling entry function '(\S+)' for 'sm_90a'\n.*\n.*\n.*Used (\d+) registers", report
        )
    }
    limits = {"specialized": 65536 // 384 // 8 * 8, "wgmma_tma": 128, "mma_sync": 128, "pipelined": 255}
    for kernel, limit in limits.items():
        mine = [registers for name, registers in used.items() if kernel in name]
        assert mine and max(mine) <= limit, (kernel, mine)


def test_wrapper_knows_flags_and_variants(built: Built) -> None:
    check_wrapper(built("gemm"), gemm)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--variant", "fast"], "--variant fast: there is no such choice; take one of fp32|bf16|naive|"),
        (["--m", "0"], "--m 0: give a whole number from 1 to 1048576"),
        (["--k", "-3"], "--k -3: give a whole number from 1 to 1048576"),
        (["--values", "odd"], "--values odd: there is no such choice; take one of normal|special"),
        (["--pad", "-1"], "--pad -1: give a whole number from 0 to 1048576"),
        (["--offset", "65"], "--offset 65: give a whole number from 0 to 64"),
        (["--size", "3"], "--size: no such flag; --help shows them all"),
    ],
)
def test_bad_flags_are_one_line(built: Built, arguments: list[str], message: str) -> None:
    done = run([built("gemm"), *arguments])
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"gemm: {message}")
    assert len(done.stderr.splitlines()) == 1


def test_without_a_gpu_one_line_and_exit_code_2(built: Built, tmp_path: Path) -> None:
    done = run([built("gemm"), "--json", tmp_path / "r.json"], env=NO_GPU)
    assert done.returncode == 2
    assert done.stderr.startswith("gemm: no NVIDIA GPU: ")
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def product(
    tmp_path: Path, step: str, sizes: str, *more: str
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    from labcode.kernels.build import build

    path = tmp_path / "r.json"
    command = [build("gemm"), "--variant", step, *flags(sizes), *more, "--repetitions", "1", "--json", path]
    done = run(command, timeout=600)
    return done, json.loads(path.read_text()) if path.is_file() else {}


@pytest.mark.gpu
@pytest.mark.parametrize("step", STEPS)
def test_results_are_right(tmp_path: Path, step: str) -> None:
    kind = "words" if step in TENSOR_MAPS else "any"
    for sizes in (*SIZES[kind], LARGE[kind]):
        done, record = product(tmp_path, step, sizes)
        assert done.returncode == 0, (sizes, done.stderr)
        assert record["checks"][step]["passed"], sizes


@pytest.mark.gpu
@pytest.mark.parametrize("variant", ["fp32", "bf16"])
def test_nan_and_infinities_come_out_where_they_should(tmp_path: Path, variant: str) -> None:
    done, record = product(tmp_path, variant, "300 504 712 0 0", "--values", "special")
    assert done.returncode == 0, done.stderr
    assert len(record["checks"]) >= len(TENSOR_MAPS)


@pytest.mark.gpu
@pytest.mark.parametrize("step", TENSOR_MAPS)
@pytest.mark.parametrize("sizes", ["64 64 65 0 0", "64 65 64 0 0", "64 64 64 4 0", "64 64 64 0 1"])
def test_what_the_copy_engine_cannot_take_is_one_line(tmp_path: Path, step: str, sizes: str) -> None:
    done, _ = product(tmp_path, step, sizes)
    why = "the copy engine takes matrices whose rows start on 16 bytes; take mma_sync"
    assert (done.returncode, done.stderr) == (2, f"gemm: --variant {step}: {why}\n")


@pytest.mark.gpu
def test_too_large_for_the_gpu_is_one_line() -> None:
    from labcode.kernels.build import build

    done = run([build("gemm"), "--m", "1048576", "--n", "1048576", "--k", "8"])
    assert done.returncode == 2
    assert "choose a smaller size" in done.stderr
    assert len(done.stderr.splitlines()) == 1
