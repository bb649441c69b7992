"""Ways to compute attention forward: a name and GPU tensors (heads, length, dim) in; a call to be timed, out.

The steps of ``cuda/attention``; PyTorch's: written out, FlashAttention-2, cuDNN, memory-efficient; Triton;
FlashInfer's for Hopper, made of FlashAttention-3's.
"""

from __future__ import annotations

import ctypes
import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

from labcode.errors import LabError, ToolError
from labcode.kernels import launch as launching
from labcode.kernels.catalogue import Gpu, Problem, Step, entry
from labcode.kernels.tensor_maps import Boxes, encode
from labcode.kernels.topics import attention

Call = Callable[[], object]
HALF = ("bfloat16", "float16")
BOX = 64
TORCH = {
    "flash": "FLASH_ATTENTION",
    "cudnn": "CUDNN_ATTENTION",
    "efficient": "EFFICIENT_ATTENTION",
}


@dataclass(frozen=True)
class Implementation:
    """A way to compute attention. ``kind``: "step" of the ladder, "library" or "triton"."""

    name: str
    kind: str
    dtypes: tuple[str, ...]
    step: Step | None = None


IMPLEMENTATIONS: Mapping[str, Implementation] = {
    one.name: one
    for one in (
        Implementation("eager", "library", ("float32", *HALF)),
        Implementation("efficient", "library", ("float32",)),
        Implementation("flash", "library", HALF),
        Implementation("cudnn", "library", HALF),
        Implementation("flash3", "library", ("bfloat16",)),  # built when first called: of one type alone
        Implementation("triton", "triton", HALF),
        *(Implementation(step.name, "step", ("float32",), step) for step in attention.STEPS),
        *(Implementation(step.name, "step", HALF, step) for step in attention.TENSOR_STEPS),
    )
}


def chosen(names: Sequence[str], dtype: str) -> list[Implementation]:
    """Those named (all, when none is) that take a type; `LabError` for a name there is not."""
    for name in names:
        if name not in IMPLEMENTATIONS:
            raise LabError(f"{name}: no such implementation; there are {', '.join(IMPLEMENTATIONS)}")
    return [
        one for one in IMPLEMENTATIONS.values() if dtype in one.dtypes and (not names or one.name in names)
    ]


def call_of(torch: Any, one: Implementation, tensors: Sequence[Any], out: Any, causal: bool) -> Call:
    """A function that computes the attention of (queries, keys, values) each time it is called.

    It fills ``out`` and returns nothing, or returns a tensor of its own as PyTorch's functions do.

    `LabError` says in one line what an implementation cannot take: heads of other widths, other types, arrays
    that do not lie as it wants them, a GPU too old.
    """
    q, k, v = tensors
    check(one, tensors, out)
    if one.step is not None:
        return _step_call(one.step, tensors, out, causal)
    if one.kind == "triton":
        try:
            from labcode.kernels.triton_attention import attention as by_triton
        except ImportError as error:
            raise ToolError(
                f"triton: cannot be imported here ({error}); PyTorch for CUDA brings it"
            ) from None
        return lambda: by_triton(q, k, v, out, causal)
    if one.name == "eager":
        return lambda: written_out(torch, q, k, v, causal)
    if one.name == "flash3":
        return _by_flashinfer(tensors, causal)
    from torch.nn.attention import SDPBackend, sdpa_kernel

    batch = [x[None] for x in tensors]

    def call() -> Any:
        with sdpa_kernel(getattr(SDPBackend, TORCH[one.name])):
            return torch.nn.functional.scaled_dot_product_attention(*batch, is_causal=causal)[0]

    return call


def _by_flashinfer(tensors: Sequence[Any], causal: bool) -> Call:
    """FlashInfer's kernel for Hopper; a `LabError` says why it is not there, cannot be built or launched."""
    try:
        prefill = importlib.import_module("flashinfer").single_prefill_with_kv_cache
    except Exception as error:  # its import asks the GPU and the compiler, too
        raise ToolError(
            f"flash3: FlashInfer cannot be imported here ({error}); `python -m pip install flashinfer-python`"
        ) from None
    q, k, v = (x.transpose(0, 1) for x in tensors)  # it wants positions before heads, in any order in memory

    def call() -> Any:
        try:
            return prefill(q, k, v, causal=causal, backend="fa3").transpose(0, 1)
        except Exception as error:  # of its compiler, or of the launch
            raise LabError(f"flash3: FlashInfer's kernel does not run ({error})") from None

    return call


