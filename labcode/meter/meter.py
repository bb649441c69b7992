"""Sampling in the background: GPUs and a period in; a power log out.

A thread of this process takes the samples. NVML is called without holding Python's lock, so a sample costs
the program about a tenth of a millisecond of that lock; `labcode energy` meters from a process of its own.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from labcode import __version__
from labcode.errors import LabError
from labcode.meter.columns import MOST, Columns
from labcode.meter.gpus import Gpu, GpuLostError, Reading, driver_version
from labcode.outputs import whole
from labcode.reports.power.schema import (
    CLOCK_MARK,
    COLUMNS,
    Clock,
    Device,
    Document,
    Window,
    write_document,
)

SHORTEST_S, LONGEST_S = 0.001, 60.0
AFTER_S = 0.3  # sampled after the last window, for the counter to pass its end
_FAILURES = 20  # in a row: the GPU counts as lost
_STEP_NS = 50_000_000  # UTC was set, and not only drifts
_PAIR_NS = 60_000_000_000
MOST_WINDOWS = 100_000


def clock_mark() -> str:
    """The text for an NVTX mark (or ``record_function``) that tells the current time on the meter's clock.

    With one mark at the start and one at the end of what nsys or torch.profiler records, a power log of the
    same run can be aligned with the capture.
    """
    return f"{CLOCK_MARK} {time.monotonic_ns()}"


class Metered(Protocol):
    """What a meter needs from a GPU; `labcode.meter.gpus.Gpu` has it."""

    number: int
    nvml_index: int | None
    name: str
    digest: str
    power_limit_w: float | None

    def read(self) -> Reading:
        """One sample."""


class Meter:
    """Samples GPUs every ``period_s`` seconds between `start` and `stop`, or inside ``with``.

    ``clock`` and ``utc`` return nanoseconds. Windows (`window`, `begin` and `end`) may overlap and repeat a
    name; an extra sample is taken at both of their edges. All methods are thread-safe.
    """

    def __init__(
        self,
        gpus: Sequence[Metered],
        *,
        period_s: float = 0.1,
        most: int = MOST,
        clock: Callable[[], int] = time.monotonic_ns,
        utc: Callable[[], int] = time.time_ns,
    ) -> None:
        if not SHORTEST_S <= period_s <= LONGEST_S:
            raise LabError(
                f"a period of {period_s:g} s: sample every {SHORTEST_S:g} s to {LONGEST_S:g} s; sensors of "
                "GPUs are updated every 20 to 100 ms"
            )
        self.gpus = list(gpus)
        self.period_s = period_s
        self.columns = [Columns(most) for _ in self.gpus]
        self.problems: list[str] = []
        self.windows: list[Window] = []
        self._clock, self._utc = clock, utc
        self._open: list[tuple[str, int]] = []
        self._lost = [""] * len(self.gpus)
        self._failures = [0] * len(self.gpus)
        self._latest = 0
        self._stepped_back = 0
        self._forgotten = 0
        self._pairs: list[tuple[int, int]] = []
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    # ---- the thread

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start sampling; the first sample is taken before this returns."""
        if self._thread is not None:
            raise LabError("this meter was started already; make another one")
        self.sample()
        self._thread = threading.Thread(target=self._run, name="labcode-meter", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop sampling, once the energy counter has passed the end of the last window."""
        if self._thread is None or self._ending.is_set():
            return
        if self.windows or self._open:
            last = max((window.end_ns for window in self.windows), default=0)
            wait = 1.0 if self._open else (last + AFTER_S * 1e9 - self._clock()) / 1e9
            time.sleep(min(max(wait, 0.0), AFTER_S))
        self._ending.set()
        self._thread.join()
        self.sample()
        with self._lock:
            self._pair(force=True)

    def _run(self) -> None:
        began = time.monotonic()
        turn = 0
        while not self._ending.is_set() and not all(self._lost):
            turn = max(turn + 1, int((time.monotonic() - began) / self.period_s) + 1)  # late: skip, not hurry
            if self._ending.wait(max(0.0, began + turn * self.period_s - time.monotonic())):
                return
            self.sample()

    def sample(self) -> None:
        """Take a sample of every GPU now."""
        with self._lock:
            self._sample()

    def _sample(self) -> None:
        self._pair()
        for place, gpu in enumerate(self.gpus):
            if self._lost[place]:
                continue
            before = self._clock()
            try:
                reading = gpu.read()
            except GpuLostError as error:
                self._lose(place, str(error))
                continue
            after = self._clock()
            if all(value is None for value in reading):
                self._failures[place] += 1
                if self._failures[place] >= _FAILURES:
                    self._lose(place, f"{_FAILURES} readings in a row failed")
                continue
            self._failures[place] = 0
            columns = self.columns[place]
            last = columns.after_ns[-1] if len(columns) else before - 1
            if after < before or before < last:
                self._stepped_back += 1
            elif after > last:
                columns.add((before, after), reading)

    def _lose(self, place: int, why: str) -> None:
        self._lost[place] = why
        columns = self.columns[place]
        known_s = (columns.after_ns[-1] - columns.before_ns[0]) / 1e9 if len(columns) else 0.0
        after = f" after {known_s:.1f} s" if len(columns) else " at once"
        gpu = self.gpus[place]
        self.problems.append(
            f"GPU {gpu.number} ({gpu.name}) was lost{after}: {why}; what was measured before is kept"
        )

    def _pair(self, *, force: bool = False) -> None:
        """Note which UTC belongs to the clock's time: at first, once a minute, and where UTC was set."""
        now, utc = self._clock(), self._utc()
        if self._pairs:
            then, was = self._pairs[-1]
            step = (utc - was) - (now - then)
            if abs(step) >= _STEP_NS and len(self.problems) < 100:
                self.problems.append(
                    f"the clock of the system was set by {step / 1e9:+.3f} s while measuring; times in this "
                    "log are of a clock that does not step"
                )
            elif not force and now - then < _PAIR_NS:
                return
        self._pairs.append((now, utc))

    # ---- windows

    @contextmanager
    def window(self, name: str) -> Iterator[None]:
        """Record the block as a window; synchronize the GPU before it ends, as in any timing."""
        self.begin(name)
        try:
            yield
        finally:
            self.end(name)

    def begin(self, name: str) -> None:
        """Open a window."""
        with self._lock:
            self._sample()
            self._open.append((name, self._clock()))

    def end(self, name: str) -> Window | None:
        """Close the most recently opened window of that name; `LabError` where none is open."""
        with self._lock:
            now = self._clock()
            place = next((p for p in reversed(range(len(self._open))) if self._open[p][0] == name), None)
            if place is None:
                raise LabError(f"no window {name!r} is open; begin it first")
            self._sample()
            window = Window(name, self._open.pop(place)[1], now)
            if len(self.windows) < MOST_WINDOWS:
                self.windows.append(window)
            else:
                self._forgotten += 1
            return window

    # ---- the log

    def document(self, *, command: str = "", exit_code: int | None = None) -> Document:
        """What was measured so far, as a power log."""
        with self._lock:
            problems = list(self.problems)
            if self._stepped_back:
                problems.append(
                    f"the clock went back {self._stepped_back} times; samples of those moments were dropped"
                )
            if self._forgotten:
                problems.append(f"{self._forgotten} windows after the first {MOST_WINDOWS} were not kept")
            now = self._clock()
            still = [Window(name, begin, max(begin, now)) for name, begin in self._open]
            merged = max((columns.merged for columns in self.columns), default=1)
            if merged > 1:
                problems.append(
                    f"{merged} samples each were averaged into one, to bound memory; power is coarser "
                    "in time, the counter is exact"
                )
            gpus = [gpu for gpu in self.gpus if isinstance(gpu, Gpu)]
            return Document(
                labcode=__version__,
                driver=driver_version(gpus),
                clock=Clock("CLOCK_MONOTONIC", list(self._pairs)),
                period_ns=round(self.period_s * 1e9),
                command=command,
                exit_code=exit_code,
                partial=any(self._lost) or bool(self._stepped_back),
                problems=problems,
                windows=[*self.windows, *still],
                devices=[
                    Device(
                        number=gpu.number,
                        name=gpu.name,
                        nvml_index=gpu.nvml_index,
                        digest=gpu.digest,
                        power_limit_w=gpu.power_limit_w,
                        samples_merged=columns.merged,
                        peak_mw=columns.peak_mw,
                        lost=lost,
                        before_ns=list(columns.before_ns),
                        after_ns=list(columns.after_ns),
                        t_ns=[],
                        **{name: columns.values(name) for name in COLUMNS},
                    )
                    for gpu, columns, lost in zip(self.gpus, self.columns, self._lost, strict=True)
                ],
            )

    def write(self, path: Path, *, command: str = "", exit_code: int | None = None) -> Path:
        """Write the log, whole or not at all, and return its path; `LabError` as in `check_name`."""
        check_name(path)
        with whole(path) as part:
            write_document(self.document(command=command, exit_code=exit_code), part)
        return path


def check_name(path: Path) -> None:
    """Raise `LabError` unless a path ends in ``.power.json`` or ``.power.json.xz``."""
    if not path.name.endswith((".power.json", ".power.json.xz")):
        raise LabError(f"{path}: a power log's name ends in .power.json or .power.json.xz; name it so")
