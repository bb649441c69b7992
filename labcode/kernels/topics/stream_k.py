"""Matmul whose tiles are shared out by their stages (``cuda/gemm/stream_k.cuh``): split-K and Stream-K.

A problem is (m, n, k): A is m × k, B k × n, C = A·B, in bf16 with sums in fp32. What the steps are held
against is cuBLAS in the same run; ``PREDICTED`` says by shape which share of its rate a step should reach, a
step's own ``predicted`` that of the odd one. `Plan` is the cost model: how many stages the busiest block has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import ceil

import numpy as np

from labcode.kernels.catalogue import Array, Gpu, Kernel, Launch, Problem, Step, numbers

HEADER = "gemm/stream_k.cuh"
NAMESPACE = "lab::gemm"
PROGRAM = "«python -m labcode.workloads.stream_k»"
SHAPES: Mapping[str, tuple[int, int, int]] = {
    "square": (4096, 4096, 4096),
    "odd": (4097, 4104, 4088),
    "unaligned": (4097, 4099, 4093),
    "tail": (2176, 2048, 8192),
    "thin_16": (16, 4096, 14336),
    "thin_64": (64, 4096, 14336),
    "thin_128": (128, 4096, 14336),
}
PREDICTED: Mapping[str, Mapping[str, float]] = {
    "square": {
        "whole": 0.98,
        "split": 0.90,
        "cluster": 0.8,
        "stream_k": 0.93,
        "hybrid": 0.98,
        "pair": 0.98,
        "both": 0.98,
        "joint": 0.97,
        "aside": 0.98,
        "along": 0.98,
        "halves": 0.3,
    },
    "odd": {
        "whole": 0.60,
        "split": 0.55,
        "cluster": 0.45,
        "stream_k": 0.65,
        "hybrid": 0.70,
        "pair": 0.85,
        "both": 0.95,
        "joint": 0.6,
        "aside": 0.96,
        "along": 0.965,
        "halves": 0.25,
    },
    "unaligned": {
        "whole": 3.0,
        "split": 2.8,
        "cluster": 2.0,
        "stream_k": 3.3,
        "hybrid": 3.5,
        "pair": 3.9,
        "both": 4.0,
        "joint": 4.0,
        "aside": 4.5,
        "along": 4.5,
        "halves": 1.2,
    },
    "tail": {
        "whole": 0.70,
        "split": 0.85,
        "cluster": 0.75,
        "stream_k": 1.15,
        "hybrid": 1.15,
        "pair": 0.7,
        "both": 1.1,
        "joint": 1.0,
        "aside": 0.7,
        "along": 0.6,
        "halves": 0.3,
    },
    "thin_16": {
        "whole": 0.15,
        "split": 0.90,
        "cluster": 1.1,
        "stream_k": 1.0,
        "hybrid": 1.0,
        "pair": 0.4,
        "both": 0.7,
        "joint": 0.95,
        "early": 0.95,
        "aside": 0.4,
        "along": 0.35,
        "low": 0.95,
        "halves": 0.98,
    },
    "thin_64": {
        "whole": 0.15,
        "split": 0.90,
        "cluster": 1.1,
        "stream_k": 0.9,
        "hybrid": 0.9,
        "pair": 0.4,
        "both": 0.7,
        "joint": 0.95,
        "early": 0.95,
        "aside": 0.4,
        "along": 0.37,
        "low": 0.95,
        "halves": 0.965,
    },
    "thin_128": {
        "whole": 0.15,
        "split": 0.90,
        "cluster": 1.05,
        "stream_k": 0.8,
        "hybrid": 0.8,
        "pair": 0.3,
        "both": 0.6,
        "joint": 0.95,
        "early": 0.95,
        "aside": 0.3,
        "along": 0.28,
        "low": 0.95,
        "halves": 0.955,
    },
}

_OF = {
    **numbers("gemm/layout.cuh"),
    **numbers("gemm/bf16.cuh"),
    **numbers("gemm/fitted.cuh"),
    **numbers(HEADER),
}
DEPTH, TALL, HALF = _OF["kBox"], _OF["kTileM"], _OF["kGroupM"]
WIDE, NARROW, FEW, FEW_ROWS = 256, _OF["kNarrow"], _OF["kFew"], _OF["kFewRows"]
FULL, THIN, LITTLE = _OF["kCostFull"], _OF["kCostThin"], _OF["kCostLittle"]
WORK_THREADS, FEW_ROWS_THREADS = 3 * _OF["kGroupThreads"], 2 * _OF["kGroupThreads"]
HALVES_THREADS = _OF["kGroupThreads"] + 32
HALVES = {
    "FewHalves": (16, 2, 6),
    "MoreHalves": (64, 1, 12),
}  # rows, times 64 of k, stages: as in the header
PACK_THREADS, ADD_THREADS = _OF["kPackThreads"], _OF["kAddThreads"]
PITCH = 64  # elements: packed rows start where lines of memory do
MOST_CUTS = 8
HANDING = 12  # stages: about what it takes to write a tile of sums, to wait for the others' and to add up
CLUSTERS = (1, 2, 4, 8)
STRIPS = 0.28  # of a tile's time: what both strips add to it, by the bytes that wgmma reads
FEW_STAGES = _OF["kFewStages"]
STRIP, ASIDE_REGISTERS, BAND = _OF["kStrip"], _OF["kAsideRegisters"], _OF["kBand"]
MULTIPROCESSORS = 132  # of an H100 and an H200: for how many parts a tile has is compiled into a kernel
WARPS = 2 * _OF["kGroupThreads"] // 32  # that multiply


@dataclass(frozen=True)
class Way:
    """How a step shares out the tiles.

    ``cut``: "none", "parts", "cluster", "all" (Stream-K), "rest", "joint" (parts that all add up), "halves"
    (of a tile, by two neighbors), "pairs" (of parts).
    """

    cut: str
    blocks: int = 1  # of a cluster, above each other
    wide: int = WIDE  # columns of a tile
    early: bool = False  # the second kernel's blocks start as the first's end
    low: bool = False  # at most 16 rows are fetched as 16, not as 64
    few: str = ""  # the kernel for a few rows and columns that are in no tile


WAYS: Mapping[str, Way] = {
    "whole": Way("none"),
    "split": Way("parts"),
    "cluster": Way("cluster"),
    "stream_k": Way("all"),
    "hybrid": Way("rest"),
    "pair": Way("none", blocks=2),
    "both": Way("rest", blocks=2),
    "joint": Way("joint"),
    "early": Way("parts", wide=NARROW, early=True),
    "aside": Way("none", blocks=2, few="aside"),
    "along": Way("none", blocks=2, few="along"),
    "low": Way("parts", wide=NARROW, early=True, low=True),
    "halves": Way("halves", wide=DEPTH),
}
PAIRS = Way("pairs", wide=NARROW, early=True)  # what `halves` is for more rows than a tile of it has


@dataclass(frozen=True)
class Plan:
    """The tiles of a problem, as ``Tiles`` in the header has them, and how a step deals them to a GPU.

    Costs are eighths of a stage of a whole tile.
    """

    way: Way
    m: int
    n: int
    k: int
    sm_count: int

    @property
    def ring(self) -> tuple[str, int]:
        """The ring of tiles as the header calls it, and its bytes: as many stages as there is room for."""
        if self.way.cut == "halves":
            rows, deep, stages = self.halves
            sums = 2 * rows * (self.way.wide // 2 + 4) * 4
            return self.half_ring, stages * deep * (rows + DEPTH) * DEPTH * 2 + sums + 1024
        if self.low:
            return "", FEW_STAGES * (FEW_ROWS + self.way.wide) * DEPTH * 2 + 1024
        if self.way.wide < WIDE:
            name, stages, boxes = f"Ring<{self.way.wide}, 6, 0>", 6, 2 if self.way.cut == "pairs" else 0
        else:
            name, stages, boxes = ("Deep", 4, 0) if self.way.cut in ("parts", "cluster") else ("Wide", 4, 2)
        return name, stages * (TALL + self.way.wide) * DEPTH * 2 + 2 * boxes * HALF * 128 + 1024

    @property
    def low(self) -> bool:
        """Whether A is fetched in boxes of 16 rows."""
        return self.way.low and self.m <= FEW_ROWS

    @property
    def half_ring(self) -> str:
        """Of `halves`, what the header calls its ring: for few rows, or for more."""
        return "FewHalves" if self.m <= FEW_ROWS else "MoreHalves"

    @property
    def halves(self) -> tuple[int, int, int]:
        """Of `halves`: rows of a tile, how many times 64 of k a stage is deep, stages of the ring."""
        return HALVES[self.half_ring]

    @property
    def tall(self) -> int:
        """Rows of a tile, of a whole cluster."""
        return self.halves[0] if self.way.cut == "halves" else self.way.blocks * TALL

    @property
    def down(self) -> int:
        """Tiles of full height."""
        return self.m // self.tall

    @property
    def across(self) -> int:
        """Tiles of full width."""
        return self.n // self.way.wide

    @property
    def stages(self) -> int:
        """Of a tile, each 64 deep."""
        return ceil(self.k / DEPTH)

    @property
    def costs(self) -> tuple[int, int, int]:
        """Of a stage at C's lower side, at its right side, in the corner."""
        thin = FULL if self.m % self.tall > HALF else THIN
        slim = THIN if self.way.wide > NARROW and self.n % self.way.wide <= NARROW else FULL
        corner = {2 * FULL: FULL, 2 * THIN: LITTLE}.get(thin + slim, THIN)
        return thin, slim, corner

    @property
    def full(self) -> int:
        """Tiles of full size."""
        return self.down * self.across

    @property
    def count(self) -> int:
        """All tiles."""
        return ceil(self.m / self.tall) * ceil(self.n / self.way.wide)

    @property
    def fields(self) -> tuple[int, ...]:
        """What the kernel's parameter of type ``Tiles`` holds."""
        sizes = (self.m, self.n, self.tall, self.way.wide, self.down, self.across, self.stages)
        return (*sizes, *self.costs)

    def cost(self, whole: int = 0) -> int:
        """What all tiles behind the first ``whole`` cost."""
        thin, slim, corner = self.costs
        below, beside = (
            (self.across if self.m % self.tall else 0),
            (self.down if self.n % self.way.wide else 0),
        )
        both = 1 if self.m % self.tall and self.n % self.way.wide else 0
        return self.stages * (max(0, self.full - whole) * FULL + below * thin + beside * slim + both * corner)

    @property
    def whole(self) -> int:
        """Tiles that are not cut."""
        if self.way.cut == "none":
            return self.count
        if self.way.cut == "joint":
            return self._whole_of_joint
        if self.way.cut != "rest":
            return 0
        waves = self.full // self.places
        return min(
            {self.full, waves * self.places, max(0, waves - 1) * self.places},
            key=lambda whole: self._waves(whole) + self._handing(whole),
        )

    @property
    def _whole_of_joint(self) -> int:
        """As many as fill the blocks evenly, unless cutting the others costs more than one wave more."""
        filling = self.count // self.places * self.places
        if filling == self.count:
            return self.count
        parts = min(self.places // (self.count - filling), self.stages)
        return filling if ceil(self.stages / parts) + HANDING < self.stages else self.count

    @property
    def places(self) -> int:
        """Blocks, or clusters, that are at work at once."""
        return self.sm_count // self.way.blocks

    def _waves(self, whole: int) -> float:
        """What the busiest place has to do, in tiles, where so many are whole and the rest is cut."""
        return max(ceil(whole / self.places), self.cost() / (self.stages * FULL * self.places))

    def _handing(self, whole: int) -> float:
        """What handing sums over costs, in tiles: by parts of a tile, and what L2 serves less well."""
        cut = self.count - whole
        return (0.05 * self.places / cut if cut else 0.0) + (0.3 if whole < self.full else 0.0)

    @property
    def cuts(self) -> int:
        """Parts of each tile, where all have as many: few, and no block with much more than others."""
        if self.way.cut == "halves":
            return 2
        if self.way.cut == "pairs":
            return 2 * max(1, min(self.sm_count // 2 // self.count, self.stages // 2))
        if self.way.cut == "cluster":
            fitting = [cuts for cuts in CLUSTERS if cuts <= self.stages]
            return min(fitting, key=lambda cuts: ceil(self.count / (self.sm_count // cuts)) / cuts)
        if self.way.cut == "joint":
            rest = self.count - self.whole
            return min(self.places // rest, self.stages) if rest else 1
        most = min(self.stages, max(MOST_CUTS, self.sm_count // self.count))
        return min(
            range(1, most + 1), key=lambda cuts: ceil(self.count * cuts / self.sm_count) / cuts + cuts / 200
        )

    @property
    def parts(self) -> int:
        """Of each tile, those whose sums go to memory, where a second kernel adds them up; 1 without one."""
        return {"parts": self.cuts, "pairs": self.cuts // 2}.get(self.way.cut, 1)

    @property
    def clusters(self) -> int:
        """Blocks, or clusters of them, that are started."""
        if self.way.cut in ("cluster", "halves", "pairs"):
            return self.count * self.parts
        most = {"none": self.count, "parts": self.count * self.cuts}
        if self.way.cut == "joint":
            most["joint"] = max(self.whole, (self.count - self.whole) * self.cuts)
        return min(self.places, most.get(self.way.cut, self.places))

    def order(self, right: bool, below: bool) -> list[int]:
        """For `along`: four times a tile, 1 more for the columns beside its row, 2 more for the rows below.

        In turns of the clusters: tiles with strips go to whoever has the least to do so far.
        """
        down, across = ceil(self.m / self.tall), ceil(self.n / self.way.wide)
        number = {self.place(tile): tile for tile in range(self.count)}
        strips = [
            number[i % down, i % across] * 4 + (right and i < down) + 2 * (below and i < across)
            for i in range(max(down * right, across * below))
        ]
        turns = [len(range(one, self.count, self.clusters)) for one in range(self.clusters)]
        load = [(float(tiles), one) for one, tiles in enumerate(turns)]
        heapify(load)
        dealt: list[list[int]] = [[] for _ in load]
        for entry in strips:
            cost, one = load[0]
            dealt[one].append(entry)
            heappop(load)
            if len(dealt[one]) < turns[one]:
                heappush(load, (cost + STRIPS, one))
        kept = {entry // 4 for entry in strips}
        others = iter([4 * tile for tile in range(self.count) if tile not in kept])
        return [
            dealt[i % self.clusters][i // self.clusters]
            if i // self.clusters < len(dealt[i % self.clusters])
            else next(others)
            for i in range(self.count)
        ]

    def place(self, tile: int) -> tuple[int, int]:
        """Row and column of a tile, as ``Tiles::place``."""
        below = self.across if self.m % self.tall else 0
        if tile >= self.full + below:
            return tile - self.full - below, self.across
        if tile >= self.full:
            return self.down, tile - self.full
        band = 2 * BAND // self.way.blocks
        first = tile // (band * self.across) * band
        within, tall = tile % (band * self.across), min(band, self.down - first)
        return first + within % tall, within // tall

    @property
    def share(self) -> float:
        """The work of all blocks over that of as many as the busiest one: 1 when nobody waits for anybody."""
        ideal = self.cost() / (self.stages * FULL * self.places)
        if self.way.cut in ("all", "rest"):
            return ideal / self._waves(self.whole)
        if self.way.cut == "joint":
            rest = ceil(self.stages / self.cuts) / self.stages if self.whole < self.count else 0.0
            return ideal / (ceil(self.whole / self.places) + rest)
        cuts = 1 if self.way.cut == "none" else self.cuts
        together = {"cluster": cuts, "halves": 2, "pairs": 2}.get(self.way.cut, 1)
        at_once = self.places // together * together
        return ideal / (ceil(self.count * cuts / at_once) * ceil(self.stages / cuts) / self.stages)


def plan(name: str, shape: tuple[int, ...], sm_count: int) -> Plan:
    """How a step deals the tiles of (m, n, k); of what has tiles."""
    m, n, k = shape
    way = PAIRS if WAYS[name].cut == "halves" and m > HALF else WAYS[name]
    if way.few:
        m, n = (
            side - side % tile * (side > tile and side % tile <= FEW) for side, tile in ((m, TALL), (n, WIDE))
        )
    return Plan(way, m, n, k, MULTIPROCESSORS if way.cut == "cluster" else sm_count)


def _entry(name: str) -> Callable[[Problem], str]:
    def entry(problem: Problem) -> str:
        way = plan(name, problem.shape, MULTIPROCESSORS).way
        ring = f"{NAMESPACE}::{plan(name, problem.shape, MULTIPROCESSORS).ring[0]}"
        if plan(name, problem.shape, MULTIPROCESSORS).low:
            return f"{NAMESPACE}::split_few"
        by_ring = {"parts": "split", "halves": "halves", "pairs": "split_pairs"}
        if way.cut in by_ring:
            return f"{NAMESPACE}::{by_ring[way.cut]}<{ring}>"
        if way.cut == "cluster":
            return f"{NAMESPACE}::cluster_split<{ring}, {plan(name, problem.shape, MULTIPROCESSORS).cuts}>"
        engine = "true" if problem.shape[1] % 8 == 0 else "false"
        if way.cut == "joint":
            return f"{NAMESPACE}::joint<{ring}, {engine}>"
        return f"{NAMESPACE}::{way.few or 'stream_k'}<{ring}, {way.blocks}, {engine}>"

    return entry


def _launch(name: str) -> Callable[[Problem, Gpu], Launch]:
    def launch(problem: Problem, gpu: Gpu) -> Launch:
        found = plan(name, problem.shape, gpu.sm_count)
        blocks = {"cluster": found.cuts, "halves": 2, "pairs": 2}.get(found.way.cut, found.way.blocks)
        threads = HALVES_THREADS if found.way.cut == "halves" else WORK_THREADS
        return Launch(
            found.clusters * blocks, FEW_ROWS_THREADS if found.low else threads, found.ring[1], blocks
        )

    return launch


def _step(name: str, reason: str, helped: bool = True) -> Step:
    return Step(
        name,
        reason,
        _entry(name),
        _launch(name),
        min_cc=90,
        predicted=PREDICTED["odd"].get(name),
        helped=helped,
        unfit=lambda problem: f"takes tensor maps; {PROGRAM} makes them, checks and times this step",
    )


STREAM_K = Kernel(
    "stream_k",
    "stream_k",
    "Multiply two matrices of bf16 of any size, thin and odd ones, too",
    HEADER,
    (
        _step(
            "whole",
            "Tile after tile, each by one block: with few tiles most multiprocessors have none, and with one "
            "more than there are multiprocessors all wait for it.",
        ),
        _step(
            "split",
            "The stages of each tile in as many parts as fill the GPU. Their sums go to memory in fp32, and "
            "a second kernel adds them up: 4 bytes an element and part, written and read.",
        ),
        _step(
            "cluster",
            "The parts of a tile are the blocks of a cluster. They leave their sums in shared memory and "
            "read each other's there: none goes to memory, and no second kernel is needed.",
        ),
        _step(
            "stream_k",
            "The stages of all tiles in one line, cut into as many equal parts as there are blocks. Only "
            "where a cut falls into a tile are sums handed over, at most one tile a block.",
        ),
        _step(
            "hybrid",
            "Tiles that fill the GPU evenly stay whole, and only the rest is cut: blocks at work together "
            "are at the same depth of neighboring tiles again, so that L2 serves them.",
        ),
        _step(
            "pair",
            "Whole tiles, and two blocks of a cluster fetch half of B each for both. It is the copy engine "
            "that is relieved: rows that do not start on 128 bytes cost it two lines each.",
        ),
        _step(
            "both",
            "Pairs of blocks, and what does not fill the GPU evenly is cut.",
        ),
        _step(
            "joint",
            "The tiles behind the last full wave are cut into as many parts as there are blocks for, and all "
            "blocks that have a part of a tile add up some of it: no block adds alone, and no second kernel "
            "is needed.",
        ),
        _step(
            "early",
            "Split-K with tiles of 128 columns: half as many parts, so half the sums, and a ring of six "
            "stages. The second kernel's blocks start as the first's end.",
        ),
        _step(
            "aside",
            "Pairs of whole tiles; up to eight rows or columns more get no tile. Three warps of each block, "
            "which had nothing to do, multiply them meanwhile, by mma.sync and without shared memory.",
        ),
        _step(
            "along",
            "Some of the tiles multiply those rows and columns, too, out of their own stages: one more small "
            "wgmma each. They are dealt to blocks that have a tile less than the others.",
        ),
        _step(
            "low",
            "`early`, and at most 16 rows of A come in boxes of 16: rows outside cost the copy engine as "
            "much as those that are there. The ring has twelve stages instead of six.",
        ),
        _step(
            "halves",
            "Tiles of 64 columns. Two neighbors have half of a tile's stages each and swap half of their "
            "sums in shared memory: no second kernel, and a cluster of two has a place anywhere. More than "
            "64 rows: tiles are those of `early`, and the swap leaves half as much for its second kernel.",
        ),
    ),
    inputs=lambda problem: (
        Array((problem.shape[0], problem.shape[2])),
        Array((problem.shape[2], problem.shape[1])),
    ),
    output=lambda problem: Array(problem.shape[:2]),
    scalars=lambda problem: tuple(np.int32(side) for side in problem.shape),
    reference=lambda a, b: a @ b,
    flops=lambda problem: 2 * problem.elements,
    tolerance={"bfloat16": 4e-3},
    timed=tuple(Problem(shape, "bfloat16") for shape in SHAPES.values()),
    checked=tuple(
        Problem(shape, "bfloat16")
        for shape in ((1, 1, 1), (1, 8, 8), (33, 65, 17), (257, 264, 72), (300, 504, 712), (16, 640, 4096))
    ),
    ceiling="cuBLAS",
    values=("normal",),
)

KERNELS = (STREAM_K,)
