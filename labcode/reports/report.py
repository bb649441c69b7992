"""What opened files can be asked: one Protocol for each question, which the kinds of reports implement.

An analysis names the Protocol it needs and works on every kind that has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self

import pandas as pd

if TYPE_CHECKING:
    from labcode.reports.ncu.launch import Launch


class TimelineReport(Protocol):
    """What happened when: GPU operations, calls and ranges on one clock, in ns.

    `labcode.reports.nsys.report.NsysReport` documents the columns; a
    `labcode.reports.kineto.report.KinetoReport` has the same.
    """

    @property
    def path(self) -> Path:
        """What was opened."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is odd about it, a line each."""

    def window(self) -> tuple[int, int]:
        """The measured part."""

    def utc_origin_ns(self) -> int | None:
        """The Unix time at 0 of its clock; None where nothing says so."""

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

    def threads(self) -> pd.DataFrame:
        """The threads that have a name."""

    def profiler_overhead(self) -> pd.DataFrame:
        """Where the profiler itself took time."""

    def close(self) -> None:
        """Let go of the file."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


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
