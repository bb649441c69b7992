"""compute-sanitizer on every CUDA program: no access outside an array, no race in shared memory."""

import shutil
import subprocess
from pathlib import Path

import pytest

from labcode.tools import find_nvcc

# Small, for the tools make programs 10 to 1000 times slower, but with tiles that the sizes do not fill.
RUNS: dict[str, tuple[str, ...]] = {
    "memory_bandwidth": ("--mebibytes 3",),
    "sum": ("--mebibytes 3",),
    "transpose": ("--rows 301 --columns 157", "--rows 64 --columns 256"),
    "gemm": (
        "--variant fp32 --m 300 --n 520 --k 200",
        "--variant bf16 --m 300 --n 520 --k 200",
        "--variant mma_sync --m 129 --n 65 --k 71 --offset 1",
    ),
    "attention": (
        "--heads 2 --length 150 --dim 64 --type fp16",
        "--heads 2 --length 333 --dim 128 --mask causal",
    ),
    "paged_decode": (
        "--batch 5 --tokens 70 --lengths uneven",
        "--batch 2 --tokens 333 --heads 16 --kv-heads 2 --page 64",
    ),
    "softmax": tuple(
        f"--columns {columns} --rows {rows} --type {kind}"
        for columns, rows in ((1000, 9), (16383, 3), (70000, 2))
        for kind in ("float", "bf16")
    ),
    "rmsnorm": tuple(
        f"--columns {columns} --rows {rows} --type {kind}"
        for columns, rows in ((1000, 9), (16383, 3), (70000, 2))
        for kind in ("float", "bf16")
    ),
    "roofline_kernels": ("--mebibytes 1 --l2-mebibytes 1 --work 0.001 --warmup 1",),
    "energy": ("--mebibytes 16 --l2-mebibytes 1 --seconds 0.01 --warmup 0",),
    "compute_metrics": ("--work 0.05 --waves 1 --lines 4096 --warmup 1",),
    "optimization_loop": ("--height 33 --width 57 --warmup 1",),
    "kernel_overlap": (
        "--variant streams --kernels 8 --iterations 2",
        "--variant graph --kernels 8 --iterations 2",
    ),
    "many_operations": ("--ops 300 --threads 2",),
    "memory_timeline": (
        "--variant pinned --mebibytes 1 --iterations 1",
        "--variant pipelined --mebibytes 1 --iterations 1",
    ),
}
CASES = [(program, flags) for program, runs in RUNS.items() for flags in runs]


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
@pytest.mark.parametrize(("program", "flags"), CASES)
def test_compute_sanitizer_finds_nothing(program: str, flags: str, tool: str) -> None:
    from labcode.kernels.build import build

    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        pytest.skip("no compute-sanitizer here")
    command = [sanitizer, "--tool", tool, "--error-exitcode", "9", str(build(program)), *flags.split()]
    once = () if program == "energy" else ("--repetitions", "1")  # it repeats for a time
    done = subprocess.run([*command, *once], capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout[:3000] + done.stderr[-500:]  # the first error says most


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.parametrize(("variant", "hazards"), [(0, True), (1, False), (2, True), (3, True)])
def test_what_racecheck_sees_of_an_mbarrier(variant: int, hazards: bool, tmp_path: Path) -> None:
    """It credits an arrival to the lane that arrives alone: not to its warp, whose reads came before."""
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        pytest.skip("no compute-sanitizer here")
    program, source = tmp_path / "slots", Path(__file__).with_name("slots.cu")
    subprocess.run([find_nvcc(), "-arch=sm_90a", "-o", program, source], check=True, timeout=300)
    command = [sanitizer, "--tool", "racecheck", "--error-exitcode", "9", str(program), str(variant)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == (9 if hazards else 0), done.stdout[:2000]


def test_every_program_is_checked() -> None:
    from labcode.store import repository_root

    programs = {path.stem for path in (repository_root() / "cuda").glob("*/*.cu")}
    assert programs == set(RUNS)
