"""Launching: a kernel of the catalogue and GPU arrays of torch or CuPy in; its output filled on their stream.

Device code is compiled by NVRTC through CuPy, for the GPU at hand, and kept in the user's cache.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from labcode.errors import LabError, ToolError, describe_os_error
from labcode.kernels.build import FLAGS, architecture, first_error, included
from labcode.kernels.catalogue import ITEM_BYTES, Array, Gpu, Kernel, Launch, Problem, Step, entry
from labcode.store import cache_folder, repository_root
from labcode.tools import find_nvcc

_OPTIONS = tuple(flag for flag in FLAGS if flag != "-O3")  # NVRTC optimizes without being asked
_NON_PORTABLE_CLUSTER = 13  # CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
_LARGEST_PORTABLE_CLUSTER = 8
_LARGEST_STATIC_SHARED = 48 << 10


@dataclass(frozen=True)
class Pointer:
    """A GPU array as a launch sees it."""

    address: int
    shape: tuple[int, ...]
    dtype: str
    device: int
    stream: int  # the array's library's current stream
    contiguous: bool


def import_cupy() -> Any:
    """CuPy, or a `ToolError` that says how to get it."""
    try:
        import cupy
    except ImportError as error:
        raise ToolError(
            f"launching kernels needs CuPy, which cannot be imported here ({error}); install cupy-cuda13x"
        ) from None
    return cupy


@cache
def this_gpu(device: int = 0) -> Gpu:
    """What launches depend on, of one GPU; `ToolError` without a GPU."""
    cupy = import_cupy()
    try:
        found = cupy.cuda.runtime.getDeviceProperties(device)
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise ToolError(f"no NVIDIA GPU that CuPy can use: {error}") from None
    return Gpu(
        found["name"].decode(),
        10 * found["major"] + found["minor"],
        found["multiProcessorCount"],
        found["l2CacheSize"],
        found["sharedMemPerBlockOptin"],
        found["maxThreadsPerMultiProcessor"],
    )


def pointer(array: Any, name: str) -> Pointer:
    """The address, shape and type of a torch tensor or CuPy array; `LabError` for anything else."""
    library = type(array).__module__.split(".")[0]
    if library == "torch":
        import torch

        if not array.is_cuda:
            raise LabError(f"{name}: lies in host memory; move it to the GPU with .cuda()")
        stream = torch.cuda.current_stream(array.device).cuda_stream
        return Pointer(
            array.data_ptr(),
            tuple(array.shape),
            str(array.dtype).removeprefix("torch."),
            array.device.index,
            stream,
            array.is_contiguous(),
        )
    if library == "cupy":
        stream = import_cupy().cuda.get_current_stream(array.device.id).ptr
        flags = array.flags.c_contiguous
        return Pointer(array.data.ptr, array.shape, array.dtype.name, array.device.id, stream, bool(flags))
    raise LabError(
        f"{name}: give a GPU array of torch or CuPy, not {type(array).__module__}.{type(array).__name__}"
    )


def check(found: Pointer, wanted: Array, dtype: str, name: str, device: int) -> None:
    """Nothing, when an array is what a kernel takes; a `LabError` that says what is wrong with it."""
    if 0 in found.shape:
        raise LabError(f"{name}: is empty (shape {found.shape}); there is nothing to compute")
    if found.dtype != (wanted.dtype or dtype):
        raise LabError(
            f"{name}: holds {found.dtype} and the kernel takes {wanted.dtype or dtype}; convert it first"
        )
    if found.shape != wanted.shape:
        raise LabError(f"{name}: has shape {found.shape} and the kernel takes {wanted.shape}")
    if not found.contiguous:
        raise LabError(
            f"{name}: is not contiguous (a transpose or slice?); call .contiguous() or cupy.ascontiguousarray"
        )
    if found.device != device:
        raise LabError(
            f"{name}: lies on GPU {found.device} and the first input on GPU {device}; move it there"
        )


def header_sources(header: str) -> list[Path]:
    """A header of ``cuda/`` and what it includes, itself first."""
    path = repository_root() / "cuda" / header
    if not path.is_file():
        raise LabError(f"{path}: there is no such header; is this a whole checkout of the lab?")
    return included(path)


def compile_cubin(
    header: str, entries: Sequence[str], compute_capability: int
) -> tuple[Path, dict[str, str]]:
    """The cubin of name expressions of a header (cached), and their mangled names; by NVRTC, through CuPy."""
    nvrtc = _nvrtc()
    root = repository_root() / "cuda"
    options = (
        *_OPTIONS,
        f"-arch=sm_{architecture(compute_capability)}",
        f"-I{root}",
        *(f"-I{folder}" for folder in _toolkit_includes()),
    )
    key = hashlib.sha256("\0".join((*entries, *options[:-1], str(nvrtc.getVersion()))).encode())
    for path in header_sources(header):
        key.update(path.name.encode() + b"\0" + path.read_bytes())
    stem = cache_folder() / "cubin" / f"{Path(header).stem}-{key.hexdigest()[:16]}"
    cubin, names = stem.with_suffix(".cubin"), stem.with_suffix(".json")
    if cubin.is_file() and names.is_file():
        return cubin, dict(json.loads(names.read_text(encoding="utf-8")))
    source = f'#include "{header}"\n'
    program = nvrtc.createProgram(source, f"{Path(header).stem}.cu", (), ())
    try:
        for expression in entries:
            nvrtc.addNameExpression(program, expression)
        try:
            nvrtc.compileProgram(program, options)
        except Exception:
            raise ToolError(
                f"NVRTC: could not compile {header}: {first_error(nvrtc.getProgramLog(program))}"
            ) from None
        lowered = {expression: str(nvrtc.getLoweredName(program, expression)) for expression in entries}
        binary: bytes = nvrtc.getCUBIN(program)
    finally:
        nvrtc.destroyProgram(program)
    try:
        cubin.parent.mkdir(parents=True, exist_ok=True)
        for path, content in ((cubin, binary), (names, json.dumps(lowered).encode())):
            partial = path.with_name(path.name + ".part")
            partial.write_bytes(content)
            partial.replace(path)
    except OSError as error:
        raise ToolError(describe_os_error(error)) from None
    return cubin, lowered


@cache
def function(header: str, expression: str, device: int = 0) -> Any:
    """A compiled kernel as CuPy's ``RawKernel``, with ``num_regs``, ``local_size_bytes`` and the like."""
    cupy = import_cupy()
    cubin, names = compile_cubin(header, [expression], this_gpu(device).compute_capability)
    with cupy.cuda.Device(device):
        return cupy.RawModule(path=str(cubin)).get_function(names[expression])


