"""Ways to compute attention of the newest token over a cache: a name and arrays in; a call to be timed, out.

The steps of ``cuda/paged_decode``; PyTorch's attention (FlashAttention-2, cuDNN, memory-efficient) and
FlexAttention over the same cache in one piece; FlashInfer's decode over the same pages.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import numpy as np

from labcode.errors import LabError, ToolError
from labcode.kernels import launch as launching
from labcode.kernels.catalogue import Gpu, Problem
from labcode.kernels.catalogue import entry as catalogue_entry
from labcode.kernels.topics import paged_decode as topic
from labcode.kernels.topics.sum import SUM

Call = Callable[[], object]
ONE_PIECE = ("heads", "groups")  # steps that take no pages
GROUPED = ("heads", "groups", "pages")
TORCH = {
    "flash": "FLASH_ATTENTION",
    "cudnn": "CUDNN_ATTENTION",
    "efficient": "EFFICIENT_ATTENTION",
}
WORKSPACE_BYTES = 256 << 20  # FlashInfer's


@dataclass(frozen=True)
class Implementation:
    """A way to compute it. ``kind``: "step" of the ladder or "library"; ``paged``: from the pages."""

    name: str
    kind: str
    paged: bool


IMPLEMENTATIONS: Mapping[str, Implementation] = {
    one.name: one
    for one in (
        *(Implementation(step.name, "step", step.name not in ONE_PIECE) for step in topic.STEPS),
        *(Implementation(name, "library", False) for name in (*TORCH, "flex")),
        Implementation("flashinfer", "library", True),
    )
}


@dataclass(frozen=True)
class Cache:
    """Sequences and where their keys and values lie.

    ``q`` [batch, heads, 128]; ``pool`` [2, pages, heads of the cache, page, 128], keys and values; ``table``
    [batch, pages a sequence] and ``lengths`` [batch] are 32-bit; ``whole`` [2, batch, heads of the cache,
    longest, 128]: the same in one piece, or none.
    """

    q: Any
    pool: Any
    table: Any
    lengths: Any
    whole: Any | None

    @property
    def batch(self) -> int:
        """Sequences."""
        return int(self.q.shape[0])

    @property
    def group(self) -> int:
        """Heads of the queries that share one of the cache."""
        return int(self.q.shape[1] // self.pool.shape[2])


def check(cache: Cache, out: Any) -> None:
    """Nothing, when the steps take these arrays; a `LabError` in one line otherwise."""
    import torch

    if cache.q.ndim != 3 or cache.pool.ndim != 5 or 0 in (*cache.q.shape, *cache.pool.shape):
        raise LabError(
            f"queries {tuple(cache.q.shape)}, pool {tuple(cache.pool.shape)}: give batch × heads × 128 and "
            "2 × pages × heads of the cache × page × 128, none empty"
        )
    (batch, heads, dim), (_, _, kv_heads, page, _) = cache.q.shape, cache.pool.shape
    if dim != topic.DIM or cache.pool.shape[4] != dim:
        raise LabError(f"takes heads of {topic.DIM} dimensions, not {dim} and {cache.pool.shape[4]}")
    if heads % kv_heads or heads // kv_heads not in topic.GROUPS:
        raise LabError(f"{heads} heads over {kv_heads} of the cache: 1, 2, 4 or 8 may share one")
    if page not in topic.PAGES:
        raise LabError(f"pages of {page} tokens; take one of {', '.join(map(str, topic.PAGES))}")
    if batch * kv_heads > topic.MOST_PAIRS:
        raise LabError(f"{batch} sequences, {kv_heads} heads: together at most {topic.MOST_PAIRS}")
    arrays = (cache.q, cache.pool, out, *([] if cache.whole is None else [cache.whole]))
    if any(x.dtype != torch.bfloat16 for x in arrays):
        raise LabError("takes queries, cache and result in bfloat16")
    if any(x.dtype != torch.int32 for x in (cache.table, cache.lengths)):
        raise LabError("takes table and lengths in int32")
    if any(not x.is_contiguous() for x in (*arrays, cache.table, cache.lengths)):
        raise LabError("the elements must lie without gaps; call .contiguous()")
    if any(x.data_ptr() % 16 for x in arrays):
        raise LabError("takes tensors that start on 16 bytes; copy them with .clone()")


def call_of(torch: Any, name: str, cache: Cache, out: Any) -> Call:
    """A function that computes it each time it is called, into ``out`` or as a tensor that it returns.

    `LabError` says in one line what an implementation cannot take, or why it is not there.
    """
    if name not in IMPLEMENTATIONS:
        raise LabError(f"{name}: no such implementation; there are {', '.join(IMPLEMENTATIONS)}")
    one = IMPLEMENTATIONS[name]
    check(cache, out)
    if not one.paged and cache.whole is None:
        raise LabError(f"{name}: takes the cache in one piece, all sequences of one length")
    if one.kind == "step":
        return _step_call(torch, name, cache, out)
    if name == "flashinfer":
        return _by_flashinfer(torch, cache)
    keys, values = cache.whole  # type: ignore[misc]
    if name == "flex":
        return _by_flex(torch, cache.q[:, :, None], keys, values)
    from torch.nn.attention import SDPBackend, sdpa_kernel

    # the memory-efficient kernel knows no groups: the group's heads as queries of one head
    folded = name == "efficient"
    q = cache.q.view(cache.batch, keys.shape[1], cache.group, -1) if folded else cache.q[:, :, None]

    def call() -> Any:
        with sdpa_kernel(getattr(SDPBackend, TORCH[name])):
            found = torch.nn.functional.scaled_dot_product_attention(q, keys, values, enable_gqa=not folded)
        return found.reshape(cache.q.shape)

    return call


def _by_flex(torch: Any, q: Any, keys: Any, values: Any) -> Call:
    from torch.nn.attention.flex_attention import flex_attention

    compiled = torch.compile(flex_attention, dynamic=False)

    def call() -> Any:
        try:
            return compiled(q, keys, values, enable_gqa=True).reshape(q.shape[0], q.shape[1], -1)
        except Exception as error:  # of its compiler, or of the launch
            raise LabError(f"flex: FlexAttention does not run ({first_line(error)})") from None

    return call


def _by_flashinfer(torch: Any, cache: Cache) -> Call:
    """FlashInfer's decode on tensor cores; a `LabError` says why it is not there or cannot be built."""
    try:
        wrapper_of = importlib.import_module("flashinfer").BatchDecodeWithPagedKVCacheWrapper
    except Exception as error:  # its import asks the GPU and the compiler, too
        raise ToolError(
            f"flashinfer: cannot be imported here ({first_line(error)}); "
            "`python -m pip install flashinfer-python`"
        ) from None
    page = cache.pool.shape[3]
    lengths = cache.lengths.cpu().numpy()
    counts = -(-lengths // page)
    table = cache.table.cpu().numpy()
    indices = np.concatenate([row[:count] for row, count in zip(table, counts, strict=True)])
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    last = (lengths - (counts - 1) * page).astype(np.int32)
    try:
        workspace = torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device=cache.q.device)
        wrapper = wrapper_of(workspace, "HND", use_tensor_cores=True)
        wrapper.plan(
            *(torch.from_numpy(x).to(cache.q.device) for x in (starts, indices.astype(np.int32), last)),
            cache.q.shape[1],
            cache.pool.shape[2],
            cache.q.shape[2],
            page,
            q_data_type=torch.bfloat16,
            kv_data_type=torch.bfloat16,
        )
    except Exception as error:  # of its compiler
        raise LabError(f"flashinfer: its decode cannot be built here ({first_line(error)})") from None
    keys, values = cache.pool

    def call() -> Any:
        try:
            return wrapper.run(cache.q, (keys, values))
        except Exception as error:
            raise LabError(f"flashinfer: its decode does not run ({first_line(error)})") from None

    return call


