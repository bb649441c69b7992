"""Row kernels: a ladder's instances of templates and the length of rows in; the one that serves them out.

What softmax and RMSNorm have in common: problems of shape (rows, columns), kernels on top of
``cuda/common/rows.cuh``. The programs of ``cuda/softmax`` and ``cuda/rmsnorm`` choose alike: ``--plan 1``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from labcode.kernels.catalogue import Gpu, Launch, Problem, Step

WARP = 32
VECTOR_BYTES = 16
WARP_ROWS_UP_TO_BYTES = 1024  # where «chosen» goes on to the next step
MOST_SHARED_BYTES = 226 << 10  # of compute capability 9.0, less a kilobyte for a kernel's own variables
_RESERVED_BYTES = 1 << 10  # what the system takes of a block's shared memory, from compute capability 8.0 on
_OWN_BYTES = _RESERVED_BYTES + 512  # with the kernels' own variables


@dataclass(frozen=True)
class Instance:
    """An instance of a template: ``each`` elements a thread, ``threads`` a block, ``parts`` blocks a row.

    ``stages``, ``blocks`` (an SM) and ``rows`` (a cluster's share, where there are enough for all) are
    those of kernels that stay and take row after row. ``at_most``: blocks an SM may hold of rows of fp32,
    less than it could (twice as many of 2-byte types); the launch then asks for shared memory that the
    kernel leaves alone. ``item_bytes``: the only size of elements it is for; 0: any.
    """

    step: str
    each: int
    threads: int
    parts: int = 1
    stages: int = 0
    blocks: int = 0
    rows: int = 0
    at_most: int = 0
    item_bytes: int = 0

    @property
    def columns(self) -> int:
        """The longest row it holds."""
        return self.each * self.parts * (WARP if self.step == "warp_rows" else self.threads)

    def entry(self, namespace: str) -> str:
        """The C++ name expression, with ``{T}`` for the element type."""
        sizes = [self.each, self.threads]
        if self.step in ("cluster", "bulk"):
            sizes.append(self.parts)
        if self.step == "bulk":
            sizes += [self.stages, self.blocks]
        return f"{namespace}::{self.step}<{{T}}, {', '.join(str(size) for size in sizes)}>"

    def launch(self, problem: Problem, gpu: Gpu) -> Launch:
        """Grid, block, shared memory, cluster."""
        rows, columns = problem.shape
        if self.step != "bulk":
            in_block = self.threads // WARP if self.step == "warp_rows" else 1
            at_most = self.at_most * 4 // problem.item_bytes
            unused = (gpu.shared_bytes + _RESERVED_BYTES) // at_most - _OWN_BYTES if at_most else 0
            return Launch(-(-rows // in_block) * self.parts, self.threads, unused, self.parts)
        vector = VECTOR_BYTES // problem.item_bytes
        slice_bytes = -(-columns // (self.parts * vector)) * VECTOR_BYTES
        clusters = max(-(-rows // self.rows), gpu.sm_count * self.blocks // self.parts)
        return Launch(min(rows, clusters) * self.parts, self.threads, self.stages * slice_bytes, self.parts)


def can_be_fetched(problem: Problem) -> bool:
    """Whether every row starts on 16 bytes when the matrix does: the copy engine fetches no others."""
    return problem.shape[1] * problem.item_bytes % VECTOR_BYTES == 0


def first_that_holds(instances: Sequence[Instance], problem: Problem) -> Instance | None:
    """The first of a list, shortest first, that holds a problem's rows; None when all are too small."""
    return next((one for one in meant(instances, problem) if problem.shape[1] <= one.columns), None)


def meant(instances: Sequence[Instance], problem: Problem) -> list[Instance]:
    """Those of a list that are for elements of the problem's size."""
    return [one for one in instances if one.item_bytes in (0, problem.item_bytes)]


def why_not(instances: Sequence[Instance], problem: Problem) -> str | None:
    """Why none of a list serves a problem; None when one does."""
    most = max(one.columns for one in meant(instances, problem))
    if problem.shape[1] > most:
        return f"holds rows of up to {most:,} elements"
    return None


def looping_launch(problem: Problem, gpu: Gpu) -> Launch:
    """A block a row, its threads going through about 16 elements each."""
    rows, columns = problem.shape
    return Launch(rows, min(max(-(-(columns // 16) // WARP) * WARP, WARP), 1024))


def keeping_launch(problem: Problem, gpu: Gpu) -> Launch:
    """The same with the row in dynamic shared memory, 4 bytes an element."""
    found = looping_launch(problem, gpu)
    return Launch(found.grid, found.block, 4 * problem.shape[1])


def too_long_to_keep(problem: Problem) -> str | None:
    """Why a row does not fit into a block's shared memory; None when it does."""
    if 4 * problem.shape[1] > MOST_SHARED_BYTES:
        return f"holds rows of up to {MOST_SHARED_BYTES // 4:,} elements"
    return None


@dataclass(frozen=True)
class Ladder:
    """The instances of a kernel's templates, shortest first, and where «chosen» goes from one to the next.

    ``otherwise``: the kernel that loops over rows of any length. ``vectorized_up_to`` (elements of a row):
    where the copy engine cannot fetch rows; ``fetched_above``, by the bytes of an element: where it can.
    """

    namespace: str
    otherwise: str
    warp_rows: tuple[Instance, ...]
    vectorized: tuple[Instance, ...]
    cluster: tuple[Instance, ...]
    bulk: tuple[Instance, ...]
    vectorized_up_to: int
    fetched_above: Mapping[int, int]

    def chosen(self, problem: Problem, *, clusters: bool) -> Instance | None:
        """The fastest instance for rows of this length; None: they are longer than any of them holds."""
        columns = problem.shape[1]
        if columns * problem.item_bytes <= WARP_ROWS_UP_TO_BYTES:
            return first_that_holds(self.warp_rows, problem)
        limit = self.fetched_above[problem.item_bytes] if can_be_fetched(problem) else self.vectorized_up_to
        if columns <= limit or not clusters:
            return first_that_holds(self.vectorized, problem)
        return first_that_holds((*self.bulk, *self.cluster), problem)

    def step(
        self, name: str, reason: str, *, predicted: float, min_cc: int = 75, helped: bool = True
    ) -> Step:
        """A rung of the ladder: of the instances of its name the first that holds a row."""
        instances: tuple[Instance, ...] = getattr(self, name.replace(" ", "_"))

        def held(problem: Problem) -> Instance:
            return first_that_holds(instances, problem) or meant(instances, problem)[-1]

        return Step(
            name,
            reason,
            lambda problem: held(problem).entry(self.namespace),
            lambda problem, gpu: held(problem).launch(problem, gpu),
            min_cc=min_cc,
            predicted=predicted,
            helped=helped,
            unfit=lambda problem: why_not(instances, problem),
        )

    def chosen_step(self, name: str, reason: str, *, predicted: float, min_cc: int = 75) -> Step:
        """The step that takes what is `chosen` for the rows, with clusters from compute capability 9.0 on."""

        def found(problem: Problem) -> Instance | None:
            return self.chosen(problem, clusters=min_cc >= 90)

        def entry(problem: Problem) -> str:
            one = found(problem)
            return one.entry(self.namespace) if one else f"{self.namespace}::{self.otherwise}<{{T}}>"

        def launch(problem: Problem, gpu: Gpu) -> Launch:
            one = found(problem)
            return one.launch(problem, gpu) if one else looping_launch(problem, gpu)

        return Step(name, reason, entry, launch, min_cc=min_cc, predicted=predicted)


ELEMENTS = 1 << 29  # of the timed matrices: 2 GiB of fp32 in, 2 GiB out
LENGTHS = (1024, 4096, 8192, 16384, 65536, 131072)
TIMED = tuple(Problem((ELEMENTS // length, length)) for length in LENGTHS)
TIMED_HALF = tuple(Problem((2 * ELEMENTS // length, length), "bfloat16") for length in LENGTHS)
_CHECKED = (
    *((1, columns) for columns in (1, 33, 1000, 16385, 65536, 131072, 262144, 300001)),
    *((rows, 1) for rows in (7, 1000)),
    *((5, columns) for columns in (2, 3, 31, 32, 127, 256, 257, 1023, 1024, 1025, 4095, 4096, 8191, 8193)),
    *((1700, 1024), (1100, 8192)),  # more rows than blocks that stay: their buffers are filled again
    *((300, columns) for columns in (16383, 16384, 32768, 50257, 65536, 100002, 131072, 131076)),
)
CHECKED = tuple(Problem(shape, dtype) for shape in _CHECKED for dtype in ("float32", "bfloat16"))