def prepare(
    kernel: Kernel, step: Step, problem: Problem, inputs: Sequence[Any], output: Any
) -> Callable[[], None]:
    """A function that launches a step on these arrays each time it is called, on their library's stream.

    Arrays are checked here, once; what is wrong with one is a `LabError`. A launch that fails is a
    `LabError` when it is called.
    """
    wanted = kernel.inputs(problem)
    if len(inputs) != len(wanted):
        raise LabError(f"{kernel.name}: takes {len(wanted)} input(s), not {len(inputs)}")
    names = [f"{kernel.name}: input {i}" for i in range(len(wanted))] + [f"{kernel.name}: output"]
    found = [pointer(array, name) for array, name in zip((*inputs, output), names, strict=True)]
    for one, array, name in zip(found, (*wanted, kernel.output(problem)), names, strict=True):
        check(one, array, problem.dtype, name, found[0].device)
    device, gpu = found[0].device, this_gpu(found[0].device)
    refused = reason_unfit(step, problem, gpu)
    if refused:
        raise LabError(f"{kernel.name}, {step.name}: {refused}")
    cupy = import_cupy()
    raw = function(kernel.header, entry(step, problem), device)
    launch = step.launch(problem, gpu)
    scratch_bytes = step.scratch_bytes(problem, gpu) if step.scratch_bytes else 0
    with cupy.cuda.Device(device):
        scratch = cupy.zeros(scratch_bytes, dtype=np.uint8) if scratch_bytes else None
        if scratch is not None:
            cupy.cuda.get_current_stream().synchronize()
    scalars = (step.scalars or kernel.scalars)(problem)
    arguments = (
        *(np.uint64(one.address) for one in found),
        *((np.uint64(scratch.data.ptr),) if scratch is not None else ()),
        *scalars,
    )
    _allow(cupy, raw, launch, f"{kernel.name}, {step.name}")
    grid, block = _three(launch.grid), _three(launch.block)
    stream = cupy.cuda.ExternalStream(found[0].stream, device)
    out = found[-1]
    cleared = math.prod(out.shape) * ITEM_BYTES[out.dtype] if step.clears_output else 0

    def run(_keep: Any = (inputs, output, scratch)) -> None:
        try:
            with cupy.cuda.Device(device), stream:
                if cleared:
                    cupy.cuda.runtime.memsetAsync(out.address, 0, cleared, stream.ptr)
                raw(grid, block, arguments, shared_mem=launch.shared_bytes)
        except (cupy.cuda.driver.CUDADriverError, cupy.cuda.runtime.CUDARuntimeError) as error:
            raise LabError(
                f"{kernel.name}, {step.name}: the launch failed ({error}); grid {grid}, block {block}, "
                f"{launch.shared_bytes} bytes of shared memory"
            ) from None

    return run


