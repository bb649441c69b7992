"""Published peaks: found by the driver's names, consistent in themselves, each with its source."""

import pytest

from labcode.analysis.kernel.occupancy import LIMITS
from labcode.hardware.specs import PRECISIONS, SPECS, find_spec


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("NVIDIA H200", "H200"),
        ("NVIDIA H100 80GB HBM3", "H100 80GB HBM3"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"),
        ("NVIDIA A100 80GB PCIe", "A100 80GB PCIe"),
        ("Tesla V100-SXM2-16GB", "V100-SXM2"),
        ("Tesla T4", "T4"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA GeForce RTX 4090", "GeForce RTX 4090"),
        ("NVIDIA B200", "B200"),
        ("NVIDIA GB200", "GB200"),
    ],
)
def test_found_by_the_drivers_name(device: str, name: str) -> None:
    found = find_spec(device)
    assert found is not None and found.name == name


@pytest.mark.parametrize("device", ["NVIDIA L40", "NVIDIA GeForce RTX 3090", "", "A1000"])
def test_not_listed(device: str) -> None:
    assert find_spec(device) is None


def test_rates_rise_as_precision_falls() -> None:
    for spec in SPECS:
        assert spec.fp64 <= spec.fp32
        rates = [spec.tf32_tensor, spec.fp16_tensor, spec.fp8_tensor]
        known = [rate for rate in rates if rate is not None]
        assert known == sorted(known)
        if spec.tf32_tensor and spec.fp16_tensor:  # sparse rates quoted as dense would break these
            assert spec.fp16_tensor / spec.tf32_tensor == pytest.approx(2, rel=0.05)
        if spec.fp8_tensor and spec.fp16_tensor:
            assert spec.fp8_tensor / spec.fp16_tensor == pytest.approx(2, rel=0.05)


def test_each_has_a_source_and_a_known_compute_capability() -> None:
    assert len({spec.name for spec in SPECS}) == len(SPECS)
    assert all(spec.source and spec.cc in LIMITS and spec.memory_gb_s > 0 for spec in SPECS)


def test_peak_in_flops() -> None:
    named = {spec.name: spec for spec in SPECS}
    assert named["H200"].peak("fp32") == 67e12
    assert named["T4"].peak("fp8_tensor") is None
    assert all(named["H200"].peak(precision) for precision in PRECISIONS)
