"""The calculator against what Nsight Compute and the CUDA API said on the GPU of the captures."""

import json

import pytest

from labcode.analysis.kernel.occupancy import occupancy
from labcode.reports.ncu.report import Launch
from tests.support import ncu

LIMITS = {
    "registers": "limit_registers",
    "shared memory": "limit_shared",
    "warps": "limit_warps",
    "blocks": "limit_blocks",
}


def _launches() -> list[Launch]:
    return [one for name in ("full", "basic") for one in ncu.opened(name).list]


def test_equal_to_ncu_on_every_captured_kernel() -> None:
    seen = set()
    for one in _launches():
        shared = one.number("static_shared_bytes") + one.number("dynamic_shared_bytes")
        ours = occupancy(
            "9.0",
            one.whole("launch__block_size"),
            one.whole("launch__registers_per_thread"),
            int(shared),
            carveout_bytes=int(one.number("shared_config_bytes")),
            barriers=int(one.number("barriers")),
        )
        assert 100 * ours.share == pytest.approx(one.number("theoretical_occupancy_pct")), one.function
        assert ours.warps == one.number("theoretical_warps")
        for name, meaning in LIMITS.items():
            assert min(ours.limits[name], 32) == min(one.number(meaning), 32), (one.function, name)
        seen.add(ours.limiters)
    assert {("warps",), ("shared memory",)} <= seen  # the golden kernels are limited by different resources


@pytest.mark.parametrize("kernel", ["copy_scalar", "spills", "conflicts", "transpose_naive"])
def test_equal_to_ncus_curves(kernel: str) -> None:
    one = next(one for one in ncu.opened("full").list if one.function == kernel)
    threads, registers = one.whole("launch__block_size"), one.whole("launch__registers_per_thread")
    carveout = int(one.number("shared_config_bytes"))
    shared = int(one.number("static_shared_bytes") + one.number("dynamic_shared_bytes"))
    keys, warps = one.instances["launch__occupancy_per_register_count"]
    compared = 0
    for key, value in zip(keys, warps, strict=True):
        if not isinstance(key, int) or not 16 <= key <= 255:
            continue
        assert occupancy("9.0", threads, key, shared, carveout_bytes=carveout).warps == value, key
        compared += 1
    keys, warps = one.instances["launch__occupancy_per_block_size"]
    for key, value in zip(keys, warps, strict=True):
        # ncu samples a curve at sizes between the multiples of 32
        if isinstance(key, int) and key % 32 == 0:
            ours = occupancy("9.0", key, registers, shared, carveout_bytes=carveout).warps
            assert ours == value, key
            compared += 1
    assert compared > 250


def test_equal_to_the_cuda_api() -> None:
    grid = json.loads(ncu.path("occupancy_api.json").read_text())
    assert grid["compute_capability"] == "90" and grid["columns"][-1] == "blocks"
    assert len(grid["rows"]) > 7000
    wrong = [row for row in grid["rows"] if occupancy("9.0", row[1], row[0], row[2]).blocks != row[3]]
    assert wrong == []
