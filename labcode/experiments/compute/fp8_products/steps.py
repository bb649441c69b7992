"""8-bit products: tensors in; their e4m3 elements and scales, and calls to be timed, out.

The steps of ``cuda/fp8``; PyTorch's ``_scaled_mm`` with the same scales; the bf16 kernel of ``cuda/gemm``.
A is m × k, B n × k, both row by row: C = A·Bᵀ.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

from labcode.errors import LabError
from labcode.experiments.compute.attention.steps import _launcher
from labcode.kernels import launch as launching
from labcode.kernels.catalogue import Gpu, Problem, entry
from labcode.kernels.tensor_maps import Boxes, encode
from labcode.kernels.topics import fp8, gemm

if TYPE_CHECKING:
    import torch

Call = Callable[[], object]
LARGEST = 448.0  # of e4m3
BF16_STEP = "store"


@dataclass(frozen=True)
class Quantized:
    """A matrix of e4m3 elements and the scales that they are to be multiplied by."""

    elements: torch.Tensor
    scales: torch.Tensor

    def dequantized(self, kind: str, weights: bool) -> torch.Tensor:
        """The matrix that the elements stand for, in float64."""
        wide = self.elements.double()
        rows, columns = wide.shape
        if kind == fp8.TENSOR:
            return wide * self.scales.double()
        if kind == fp8.SIDES:
            return wide * self.scales.double()[:, None]
        block = fp8.BLOCK
        if weights:
            each = self.scales.double().repeat_interleave(block, 0)[:rows]
            return wide * each.repeat_interleave(block, 1)[:, :columns]
        return wide * self.scales.double().t().repeat_interleave(block, 1)[:, :columns]


def quantize(torch: Any, x: torch.Tensor, kind: str, weights: bool = False) -> Quantized:
    """A matrix as e4m3: the largest size of what shares a scale becomes the largest e4m3.

    ``kind`` is of `fp8.KINDS`; ``weights``: blocks of 128 × 128, not of 1 × 128. NaN stays NaN; what shares
    its scale is narrowed as it is.
    """
    wide = x.float()
    rows, columns = wide.shape
    if kind == fp8.TENSOR:
        scales = _scale(torch, wide.abs().amax().reshape(1))
        return Quantized(_narrow(torch, wide / scales), scales)
    if kind == fp8.SIDES:
        scales = _scale(torch, wide.abs().amax(1))
        return Quantized(_narrow(torch, wide / scales[:, None]), scales)
    block = fp8.BLOCK
    tall = block if weights else 1
    padded = torch.nn.functional.pad(wide, (0, -columns % block, 0, -rows % tall))
    grouped = padded.view(padded.shape[0] // tall, tall, padded.shape[1] // block, block)
    scales = _scale(torch, grouped.abs().amax((1, 3)))
    elements = _narrow(torch, (grouped / scales[:, None, :, None]).view(padded.shape)[:rows, :columns])
    return Quantized(elements.contiguous(), scales.contiguous() if weights else scales.t().contiguous())


def _scale(torch: Any, largest: torch.Tensor) -> torch.Tensor:
    return torch.where(largest > 0, largest / LARGEST, torch.ones_like(largest))


def _narrow(torch: Any, x: torch.Tensor) -> torch.Tensor:
    return x.clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn)


def check(name: str, kind: str, a: Quantized, b: Quantized, out: torch.Tensor) -> Problem:
    """The problem, when these arrays are what a step takes; a `LabError` says what is wrong with them."""
    if any(x.ndim != 2 for x in (a.elements, b.elements, out)):
        raise LabError(f"{name}: give three matrices, A m × k, B n × k and C m × n")
    (m, k), n = a.elements.shape, b.elements.shape[0]
    if b.elements.shape[1] != k or tuple(out.shape) != (m, n):
        shapes = ", ".join(" × ".join(map(str, x.shape)) for x in (a.elements, b.elements, out))
        raise LabError(f"{name}: shapes {shapes}; give A m × k, B n × k and C m × n")
    problem = Problem((m, n, k), "bfloat16")
    refused = fp8.unfit(problem)
    if refused:
        raise LabError(f"{name}: {refused}")
    types = [str(x.dtype).removeprefix("torch.") for x in (a.elements, b.elements, out, a.scales, b.scales)]
    wanted = ["float8_e4m3fn", "float8_e4m3fn", "bfloat16", "float32", "float32"]
    if types != wanted:
        raise LabError(f"{name}: takes A, B, C and the scales as {', '.join(wanted)}, not {', '.join(types)}")
    shapes_of_scales = fp8.scale_shapes(kind, m, n, k)
    for side, found, shape in zip("AB", (a.scales, b.scales), shapes_of_scales, strict=True):
        if tuple(found.shape) != shape:
            raise LabError(
                f"{name}: {side}'s scales have shape {tuple(found.shape)}; {kind} takes {shape} for "
                f"{m} × {n} × {k}"
            )
    arrays = (a.elements, b.elements, out, a.scales, b.scales)
    if any(not x.is_contiguous() for x in arrays):
        raise LabError(f"{name}: the elements must lie without gaps; call .contiguous()")
    if any(x.data_ptr() % 16 for x in arrays):
        raise LabError(f"{name}: takes arrays that start on 16 bytes; copy them with .clone()")
    return problem


def call_of(rung: fp8.Rung, a: Quantized, b: Quantized, out: torch.Tensor) -> Call:
    """A function that fills ``out`` by a step each time it is called, on PyTorch's current stream.

    `LabError` says in one line what the step cannot take: sizes, types, scales of another kind, a GPU that is
    not of compute capability 9.0.
    """
    name, step = rung.step.variant, rung.step
    problem = check(name, rung.scales, a, b, out)
    if not out.is_cuda:
        raise LabError(f"{name}: the arrays lie in host memory; move them to the GPU with .cuda()")
    gpu = launching.this_gpu(out.device.index)
    if gpu.compute_capability != 90:
        raise LabError(
            f"{name}: needs compute capability 9.0, and this GPU has {gpu.compute_capability / 10:.1f}"
        )
    m, n, k = problem.shape
    raw = launching.function(fp8.HEADER, entry(step, problem), out.device.index)
    sizes = step.launch(problem, gpu)
    raw.max_dynamic_shared_size_bytes = sizes.shared_bytes
    pairs = fp8.BOX_PAIRS  # the engine moves our bytes two by two
    arguments: list[Any] = [
        encode(a.elements.data_ptr(), Boxes((k // 2, m), (pairs, fp8.TILE_M))),
        encode(b.elements.data_ptr(), Boxes((k // 2, n), (pairs, rung.box_rows))),
    ]
    if step.name == "simple":
        arguments.append(ctypes.c_uint64(out.data_ptr()))
    else:
        arguments.append(encode(out.data_ptr(), Boxes((n, m), (pairs, fp8.OUT_ROWS))))
    arguments += [ctypes.c_uint64(x.scales.data_ptr()) for x in (a, b)]
    arguments += [ctypes.c_int(side) for side in (m, n, k)]
    grid = (*((sizes.grid,) if isinstance(sizes.grid, int) else sizes.grid), 1)[:2]
    return _launcher(raw.kernel.ptr, grid, sizes.block, sizes.shared_bytes, arguments, (a, b, out))


def library_call(torch: Any, kind: str, a: Quantized, b: Quantized, fast: bool) -> Callable[[], torch.Tensor]:
    """``torch._scaled_mm`` on the same arrays; ``fast``: sums stay in the tensor cores."""
    if kind == fp8.TENSOR:
        scales = a.scales.reshape(()), b.scales.reshape(())
    elif kind == fp8.SIDES:
        scales = a.scales[:, None], b.scales[None, :]
    else:
        scales = a.scales.t(), b.scales.t()
    turned = b.elements.t()

    def call() -> torch.Tensor:
        product: torch.Tensor = torch._scaled_mm(
            a.elements, turned, *scales, out_dtype=torch.bfloat16, use_fast_accum=fast
        )
        return product

    return call


def bf16_call(torch: Any, m: int, n: int, k: int) -> Call:
    """The bf16 ladder's kernel on random matrices of the same sizes; B is k × n, as it takes it."""
    a, b = (torch.randn(shape, device="cuda").bfloat16() for shape in ((m, k), (k, n)))
    out = torch.empty((m, n), dtype=torch.bfloat16, device="cuda")
    problem, gpu = Problem((m, n, k), "bfloat16"), launching.this_gpu(out.device.index)
    step = next(one for one in gemm.BF16.steps if one.name == BF16_STEP)
    raw = launching.function(gemm.BF16.header, entry(step, problem), out.device.index)
    sizes = step.launch(problem, gpu)
    raw.max_dynamic_shared_size_bytes = sizes.shared_bytes
    pairs = fp8.BOX_PAIRS
    boxes = ((a, (k, m), gemm.TILE_M), (b, (n, k), pairs), (out, (n, m), fp8.OUT_ROWS))
    arguments: list[Any] = [encode(x.data_ptr(), Boxes(sides, (pairs, rows))) for x, sides, rows in boxes]
    arguments += [ctypes.c_uint64(out.data_ptr()), *(ctypes.c_int(side) for side in (m, n, k, n))]
    grid = (sizes.grid if isinstance(sizes.grid, int) else sizes.grid[0], 1)
    return _launcher(raw.kernel.ptr, grid, sizes.block, sizes.shared_bytes, arguments, (a, b, out))


def compile_all(rungs: Sequence[fp8.Rung], gpu: Gpu, bf16: bool = False) -> None:
    """Compile what will be launched, in several processes; a failure is left to the launch."""
    if gpu.compute_capability != 90:
        return
    problem = Problem((1, 8, 16), "bfloat16")
    wanted = [(fp8.HEADER, entry(rung.step, problem)) for rung in rungs]
    if bf16:
        store = next(one for one in gemm.BF16.steps if one.name == BF16_STEP)
        wanted.append((gemm.BF16.header, entry(store, problem)))
    with ProcessPoolExecutor(min(16, len(wanted)), mp_context=get_context("spawn")) as pool:
        for future in [
            pool.submit(launching.compile_cubin, header, [name], gpu.compute_capability)
            for header, name in dict.fromkeys(wanted)
        ]:
            future.exception()
