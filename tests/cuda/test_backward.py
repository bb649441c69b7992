"""Attention's backward: right on the host's fibers, missing synchronizations found, no spills, no waiting."""

import re
from pathlib import Path

import pytest

from labcode.experiments.compute.attention_backward.steps import expressions
from labcode.kernels.topics import attention_backward as topic
from tests.cuda.conftest import CUDA, FLAGS, NEWEST, once
from tests.cuda.ncu_programs import run
from tests.cuda.on_host import compile_on_host

HEADERS = ("gemm/layout.cuh", "attention/attention.cuh", "attention/tensor.cuh", topic.HEADER)
INSTANCES = {
    "lab::backward::of_rows<true>",
    *(one for plan in topic.PLANS.values() for one in expressions(plan)),
}


@pytest.fixture(scope="module")
def on_the_host(compiled: Path) -> tuple[Path, list[str]]:
    return compile_on_host(compiled, "host_backward.cpp", *HEADERS)


def test_right_and_within_the_arrays_on_the_host(on_the_host: tuple[Path, list[str]]) -> None:
    done = run([on_the_host[0]], timeout=300)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr[:2000]


@pytest.mark.parametrize(
    ("left_out", "nth", "part", "said"),
    [
        ("wait_for(&empty_q[s], turn.parity ^ 1", 0, "one_pass", "of V hangs"),
        ("products_wait<2>(", 0, "ahead", "of V wrong"),
        ("products_wait<0>(", 2, "ahead", "of K wrong"),
        ("products_wait<1>(", 1, "together", "of V wrong"),
    ],
)
def test_missing_synchronizations_are_found(
    on_the_host: tuple[Path, list[str]], left_out: str, nth: int, part: str, said: str
) -> None:
    """The ``nth`` of each name, counted from where the backward's own begin."""
    program, found = on_the_host
    first = found.index("wait_for(&empty_q[s], turn.parity ^ 1")
    number = [i for i, what in enumerate(found) if i >= first and what == left_out][nth]
    done = run([program, number, part], timeout=300)
    assert done.returncode == 1 and f": {said}, error" in done.stdout, done.stdout + done.stderr[:2000]


def test_every_step_of_the_catalogue_is_run_on_the_host() -> None:
    text = Path(__file__).with_name("host_backward.cpp").read_text(encoding="utf-8")
    for name, plan in topic.PLANS.items():
        how = "" if plan.held and not plan.narrow else f", {plan.held}, {plan.narrow}".lower()
        assert f"Plan<{plan.queries}, {plan.order}, {plan.adding}{how}>" in text, name


def test_compiles_without_warnings_spills_or_waiting(nvcc: Path, compiled: Path) -> None:
    source = compiled / "backward.cu"
    text = f'#include "{topic.HEADER}"\n'
    text += "".join(f"auto* kernel_{i} = {one};\n" for i, one in enumerate(sorted(INSTANCES)))
    options = [*FLAGS, f"-gencode=arch=compute_{NEWEST},code=sm_{NEWEST}", f"-I{CUDA}", "-cubin"]
    target = compiled / "backward.cubin"
    report = once(
        target,
        [nvcc, *options, source, "-o", target],
        lambda: source.write_text(text, encoding="utf-8"),
    )
    found = re.findall(
        r"Function properties for \S*backward\S*\n\s*(\d+) bytes stack frame, (\d+) bytes spill stores",
        report,
    )
    assert len(found) == len(INSTANCES)
    assert set(found) == {("0", "0")}, report
    assert "C75" not in report  # no waiting between products of tensor cores
