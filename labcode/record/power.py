"""The power meter around a command: its words in; a power log with its exit code out."""

from __future__ import annotations

import importlib.util
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from labcode.record.attend import attend, neutral, start

if TYPE_CHECKING:
    from labcode.meter.meter import Meter, Metered
    from labcode.reports.power.schema import Document

SUFFIX = ".power.json"
HOW_TO_GET = "--tool energy: the power meter needs NVML's Python package: pip install nvidia-ml-py"


@contextmanager
def metered(
    meter: Meter, *, idle_s: float = 0.0, meanwhile: Callable[[], None] | None = None
) -> Iterator[None]:
    """Meter what runs inside, as the window command; before it the idle GPUs for ``idle_s``, as the window
    idle, in which ``meanwhile`` is done."""
    from labcode.reports.power.schema import COMMAND, IDLE

    with meter:
        if idle_s > 0:
            with meter.window(IDLE):
                began = time.monotonic()
                if meanwhile:
                    meanwhile()
                time.sleep(max(began + idle_s - time.monotonic(), 0))
        with meter.window(COMMAND):
            yield


def run(
    words: Sequence[str],
    *,
    period_s: float,
    idle_s: float,
    meanwhile: Callable[[], None] | None = None,
    gpus: Sequence[Metered] | None = None,
    live: TextIO | None = None,
    stdout: int | None = None,
) -> Document:
    """Run a command and meter all GPUs that it can see; the log has the windows ``idle`` and ``command``.

    Signals that end programs are passed on to the command, and the log is returned all the same; its
    ``exit_code`` is then 128 plus the number of the signal. ``meanwhile`` is called within the window
    ``idle``, which lasts at least ``idle_s`` seconds. ``live`` is a terminal on which to show power while the
    command runs, ``stdout`` a file descriptor for its output. Raises `ToolError` where the command cannot be
    started, and whatever `open_gpus` raises.
    """
    from labcode.meter import Meter, open_gpus

    meter = Meter(open_gpus() if gpus is None else gpus, period_s=period_s)

    def show(seconds: float) -> None:
        if live is not None:
            live.write(f"\r{status(meter, seconds)}\x1b[K")
            live.flush()

    with metered(meter, idle_s=idle_s, meanwhile=meanwhile):
        try:
            code = attend(lambda: start(words, stdout=stdout), look=show if live else None).code
        finally:
            if live is not None:
                live.write("\r\x1b[K")
                live.flush()
    return meter.document(command=neutral(words), exit_code=code)


def status(meter: Meter, seconds: float) -> str:
    """What the meter reads now, as one line."""
    parts = [f"{seconds:.1f} s"]
    for gpu, columns in zip(meter.gpus, meter.columns, strict=True):
        power = columns.last("instant_mw") or columns.last("average_mw") or 0
        clock, heat = columns.last("sm_mhz"), columns.last("temperature_c")
        parts.append(
            f"GPU {gpu.number} {power / 1000:.0f} W"
            + (f" {clock} MHz" if clock is not None else "")
            + (f" {heat} °C" if heat is not None else "")
        )
    return "  ".join(parts)[: max(20, shutil.get_terminal_size().columns - 1)]


def missing() -> str:
    """How to get what the meter reads; '' where it is here."""
    there = importlib.util.find_spec("pynvml") is not None
    return "" if there else HOW_TO_GET
