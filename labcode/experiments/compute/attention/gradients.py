"""Gradients of attention by the readable backward kernels: fp32 tensors (heads, length, dim) in and out."""

from typing import Any

import numpy as np

from labcode.experiments.compute.attention.steps import IMPLEMENTATIONS, check
from labcode.kernels import launch as launching
from labcode.kernels.topics.attention import HEADER, NAMESPACE, ROW_THREADS


def gradients(torch: Any, q: Any, k: Any, v: Any, slope: Any, causal: bool) -> tuple[Any, Any, Any]:
    """Of queries, keys and values, from that of the result; `LabError` for tensors they do not take."""
    check(IMPLEMENTATIONS["materialized"], [q, k, v], slope)
    heads, length, dim = q.shape
    cupy, device = launching.import_cupy(), q.device.index
    of_q, of_k, of_v = (torch.empty_like(q) for _ in range(3))
    log_sum, means = (torch.empty(heads, length, device=q.device) for _ in range(2))
    inputs, kept = (q, k, v, slope), (log_sum, means)
    with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream, device):
        for name, tensors in (
            ("backward_queries", (*inputs, of_q, *kept)),
            ("backward_keys", (*inputs, *kept, of_k, of_v)),
        ):
            kernel = launching.function(HEADER, f"{NAMESPACE}::{name}<{dim}>", device)
            sizes = (np.int32(length), np.int32(causal))
            kernel((length, heads), (ROW_THREADS,), (*(np.uint64(x.data_ptr()) for x in tensors), *sizes))
    return of_q, of_k, of_v
