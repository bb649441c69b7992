"""Measuring from inside a program: functions or blocks in; their time, memory and energy out::

    from labcode.easy_profiler import GPUMonitor, auto_profile


    @auto_profile(warmup=3, iterations=10)
    def train_step(model, batch): ...


    for batch in batches:
        loss = train_step(model, batch)  # its own value; every call runs once, measured or not
    print(train_step.profile.get_summary())

    with GPUMonitor() as monitor:
        train()
    print(monitor.get_summary())

Times are microseconds, energies joules, sizes bytes. `sweep` measures functions over values of parameters.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import itertools
import math
import resource
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns
from types import AsyncGeneratorType, CoroutineType, GeneratorType, TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, Self, TypeVar, cast, overload

from labcode.errors import LabError
from labcode.meter import Meter, open_gpus
from labcode.meter.meter import Metered
from labcode.reports.power.schema import COMMAND
from labcode.show import byte_text, time_text
from labcode.timing import quantile

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from labcode.reports.power.log import PowerLog

__all__ = ["GPUMonitor", "Profile", "Result", "Sweep", "auto_profile", "sweep"]

P = ParamSpec("P")
R = TypeVar("R")
P_co = ParamSpec("P_co")
R_co = TypeVar("R_co", covariant=True)
_FEWEST = 6  # values of which an interval of 95 % for the median can be had
_OPEN = 256  # calls that the GPU may be behind before new events are made


class GPUMonitor:
    """Meters the GPUs during a ``with`` block: energy with error bars, power, clocks and temperature.

    A thread samples every GPU that CUDA shows this process, once per ``period_s`` seconds. Both ends of the
    block, and of each `window`, wait until PyTorch's work on the GPUs has finished. Where NVML, a GPU or its
    energy counter is missing, a line on stderr says so, ``missing`` keeps its reason, and only times are
    measured, with CUDA events: `get_summary` reports them, while `log`, `windows` and `write` raise
    `LabError`. Where PyTorch uses no GPU either, entering the block raises `LabError`.
    """

    def __init__(self, period_s: float = 0.1, *, gpus: Sequence[Metered] | None = None) -> None:
        self._period_s = period_s
        self._gpus = gpus
        self._meter: Meter | None = None
        self._over = False
        self.missing = ""
        self._timed: dict[str, Profile] = {}

    def __enter__(self) -> Self:
        self._over, self.missing = False, ""
        try:
            self._meter = Meter(open_gpus() if self._gpus is None else self._gpus, period_s=self._period_s)
        except LabError as error:
            if _gpu_torch() is None:
                raise
            self.missing, self._timed = str(error), {}
            print(f"GPUMonitor: no energy, times alone: {error}", file=sys.stderr)
            self._times("this program").__enter__()
            return self
        _synchronize()
        self._meter.start()
        self._meter.begin(COMMAND)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.missing:
            self._times("this program").__exit__(kind, error, trace)
            return
        meter = self._entered()
        try:
            if kind is None:
                _synchronize()
        finally:
            self.ended()
            meter.stop()

    def ended(self) -> None:
        """End the measured block here; the meter keeps sampling until the block exits."""
        if not self._over:
            self._entered().end(COMMAND)
            self._over = True

    @contextmanager
    def window(self, name: str) -> Iterator[None]:
        """Also measure a part of the block, under a name; parts may repeat and overlap."""
        if self.missing:
            with self._times(name):
                yield
            return
        meter = self._entered()
        _synchronize()
        with meter.window(name):
            yield
            _synchronize()

    @property
    def log(self) -> PowerLog:
        """What was measured so far, as `labcode.open` returns it for a power log."""
        from labcode.reports.power.log import log_of

        return log_of(self._entered().document(command="this program"), Path("GPUMonitor"))

    def windows(self) -> pd.DataFrame:
        """The energy of the block (in the rows named ``command``) and of each `window`: one row per GPU.

        The columns are `labcode.analysis.energy.window.COLUMNS`.
        """
        from labcode.analysis.energy.window import windows

        return windows(self.log)

    def get_summary(self) -> str:
        """The energy of the block as text to print, or its times where energy was not measured."""
        if self.missing:
            times = [one.get_summary() for one in self._timed.values() if one.measured]
            return "\n".join([f"energy: not measured ({self.missing})", *times])
        from labcode.analysis.energy.summary import as_text

        return as_text(self.log)

    def write(self, path: str | Path) -> Path:
        """Write the power log to a path that ends in ``.power.json`` or ``.power.json.xz``; that path."""
        return self._entered().write(Path(path), command="this program")

    def _times(self, name: str) -> Profile:
        return self._timed.setdefault(name, Profile(name, warmup=0, energy=False))

    def _entered(self) -> Meter:
        if self.missing:
            raise LabError(f"GPUMonitor: energy was not measured ({self.missing}); see get_summary()")
        if self._meter is None:
            raise LabError("GPUMonitor: nothing was measured yet; put the work inside `with GPUMonitor()`")
        return self._meter


def _synchronize() -> None:
    """Wait for what PyTorch has put on the GPU, where this process uses it."""
    torch = _gpu_torch()
    if torch is not None:
        for device in range(torch.cuda.device_count()):
            torch.cuda.synchronize(device)


def _gpu_torch() -> Any:
    """PyTorch where this process uses it on a GPU, else None."""
    torch: Any = sys.modules.get("torch")
    used = torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized()
    return torch if used else None


# ---- times of functions and blocks


@dataclass(frozen=True)
class Result:
    """What was measured of a function or block, with one time per measured call.

    ``times_us`` are microseconds by ``clock``. Where PyTorch uses a GPU, that is 'CUDA events', from the end
    of what was queued before the call to the end of what it queued last, on the current stream of each
    device (the longest of several devices); otherwise it is 'host clock'. ``host_us`` are microseconds by the
    host's clock until the call returned. ``warmup`` calls came first, unmeasured. ``gpu_bytes`` is PyTorch's
    peak of allocated memory since the first measured call, on the device with the highest peak (None without
    a GPU); ``host_bytes`` is the peak resident memory of the process over its whole life. ``energy_j`` ±
    ``energy_error_j``, in joules, is the energy of all GPUs from the first measured call to the last (or
    until the result was first asked for), whatever else ran meanwhile, divided by the number of measured
    calls; None where energy was not measured.
    """

    name: str
    clock: str
    times_us: tuple[float, ...]
    host_us: tuple[float, ...]
    warmup: int
    gpu_bytes: int | None
    host_bytes: int
    energy_j: float | None
    energy_error_j: float | None

    @property
    def median_us(self) -> float:
        """The median of ``times_us``, in microseconds."""
        return quantile(self.times_us, 0.5)

    @property
    def spread(self) -> float:
        """The interquartile range of ``times_us`` divided by their median."""
        return (quantile(self.times_us, 0.75) - quantile(self.times_us, 0.25)) / self.median_us

    @property
    def interval_us(self) -> tuple[float, float]:
        """A 95 % confidence interval of the median, from order statistics; nan for fewer than six times."""
        count = len(self.times_us)
        if count < _FEWEST:
            return math.nan, math.nan
        ordered, below, place = sorted(self.times_us), 0.0, 0
        while place < count and below + math.comb(count, place) / 2**count <= 0.025:
            below += math.comb(count, place) / 2**count
            place += 1
        return ordered[place - 1], ordered[count - place]

    def ratio_to(self, baseline: Result) -> tuple[float, float, float]:
        """This median divided by the baseline's, and the two ends of its 95 % bootstrap interval.

        Both ends are nan where either result has fewer than six times.
        """
        import numpy as np

        from labcode.analysis.compare.interval import median_ratio

        found = median_ratio(np.array(baseline.times_us), np.array(self.times_us))
        return found.ratio, found.low, found.high

    def get_summary(self) -> str:
        """The result as text to print."""
        low, high = self.interval_us
        sure = f", 95 % interval {time_text(1e3 * low)} to {time_text(1e3 * high)}" if low == low else ""
        lines = [
            f"{self.name}: {time_text(1e3 * self.median_us)} (median of {len(self.times_us)} after "
            f"{self.warmup} of warm-up, by {self.clock}; middle half within {self.spread:.1%} of it{sure})"
        ]
        if self.clock != "host clock":
            lines.append(f"  until the call returned: {time_text(1e3 * quantile(self.host_us, 0.5))}")
        if self.gpu_bytes is not None:
            lines.append(f"  GPU memory: {byte_text(self.gpu_bytes)} allocated at most")
        lines.append(f"  host memory: {byte_text(self.host_bytes)} at most, of the process")
        if self.energy_j is not None:
            lines.append(f"  energy: {self.energy_j:,.4g} J ± {self.energy_error_j or 0:,.2g} J each")
        return "\n".join(lines)


class Profile:
    """Measures the calls of a function, or the runs of a block; `auto_profile` makes one."""

    def __init__(
        self,
        name: str = "",
        *,
        warmup: int = 3,
        iterations: int | None = None,
        devices: Sequence[int] | None = None,
        energy: bool = True,
        gpus: Sequence[Metered] | None = None,
    ) -> None:
        counts = [warmup, *([] if iterations is None else [iterations])]
        whole = all(isinstance(count, int) and not isinstance(count, bool) for count in counts)
        if not whole or warmup < 0 or (iterations is not None and iterations < 1):
            raise LabError("auto_profile: warmup counts from 0, iterations from 1, in whole numbers")
        self.name = name or "block"
        self.warmup = warmup
        self.iterations = iterations
        self._devices = devices
        self._energy = energy
        self._gpus = gpus
        self._last = warmup + iterations if iterations is not None else sys.maxsize
        self._calls = 0
        self._host: list[int] = []
        self._device_us: list[float] = []
        self._open: deque[_Events] = deque()  # events of calls whose time was not read yet
        self._spare: list[_Events] = []
        self._torch: Any = None
        self._stream: Callable[[int], Any] = int  # the current one of a device
        self._streams: list[int] = []
        self._monitor: GPUMonitor | None = None
        self._joules: tuple[float, float] | tuple[None, None] = (None, None)  # of a call, and the error
        self._marks: ContextVar[tuple[_Mark | None, ...]] = ContextVar("marks", default=())
        self._ready = False

    # ---- the three ways to use it

    def __call__(self, function: Callable[P, R]) -> Profiled[P, R]:
        """Measure the calls of a function; what comes back is called as the function is."""
        if not callable(function):
            raise LabError(
                f"auto_profile: measures functions, and this is a {type(function).__name__}; put it below "
                "@property, @classmethod and the like"
            )
        if isinstance(function, type):
            raise LabError(
                f"auto_profile: {function.__name__} is a class; decorate its methods, or measure the "
                "block that makes one: with auto_profile()"
            )
        if _is(function, inspect.isgeneratorfunction, inspect.isasyncgenfunction):
            raise self._lazy(_named(function))
        if self.name == "block":
            self.name = _named(function)
        begin, end, later = self._begin, self._end, self._later
        inside: ContextVar[bool] = ContextVar("inside", default=False)
        measured: Any
        if _is(function, inspect.iscoroutinefunction):

            @functools.wraps(function)
            async def awaited(*args: P.args, **kwargs: P.kwargs) -> Any:
                if inside.get():
                    return await cast("Any", function)(*args, **kwargs)
                token = inside.set(True)
                mark = begin()
                try:
                    value = await cast("Any", function)(*args, **kwargs)
                finally:
                    inside.reset(token)
                if mark is not None:
                    end(mark)
                return value

            measured = awaited
        else:

            @functools.wraps(function)
            def called(*args: P.args, **kwargs: P.kwargs) -> R:
                if inside.get():  # a call of itself is part of the outermost one
                    return function(*args, **kwargs)
                token = inside.set(True)
                mark = begin()
                try:
                    value = function(*args, **kwargs)
                finally:
                    inside.reset(token)
                if isinstance(value, _LAZY) or hasattr(type(value), "__await__"):
                    return cast("R", later(value, mark, inside))
                if mark is not None:
                    end(mark)
                return value

            measured = called
        measured.profile = self
        return cast("Profiled[P, R]", measured)

    def _later(self, value: Any, mark: _Mark | None, inside: ContextVar[bool]) -> Any:
        """What a call returned that works only afterwards, to be measured until it is done: a coroutine, a
        task; `LabError` for a generator and for what else is awaited."""
        if isinstance(value, asyncio.Future):

            def done(task: asyncio.Future[Any]) -> None:
                if mark is not None and not task.cancelled() and task.exception() is None:
                    self._end(mark)

            value.add_done_callback(done)
            return value
        if not isinstance(value, CoroutineType):
            if hasattr(type(value), "__await__"):
                raise LabError(
                    f"auto_profile: {self.name} returns a {type(value).__name__}, which works while it is "
                    "awaited; measure an async function that awaits it"
                )
            raise self._lazy(self.name)

        async def awaited() -> Any:
            token = inside.set(True)
            try:
                found = await value
            finally:
                inside.reset(token)
            if mark is not None:
                self._end(mark)
            return found

        return awaited()

    def _lazy(self, name: str) -> LabError:
        return LabError(
            f"auto_profile: {name} is a generator, which works while others take from it; "
            "measure the loop around it: with auto_profile()"
        )

    def __enter__(self) -> Self:
        self._marks.set((*self._marks.get(), self._begin()))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._marks.get():
            raise LabError("auto_profile: enter the block first")
        *before, mark = self._marks.get()
        self._marks.set(tuple(before))
        if mark is not None and kind is None:
            self._end(mark)

    def measure(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a function through warm-up and all iterations (10 by default) and return its last value.

        Raises `LabError` for an async function: decorate that one instead.
        """
        if _is(function, inspect.iscoroutinefunction):
            raise LabError(
                f"auto_profile: {_named(function)} is async; decorate it, and await it in a loop of your own"
            )
        if self.iterations is None:
            self._last = self.warmup + 10
        run: Any = function if hasattr(function, "profile") else self(function)
        value = run(*args, **kwargs)
        while self._calls < self._last:
            value = run(*args, **kwargs)
        return cast("R", value)

    # ---- the results

    @property
    def measured(self) -> int:
        """The number of calls measured so far."""
        return len(self._host)

    @property
    def result(self) -> Result:
        """What was measured so far; waits for the GPU, and ends the metering of energy.

        Raises `LabError` before the first measured call.
        """
        if not self._host:
            raise LabError(
                f"auto_profile: {self.name} has no measured calls yet: {self._calls} were made, and the "
                f"first {self.warmup} are warm-up"
            )
        times = [ns / 1e3 for ns in self._host]
        clock, gpu_bytes = "host clock", None
        if self._torch is not None:
            cuda = self._torch.cuda
            for device in self._streams:
                cuda.synchronize(device)
            while self._open:
                self._spare.append(self._read())
            times = self._device_us
            clock = "CUDA events"
            gpu_bytes = max(cuda.max_memory_allocated(device) for device in self._streams)
        self._stop()
        energy, error = self._joules
        return Result(
            name=self.name,
            clock=clock,
            times_us=tuple(times),
            host_us=tuple(ns / 1e3 for ns in self._host),
            warmup=min(self.warmup, self._calls),
            gpu_bytes=gpu_bytes,
            host_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            energy_j=energy,
            energy_error_j=error,
        )

    def get_summary(self) -> str:
        """What was measured so far, as text to print; see `result`."""
        return self.result.get_summary()

    # ---- one call

    def _begin(self) -> _Mark | None:
        self._calls += 1
        if not self.warmup < self._calls <= self._last:
            return None
        if not self._ready:
            self._prepare()
        if self._torch is None:
            return perf_counter_ns(), None
        if self._spare:
            events = self._spare.pop()
        elif len(self._open) >= _OPEN and all(stop.query() for _, _, stop in self._open[0]):
            events = self._read()
        else:
            events = self._events()
        for device, start, _ in events:
            start.record(self._stream(device))
        return perf_counter_ns(), events

    def _end(self, mark: _Mark) -> None:
        began, events = mark
        self._host.append(perf_counter_ns() - began)
        if events is not None:
            for device, _, stop in events:
                stop.record(self._stream(device))
            self._open.append(events)
        if self._calls == self._last and self._monitor is not None:
            _synchronize()  # what the last call queued is its energy, too
            self._monitor.ended()

    def _prepare(self) -> None:
        """Before the first measured call: events, the peak of memory, the meter."""
        self._ready = True
        torch = _gpu_torch()
        if torch is None:
            return
        self._torch, self._stream = torch, torch.cuda.current_stream
        used = self._devices
        if used is None:
            used = [d for d in range(torch.cuda.device_count()) if torch.cuda.memory_reserved(d)]
        self._streams = list(used) or [torch.cuda.current_device()]
        self._spare = [self._events() for _ in range(min(self.iterations or 256, 1024))]
        for device in self._streams:
            torch.cuda.reset_peak_memory_stats(device)
        if self._energy:
            try:
                metered = open_gpus() if self._gpus is None else self._gpus
                self._monitor = GPUMonitor(gpus=metered).__enter__()
            except LabError:  # no NVML, or no counter
                self._monitor = None
            if self._monitor is not None and self._monitor.missing:
                self._monitor = None

    def _events(self) -> _Events:
        """Events of a call: two for each device, on which they are made when they are recorded."""
        event = self._torch.cuda.Event
        return [(device, event(enable_timing=True), event(enable_timing=True)) for device in self._streams]

    def _read(self) -> _Events:
        """Take the time of the call that was measured first of those open; its events, to be used again."""
        events = self._open.popleft()
        self._device_us.append(max(start.elapsed_time(stop) for _, start, stop in events) * 1e3)
        return events

    def _stop(self) -> None:
        """The meter stops, and what it counted is shared among the calls measured so far."""
        monitor, self._monitor = self._monitor, None
        if monitor is None:
            return
        monitor.__exit__(None, None, None)
        table = monitor.windows()
        table = table[(table["name"] == COMMAND) & ~table["declined"]]
        if len(table):
            count = len(self._host)
            self._joules = float(table["counter_j"].sum()) / count, float(table["error_j"].sum()) / count


