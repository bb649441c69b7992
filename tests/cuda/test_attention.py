"""Attention forward: its device code on the host, no spills, what it cannot take in one line."""

import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest

from labcode.experiments.compute.attention.cuda import program as wrapper
from labcode.kernels.catalogue import Gpu, Problem
from labcode.kernels.launch import reason_unfit
from labcode.kernels.topics import attention
from tests.cuda.conftest import CUDA, NEWEST, NO_SPILLS, Assemble, Built
from tests.cuda.ncu_programs import NO_GPU, check_wrapper, run
from tests.cuda.on_host import compile_on_host

H200 = Gpu("NVIDIA H200", 90, 132, 62914560, 232448, 2048)
HEADER = (CUDA / "attention" / "attention.cuh").read_text(encoding="utf-8")
BARRIERS = HEADER.split("// ---- backward")[0].count("__syncthreads()")
ALL_BARRIERS = HEADER.count("__syncthreads()")
MISTAKES = ("slow", "plain_rows", "four_blocks")  # steps with a mistake each, for one kind of head
HARMLESS = (2,)  # the fibers of a block never overtake one another so far: the hardware's warps may


@pytest.fixture(scope="module")
def on_the_host(compiled: Path) -> tuple[Path, list[str]]:
    headers = ("gemm/layout.cuh", "attention/attention.cuh", "attention/tensor.cuh")
    return compile_on_host(compiled, "host_attention.cpp", *headers)


def test_right_and_within_the_arrays_on_the_host(on_the_host: tuple[Path, list[str]]) -> None:
    done = run([on_the_host[0]], timeout=600)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr[:2000]


@pytest.mark.parametrize("barrier", sorted(set(range(BARRIERS)) - set(HARMLESS)))
def test_each_missing_barrier_is_found(on_the_host: tuple[Path, list[str]], barrier: int) -> None:
    done = run([on_the_host[0], barrier, "readable"], timeout=600)
    assert done.returncode == 1 and "AddressSanitizer:" not in done.stderr, done.stderr[:2000]
    assert re.match(r"\w+, \d+ of \d+.*: wrong, error ", done.stdout)


@pytest.mark.parametrize(
    ("left_out", "nth", "part", "said"),
    [
        ("copies_wait<0>(", 0, "registers", "mma_sync, 150 of 64, causal: wrong"),
        ("__syncthreads(", ALL_BARRIERS + 1, "registers", "double_buffer, 150 of 64: wrong"),
        ("wait_for(&empty_v[s], turn.parity ^ 1", 0, "maps", "specialized, 260 of 128: hangs"),
        ("products_wait<0>(", 1, "maps", "specialized, 130 of 64: wrong"),
        ("products_wait<1>(", 0, "maps", "ping_pong, 130 of 64: wrong"),
        ("products_wait<0>(", 3, "maps", "ping_pong, 130 of 64: wrong"),
    ],
)
def test_missing_synchronizations_are_found(
    on_the_host: tuple[Path, list[str]], left_out: str, nth: int, part: str, said: str
) -> None:
    program, found = on_the_host
    number = [i for i, what in enumerate(found) if what == left_out][nth]
    done = run([program, number, part], timeout=600)
    assert done.returncode == 1 and done.stdout.startswith(said), done.stdout + done.stderr[:2000]


def test_tensor_cores_without_spills_or_waiting(assembled: Assemble) -> None:
    """Registers at the start: what the groups of a block may have; two blocks of mma.sync fit."""
    report = assembled("attention", NEWEST).report
    found = re.findall(
        r"Compiling entry function '(\S+)' for 'sm_90a'\n.*\n\s*(\d+) bytes stack frame, "
        r"(\d+) bytes spill stores.*\n.*Used (\d+) registers",
        report,
    )
    own = {name: numbers for name, *numbers in found if "mma_sync" in name or "specialized" in name}
    own = {name: numbers for name, numbers in own.items() if "Lb1ELi4E" not in name}  # four_blocks
    assert len(own) == 29
    assert {tuple(numbers[:2]) for numbers in own.values()} == {("0", "0")}, own
    limits = {"mma_sync": 255, "ShapeILi128ELi2E": 168, "ShapeILi64ELi3E": 128}
    for kernel, limit in limits.items():
        mine = [int(numbers[2]) for name, numbers in own.items() if kernel in name]
        assert mine and max(mine) <= limit, (kernel, mine)
    assert "C75" not in report and "serializ" not in report


