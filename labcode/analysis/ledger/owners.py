"""Who may own a nanosecond of an iteration: owners in their order, and kernels by name; texts in, codes out.

Where operations overlap, the first owner in the list has the time: what computes hides communication, and
both hide copies. Idle time goes to the first that applies, too.
"""

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from labcode.analysis.buckets import bucket_of_name
from labcode.analysis.timeline.overlap import is_communication
from labcode.reports.columns import AnyInts
from labcode.reports.frames import codes_of, is_any

# names of matmuls and convolutions in fp32 that use no tensor cores (cuBLAS, cuDNN, CUTLASS)
SIMT = re.compile(
    r"(?i)(?:ampere|volta|turing|maxwell)_s(?:gemm|cudnn)|simt_sgemm|implicit_convolve_sgemm|"
    r"f32f32_f32f32_f32|_ffma_|magma_sgemm|gemmSN_\w+<float|gemmk1_kernel<int, float|^void sgemm_"
)
Side = Literal["computing", "moving", "idle"]


@dataclass(frozen=True)
class Owner:
    """An owner: its id, what is said of it, and whether the GPU computes, moves data or is idle."""

    id: str
    title: str
    side: Side


OWNERS = (
    Owner("no-tensor-cores", "matmuls and convolutions in fp32 without tensor cores", "computing"),
    Owner("matmul", "matmuls and convolutions", "computing"),
    Owner("attention", "attention", "computing"),
    Owner("reduction", "normalization, softmax, sums", "computing"),
    Owner("elementwise", "elementwise", "computing"),
    Owner("layout", "copies by kernels: layout, dtype, fills", "computing"),
    Owner("indexing", "indexing, embeddings, sorting", "computing"),
    Owner("optimizer", "optimizer", "computing"),
    Owner("kernel", "other kernels and graphs", "computing"),
    Owner("late-rank", "waiting for a late rank", "moving"),
    Owner("communication", "communication, nothing beside it", "moving"),
    Owner("copy-in", "copies to the GPU, nothing beside them", "moving"),
    Owner("copy-out", "copies from the GPU, nothing beside them", "moving"),
    Owner("copy", "copies within or between GPUs, memsets", "moving"),
    Owner("profiler", "idle: the profiler held the program up", "idle"),
    Owner("loading", "idle: compiling or loading code", "idle"),
    Owner("allocation", "idle: allocating or freeing memory", "idle"),
    Owner("data-loading", "idle: loading data", "idle"),
    Owner("host-code", "idle: the program's own code on the CPU", "idle"),
    Owner("sync", "idle: drained by a synchronization", "idle"),
    Owner("copy-call", "idle: the CPU is in a copy's call", "idle"),
    Owner("launch", "idle: waiting for the next launch", "idle"),
    Owner("queued", "idle: between operations that were launched in time", "idle"),
    Owner("unknown", "idle: the capture does not tell why", "idle"),
)
CODE = {owner.id: code for code, owner in enumerate(OWNERS)}
_OF_BUCKET = {
    "matmul": "matmul",
    "convolution": "matmul",
    "attention": "attention",
    "softmax": "reduction",
    "normalization": "reduction",
    "reduction": "reduction",
    "elementwise": "elementwise",
    "copy": "layout",
    "indexing": "indexing",
    "optimizer": "optimizer",
    "communication": "communication",
    "other": "kernel",
}


def owner_of_name(name: str) -> str:
    """The owner of a kernel by its name."""
    bucket = bucket_of_name(name)
    if bucket in ("matmul", "convolution") and SIMT.search(name):
        return "no-tensor-cores"
    return _OF_BUCKET[bucket]


def owners_of(ops: pd.DataFrame) -> AnyInts:
    """The code of the owner of each GPU operation."""
    codes, names = codes_of(ops["name"])
    by_name = [CODE[owner_of_name(str(name))] for name in names]
    found = np.array([*by_name, CODE["kernel"]], np.int8)[codes]
    copies, sets, graphs, kernels = (
        is_any(ops["kind"], kind) for kind in ("memcpy", "memset", "graph", "kernel")
    )
    if copies.any():
        ways = [
            "copy-in" if "H2D" in str(one) else "copy-out" if "D2H" in str(one) else "copy" for one in names
        ]
        found[copies] = np.array([*(CODE[way] for way in ways), CODE["copy"]], np.int8)[codes[copies]]
    found[sets] = CODE["copy"]
    found[graphs] = CODE["kernel"]
    found[kernels & is_communication(ops).to_numpy()] = CODE["communication"]
    return found