def first_line(error: BaseException) -> str:
    """What an error says first, shortened."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def entry(name: str, group: int) -> str:
    """The C++ name expression of a step for groups of this size."""
    return f"{topic.NAMESPACE}::{name}{f'<{group}>' if name in ('groups', 'pages') else ''}"


def header_of(name: str) -> str:
    """The header of ``cuda/`` that a step is in."""
    return topic.RING_HEADER if name == "ring" else topic.HEADER


def _step_call(torch: Any, name: str, cache: Cache, out: Any) -> Call:
    device = cache.q.device.index
    gpu = launching.this_gpu(device)
    step = topic.PAGED_DECODE.step(name)
    if gpu.compute_capability < step.min_cc:
        here, other = gpu.compute_capability, "pages" if gpu.compute_capability < 80 else "balanced"
        needed = f"needs compute capability {step.min_cc / 10:.1f} and this GPU has {here / 10:.1f}"
        raise LabError(f"{name}: {needed}; take {other}")
    kv_heads, page = int(cache.pool.shape[2]), int(cache.pool.shape[3])
    pairs, longest = cache.batch * kv_heads, int(cache.lengths.max())
    shift, row_pages = np.int32(math.log2(page)), np.int32(cache.table.shape[1])
    group, heads = np.int32(cache.group), np.int32(kv_heads)
    blocks = gpu.sm_count * topic.BLOCKS_AN_SM
    if name == "ring" and pairs * -(-longest // topic.UNIT) > topic.MOST_UNITS:
        raise LabError(f"ring: {batch_of(cache)} and {kv_heads} heads are too many; take balanced")
    chunk, most = topic.chunk(longest, pairs, gpu), topic.parts(longest, pairs, gpu)
    ranges = max((1 + topic.PIECES) * blocks, topic.RANGES * gpu.sm_count)
    room = max(most * pairs, 2 * ranges) * topic.MOST_GROUP
    empty = {"device": cache.q.device, "dtype": torch.float32}
    sums, rest = torch.empty(room * topic.DIM, **empty), torch.empty(room * 2, **empty)
    counters = torch.zeros(pairs + 2, dtype=torch.int32, device=cache.q.device)

    def address(x: Any) -> np.uint64:
        return np.uint64(x.data_ptr())

    at = [address(x) for x in (cache.q, *cache.pool, cache.table, cache.lengths, out)]
    kept = [address(x) for x in (sums, rest)]
    grid: tuple[int, ...] = (kv_heads, cache.batch)
    launches: list[tuple[str, tuple[int, ...], list[Any]]]
    if name in ONE_PIECE:
        assert cache.whole is not None
        rows = [np.int32(cache.whole.shape[3]), *([group] if name == "heads" else [])]
        whole = [at[0], *(address(x) for x in cache.whole), address(cache.lengths), address(out)]
        launches = [(name, (kv_heads * cache.group, cache.batch) if name == "heads" else grid, whole + rows)]
    elif name == "pages":
        launches = [(name, grid, [*at, shift, row_pages])]
    elif name == "tensor":
        launches = [(name, grid, [*at, group, shift, row_pages])]
    elif name in ("balanced", "stealing", "ring"):
        sizes = [np.int32(cache.batch), heads, group, shift, row_pages]
        launches = [
            (name, (gpu.sm_count if name == "ring" else blocks,), [*at, *kept, address(counters), *sizes])
        ]
    else:
        sizes = [heads, group, shift, row_pages, np.int32(chunk)]
        counted = [address(counters)] if name == "one_launch" else []
        launches = [(name, (most, pairs), [*at, *kept, *counted, *sizes])]
        if name == "split":
            joined = [address(cache.lengths), address(out), *kept, group, np.int32(chunk), np.int32(most)]
            launches.append(("combine", grid, joined))
    cupy = launching.import_cupy()
    prepared = [
        (
            launching.function(header_of(of), entry(of, cache.group), device),
            (*size, 1, 1)[:3],
            tuple(arguments),
        )
        for of, size, arguments in launches
    ]
    threads, shared = (topic.RING_THREADS, topic.RING_BYTES) if name == "ring" else (topic.THREADS, 0)
    if shared:
        prepared[0][0].max_dynamic_shared_size_bytes = shared

    def call(_keep: Any = (cache, out, sums, rest, counters)) -> None:
        stream = cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream, device)
        try:
            with cupy.cuda.Device(device), stream:
                for raw, size, arguments in prepared:
                    raw(size, (threads, 1, 1), arguments, shared_mem=shared)
        except (cupy.cuda.driver.CUDADriverError, cupy.cuda.runtime.CUDARuntimeError) as error:
            raise LabError(f"{name}: the launch failed ({error}); {batch_of(cache)}") from None

    return call


def read_of(torch: Any, pool: Any) -> Call:
    """A read of the whole pool: the lab's fastest sum, which hardly does anything else."""
    floats = pool.view(-1).view(torch.float32)
    device, problem = pool.device.index, Problem((floats.numel(),))
    gpu, step = launching.this_gpu(device), SUM.step("vectorized")
    size = step.launch(problem, gpu)
    assert step.scratch_bytes is not None
    scratch = torch.zeros(step.scratch_bytes(problem, gpu), dtype=torch.uint8, device=pool.device)
    total = torch.empty(1, device=pool.device)
    arguments = (
        *(np.uint64(x.data_ptr()) for x in (floats, total, scratch)),
        np.uint64(floats.numel()),
    )
    cupy = launching.import_cupy()
    raw = launching.function(SUM.header, catalogue_entry(step, problem), device)

    def call(_keep: Any = (floats, total, scratch)) -> None:
        stream = cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream, device)
        with cupy.cuda.Device(device), stream:
            raw((size.grid, 1, 1), (size.block, 1, 1), arguments)

    return call


def batch_of(cache: Cache) -> str:
    """The size of the work in words."""
    return f"{cache.batch} sequences, the longest of {int(cache.lengths.max())} tokens"


def compile_all(names: Sequence[str], group: int, gpu: Gpu) -> None:
    """Compile the steps that will be launched, in several processes; a failure is left to the launch."""
    steps = [step for step in topic.STEPS if step.name in names and gpu.compute_capability >= step.min_cc]
    wanted = [step.name for step in steps] + ["combine"] * ("split" in names)
    if not wanted:
        return
    with ProcessPoolExecutor(min(8, len(wanted)), mp_context=get_context("spawn")) as pool:
        for future in [
            pool.submit(
                launching.compile_cubin, header_of(name), [entry(name, group)], gpu.compute_capability
            )
            for name in wanted
        ]:
            future.exception()
