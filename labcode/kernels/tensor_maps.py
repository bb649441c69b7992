"""Tensor maps: an array's address and `Boxes` in; what Hopper's copy engine needs to know of it, out.

The driver makes them (``cuTensorMapEncodeTiled``), called through ctypes; ``cuda/gemm/maps.hpp`` is the same
for programs. Elements of 2 bytes, boxes with the 128-byte swizzle, zeros beyond the sides.
"""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from typing import Any

from labcode.errors import LabError, ToolError

WORDS = 16
_BFLOAT16, _NO_INTERLEAVE, _SWIZZLE_128, _PROMOTE_256, _ZEROS = 9, 0, 3, 3, 0  # of cuda.h
_ITEM_BYTES, _ALIGNMENT = 2, 16


@dataclass(frozen=True)
class Boxes:
    """How the copy engine is to see an array: its sides, and the box that one copy moves, innermost first."""

    sides: tuple[int, ...]
    box: tuple[int, ...]


def encode(address: int, boxes: Boxes) -> ctypes.Array[Any]:
    """The map of an array of 2-byte elements without gaps; `LabError` for what the engine cannot serve."""
    rank = len(boxes.sides)
    pitch = [_ITEM_BYTES * math.prod(boxes.sides[: i + 1]) for i in range(rank - 1)]
    if address % _ALIGNMENT or any(n % _ALIGNMENT for n in pitch):
        raise LabError(
            f"no tensor map: the array starts {address % _ALIGNMENT} bytes behind a multiple of {_ALIGNMENT} "
            f"and its rows have {pitch[0]} bytes; both must be multiples of {_ALIGNMENT}"
        )
    try:
        make = ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeTiled
    except (OSError, AttributeError) as error:
        raise ToolError(f"the NVIDIA driver knows no tensor maps; update it ({error})") from None
    wide, narrow = ctypes.c_uint64 * rank, ctypes.c_uint32 * rank
    storage = (ctypes.c_uint64 * (WORDS + 8))()  # the driver wants a multiple of 64 bytes
    made = (ctypes.c_uint64 * WORDS).from_buffer(storage, -ctypes.addressof(storage) % 64)
    code = make(
        *(ctypes.byref(made), _BFLOAT16, ctypes.c_uint32(rank), ctypes.c_void_p(address)),
        *(wide(*boxes.sides), (ctypes.c_uint64 * (rank - 1))(*pitch), narrow(*boxes.box)),
        *(narrow(*(1,) * rank), _NO_INTERLEAVE, _SWIZZLE_128, _PROMOTE_256, _ZEROS),
    )
    if code != 0:
        raise LabError(f"no tensor map of sides {boxes.sides} in boxes of {boxes.box} (CUDA error {code})")
    return made
