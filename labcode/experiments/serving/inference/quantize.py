"""Weights in 8 bits: a matrix in; one byte an element and a scale a row out; and what that costs."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from labcode.experiments.serving.inference.model import Quantized

SMALLEST = 1e-12  # a row of zeros has a scale, too


def int8(weight: Tensor) -> Quantized:
    """Whole numbers from −127 to 127 times the row's largest element over 127."""
    scale = weight.float().abs().amax(1).clamp_min(SMALLEST) / 127
    return Quantized((weight.float() / scale[:, None]).round().to(torch.int8), scale)


def fp8(weight: Tensor) -> Quantized:
    """Floating point with 4 bits of exponent and 3 of mantissa (E4M3), the row's largest element at 448."""
    scale = weight.float().abs().amax(1).clamp_min(SMALLEST) / 448
    return Quantized((weight.float() / scale[:, None]).to(torch.float8_e4m3fn), scale)


KINDS: dict[str, Callable[[Tensor], Quantized]] = {"int8": int8, "fp8": fp8}


def error(weight: Tensor, kind: str) -> float:
    """‖what is kept − weight‖ / ‖weight‖."""
    kept = KINDS[kind](weight).whole(torch.float32)
    return float((kept - weight.float()).norm() / weight.float().norm())
