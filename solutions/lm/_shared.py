"""Made-up runs of a language model: a generator of random numbers in, GPU operations with their ranges out.

A run has steps; in each a forward pass, and where it trains a backward pass and an optimizer's step. Kernels
have names as PyTorch and cuBLAS give them, and the path of the ranges around their launch. Also the captures
that are graded on: another size than the one that the pages work with.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from labcode.analysis.lm import parts as lm_parts
from labcode.grading.exam import open_run
from labcode.store import CaptureSet

Rng = np.random.Generator
EXPERIMENT = "lm_large"
_N = "void at::native::"
NAMES = {
    "tn": "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize256x64x8_stage3_ffma_execute_kernel__5x_cublas",
    "nn": "void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nn_align1>(Params)",
    "nt": "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x256_8x4_nt_align1>(Params)",
    "split": "void cublasLt::splitKreduce_kernel<32, 16, int, float>(cublasSplitKParams<float>)",
    "softmax": "void (anonymous namespace)::softmax_warp_forward<float, float, float, 9>(float*)",
    "softmax back": "void (anonymous namespace)::softmax_warp_backward<float, float, float, 9, false>",
    "log softmax": _N
    + "(anonymous namespace)::cunn_SoftMaxForward<4, float, LogSoftMaxForwardEpilogue>(float*)",
    "loss": _N + "(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d<float, float, long>(float*)",
    "norm": _N + "(anonymous namespace)::vectorized_layer_norm_kernel<float, float, false>(int, float)",
    "norm back": _N + "(anonymous namespace)::layer_norm_grad_input_kernel_vectorized<float, float>(float*)",
    "add": _N
    + "vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int)",
    "fill": _N
    + "vectorized_elementwise_kernel<4, at::native::masked_fill_kernel<float>, std::array<char*, 2ul> >",
    "gelu": _N
    + "vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&)>(int)",
    "copy": _N
    + "elementwise_kernel<128, 2, at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)>(int)",
    "embedding": _N + "(anonymous namespace)::indexSelectLargeIndex<float, long, unsigned int, 2>(float*)",
    "adam": _N + "(anonymous namespace)::multi_tensor_apply_kernel<TensorListMetadata<3>, PointwiseOpScalar>",
    "unknown": "my_fused_block(float const*, float*, int)",
    "memcpy": "memcpy D2D",
}
_SCALE_NS = {"tn": 90_000, "nn": 60_000, "nt": 60_000, "adam": 120_000, "softmax": 25_000, "memcpy": 25_000}


@dataclass(frozen=True)
class Shape:
    """A model and what it reads."""

    layers: int
    heads: int
    d_model: int
    batch: int
    context: int


@dataclass
class Run:
    """What a GPU does, written down one operation after another."""

    rng: Rng
    scale: Mapping[str, float] = field(default_factory=dict)
    now: int = 10**9
    rows: list[tuple[str, str, int, int, int, int, str]] = field(default_factory=list)

    def op(self, name: str, path: str) -> None:
        """One operation, of about the time that its kind takes."""
        ns = _SCALE_NS.get(name, 12_000) * self.scale.get(name, 1.0) * self.rng.uniform(0.8, 1.25)
        start = self.now + int(self.rng.integers(200, 900))
        self.now = start + int(ns)
        kind = "memcpy" if name == "memcpy" else "kernel"
        self.rows.append((kind, NAMES[name], start, self.now, 0, 7, path))


def shape(rng: Rng) -> Shape:
    """A small model with a head width that is no power of two as often as not."""
    heads = int(rng.choice([4, 6, 8]))
    width = heads * int(rng.choice([32, 48, 64, 80]))
    return Shape(
        int(rng.integers(2, 5)), heads, width, int(rng.integers(2, 6)), int(rng.choice([96, 160, 256]))
    )


def operations(
    rng: Rng,
    model: Shape,
    *,
    training: bool,
    steps: int,
    recompute: bool = False,
    split: bool = False,
    unknown: bool = False,
    scale: Mapping[str, float] | None = None,
) -> pd.DataFrame:
    """A run's GPU operations, in no particular order: kind, name, start_ns, end_ns, device, stream, path.

    ``recompute``: the backward pass runs each block again, under the block's own ranges. ``split``: some
    matmuls take a second kernel. ``unknown``: kernels with a name that says nothing.
    """
    run = Run(rng, scale or {})
    for step in range(steps):
        top = f"step {step}"
        _forward(run, f"{top}/forward", model, split, unknown)
        if training:
            _backward(run, f"{top}/backward", model, recompute)
            for _ in range(6):
                run.op("adam", f"{top}/optimizer")
            run.op("add", f"{top}/optimizer")
    return table(rng, run.rows)


def table(rng: Rng, rows: list[tuple[str, str, int, int, int, int, str]]) -> pd.DataFrame:
    """Rows of kind, name, start_ns, end_ns, device, stream, path as a table, in no particular order."""
    columns = ["kind", "name", "start_ns", "end_ns", "device", "stream", "path"]
    types = {name: "str" if name in ("kind", "name", "path") else "int64" for name in columns}
    return pd.DataFrame([rows[i] for i in rng.permutation(len(rows))], columns=columns).astype(types)


def _forward(run: Run, top: str, model: Shape, split: bool, unknown: bool) -> None:
    run.op("embedding", f"{top}/embedding")
    for number in range(model.layers):
        _block(run, f"{top}/block {number}", split, unknown)
    run.op("norm", f"{top}/norm")
    run.op("tn", f"{top}/logits")
    run.op("log softmax", f"{top}/loss")
    run.op("loss", f"{top}/loss")


def _block(run: Run, top: str, split: bool, unknown: bool) -> None:
    run.op("norm", f"{top}/norm")
    run.op("tn", f"{top}/attention/projections")
    for name in ("copy", "copy", "nn"):
        run.op(name, f"{top}/attention/scores")
    for name in ("add", "memcpy", "fill"):
        run.op(name, f"{top}/attention/mask")
    run.op("softmax", f"{top}/attention/softmax")
    for name in ("copy", "nn"):
        run.op(name, f"{top}/attention/values")
    for name in ("copy", "tn", *(("split",) if split else ())):
        run.op(name, f"{top}/attention/output")
    run.op("add", f"{top}/add")
    run.op("norm", f"{top}/norm")
    for name in ("tn", "gelu", "tn", *(("unknown",) if unknown else ())):
        run.op(name, f"{top}/feed-forward")
    run.op("add", f"{top}/add")


def _backward(run: Run, top: str, model: Shape, recompute: bool) -> None:
    for name in ("nn", "nt"):
        run.op(name, top)
    for number in reversed(range(model.layers)):
        if recompute:
            _block(run, f"{top}/block {number}", False, False)
        for name in ("nn", "nt") * 5:
            run.op(name, top)
        for name in ("softmax back", "fill", "norm back", "norm back", "add"):
            run.op(name, top)


def exam(captures: CaptureSet, run: str) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The operations of a capture of another size, and its record."""
    with open_run(captures, EXPERIMENT, run) as report:
        return lm_parts.operations(report), captures.record(EXPERIMENT, run)


def describe(ops: pd.DataFrame, steps: int) -> str:
    """The input in words."""
    return f"{len(ops)} operations of {steps} step(s), {ops['name'].nunique()} names"
