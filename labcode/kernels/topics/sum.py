"""Sum (``cuda/sum``): from an atomic addition an element to one deterministic pass at full bandwidth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from labcode.kernels.catalogue import Array, Call, Gpu, Kernel, Launch, Mark, Problem, Step, norm, numbers

HEADER = "sum/sum.cuh"
NAMESPACE = "lab::sum"

_OF = numbers(HEADER)
THREADS = _OF["kThreads"]
WIDE_THREADS, LOADS, BLOCKS_AN_SM = _OF["kWideThreads"], _OF["kLoads"], _OF["kBlocksPerSm"]
BULK_THREADS, BULK_LOADS = _OF["kBulkThreads"], _OF["kBulkLoads"]
BULK_STAGES, BULK_BLOCKS_AN_SM = _OF["kBulkStages"], _OF["kBulkBlocksPerSm"]
_SCRATCH_HEAD_BYTES = 16


def _one_each(problem: Problem, gpu: Gpu) -> Launch:
    return Launch(-(-problem.elements // THREADS), THREADS)


def _tiles(problem: Problem, threads: int, loads: int) -> int:
    """Blocks that find at least a tile's worth of work."""
    return max(1, -(-problem.elements // (4 * threads * loads)))


def _vectorized(problem: Problem, gpu: Gpu) -> Launch:
    return Launch(min(BLOCKS_AN_SM * gpu.sm_count, _tiles(problem, WIDE_THREADS, LOADS)), WIDE_THREADS)


def _bulk(problem: Problem, gpu: Gpu) -> Launch:
    blocks = min(BULK_BLOCKS_AN_SM * gpu.sm_count, _tiles(problem, BULK_THREADS, BULK_LOADS))
    return Launch(blocks, BULK_THREADS, BULK_STAGES * BULK_THREADS * BULK_LOADS * 16)


def _scratch(problem: Problem, gpu: Gpu) -> int:
    return _SCRATCH_HEAD_BYTES + 4 * gpu.sm_count * max(BLOCKS_AN_SM, BULK_BLOCKS_AN_SM)


def _cub_sum(torch: Any, cupy: Any, inputs: Sequence[Any], output: Any) -> Call:
    """CUB's DeviceReduce as CuPy ships it, on torch's stream."""
    from cupy.cuda import cub

    array = cupy.from_dlpack(inputs[0])

    def call() -> None:
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            cub.device_reduce(array, cub.CUPY_CUB_SUM, (0,), ())

    return call


SUM = Kernel(
    "sum",
    "sum",
    "Add up an array",
    HEADER,
    (
        Step(
            "atomics",
            "An atomic addition an element, all to one address: they are done one after another, and each "
            "rounds the whole sum so far.",
            f"{NAMESPACE}::atomics",
            _one_each,
            clears_output=True,
            predicted=0.002,
            tolerance=3e-3,
        ),
        Step(
            "tree",
            "A tree in shared memory, one atomic addition a block of 256; half of the threads leave at "
            "each level, and all wait at each.",
            f"{NAMESPACE}::tree",
            _one_each,
            clears_output=True,
            predicted=0.3,
            tolerance=3e-4,
        ),
        Step(
            "shuffle",
            "Lanes pass values from register to register; shared memory and a barrier serve the warps "
            "only. No gain here: the atomic additions to one address, one a block, take all the time.",
            f"{NAMESPACE}::shuffle",
            _one_each,
            clears_output=True,
            predicted=0.4,
            tolerance=3e-4,
            helped=False,
        ),
        Step(
            "vectorized",
            "Tiles of many words a block, four loads of 16 bytes a thread under way before it adds; a "
            "thread reduces once, at its end. The last block adds the blocks' sums in their order: one "
            "launch, the same bits every time, and no address that all write to.",
            f"{NAMESPACE}::vectorized<{WIDE_THREADS}, {LOADS}>",
            _vectorized,
            scratch_bytes=_scratch,
            predicted=1.02,
        ),
        Step(
            "bulk",
            "One block a multiprocessor stays; the copy engine (TMA) keeps a ring of tiles under way in "
            "shared memory, and threads add from there. As fast as loads into registers, no faster.",
            f"{NAMESPACE}::bulk<{BULK_THREADS}, {BULK_LOADS}, {BULK_STAGES}>",
            _bulk,
            min_cc=90,
            scratch_bytes=_scratch,
            predicted=1.02,
            helped=False,
        ),
    ),
    inputs=lambda problem: (Array(problem.shape),),
    output=lambda problem: Array((1,)),
    scalars=lambda problem: (np.uint64(problem.elements),),
    reference=lambda x: x.sum().reshape(1),
    bytes_moved=lambda problem: problem.elements * problem.item_bytes,  # less the result
    flops=lambda problem: problem.elements,
    tolerance={"float32": 1e-5},
    scale=norm,
    timed=(Problem((1 << 30,)),),
    checked=tuple(Problem((n,)) for n in (1, 2, 3, 5, 31, 33, 257, 1000, 4099, 1_000_003, 1 << 24)),
    libraries={
        "torch.sum": lambda torch, cupy, x, out: lambda: torch.sum(x[0]),
        "CUB DeviceReduce": _cub_sum,
    },
    marks=(Mark("torch.sum", 1.0), Mark("CUB DeviceReduce", 1.0)),
)

KERNELS = (SUM,)
