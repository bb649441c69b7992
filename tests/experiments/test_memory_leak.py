"""The leak: memory grows with every step of the loops that keep something, and in the mended one it stays."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from labcode.experiments.pytorch.memory_leak import program as memory_leak  # noqa: E402
from tests.support.records import recorded  # noqa: E402

SMALL = ["--device", "cpu", "--batch", "64", "--width", "16", "--layers", "3", "--steps", "4"]


@pytest.mark.parametrize("variant", memory_leak.VARIANTS)
def test_memory_grows_or_stays_as_it_should(tmp_path: Path, variant: str) -> None:
    record = recorded(memory_leak, tmp_path, *SMALL, "--variant", variant)
    used = record["results"]["used_bytes"]
    assert len(used) == 4 and len(record["results"]["losses"]) == 6
    row = 64 * 16 * 4  # one activation
    growth = record["results"]["growth_bytes_per_step"]
    holds = {
        "leak": growth > 3 * row,
        "fixed": growth == 0,
        "hook": growth == 2 * row,
        "cache": growth == row,
    }
    assert holds[variant]


def test_the_check_tells_a_leak_from_none() -> None:
    assert not memory_leak.check("fixed", [0, 2000, 4000], [2.0, 1.0])["memory_stays"].passed
    assert not memory_leak.check("leak", [0, 2000, 2000], [2.0, 1.0])["memory_grows"].passed
    assert memory_leak.check("hook", [0, 2000, 4000], [2.0, 1.0])["memory_grows"].passed
    assert memory_leak.check("fixed", [0, 512, 1024], [2.0, 1.0])["memory_stays"].passed
    assert not memory_leak.check("leak", [10, 20], [1.0, 2.0])["loss_falls"].passed


@pytest.mark.gpu
@pytest.mark.parametrize("variant", memory_leak.VARIANTS)
def test_on_a_gpu(variant: str) -> None:
    assert memory_leak.main(["--variant", variant]) == 0
