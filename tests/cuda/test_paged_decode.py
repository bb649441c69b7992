"""Paged decode: its device code on the host, no spills, what it cannot take in one line."""

import json
import re
from pathlib import Path

import pytest

from labcode.experiments.serving.paged_decode.cuda import program as wrapper
from labcode.kernels.topics import paged_decode as topic
from tests.cuda.conftest import NEWEST, Assemble, Built
from tests.cuda.ncu_programs import NO_GPU, check_wrapper, resources, run
from tests.cuda.on_host import compile_on_host

HEADERS = ("paged_decode/paged_decode.cuh", "paged_decode/ring.cuh")
BARRIERS = [
    *["__syncthreads("] * 8,
    *["wait_for(ring.empty + number, parity"] * 2,
    "wait_for(ring.full + number, parity",
    *["consumers_meet("] * 4,
    *["__syncthreads("] * 2,
]
# The fibers of a block never overtake one another so far: the hardware's warps may.
HARMLESS = (4, 5, 12, 13, 14)
WILD = 10  # without it, what is read names no sequence


@pytest.fixture(scope="module")
def on_the_host(compiled: Path) -> tuple[Path, list[str]]:
    return compile_on_host(compiled, "host_paged_decode.cpp", *HEADERS)


def test_right_and_within_the_arrays_on_the_host(on_the_host: tuple[Path, list[str]]) -> None:
    done = run([on_the_host[0]], timeout=600)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr[:2000]


@pytest.mark.parametrize("barrier", sorted(set(range(len(BARRIERS))) - set(HARMLESS)))
def test_each_missing_barrier_is_found(on_the_host: tuple[Path, list[str]], barrier: int) -> None:
    program, found = on_the_host
    assert found == BARRIERS
    done = run([program, barrier], timeout=600)
    assert done.returncode == 1
    if barrier == WILD:
        return
    assert "AddressSanitizer:" not in done.stderr, done.stderr[:2000]
    assert re.match(r"\w+, groups of \d, pages of 16: (wrong|hangs), error ", done.stdout), done.stdout


def test_no_spills_and_as_many_blocks_as_it_counts_on(assembled: Assemble) -> None:
    found = resources(assembled("paged_decode", NEWEST).report)
    assert {name.split("<")[0] for name in found} >= {*(step.name for step in topic.STEPS), "combine"}
    mine = {name: one for name, one in found.items() if name.split("<")[0] not in ("fill", "vectorized")}
    assert not {name: one for name, one in mine.items() if one.spilled_bytes}
    most = 65536 // (topic.THREADS * topic.BLOCKS_AN_SM) // 8 * 8
    for name in ("tensor", "split", "one_launch", "balanced", "stealing"):
        assert found[name].registers <= most, name
    assert found["ring"].registers * topic.RING_THREADS <= 65536 and topic.RING_BYTES <= 227 << 10


def test_wrapper_knows_flags_and_variants(built: Built) -> None:
    check_wrapper(built("paged_decode"), wrapper)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--variant", "fast"], "--variant fast: there is no such choice; take one of all|heads|groups|"),
        (["--lengths", "odd"], "--lengths odd: there is no such choice; take one of even|uneven"),
        (["--batch", "0"], "--batch 0: give a whole number from 1 to 65535"),
        (["--tokens", "0"], "--tokens 0: give a whole number from 1 to 1048576"),
        (["--page", "48"], "--page 48: give a power of two"),
        (["--page", "8"], "--page 8: give a whole number from 16 to 4096"),
        (["--kv-heads", "3"], "--heads 32 --kv-heads 3: 1, 2, 4 or 8 heads of the queries share one of the"),
        (["--batch", "9000"], "--batch 9000 --kv-heads 8: together at most 65535"),
    ],
)
def test_bad_flags_are_one_line(built: Built, arguments: list[str], message: str) -> None:
    done = run([built("paged_decode"), *arguments])
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"paged_decode: {message}")
    assert len(done.stderr.splitlines()) == 1


def test_without_a_gpu_one_line_and_exit_code_2(built: Built, tmp_path: Path) -> None:
    done = run([built("paged_decode"), "--json", tmp_path / "r.json"], env=NO_GPU)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("paged_decode: no NVIDIA GPU: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.gpu
@pytest.mark.parametrize("step", wrapper.variants[1:])
def test_results_are_right(tmp_path: Path, step: str) -> None:
    from labcode.kernels.build import build

    for batch, tokens, heads, kv_heads, page in (
        (1, 1, 1, 1, 16),
        (3, 130, 8, 8, 16),
        (5, 333, 32, 8, 64),
        (70, 17, 16, 2, 32),
    ):
        shape = [
            "--batch",
            batch,
            "--tokens",
            tokens,
            "--heads",
            heads,
            "--kv-heads",
            kv_heads,
            "--page",
            page,
        ]
        for lengths in ("even", "uneven"):
            path = tmp_path / "r.json"
            flags = ["--variant", step, "--lengths", lengths, "--repetitions", 1, "--json", path]
            done = run([build("paged_decode"), *shape, *flags], timeout=600)
            assert done.returncode == 0, (shape, done.stderr)
            checks = json.loads(path.read_text())["checks"]
            assert list(checks) == [step] and checks[step]["passed"], (shape, checks)