def _is(function: Any, *kinds: Callable[[Any], bool]) -> bool:
    """Whether a function, what a partial calls, or the ``__call__`` of an object is of one of the kinds."""
    while isinstance(function, functools.partial):
        function = function.func
    own = type(function).__call__
    return any(kind(function) or kind(own) for kind in kinds)


def _named(function: Any) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__qualname__", type(function).__name__))


_LAZY = (CoroutineType, GeneratorType, AsyncGeneratorType)  # what works after the call that made it
_Events = list[tuple[int, Any, Any]]  # device, begin, end
_Mark = tuple[int, _Events | None]


class Profiled(Protocol[P_co, R_co]):
    """A function whose calls are measured: call it as before; ``profile`` has the results."""

    profile: Profile

    def __call__(self, *args: P_co.args, **kwargs: P_co.kwargs) -> R_co:
        """Call the function."""


@overload
def auto_profile(function: Callable[P, R], /) -> Profiled[P, R]: ...
@overload
def auto_profile(
    name: str = "",
    /,
    *,
    warmup: int = 3,
    iterations: int | None = None,
    devices: Sequence[int] | None = None,
    energy: bool = True,
) -> Profile: ...
def auto_profile(name: Any = "", /, **options: Any) -> Any:
    """Measure a function or a block: as a decorator, with or without options, or as a context manager::

        @auto_profile                            # every call after three warm-up calls
        @auto_profile(warmup=3, iterations=10)   # calls 4 to 13; later ones run unmeasured
        with auto_profile("load", warmup=0) as profile: ...

    A decorated function still runs exactly as often as it is called and returns its own value; the calls of
    async functions are measured until they have been awaited. The results are in ``function.profile``:
    ``result`` and ``get_summary()``. ``devices`` are the GPUs to record events on, by default those on which
    PyTorch holds memory when measuring begins. A measured call does not wait for the GPU, except the first
    and the last of ``iterations`` while energy is metered (``energy=False`` leaves that off); asking for the
    results does. A recursive call counts as part of the outermost one. Raises `LabError` for a negative
    ``warmup``, for ``iterations`` below 1, for classes and for generators.
    """
    if callable(name):
        return Profile()(name)
    return Profile(name, **options)


