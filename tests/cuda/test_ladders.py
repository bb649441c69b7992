"""Copy, transpose and sum: no warnings or spills for any GPU, bad use in one line; right on a GPU."""

import json
import re
from pathlib import Path

import pytest

from tests.cuda.conftest import ARCHITECTURES, Assemble, Built
from tests.cuda.ncu_programs import NO_GPU, run

LADDERS = ("memory_bandwidth", "sum", "transpose")
VARIANTS = {
    "memory_bandwidth": "all strided coalesced vectorized in_flight streaming bulk_ring bulk "
    "triad gather misaligned sizes",
    "sum": "all atomics tree shuffle vectorized bulk",
    "transpose": "all naive shared_tile padded swizzled vectorized patches windowed chunks",
}
SMALL = {
    "memory_bandwidth": ["--mebibytes", "3"],
    "sum": ["--mebibytes", "3"],
    "transpose": ["--rows", "301", "--columns", "157"],
}


@pytest.mark.parametrize("program", LADDERS)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_compiles_without_warnings_or_spills(assembled: Assemble, program: str, architecture: str) -> None:
    report = assembled(program, architecture).report
    stacks = dict(
        re.findall(
            r"Function properties for (\S+)\n\s*(\d+ bytes stack frame, \d+ bytes spill stores)", report
        )
    )
    own = {name: stack for name, stack in stacks.items() if f"lab{len(program)}{program}" in name}
    assert len(own) >= 5, report
    assert set(own.values()) == {"0 bytes stack frame, 0 bytes spill stores"}, own


@pytest.mark.parametrize("program", LADDERS)
def test_variants_and_bad_flags(built: Built, program: str) -> None:
    listed = run([built(program), "--list"])
    assert (listed.returncode, listed.stdout.split()) == (0, VARIANTS[program].split())
    for arguments, message in (
        (["--variant", "fastest"], "--variant fastest: there is no such choice; take one of all|"),
        (["--repetitions", "0"], "--repetitions 0: give a whole number from 1 to 1000"),
        (["--size", "3"], "--size: no such flag; --help shows them all"),
    ):
        done = run([built(program), *arguments])
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"{program}: {message}")
        assert len(done.stderr.splitlines()) == 1


def test_three_bytes_are_no_element(built: Built) -> None:
    done = run([built("transpose"), "--bytes", "3"])
    assert (done.returncode, done.stderr) == (2, "transpose: --bytes 3: give 2 or 4\n")


@pytest.mark.parametrize("program", LADDERS)
def test_without_a_gpu_one_line_and_exit_code_2(built: Built, tmp_path: Path, program: str) -> None:
    done = run([built(program), "--json", tmp_path / "r.json"], env=NO_GPU)
    assert done.returncode == 2
    assert done.stderr.startswith(f"{program}: no NVIDIA GPU: ")
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("program", "variant"),
    [(program, variant) for program in LADDERS for variant in VARIANTS[program].split()],
)
def test_results_are_right(tmp_path: Path, program: str, variant: str) -> None:
    from labcode.kernels.build import build

    for number, more in enumerate([[], ["--bytes", "2"]] if program == "transpose" else [[]]):
        path = tmp_path / f"{number}.json"
        flags = [*SMALL[program], "--variant", variant, "--repetitions", "2", "--json", path, *more]
        done = run([build(program), *flags])
        assert done.returncode == 0, done.stderr
        record = json.loads(path.read_text())
        assert (record["program"], record["variant"]) == (program, variant)
        assert set(record) == {"program", "variant", "parameters", "results", "checks", "gpu"}
        assert record["checks"]
        assert all(check["passed"] for check in record["checks"].values())


@pytest.mark.gpu
def test_too_large_for_the_gpu_is_one_line() -> None:
    from labcode.kernels.build import build

    done = run([build("transpose"), "--rows", str(1 << 20), "--columns", str(1 << 20)])
    assert done.returncode == 2
    assert "choose a smaller size" in done.stderr
    assert len(done.stderr.splitlines()) == 1
