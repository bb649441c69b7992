"""Copy, triad and gather (``cuda/memory_bandwidth``): the ladder from strided accesses to bulk copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from labcode.kernels.catalogue import Array, Gpu, Kernel, Launch, Mark, Problem, Shape, Step, numbers

HEADER = "memory_bandwidth/memory_bandwidth.cuh"
NAMESPACE = "lab::memory_bandwidth"
SCALE = 3.0  # of the triad
SECTOR_BYTES = 32
GATHERED = 1 << 25

_OF = numbers(HEADER)
RUN, THREADS = _OF["kRun"], _OF["kThreads"]
LOADS, LOAD_THREADS = _OF["kLoads"], _OF["kLoadThreads"]
PIECE_BYTES, PIECE_THREADS, PIECE_BLOCKS = _OF["kPieceBytes"], _OF["kPieceThreads"], _OF["kPieceBlocks"]
RING_BYTES, RING_STAGES, RING_BLOCKS = _OF["kRingBytes"], _OF["kRingStages"], _OF["kRingBlocks"]
_SYSTEM_BYTES = 1024  # of shared memory, for each block


def per_block(threads: int, bytes_a_thread: int) -> Callable[[Problem, Gpu], Launch]:
    """Enough blocks that each thread has ``bytes_a_thread`` of an array to move."""

    def launch(problem: Problem, gpu: Gpu) -> Launch:
        elements = threads * max(1, bytes_a_thread // problem.item_bytes)
        return Launch(-(-problem.elements // elements), threads)

    return launch


def elements_a_thread(count: int) -> Callable[[Problem, Gpu], Launch]:
    """Enough blocks that each thread has ``count`` elements to move, whatever their type."""
    return lambda problem, gpu: Launch(-(-problem.elements // (THREADS * count)), THREADS)


def _ring(problem: Problem, gpu: Gpu) -> Launch:
    return Launch(RING_BLOCKS * gpu.sm_count, PIECE_THREADS, RING_STAGES * RING_BYTES)


def _bulk(problem: Problem, gpu: Gpu) -> Launch:
    """A block a piece; as much shared memory as leaves room for ``PIECE_BLOCKS`` on a multiprocessor."""
    blocks = -(-problem.elements * problem.item_bytes // PIECE_BYTES)
    return Launch(blocks, PIECE_THREADS, gpu.shared_bytes // PIECE_BLOCKS - _SYSTEM_BYTES)


def _size(problem: Problem) -> tuple[np.generic, ...]:
    return (np.uint64(problem.elements),)


def _same(problem: Problem) -> Array:
    return Array(problem.shape)


def permutation(shape: Shape, seed: int) -> np.ndarray[Any, Any]:
    """Every index once, in random order."""
    return np.random.default_rng(seed).permutation(shape[0]).astype(np.int32)


_COPY_STEPS = (
    Step(
        "strided",
        f"Each thread copies {RUN} neighboring elements one after another, so that the lanes of a warp are "
        f"{4 * RUN} bytes apart: 32 sectors a request where 4 would do.",
        f"{NAMESPACE}::strided<{{W}}, {RUN}>",
        elements_a_thread(RUN),
        predicted=0.2,
    ),
    Step(
        "coalesced",
        "Lanes side by side: a warp's request is one line of 128 bytes, four whole sectors. Full "
        "occupancy, and still only 8 KiB under way on each multiprocessor: latency decides.",
        f"{NAMESPACE}::coalesced<{{W}}>",
        elements_a_thread(1),
        predicted=0.72,
    ),
    Step(
        "vectorized",
        "16 bytes a thread: a quarter of the instructions and requests, and 32 KiB under way on each "
        "multiprocessor, as much as latency times bandwidth asks for.",
        f"{NAMESPACE}::vectorized<{{W}}>",
        per_block(THREADS, 16),
        predicted=0.97,
    ),
    Step(
        "in flight",
        "Two loads of 16 bytes a thread before its first store. Enough was under way before, so it gains "
        "nothing; why it can lose a little is not measured.",
        f"{NAMESPACE}::in_flight<{{W}}, {LOADS}, false>",
        per_block(LOAD_THREADS, LOADS * 16),
        predicted=1.0,
        helped=False,
    ),
    Step(
        "streaming",
        "The same with hints that every line is used once. It is slower; why is not measured.",
        f"{NAMESPACE}::in_flight<{{W}}, {LOADS}, true>",
        per_block(LOAD_THREADS, LOADS * 16),
        predicted=1.0,
        helped=False,
    ),
    Step(
        "bulk ring",
        "The copy engine of the multiprocessor (TMA) moves pieces into a ring in shared memory and out "
        "again; one thread a block asks for them, no register holds data. It is slower than plain loads; why "
        "is not measured.",
        f"{NAMESPACE}::bulk_ring<{{W}}, {RING_BYTES}, {RING_STAGES}>",
        _ring,
        min_cc=90,
        predicted=1.0,
        helped=False,
    ),
    Step(
        "bulk",
        "A block a piece of 4 KiB and no ring: blocks start in the order of their pieces, so that all "
        "multiprocessors work on one stretch of memory. Shared memory limits them to 48 KiB under way. As "
        "fast as 16-byte words, no faster.",
        f"{NAMESPACE}::bulk<{{W}}, {PIECE_BYTES}>",
        _bulk,
        min_cc=90,
        predicted=1.0,
        helped=False,
    ),
)

_SIZES = (1, 3, 31, 33, 1000, 4099, 1_000_003, 4_194_304)

COPY = Kernel(
    "copy",
    "memory_bandwidth",
    "Copy an array",
    HEADER,
    _COPY_STEPS,
    inputs=lambda problem: (_same(problem),),
    output=_same,
    scalars=_size,
    reference=lambda x: x,
    flops=lambda problem: 0,
    tolerance={"float32": 0.0, "float16": 0.0},
    timed=(Problem((1 << 29,)),),
    checked=tuple(Problem((n,), dtype) for n in _SIZES for dtype in ("float32", "float16")),
    marks=(Mark("copy", 0.98, 1.00),),
)

TRIAD = Kernel(
    "triad",
    "memory_bandwidth",
    "Add a multiple of one array to another",
    HEADER,
    (
        Step(
            "coalesced",
            "One element a thread, lanes side by side.",
            f"{NAMESPACE}::triad_coalesced",
            per_block(THREADS, 4),
            predicted=0.9,
        ),
        Step(
            "vectorized",
            "16 bytes of each input a thread, two reads for each write.",
            f"{NAMESPACE}::triad_in_flight<1>",
            per_block(THREADS, 16),
            predicted=1.0,
        ),
        Step(
            "in flight",
            "Two loads of 16 bytes of each input under way before the first result; enough was under way "
            "before.",
            f"{NAMESPACE}::triad_in_flight<2>",
            per_block(THREADS, 2 * 16),
            predicted=1.0,
            helped=False,
        ),
    ),
    inputs=lambda problem: (_same(problem), _same(problem)),
    output=_same,
    scalars=lambda problem: (np.uint64(problem.elements), np.float32(SCALE)),
    reference=lambda b, c: b + SCALE * c,
    flops=lambda problem: 2 * problem.elements,
    tolerance={"float32": 1e-6},
    timed=(Problem((1 << 29,)),),
    checked=tuple(Problem((n,)) for n in _SIZES),
    libraries={"torch.add": lambda torch, cupy, x, out: lambda: torch.add(x[0], x[1], alpha=SCALE, out=out)},
    marks=(Mark("copy", 0.98, 1.00),),
)

GATHER = Kernel(
    "gather",
    "memory_bandwidth",
    "Read from places that an index names, here a random permutation",
    HEADER,
    (
        Step(
            "one a thread",
            f"A random read of 4 bytes moves a sector of {SECTOR_BYTES}: the cost model counts what is "
            "asked for, the memory moves 32 + 4 + 4 bytes an element, so at most a third of a copy's "
            "throughput is useful.",
            f"{NAMESPACE}::gather<{{W}}>",
            per_block(THREADS, 4),
            predicted=0.3,
        ),
        Step(
            "in flight",
            "Four indices a thread, then four reads under way at once. It helps where the indices are in "
            "order, and not where they are random; what limits those is not measured.",
            f"{NAMESPACE}::gather_in_flight<{{W}}, 4>",
            per_block(THREADS, 4 * 4),
            predicted=0.3,
            helped=False,
        ),
    ),
    inputs=lambda problem: (_same(problem), Array(problem.shape, "int32", permutation)),
    output=_same,
    scalars=_size,
    reference=lambda x, index: x[index],
    flops=lambda problem: 0,
    tolerance={"float32": 0.0},
    timed=(Problem((GATHERED,)),),
    checked=tuple(Problem((n,)) for n in (1, 33, 4099, 1_000_003)),
    libraries={
        "torch.index_select": lambda torch, cupy, x, out: lambda: torch.index_select(x[0], 0, x[1], out=out)
    },
)

KERNELS = (COPY, TRIAD, GATHER)