# ---- over parameters


@dataclass(frozen=True)
class Sweep:
    """What `sweep` measured: ``results`` has one `Result` per point, ``table`` one row per point.

    The columns of ``table`` are the ``parameters``; median_us, low_us and high_us (the 95 % interval, in
    microseconds); spread, gpu_bytes and energy_j as in `Result`; and with a baseline ratio, ratio_low and
    ratio_high: this median divided by the baseline's, and its 95 % interval.
    """

    parameters: tuple[str, ...]
    results: tuple[Result, ...]
    table: pd.DataFrame

    def __str__(self) -> str:
        return self.table.to_string(index=False, float_format=lambda value: f"{value:.4g}")

    def figure(self) -> Figure:
        """A chart of the median times, one bar per point."""
        from labcode.figures import bars

        names = [", ".join(map(str, row)) for row in self.table[list(self.parameters)].to_numpy()]
        return bars(names, self.table["median_us"], unit="µs", quantity="median time")

    def plot(self, path: str | Path) -> Path:
        """Write `figure` to a path and return it; `LabError` unless it ends in .svg, .png or .pdf."""
        from labcode.figures import render
        from labcode.outputs import whole

        path = Path(path)
        suffix = path.suffix.lower().removeprefix(".")
        if suffix not in ("svg", "png", "pdf"):
            raise LabError(f"{path}: the plot is a picture; name a file that ends in .svg, .png or .pdf")
        with whole(path) as part:
            part.write_bytes(render(self.figure, format=cast("Any", suffix)))
        return path