def launch(kernel: Kernel, step: Step, problem: Problem, inputs: Sequence[Any], output: Any) -> None:
    """Launch once (see `prepare`)."""
    prepare(kernel, step, problem, inputs, output)()


def reason_unfit(step: Step, problem: Problem, gpu: Gpu) -> str | None:
    """Why a step cannot serve a problem on a GPU; None when it can."""
    if gpu.compute_capability < step.min_cc:
        needed, here = step.min_cc / 10, gpu.compute_capability / 10
        return f"needs compute capability {needed:.1f} and this GPU has {here:.1f}"
    return step.unfit(problem) if step.unfit else None


def _allow(cupy: Any, raw: Any, launch: Launch, what: str) -> None:
    """Lift the limits on shared memory and cluster size as far as a launch needs."""
    try:
        if launch.shared_bytes > _LARGEST_STATIC_SHARED - raw.shared_size_bytes:
            raw.max_dynamic_shared_size_bytes = launch.shared_bytes
        if launch.cluster > _LARGEST_PORTABLE_CLUSTER:
            cupy.cuda.driver.funcSetAttribute(raw.kernel.ptr, _NON_PORTABLE_CLUSTER, 1)
    except (cupy.cuda.driver.CUDADriverError, cupy.cuda.runtime.CUDARuntimeError) as error:
        raise LabError(
            f"{what}: this GPU does not grant {launch.shared_bytes} bytes of shared memory "
            f"and clusters of {launch.cluster} ({error})"
        ) from None


def _three(size: int | tuple[int, ...]) -> tuple[int, int, int]:
    given = (size,) if isinstance(size, int) else size
    x, y, z = (*given, 1, 1)[:3]
    return x, y, z


def _nvrtc() -> Any:
    return import_cupy().cuda.nvrtc


def _toolkit_includes() -> list[Path]:
    """The CUDA headers (half precision and the like), where a toolkit is installed."""
    try:
        folder = find_nvcc().resolve().parent.parent / "include"
    except LabError:
        folder = Path("/usr/local/cuda/include")
    candidates = [
        folder,
        folder / "cccl",
        Path("/usr/local/cuda/include"),
        Path("/usr/local/cuda/include/cccl"),
    ]
    return [path for path in dict.fromkeys(candidates) if path.is_dir()]
