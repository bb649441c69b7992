"""A launch that may begin before the kernel before it has ended (*programmatic dependent launch*)."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from labcode.errors import LabError
from labcode.experiments.compute.grouped.products import Call
from labcode.kernels import launch as launching

_SERIALIZED = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION


class _Attribute(ctypes.Structure):
    """``CUlaunchAttribute``: which, and 64 bytes for its value."""

    _fields_ = (("which", ctypes.c_uint), ("gap", ctypes.c_uint), ("value", ctypes.c_uint * 16))


class _Config(ctypes.Structure):
    """``CUlaunchConfig``."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    )


def bind_early(
    header: str, entry: str, blocks: int, threads: int, arguments: Sequence[Any], keep: object
) -> Call:
    """A function that launches a kernel with these arguments (of ctypes) each time it is called.

    Its blocks start as soon as the kernel before allows it and leaves places; what they need of that one's
    writes, they await themselves. ``keep``: what must live as long as the function.
    """
    driver = ctypes.CDLL("libcuda.so.1")
    function = ctypes.c_void_p(launching.function(header, entry).kernel.ptr)
    pointers = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(one) for one in arguments))
    allowed = _Attribute(_SERIALIZED, 0, (ctypes.c_uint * 16)(1))
    sizes = ((ctypes.c_uint * 3)(blocks, 1, 1), (ctypes.c_uint * 3)(threads, 1, 1))
    config = _Config(*sizes, 0, None, ctypes.pointer(allowed), 1)
    import torch

    def call(_keep: Any = (keep, arguments)) -> None:
        config.stream = torch.cuda.current_stream().cuda_stream
        code = driver.cuLaunchKernelEx(ctypes.byref(config), function, pointers, None)
        if code != 0:
            raise LabError(f"{entry}: the launch failed (CUDA error {code}); {blocks} blocks")

    return call
