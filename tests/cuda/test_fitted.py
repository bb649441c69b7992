"""Grouped matmul and Stream-K: right on the host, missing synchronizations found, no spills."""

import re
from pathlib import Path

import pytest

from labcode.kernels.catalogue import Problem, entry
from labcode.kernels.topics import grouped, stream_k
from tests.cuda.conftest import CUDA, FLAGS, NEWEST, once
from tests.cuda.ncu_programs import run
from tests.cuda.on_host import compile_on_host

ANY, *OTHERS = (Problem(shape, "bfloat16") for shape in ((8, 8, 8), (8, 9, 8), (17, 8, 8), (65, 8, 8)))
INSTANCES = {
    *(entry(step, ANY) for step in grouped.GROUPED.steps),
    *(entry(step, problem) for step in stream_k.STREAM_K.steps for problem in (ANY, *OTHERS)),
    *(f"lab::gemm::{name}" for name in ("add_parts", "pack")),
}


@pytest.fixture(scope="module")
def on_the_host(compiled: Path) -> tuple[Path, list[str]]:
    headers = ("layout", "bf16", "fitted", "stream_k", "grouped")
    return compile_on_host(compiled, "host_fitted.cpp", *(f"gemm/{name}.cuh" for name in headers))


def test_right_and_within_the_arrays_on_the_host(on_the_host: tuple[Path, list[str]]) -> None:
    done = run([on_the_host[0]], timeout=600)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr[:2000]


@pytest.mark.parametrize(
    ("left_out", "which", "part", "said"),
    [
        (
            *("wait_for(&empty[turn.slot], turn.parity ^ 1", -1, "second"),
            "split: its threads wait for each other forever",
        ),
        ("products_wait<1>(", -4, "stream_k", r"stream_k, 130 x 264: \d+ elements are wrong"),
        ("products_wait<1>(", -3, "along", r"along, 520 x 264: \d+ elements are wrong"),
        ("products_wait<1>(", -2, "few", r"few, 16 x 136: \d+ elements are wrong"),
        ("products_wait<1>(", -1, "halves", r"halves, 16 x 136: \d+ elements are wrong"),
        ("cluster_sync<kBlocks>(", -4, "halves", r"halves, 16 x 136: \d+ elements are wrong"),
        ("cluster_sync<kBlocks>(", -1, "pairs", "split_pairs: its threads wait for each other forever"),
        (
            *("await_count(counters + of, static_cast<unsigned>(cuts * warps)", -1, "joint"),
            r"joint, 260 x 264: \d+ elements are wrong",
        ),
        ("products_wait<0>(", -4, "grouped", r"by_expert, 196 x 264: \d+ elements are wrong"),
        ("products_wait<0>(", -3, "along", r"along, 257 x 264: \d+ elements are wrong"),
    ],
)
def test_missing_synchronizations_are_found(
    on_the_host: tuple[Path, list[str]], left_out: str, which: int, part: str, said: str
) -> None:
    """Which of each name, counted from the last: the first ones are of ``bf16.cuh``."""
    program, found = on_the_host
    number = [i for i, one in enumerate(found) if one == left_out][which]
    done = run([program, number, part], timeout=600)
    assert done.returncode == 1 and re.match(said, done.stdout), done.stdout + done.stderr[:2000]


def test_compiles_without_warnings_spills_or_waiting(nvcc: Path, compiled: Path) -> None:
    source = compiled / "fitted.cu"
    text = "".join(f'#include "{header}"\n' for header in (grouped.HEADER, stream_k.HEADER))
    text += "".join(f"auto* kernel_{i} = {one};\n" for i, one in enumerate(sorted(INSTANCES)))
    options = [*FLAGS, f"-gencode=arch=compute_{NEWEST},code=sm_{NEWEST}", f"-I{CUDA}", "-cubin"]
    target = compiled / "fitted.cubin"
    report = once(
        target,
        [nvcc, *options, source, "-o", target],
        lambda: source.write_text(text, encoding="utf-8"),
    )
    found = re.findall(
        r"Function properties for (\S+)\n\s*(\d+) bytes stack frame, (\d+) bytes spill stores", report
    )
    own = {
        name: numbers
        for name, *numbers in found
        if re.search(r"grouped|stream_k|split|joint|aside|along|halves|add_parts|pack", name)
    }
    assert len(own) == len(INSTANCES), sorted(own)
    assert {tuple(numbers) for numbers in own.values()} == {("0", "0")}, own
    assert "C75" not in report  # no waiting between products of tensor cores
