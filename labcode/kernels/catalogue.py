"""The catalogue: what the kernels of ``cuda/`` compute, cost and are held against, one record a kernel.

A kernel has *steps*, the rungs of its ladder: C++ functions that all compute the same. A topic's module in
``labcode.kernels.topics`` holds its kernels as ``KERNELS``; `labcode.kernels.topics.kernels` collects them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from labcode.errors import LabError
from labcode.store import repository_root

Shape = tuple[int, ...]
Call = Callable[[], object]
Library = Callable[[Any, Any, Sequence[Any], Any], Call]  # of torch, CuPy, the inputs, the output

ITEM_BYTES: Mapping[str, int] = {"float32": 4, "float16": 2, "bfloat16": 2, "float64": 8, "int32": 4}
C_TYPES: Mapping[str, str] = {
    "float32": "float",
    "float16": "__half",
    "bfloat16": "__nv_bfloat16",
    "float64": "double",
    "int32": "int",
}
WORD_TYPES: Mapping[int, str] = {2: "unsigned short", 4: "unsigned", 8: "unsigned long long"}
_DECLARATION = re.compile(r"^constexpr int ([^;]*);", re.MULTILINE)
_NUMBER = re.compile(r"\s*(k\w+) = (\d+)\s*")


@cache
def numbers(header: str) -> Mapping[str, int]:
    """The numbers that a header of ``cuda/`` declares outside of functions: ``constexpr int kTile = 32``."""
    path = repository_root() / "cuda" / header
    if not path.is_file():
        raise LabError(f"{path}: there is no such header; is this a whole checkout of the lab?")
    declared = _DECLARATION.findall(path.read_text(encoding="utf-8"))
    found = (_NUMBER.fullmatch(part) for line in declared for part in line.split(","))
    return {match[1]: int(match[2]) for match in found if match}


def array_module(x: Any) -> Any:
    """NumPy or CuPy, whichever an array is of."""
    if isinstance(x, np.ndarray):
        return np
    import cupy

    return cupy.get_array_module(x)


def norm(x: Any) -> float:
    """‖x‖: the size of a sum of random signs, whatever the signs happen to be."""
    total: float = float((x * x).sum())
    return math.sqrt(total)


@dataclass(frozen=True)
class Problem:
    """What is to be computed: the size of the work and the type of its elements."""

    shape: Shape
    dtype: str = "float32"

    @property
    def elements(self) -> int:
        """The product of the sizes."""
        return math.prod(self.shape)

    @property
    def item_bytes(self) -> int:
        """Bytes of one element."""
        return ITEM_BYTES[self.dtype]

    def __str__(self) -> str:
        return "×".join(str(n) for n in self.shape) + f" {self.dtype}"


@dataclass(frozen=True)
class Gpu:
    """What a launch may depend on. ``shared_bytes``: the most a block may have (the opt-in limit)."""

    name: str
    compute_capability: int  # 90 for 9.0
    sm_count: int
    l2_bytes: int
    shared_bytes: int
    threads_per_sm: int


@dataclass(frozen=True)
class Launch:
    """How a kernel is started. ``cluster``: blocks a cluster, for kernels with ``__cluster_dims__``."""

    grid: int | tuple[int, ...]
    block: int | tuple[int, ...]
    shared_bytes: int = 0
    cluster: int = 1


@dataclass(frozen=True)
class Array:
    """An argument: its shape; its type (empty: the problem's); what fills it for checks and timing.

    ``fill`` takes (shape, seed) and returns a NumPy array of float32 or int32; without it the values are
    random normal.
    """

    shape: Shape
    dtype: str = ""
    fill: Callable[[Shape, int], np.ndarray[Any, Any]] | None = None


@dataclass(frozen=True)
class Step:
    """One rung of a ladder.

    ``entry`` is the C++ name expression: ``lab::transpose::naive<{W}>``. In it, ``{T}`` stands for the
    element type and ``{W}`` for the unsigned integer of its size, for kernels that only move values. A step
    that chooses a variant by the size of the problem gives a function.
    ``scratch_bytes``: device memory the kernel also takes, after its output; zero before the first launch,
    and the kernel must leave it so. ``clears_output``: the output is set to zero before each launch, on the
    clock. ``helped``: False for a step that is kept because it did not help, ``reason`` then says why.
    ``unfit`` returns why a problem is beyond this step (None: it is not); it is then left out.
    """

    name: str
    reason: str
    entry: str | Callable[[Problem], str]
    launch: Callable[[Problem, Gpu], Launch]
    min_cc: int = 75
    predicted: float | None = None  # throughput ÷ the ceiling's, reckoned before it was measured
    helped: bool = True
    clears_output: bool = False
    tolerance: float | None = None  # instead of the kernel's, for a step that rounds more
    scratch_bytes: Callable[[Problem, Gpu], int] | None = None
    scalars: Callable[[Problem], tuple[np.generic, ...]] | None = None  # instead of the kernel's
    unfit: Callable[[Problem], str | None] | None = None

    @property
    def variant(self) -> str:
        """What the CUDA programs call it: «mma.sync» is their ``mma_sync``."""
        return re.sub(r", | and |[. ]", "_", self.name).lower()


@dataclass(frozen=True)
class Mark:
    """What the last step is held to: ``against`` "copy" (throughput, bytes a second) or a library (time).

    ``problems``: those it is asked for, as ``str(problem)``; without any, all that are timed.
    """

    against: str
    at_least: float
    stretch: float | None = None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Kernel:
    """A kernel: the C++ function is called as ``(inputs…, output, [scratch,] scalars…)``.

    ``header`` lies in ``cuda/``. ``reference`` takes the inputs as float64 arrays (of NumPy or CuPy; integer
    inputs stay as they are) and returns the output so. ``bytes_moved`` and ``flops`` are the least that the
    problem costs: by default each input read once, the output written once. ``tolerance``, by element type:
    ‖out − reference‖ / ‖reference‖; 0 for a kernel that only moves values. ``scale`` returns what to divide
    by instead of ‖reference‖ (a sum of random signs is small by chance). ``libraries``: calls that compute
    the same, by name. ``timed``: problems the bench runs; ``checked``: those it checks, with
    each of ``values`` (see `labcode.kernels.checking`).
    """

    name: str
    topic: str
    title: str
    header: str
    steps: tuple[Step, ...]
    inputs: Callable[[Problem], tuple[Array, ...]]
    output: Callable[[Problem], Array]
    scalars: Callable[[Problem], tuple[np.generic, ...]]
    reference: Callable[..., Any]
    flops: Callable[[Problem], int]
    tolerance: Mapping[str, float]
    timed: tuple[Problem, ...]
    checked: tuple[Problem, ...]
    bytes_moved: Callable[[Problem], int] = field(default=None)  # type: ignore[assignment]
    ceiling: str = "copy"
    libraries: Mapping[str, Library] = field(default_factory=dict)
    marks: tuple[Mark, ...] = ()
    values: tuple[str, ...] = ("normal", "large")
    scale: Callable[..., float] | None = None

    def __post_init__(self) -> None:
        if self.bytes_moved is None:
            object.__setattr__(self, "bytes_moved", self._of_all_arrays)

    def _of_all_arrays(self, problem: Problem) -> int:
        return sum(
            math.prod(array.shape) * ITEM_BYTES[array.dtype or problem.dtype]
            for array in (*self.inputs(problem), self.output(problem))
        )

    def step(self, name: str) -> Step:
        """The step of this name; `LabError` lists them when there is none."""
        for step in self.steps:
            if step.name == name:
                return step
        raise LabError(
            f"{self.name}: no step {name}; its steps are {', '.join(step.name for step in self.steps)}"
        )


def entry(step: Step, problem: Problem) -> str:
    """The C++ name expression of a step for a problem's element type."""
    word = WORD_TYPES[problem.item_bytes]
    text = step.entry if isinstance(step.entry, str) else step.entry(problem)
    return text.replace("{T}", C_TYPES[problem.dtype]).replace("{W}", word)
