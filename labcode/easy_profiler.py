"""Measuring from inside a program: a block of code in; what the GPUs drew meanwhile out.

from labcode.easy_profiler import GPUMonitor

with GPUMonitor() as monitor:
    train()
print(monitor.get_summary())
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from labcode.errors import LabError
from labcode.meter import Meter, open_gpus
from labcode.meter.meter import Metered
from labcode.reports.power.schema import COMMAND

if TYPE_CHECKING:
    import pandas as pd

    from labcode.reports.power.log import PowerLog

__all__ = ["GPUMonitor"]


class GPUMonitor:
    """A power meter around a block: energy with error bars, power, clocks, temperature of the GPUs.

    Those that CUDA shows this process are metered, by a thread that samples every ``period_s`` seconds.
    Work of PyTorch is waited for at both ends of the block and of `window`. Entering raises `LabError` where
    NVML, a GPU or its energy counter is missing.
    """

    def __init__(self, period_s: float = 0.1, *, gpus: Sequence[Metered] | None = None) -> None:
        self._period_s = period_s
        self._gpus = gpus
        self._meter: Meter | None = None

    def __enter__(self) -> Self:
        self._meter = Meter(open_gpus() if self._gpus is None else self._gpus, period_s=self._period_s)
        _synchronize()
        self._meter.start()
        self._meter.begin(COMMAND)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        meter = self._entered()
        try:
            if kind is None:
                _synchronize()
        finally:
            meter.end(COMMAND)
            meter.stop()

    @contextmanager
    def window(self, name: str) -> Iterator[None]:
        """Measure a part of the block by itself, under a name; parts may repeat and overlap."""
        meter = self._entered()
        _synchronize()
        with meter.window(name):
            yield
            _synchronize()

    @property
    def log(self) -> PowerLog:
        """What was measured so far, as a power log is opened."""
        from labcode.reports.power.log import log_of

        return log_of(self._entered().document(command="this program"), Path("GPUMonitor"))

    def windows(self) -> pd.DataFrame:
        """The energy of the block (named command) and of each `window`, a row for each and GPU.

        Columns: `labcode.analysis.energy.window.COLUMNS`.
        """
        from labcode.analysis.energy.window import windows

        return windows(self.log)

    def get_summary(self) -> str:
        """The energy of the block in lines for people."""
        from labcode.analysis.energy.summary import as_text

        return as_text(self.log)

    def write(self, path: str | Path) -> Path:
        """Write the power log (``.power.json``, ``.power.json.xz``)."""
        return self._entered().write(Path(path), command="this program")

    def _entered(self) -> Meter:
        if self._meter is None:
            raise LabError("GPUMonitor: nothing was measured yet; put the work inside `with GPUMonitor()`")
        return self._meter


def _synchronize() -> None:
    """Wait for what PyTorch has put on the GPU, where this process uses it."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        for device in range(torch.cuda.device_count()):
            torch.cuda.synchronize(device)