def test_wrapper_knows_flags_and_variants(built: Built) -> None:
    check_wrapper(built("attention"), wrapper)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--variant", "fast"], "--variant fast: there is no such choice; take one of all|mma_sync|"),
        (["--type", "fp32"], "--type fp32: there is no such choice; take one of bf16|fp16"),
        (["--mask", "window"], "--mask window: there is no such choice; take one of none|causal"),
        (["--length", "0"], "--length 0: give a whole number from 1 to 131072"),
        (["--heads", "65536"], "--heads 65536: give a whole number from 1 to 65535"),
        (["--dim", "80"], "--dim 80: give 64 or 128"),
    ],
)
def test_bad_flags_are_one_line(built: Built, arguments: list[str], message: str) -> None:
    done = run([built("attention"), *arguments])
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"attention: {message}")
    assert len(done.stderr.splitlines()) == 1


def test_without_a_gpu_one_line_and_exit_code_2(built: Built, tmp_path: Path) -> None:
    done = run([built("attention"), "--json", tmp_path / "r.json"], env=NO_GPU)
    assert done.returncode == 2
    assert done.stderr.startswith("attention: no NVIDIA GPU: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.gpu
@pytest.mark.parametrize("step", wrapper.variants[1:])
def test_results_are_right(tmp_path: Path, step: str) -> None:
    from labcode.kernels.build import build

    sizes = ((1, 1, "bf16"), (3, 33, "fp16"), (2, 257, "bf16"), (40, 1537, "fp16"))
    for (heads, length, dtype), dim, mask in itertools.product(sizes, (64, 128), ("none", "causal")):
        if step in MISTAKES and (dim, dtype) != (64, "bf16"):
            continue
        shape = ["--heads", heads, "--length", length, "--dim", dim, "--type", dtype, "--mask", mask]
        path = tmp_path / "r.json"
        command = [build("attention"), "--variant", step, *shape, "--repetitions", "1", "--json", path]
        done = run([str(word) for word in command], timeout=600)
        assert done.returncode == 0, (shape, done.stderr)
        checks = json.loads(path.read_text())["checks"]
        assert step in (*checks, "slow") and checks, shape
        assert all(check["passed"] for check in checks.values()), (shape, checks)


def test_compiles_without_spills(assembled: Assemble) -> None:
    report = assembled("attention", NEWEST).report
    found = re.findall(r"Function properties for (\S+)\n(.* spill stores, .* spill loads)", report)
    steps = {name: stack for name, stack in found if re.search("online|tiled|materialized|backward_", name)}
    assert len(steps) == 10
    assert {stack.strip() for stack in steps.values()} == {NO_SPILLS}, steps


def test_what_it_cannot_take_is_one_line() -> None:
    for step in attention.STEPS:
        assert reason_unfit(step, Problem((2, 64, 64)), H200) is None
        assert reason_unfit(step, Problem((2, 64, 80)), H200) == (
            "takes heads of 64 or 128 dimensions, not 80"
        )
        assert reason_unfit(step, Problem((65536, 64, 64)), H200) == "takes at most 65535 heads, not 65536"


@pytest.mark.parametrize("causal", [False, True])
def test_reference_by_hand(causal: bool) -> None:
    q, k, v = np.random.default_rng(5).normal(size=(3, 2, 5, 64))
    found = attention.attention(q, k, v, causal)
    for head in range(2):
        for row in range(5):
            keys = row + 1 if causal else 5
            weights = np.exp([q[head, row] @ k[head, j] / 8 for j in range(keys)])
            assert np.allclose(found[head, row], weights @ v[head, :keys] / weights.sum())


def test_cost_model() -> None:
    problem = Problem((2, 100, 64))
    assert attention.ATTENTION.bytes_moved(problem) == 4 * 2 * 100 * 64 * 4
    assert attention.ATTENTION.flops(problem) == 2 * (2 * 100 * 100 * 64) * 2
    assert attention.CAUSAL.flops(problem) * 2 == attention.ATTENTION.flops(problem)
