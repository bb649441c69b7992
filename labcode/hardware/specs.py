"""Published peaks of the GPUs the book names: a GPU's name in; rates, bandwidth and their source out.

Rates are dense (without structured sparsity) in TFLOP/s, tensor rates with fp32 accumulation; memory
bandwidth in GB/s. They are what vendors print, at a clock that a card under load may not reach: a roof to
compare with, not a measurement. What a device says of itself (SMs, L2, shared memory, clocks) is not
repeated here.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Spec:
    """Peaks of one GPU; None where the vendor states none or the hardware cannot."""

    name: str
    cc: str
    fp64: float
    fp64_tensor: float | None
    fp32: float
    tf32_tensor: float | None
    fp16_tensor: float | None
    fp8_tensor: float | None
    memory_gb_s: float
    watts: int
    source: str

    def peak(self, precision: str) -> float | None:
        """FLOP/s of a precision: fp64, fp64_tensor, fp32, tf32_tensor, fp16_tensor, fp8_tensor."""
        rate = getattr(self, precision)
        return None if rate is None else float(rate) * 1e12


PRECISIONS = ("fp64", "fp64_tensor", "fp32", "tf32_tensor", "fp16_tensor", "fp8_tensor")

_A100 = "NVIDIA A100 Tensor Core GPU datasheet (2022)"
_HOPPER = "NVIDIA H100 Tensor Core GPU datasheet (2023); sparse tensor rates halved"
_H200 = "NVIDIA H200 Tensor Core GPU datasheet (2024); sparse tensor rates halved"
_BLACKWELL = (
    "NVIDIA Blackwell datasheet, GB200 NVL72 and HGX B200, per GPU (2025); sparse tensor rates halved"
)
_ADA = "NVIDIA Ada GPU architecture whitepaper 2.1, appendix A (2023)"
_FP64 = "fp64: two operations a cycle and SM (CUDA C++ Programming Guide, arithmetic instructions)"

SPECS: tuple[Spec, ...] = (
    Spec("V100-SXM2", "7.0", 7.8, None, 15.7, None, 125, None, 900, 300, "NVIDIA V100 datasheet (2020)"),
    Spec(
        *("T4", "7.5", 0.25, None, 8.1, None, 65, None, 320, 70),
        "NVIDIA T4 datasheet (2019); " + _FP64,
    ),
    Spec("A100-SXM4-40GB", "8.0", 9.7, 19.5, 19.5, 156, 312, None, 1555, 400, _A100),
    Spec("A100-SXM4-80GB", "8.0", 9.7, 19.5, 19.5, 156, 312, None, 2039, 400, _A100),
    Spec("A100-PCIE-40GB", "8.0", 9.7, 19.5, 19.5, 156, 312, None, 1555, 250, _A100),
    Spec("A100 80GB PCIe", "8.0", 9.7, 19.5, 19.5, 156, 312, None, 1935, 300, _A100),
    Spec(
        *("A10", "8.6", 0.49, None, 31.2, 62.5, 125, None, 600, 150),
        "NVIDIA A10 datasheet (2021); " + _FP64,
    ),
    Spec(
        *("L4", "8.9", 0.47, None, 30.3, 60, 121, 242, 300, 72),
        "NVIDIA L4 datasheet (2023); sparse tensor rates halved; " + _FP64,
    ),
    Spec(
        *("L40S", "8.9", 1.43, None, 91.6, 183, 362.05, 733, 864, 350),
        "NVIDIA L40S datasheet (2023); " + _FP64,
    ),
    Spec(
        *("GeForce RTX 4090", "8.9", 1.29, None, 82.6, 82.6, 165.2, 330.3, 1008, 450),
        f"{_ADA}; {_FP64}",
    ),
    Spec(
        *("GeForce RTX 5090", "12.0", 1.64, None, 104.8, 104.8, 209.5, 419, 1792, 575),
        "NVIDIA RTX Blackwell GPU architecture whitepaper 1.1, appendix A (2025); " + _FP64,
    ),
    Spec("H100 PCIe", "9.0", 26, 51, 51, 378, 756, 1513, 2000, 350, _HOPPER),
    Spec("H100 80GB HBM3", "9.0", 34, 67, 67, 494.5, 989.5, 1979, 3350, 700, _HOPPER),
    Spec("H200", "9.0", 34, 67, 67, 494.5, 989.5, 1979, 4800, 700, _H200),
    Spec("B200", "10.0", 37, 37, 75, 1100, 2250, 4500, 7700, 1000, _BLACKWELL),
    Spec("GB200", "10.0", 40, 40, 80, 1250, 2500, 5000, 8000, 1200, _BLACKWELL),
)


def find_spec(device: str) -> Spec | None:
    """The spec of a GPU by the name its driver gives (``NVIDIA H100 80GB HBM3``); None when it is not listed.

    The longest listed name whose words all stand in the device's name, in order, is taken.
    """
    matches = [one for one in SPECS if re.search(_words(one.name), device, re.IGNORECASE)]
    return max(matches, key=lambda one: len(one.name), default=None)


def _words(name: str) -> str:
    return r"(?<!\w)" + r"[\s\-]+".join(map(re.escape, re.split(r"[\s\-]+", name))) + r"(?!\w)"