def check(one: Implementation, tensors: Sequence[Any], out: Any) -> None:
    """Nothing, when these tensors are what an implementation takes; a `LabError` otherwise."""
    shapes = {tuple(x.shape) for x in (*tensors, out)}
    if len(shapes) > 1 or tensors[0].ndim != 3 or 0 in tensors[0].shape:
        raise LabError(f"{one.name}: shapes {sorted(shapes)}; give tensors heads × length × dim, none empty")
    types = {str(x.dtype).removeprefix("torch.") for x in (*tensors, out)}
    if len(types) > 1 or not types <= set(one.dtypes):
        raise LabError(
            f"{one.name}: takes tensors of one type, {' or '.join(one.dtypes)}, not {sorted(types)}"
        )
    if any(not x.is_contiguous() for x in (*tensors, out)):
        raise LabError(f"{one.name}: the elements must lie without gaps; call .contiguous()")
    if one.step is None:
        return
    heads, _, dim = tensors[0].shape
    if dim not in attention.DIMS:
        raise LabError(f"{one.name}: takes heads of 64 or 128 dimensions, not {dim}")
    if heads > attention.MOST_HEADS:
        raise LabError(f"{one.name}: takes at most {attention.MOST_HEADS} heads, not {heads}")
    if "float32" not in one.dtypes and any(x.data_ptr() % 16 for x in (*tensors, out)):
        raise LabError(f"{one.name}: takes tensors that start on 16 bytes; copy them with .clone()")


def written_out(torch: Any, q: Any, k: Any, v: Any, causal: bool) -> Any:
    """The definition: scores, mask, softmax, weighted values, each a tensor in memory."""
    scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[2])
    if causal:
        hidden = torch.ones(scores.shape[1:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill_(hidden, float("-inf"))
    return torch.softmax(scores, -1) @ v


def _step_call(step: Step, tensors: Sequence[Any], out: Any, causal: bool) -> Call:
    kind = str(out.dtype).removeprefix("torch.")
    problem = Problem(tuple(out.shape), kind)
    if kind == "float32":
        kernel = attention.CAUSAL if causal else attention.ATTENTION
        return launching.prepare(kernel, step, problem, tensors, out)
    gpu = launching.this_gpu(out.device.index)
    if gpu.compute_capability < step.min_cc:
        raise LabError(
            f"{step.name}: needs compute capability {step.min_cc / 10:.1f} and this GPU has "
            f"{gpu.compute_capability / 10:.1f}; take double_buffer"
        )
    raw = launching.function(attention.TENSOR_HEADER, entry(step, problem), out.device.index)
    sizes = step.launch(problem, gpu)
    raw.max_dynamic_shared_size_bytes = sizes.shared_bytes
    groups = attention.groups_of(step)
    heads, length, dim = problem.shape
    rows = (groups * attention.GROUP_QUERIES, attention.TILE_KEYS, attention.TILE_KEYS)
    addresses = [ctypes.c_uint64(x.data_ptr()) for x in (*tensors, out)]
    arguments: list[Any] = [*addresses, ctypes.c_int(length), ctypes.c_int(causal)]
    if groups:
        arguments[:3] = [
            encode(x.data_ptr(), Boxes((dim, length, heads), (BOX, side, 1)))
            for x, side in zip(tensors, rows, strict=True)
        ]
    return _launcher(raw.kernel.ptr, sizes.grid, sizes.block, sizes.shared_bytes, arguments, (tensors, out))


def _launcher(kernel: int, grid: Any, block: Any, shared_bytes: int, arguments: list[Any], keep: Any) -> Call:
    """A launch by the driver's own function: CuPy passes no tensor maps."""
    driver = ctypes.CDLL("libcuda.so.1")
    pointers = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(one) for one in arguments))
    sizes = [ctypes.c_uint(n) for n in (*grid, 1, *(block if isinstance(block, tuple) else (block, 1, 1)))]
    function, shared = ctypes.c_void_p(kernel), ctypes.c_uint(shared_bytes)
    import torch

    def call(_keep: Any = (keep, arguments)) -> None:
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        code = driver.cuLaunchKernel(function, *sizes, shared, stream, pointers, None)
        if code != 0:
            raise LabError(
                f"the launch failed (CUDA error {code}); grid {grid}, block {block}, {shared_bytes} bytes"
            )

    return call


def compile_all(problems: Sequence[Problem], names: Sequence[str], gpu: Gpu) -> None:
    """Compile the steps that will be launched, in several processes; a failure is left to the launch."""
    wanted = {
        (
            attention.HEADER if problem.dtype == "float32" else attention.TENSOR_HEADER,
            entry(one.step, problem),
        )
        for problem in problems
        for one in chosen(names, problem.dtype)
        if one.step is not None and gpu.compute_capability >= one.step.min_cc
    }
    if not wanted:
        return
    with ProcessPoolExecutor(min(16, len(wanted)), mp_context=get_context("spawn")) as pool:
        for future in [
            pool.submit(launching.compile_cubin, header, [name], gpu.compute_capability)
            for header, name in sorted(wanted, reverse=True)
        ]:
            future.exception()
