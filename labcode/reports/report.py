"""What opened files can be asked: one Protocol for each question, which the kinds of reports implement.

An analysis names the Protocol it needs and works on every kind that has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import pandas as pd

if TYPE_CHECKING:
    from labcode.reports.columns import Ints
    from labcode.reports.common import Kind
    from labcode.reports.ncu.launch import Launch


class TimelineReport(Protocol):
    """What happened when: GPU operations, calls and ranges on one clock, in ns.

    `labcode.reports.nsys.report.NsysReport` documents the columns; a
    `labcode.reports.kineto.report.KinetoReport` has the same.
    """

    @property
    def format(self) -> Kind:
        """The kind of its file."""

    @property
    def path(self) -> Path:
        """What was opened."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is odd about it, a line each."""

    def window(self) -> tuple[int, int]:
        """The part to analyze, as (start, end) in ns."""

    def is_marked(self) -> bool:
        """Whether a range may say which part that is; quicker to tell than `window`."""

    def utc_origin_ns(self) -> int | None:
        """The Unix time in ns at which its clock is 0; None where it is unknown."""

    def kernels(self) -> pd.DataFrame:
        """Kernel executions."""

    def memcpys(self) -> pd.DataFrame:
        """Copies."""

    def memsets(self) -> pd.DataFrame:
        """Memsets."""

    def graph_launches(self) -> pd.DataFrame:
        """Whole CUDA graphs."""

    def gpu_ops(self) -> pd.DataFrame:
        """Kernels, copies, memsets and graphs together."""

    def synchronizations(self) -> pd.DataFrame:
        """Waits for the GPU."""

    def api(self) -> pd.DataFrame:
        """Calls of CUDA."""

    def nvtx(self) -> pd.DataFrame:
        """Ranges that the program names."""

    def gpus(self) -> pd.DataFrame:
        """The GPUs that were seen."""

    def gpu_names(self) -> dict[int, str]:
        """The names of GPUs by their numbers; quicker than `gpus`."""

    def threads(self) -> pd.DataFrame:
        """The threads that have a name."""

    def profiler_overhead(self) -> pd.DataFrame:
        """Where the profiler itself took time."""

    def close(self) -> None:
        """Close the file."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


@runtime_checkable
class CountedReport(Protocol):
    """A timeline with the GPU's own counters, sampled."""

    def has_counters(self) -> bool:
        """Whether any were sampled."""

    def counters(self) -> list[Any]:
        """The counters, each of one GPU."""


@runtime_checkable
class GridsReport(Protocol):
    """A timeline with a quick way to the sizes of its kernels' grids, without their whole table."""

    def grids(self) -> tuple[Ints, Ints, Ints]:
        """Of each kernel its start (ns), its blocks, and its threads per block."""


@runtime_checkable
class SystemReport(Protocol):
    """A timeline with calls of the operating system's libraries."""

    def osrt(self) -> pd.DataFrame:
        """The calls."""

    def osrt_begin(self) -> int | None:
        """The start of the first one in ns; None without any."""


@runtime_checkable
class SampledReport(Protocol):
    """A timeline with stacks of Python: sampled, and of calls."""

    def python_samples(self) -> pd.DataFrame:
        """When samples were taken."""

    def python_frames(self) -> pd.DataFrame:
        """Their frames."""

    def python_backtraces(self) -> pd.DataFrame:
        """When stacks of calls were taken."""

    def python_backtrace_frames(self) -> pd.DataFrame:
        """Their frames."""


@runtime_checkable
class FunctionsReport(Protocol):
    """A timeline with each function of Python, each operator and each annotation."""

    def python_functions(self) -> pd.DataFrame:
        """The functions."""

    def annotations(self) -> pd.DataFrame:
        """Ranges that the program or PyTorch names."""

    def ops(self) -> pd.DataFrame:
        """The operators."""


@runtime_checkable
class AllocatorReport(Protocol):
    """A timeline with what PyTorch's allocators gave out and took back."""

    def memory(self) -> pd.DataFrame:
        """Each time, with what was in use afterwards."""


class LaunchesReport(Protocol):
    """Single kernel launches with their counters; `labcode.reports.ncu.report.NcuReport` has it."""

    @property
    def path(self) -> Path:
        """What was opened."""

    @property
    def list(self) -> Sequence[Launch]:
        """The launches, in order."""

    def select(self, kernel: str | None = None, launch: int | None = None) -> Self:
        """The same report with only the launches that are named."""

    def launches(self) -> pd.DataFrame:
        """What was launched, a row for each."""


class MemoryReport(Protocol):
    """What an allocator did; `labcode.reports.memory.history.MemoryHistory` documents the columns."""

    @property
    def path(self) -> Path:
        """What was opened."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is odd about it, a line each."""

    @property
    def events(self) -> pd.DataFrame:
        """What was allocated and freed, in order."""

    @property
    def live_before(self) -> pd.DataFrame:
        """What was in use before the first event."""

    @property
    def stacks(self) -> tuple[tuple[str, ...], ...]:
        """The stacks of both, as texts."""


class PowerReport(Protocol):
    """What GPUs drew when; `labcode.reports.power.log.PowerLog` documents the columns."""

    @property
    def path(self) -> Path:
        """What was opened."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is odd about it, a line each."""

    @property
    def devices(self) -> pd.DataFrame:
        """The GPUs that were metered."""

    @property
    def samples(self) -> pd.DataFrame:
        """What was read of them."""

    @property
    def windows(self) -> pd.DataFrame:
        """The stretches of time that have a name."""

    @property
    def clock(self) -> pd.DataFrame:
        """Pairs of its clock and Unix time."""

    def of(self, device: int) -> pd.DataFrame:
        """The samples of one GPU."""

    def window(self) -> tuple[int, int]:
        """When the command ran."""
