"""Attention forward: its device code on the host, no spills, what it cannot take in one line."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from labcode.kernels.catalogue import Gpu, Problem
from labcode.kernels.launch import reason_unfit
from labcode.kernels.topics import attention
from tests.cuda.conftest import CUDA, Built
from tests.cuda.on_host import compile_on_host
from tests.cuda.test_programs import run

H200 = Gpu("NVIDIA H200", 90, 132, 62914560, 232448, 2048)
HEADER = (CUDA / "attention" / "attention.cuh").read_text(encoding="utf-8")
BARRIERS = HEADER.count("__syncthreads()")
HARMLESS = (2,)  # the fibers of a block never overtake one another so far: the hardware's warps may


@pytest.fixture(scope="module")
def on_the_host(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    folder = tmp_path_factory.mktemp("host")
    headers = ("gemm/layout.cuh", "attention/attention.cuh", "attention/tensor.cuh")
    return compile_on_host(folder, "host_attention.cpp", *headers)


def test_right_and_within_the_arrays_on_the_host(on_the_host: tuple[Path, list[str]]) -> None:
    done = run([on_the_host[0]], timeout=200)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr[:2000]


@pytest.mark.parametrize("barrier", sorted(set(range(BARRIERS)) - set(HARMLESS)))
def test_each_missing_barrier_is_found(on_the_host: tuple[Path, list[str]], barrier: int) -> None:
    done = run([on_the_host[0], barrier], timeout=200)
    assert done.returncode == 1 and "AddressSanitizer:" not in done.stderr, done.stderr[:2000]
    assert re.match(r"\w+, \d+ of \d+.*: wrong, error ", done.stdout)


def test_compiles_without_spills(built: Built) -> None:
    report = built("attention_steps").with_suffix(".log").read_text()
    stacks = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", report)
    assert len(stacks) == 6
    assert set(stacks) == {("0", "0", "0")}, report


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