def sweep(
    functions: Callable[..., Any] | Mapping[str, Callable[..., Any]],
    over: Mapping[str, Sequence[Any]] | None = None,
    *,
    setup: Callable[..., Mapping[str, Any]] | None = None,
    baseline: str | Mapping[str, Any] | None = None,
    warmup: int = 3,
    iterations: int = 10,
    energy: bool = False,
) -> Sweep:
    """Measure a function, or several functions by name, at every combination of parameter values.

    ``over`` maps each parameter to its values, which are passed to the functions by keyword. ``setup``, if
    given, is called with them instead, once per point and outside the measured time, and returns the keyword
    arguments to pass (tensors of that size, say). ``baseline`` is the name of one of the functions, which
    every other is then compared with at the same point, or values of parameters, such as ``{"batch": 1}``.
    Each point has ``warmup`` unmeasured and ``iterations`` measured calls. Raises `LabError` for a single
    function without parameters, and for a baseline that is not among the points.
    """
    import pandas as pd

    variants = dict(functions) if isinstance(functions, Mapping) else {"": functions}
    over = dict(over or {})
    names = (*(("variant",) if "" not in variants else ()), *over)
    if not names:
        raise LabError("sweep: name several functions, or values of a parameter: sweep(f, {'batch': [1, 2]})")
    points, results = [], []
    for variant, function in variants.items():
        for values in itertools.product(*over.values()):
            chosen = dict(zip(over, values, strict=True))
            given = dict(setup(**chosen)) if setup is not None else chosen
            profile = Profile(variant, warmup=warmup, iterations=iterations, energy=energy)
            profile.measure(function, **given)
            points.append({**({"variant": variant} if variant else {}), **chosen})
            results.append(profile.result)
    rows = []
    for point, result in zip(points, results, strict=True):
        low, high = result.interval_us
        row = {
            **point,
            "median_us": result.median_us,
            "low_us": low,
            "high_us": high,
            "spread": result.spread,
        }
        row |= {"gpu_bytes": result.gpu_bytes, "energy_j": result.energy_j}
        if baseline is not None:
            fixed = {"variant": baseline} if isinstance(baseline, str) else dict(baseline)
            wanted = {**point, **fixed}
            if wanted not in points:
                raise LabError(f"sweep: the baseline {baseline!r} is none of what was measured")
            row |= dict(
                zip(
                    ("ratio", "ratio_low", "ratio_high"),
                    result.ratio_to(results[points.index(wanted)]),
                    strict=True,
                )
            )
        rows.append(row)
    return Sweep(names, tuple(results), pd.DataFrame(rows))
