"""Launches with tensor maps: a kernel and its arguments in; a call that starts it, out.

CuPy passes no tensor maps, so the driver's own function is called.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from labcode.errors import LabError
from labcode.kernels import launch as launching
from labcode.kernels.catalogue import Gpu, Launch
from labcode.kernels.tensor_maps import Boxes, encode

Call = Callable[[], object]
BOX = 64
_HOPPER = 90


def require_hopper(name: str, gpu: Gpu) -> None:
    """A `LabError` on every GPU but those with ``wgmma``."""
    if gpu.compute_capability // 10 != _HOPPER // 10:
        found = gpu.compute_capability / 10
        raise LabError(f"{name}: needs compute capability 9.0 and this GPU has {found:.1f}")


def boxes(tensor: Any, box_rows: int) -> ctypes.Array[Any]:
    """The map of a tensor of 2-byte elements in boxes of rows of 64; a `LabError` says why not."""
    sides = tuple(reversed(tensor.shape))
    return encode(tensor.data_ptr(), Boxes(sides, (BOX, box_rows, *(1,) * (len(sides) - 2))))


def pointer(tensor: Any) -> ctypes.c_uint64:
    """The address of a tensor, as an argument."""
    return ctypes.c_uint64(tensor.data_ptr())


def bind(
    header: str, entry: str, sizes: Launch, arguments: Sequence[Any], keep: object, device: int = 0
) -> Call:
    """A function that launches a kernel with these arguments (of ctypes) each time it is called.

    ``keep``: what must live as long as the function, the tensors behind the addresses.
    """
    raw = launching.function(header, entry, device)
    if sizes.shared_bytes:
        raw.max_dynamic_shared_size_bytes = sizes.shared_bytes
    driver = ctypes.CDLL("libcuda.so.1")
    pointers = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(one) for one in arguments))
    grid = [*(sizes.grid if isinstance(sizes.grid, tuple) else (sizes.grid,)), 1, 1][:3]
    block = [*(sizes.block if isinstance(sizes.block, tuple) else (sizes.block,)), 1, 1][:3]
    counts = [ctypes.c_uint(n) for n in (*grid, *block)]
    function, shared = ctypes.c_void_p(raw.kernel.ptr), ctypes.c_uint(sizes.shared_bytes)
    import torch

    def call(_keep: Any = (keep, arguments)) -> None:
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        code = driver.cuLaunchKernel(function, *counts, shared, stream, pointers, None)
        if code != 0:
            raise LabError(f"{entry}: the launch failed (CUDA error {code}); grid {sizes.grid}")

    return call
