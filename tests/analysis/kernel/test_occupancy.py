"""The occupancy calculator: by hand, against NVIDIA's own for every compute capability, against a GPU's."""

import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from labcode.analysis.kernel.occupancy import LIMITS, curve, limits_of, occupancy
from labcode.errors import LabError

HERE = Path(__file__).parents[1]
Case = tuple[str, int, int, int, int, int]  # cc, threads, registers, shared, barriers, carveout percent


def test_by_hand() -> None:
    # 9.0: 64 warps an SM; 8 warps a block; 40 registers a thread = 1,280 a warp = 5 units of 256
    found = occupancy("9.0", 256, 40)
    assert (found.blocks, found.warps, found.share) == (6, 48, 0.75)
    assert found.limiters == ("registers",)
    assert found.limits == {"warps": 8, "blocks": 32, "registers": 6, "shared memory": 228}


def test_registers_are_given_in_units() -> None:
    assert occupancy("8.0", 256, 33).registers_per_thread == 40
    assert occupancy("8.0", 256, 32).registers_per_thread == 32


def test_shared_memory_holds_the_drivers_part_from_8_0_on() -> None:
    assert occupancy("8.0", 128, 16, 1000).shared_per_block == 2048
    assert occupancy("7.5", 128, 16, 1000).shared_per_block == 1024


def test_a_small_carveout_limits() -> None:
    assert occupancy("9.0", 64, 16, 15 << 10).blocks == 14
    small = occupancy("9.0", 64, 16, 15 << 10, carveout_bytes=64 << 10)
    assert (small.blocks, small.limiters) == (4, ("shared memory",))
    # too small for one block: raised to the next size
    assert occupancy("9.0", 64, 16, 60 << 10, carveout_bytes=8 << 10).blocks == 1


def test_too_much_for_a_block_fits_nowhere() -> None:
    assert occupancy("9.0", 128, 16, LIMITS["9.0"].shared_block_bytes + 1).blocks == 0
    assert occupancy("9.0", 1024, 65).blocks == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("6.0", 128, 16), "no occupancy limits for compute capability 6.0; there are: 7.0, 7.2"),
        (("9.0", 1025, 16), "1025 threads: a block has 1 to 1024"),
        (("9.0", 0, 16), "0 threads"),
        (("9.0", 128, 300), "300 registers: a thread has at most 255"),
        (("9.0", 128, 16, -1), "cannot be negative"),
    ],
)
def test_bad_numbers(arguments: tuple[str, int, int], message: str) -> None:
    with pytest.raises(LabError, match=message):
        occupancy(*arguments)


def test_curves() -> None:
    table = curve("9.0", "registers", 256, 32)
    assert table["share"].iloc[0] == 1.0
    assert table.loc[table["x"] == 40, "share"].item() == 0.75
    assert table["share"].is_monotonic_decreasing
    with pytest.raises(LabError, match="'time': the curve is over one of threads, registers, shared_bytes"):
        curve("9.0", "time", 256, 32)


def _cases() -> Iterator[Case]:
    chance = random.Random(4)
    for cc, sm in LIMITS.items():
        for _ in range(1500):
            threads = chance.choice(
                (chance.randint(1, 1024), chance.choice((32, 64, 96, 128, 256, 512, 1024)))
            )
            shared = chance.choice((0, 0, chance.randint(0, sm.shared_block_bytes + 2000)))
            carveout = chance.choice((-1, 0, 100, chance.randint(1, 99)))
            yield cc, threads, chance.randint(0, 255), shared, chance.choice((0, 0, 1, 2, 4, 16)), carveout


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """NVIDIA's calculator, built from the header of the toolkit at hand."""
    compiler, nvcc = shutil.which("cc"), shutil.which("nvcc")
    homes = [Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))]
    homes += [Path(nvcc).resolve().parent.parent] if nvcc else []
    include = next((h / "include" for h in homes if (h / "include/cuda_occupancy.h").is_file()), None)
    if compiler is None or include is None:
        pytest.skip("needs a C compiler and a CUDA toolkit with cuda_occupancy.h")
    program = tmp_path_factory.mktemp("oracle") / "oracle"
    source = HERE / "occupancy_oracle.c"
    subprocess.run([compiler, f"-I{include}", str(source), "-o", str(program), "-lm"], check=True)
    return program


def test_equal_to_nvidias_calculator_for_every_compute_capability(oracle: Path) -> None:
    cases = list(_cases())
    lines = []
    for cc, threads, registers, shared, barriers, carveout in cases:
        sm = LIMITS[cc]
        device = (
            f"{cc.replace('.', ' ')} {sm.warps} {sm.shared_bytes} {sm.shared_block_bytes} {sm.reserved_bytes}"
        )
        lines.append(f"{device} {threads} {registers} {shared} {carveout} {barriers}")
    text = subprocess.run([oracle], input="\n".join(lines), capture_output=True, text=True, check=True).stdout
    answers = [tuple(map(int, line.split())) for line in text.splitlines()]
    assert len(answers) == len(cases)
    wrong = []
    for (cc, threads, registers, shared, barriers, percent), (error, blocks) in zip(
        cases, answers, strict=True
    ):
        sm = limits_of(cc)
        size = (
            None
            if percent < 0
            else next(s for s in sm.carveout_bytes if s * 100 >= sm.shared_bytes * percent)
        )
        ours = occupancy(cc, threads, registers, shared, carveout_bytes=size, barriers=barriers).blocks
        if error or ours != blocks:
            wrong.append((cc, threads, registers, shared, barriers, percent, blocks, ours))
    assert not wrong


@pytest.mark.gpu
def test_equal_to_the_cuda_api_on_this_gpu() -> None:
    pytest.importorskip("cupy")
    from tests.golden.make_ncu_golden import occupancy_grid

    grid = occupancy_grid()
    number = str(grid["compute_capability"])
    cc = f"{number[:-1]}.{number[-1]}"
    rows = grid["rows"]
    assert isinstance(rows, list) and len(rows) > 1000
    wrong = [row for row in rows if occupancy(cc, row[1], row[0], row[2]).blocks != row[3]]
    assert not wrong
