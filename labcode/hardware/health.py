"""What may have spoiled a measurement: looks at GPUs and host before and after it in, what happened out.

Of GPUs only counters that they keep are read, and only while nothing is measured, for reading delays a GPU.
A host keeps none of how fast it is: a fixed piece of work is timed.
"""

import importlib
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from labcode.hardware import host

UNCORRECTED, SINCE_BOOT, HEAT = 1, 0, 1  # NVML's numbers: kind of memory error, its counter, policy of clocks
WARM = 0.01  # of a measurement's time with lowered clocks, or without a CPU, that is told
STEP_S = 1.0  # by which a clock was set
SLOWER = 2.5  # times what a host takes at its best, from where it is told: see `slowed`
_LEAST_S = 0.1  # without a CPU: the system counts in hundredths
_SETTLES_S = 2.0  # in which a program that has ended is no longer listed


@dataclass(frozen=True)
class Gpu:
    """One GPU's uncorrectable memory errors, its time with clocks lowered for heat, the programs that use it.

    What it does not report is None; ``lost`` is True where it no longer answers.
    """

    errors: int | None = None
    heat_ns: int | None = None
    programs: int | None = None
    lost: bool = False


@dataclass(frozen=True)
class Look:
    """GPUs at one moment, and that moment on the monotonic clock and on the one that can be set.

    ``stolen_s`` is `host.stolen_s`.
    """

    gpus: Mapping[int, Gpu] = field(default_factory=dict)
    even_s: float = 0.0
    set_s: float = 0.0
    stolen_s: float = 0.0


def look(gpus: Iterable[int] | None = None, nvml: Any = None, *, ended: bool = False) -> Look:
    """Look at these GPUs, by default all of them; the look is empty where NVML reports nothing.

    ``ended`` says that what was measured has just ended, so that it may be listed for a moment longer.
    """
    moment = time.monotonic(), time.time(), host.stolen_s()
    if nvml is None:
        try:
            nvml = importlib.import_module("pynvml")
        except ImportError:
            return Look({}, *moment)
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return Look({}, *moment)
    try:
        wanted = range(nvml.nvmlDeviceGetCount()) if gpus is None else gpus
        found = {number: _gpu(nvml, number) for number in wanted}
        until = time.monotonic() + _SETTLES_S
        while ended and any(one.programs for one in found.values()) and time.monotonic() < until:
            time.sleep(0.1)
            found = {number: _gpu(nvml, number) for number in found}
        return Look(found, *moment)
    except nvml.NVMLError:
        return Look({}, *moment)
    finally:
        nvml.nvmlShutdown()


def _gpu(nvml: Any, number: int) -> Gpu:
    lost = False

    def ask(name: str, *words: Any) -> Any:
        nonlocal lost
        try:
            return getattr(nvml, name)(*words)
        except nvml.NVMLError as error:
            lost |= getattr(error, "value", None) == nvml.NVML_ERROR_GPU_IS_LOST
        except AttributeError:  # an older package
            pass
        return None

    handle = ask("nvmlDeviceGetHandleByIndex", number)
    if handle is None:
        return Gpu(lost=True)
    errors = ask("nvmlDeviceGetTotalEccErrors", handle, UNCORRECTED, SINCE_BOOT)
    heat = ask("nvmlDeviceGetViolationStatus", handle, HEAT)
    programs = ask("nvmlDeviceGetComputeRunningProcesses", handle)
    return Gpu(
        errors=None if errors is None else int(errors),
        heat_ns=None if heat is None else int(heat.violationTime),
        programs=None if programs is None else len(programs),
        lost=lost,
    )


@dataclass(frozen=True)
class Told:
    """What makes a measurement void, and what whoever reads it should know."""

    void: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def between(before: Look, after: Look) -> Told:
    """What happened between two looks."""
    void, warnings = [], []
    took_s = after.even_s - before.even_s
    for number, was in before.gpus.items():
        now = after.gpus.get(number, Gpu(lost=bool(after.gpus)))
        if now.lost and not was.lost:
            void.append(f"GPU {number} was lost meanwhile; see the kernel's log, and capture again")
            continue
        if (more := _more(was.errors, now.errors)) > 0:
            void.append(
                f"GPU {number} met {more} memory errors that ECC could not correct, so nothing that it "
                "computed is to be trusted; see nvidia-smi -q -d ECC, and capture again"
            )
        if (hot := _more(was.heat_ns, now.heat_ns) / 1e9) > WARM * took_s:
            warnings.append(f"GPU {number} lowered its clocks for heat for {hot:.1f} of {took_s:.1f} s")
        if was.programs or now.programs:
            when = (
                "before and after" if was.programs and now.programs else "before" if was.programs else "after"
            )
            warnings.append(
                f"another program was on GPU {number} {when} the run, and may have been meanwhile"
            )
    if (stolen_s := after.stolen_s - before.stolen_s) > max(_LEAST_S, WARM * took_s):
        warnings.append(f"other virtual machines took {stolen_s:.1f} s from CPUs in {took_s:.1f} s")
    if abs(step := (after.set_s - before.set_s) - took_s) > STEP_S:
        warnings.append(f"the system's clock was set by {step:+,.0f} s meanwhile")
    return Told(tuple(void), tuple(warnings))


def slowed(host_s: Iterable[float], best_s: float) -> tuple[str, ...]:
    """What is told of a measurement beside which fixed work took the host so long (see `host.pace_s`), where
    its best is ``best_s``.

    A core whose twin works is half a core at worst, and a clock without boost lower by a fifth at most: both
    come and go on a machine where nothing else of its user runs, and together are `SLOWER`. What takes longer
    than that shared its CPU.
    """
    ratio = max(host_s, default=0.0) / best_s
    return (
        (f"the host took {ratio:.1f} times as long for the same work as at its best",)
        if ratio > SLOWER
        else ()
    )


def _more(was: int | None, now: int | None) -> int:
    return 0 if was is None or now is None else max(0, now - was)
