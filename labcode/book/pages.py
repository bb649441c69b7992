"""Captures for pages: an experiment and a run of the current set in, an open report or a program's record
out.
"""

from __future__ import annotations

from types import FrameType
from typing import TYPE_CHECKING, Any

from labcode import store
from labcode.book.lineage import experiments_behind
from labcode.book.provenance import gpu_label

if TYPE_CHECKING:
    from labcode.reports.kineto.report import KinetoReport
    from labcode.reports.memory.history import MemoryHistory
    from labcode.reports.ncu.report import NcuReport
    from labcode.reports.nsys.report import NsysReport
    from labcode.reports.power.log import PowerLog

_taken: dict[str, store.CaptureSet] = {}  # what the cells of this page have opened


def capture(experiment: str, run: str) -> NsysReport:
    """The Nsight Systems report of one run, opened from the set the book is built around.

    An experiment that the set lacks comes from the shipped set; the page's stamp says so. Raises
    `labcode.errors.InputError` when there is no such run or the file was changed since it was captured.
    """
    from labcode.reports.nsys.report import open_report

    return open_report(holder(experiment).path_of(experiment, run, ".sqlite"))


def launches(experiment: str, run: str) -> NcuReport:
    """The Nsight Compute report of one run: its launches with their metrics, rules and source.

    Raises `labcode.errors.InputError` as `capture` does.
    """
    from labcode.reports.ncu.report import open_report

    return open_report(holder(experiment).path_of(experiment, run, ".ncu-rep"))


def trace(experiment: str, run: str) -> KinetoReport:
    """The trace of one run by ``torch.profiler``; of a run of several processes, those of all its ranks.

    Raises `labcode.errors.InputError` as `capture` does.
    """
    from labcode.reports.kineto.report import open_trace

    captures = holder(experiment)
    names = [file.name for file in captures.run(experiment, run).files]
    suffixes = [name[len(run) :] for name in names if name.endswith((".trace.json", ".trace.json.gz"))]
    return open_trace(
        [captures.path_of(experiment, run, suffix) for suffix in suffixes or [".trace.json.gz"]]
    )


def power(experiment: str, run: str) -> PowerLog:
    """What GPUs drew in one run: samples of power, energy counter, clocks; windows.

    Raises `labcode.errors.InputError` as `capture` does.
    """
    from labcode.reports.power.log import open_log

    return open_log(holder(experiment).path_of(experiment, run, ".power.json"))


def memory(experiment: str, run: str) -> MemoryHistory:
    """What PyTorch's allocator did in one run: its allocations and frees with their stacks.

    Raises `labcode.errors.InputError` as `capture` does.
    """
    from labcode.reports.memory.history import open_history

    return open_history(holder(experiment).path_of(experiment, run, ".memory.json"))


def record(experiment: str, run: str, clean: bool = False) -> dict[str, Any]:
    """What the program itself wrote about a run: its ``parameters``, ``results``, ``checks`` and ``gpu``.

    ``clean=True`` is the run without a profiler, whose times are the ones to quote as speed.
    """
    return holder(experiment).record(experiment, run, clean=clean)


def holder(experiment: str) -> store.CaptureSet:
    """The set that an experiment is taken from: the current one or, for what it lacks, the shipped one.

    It says on which machine the experiment was captured (``holder(name).machine_of(name)``) and in which
    files.
    """
    if experiment not in _taken:
        _taken[experiment] = store.holder(store.current_set(), experiment)
    return _taken[experiment]


def borrowed(frame: FrameType | None, of: str | None = None) -> list[str]:
    """The experiments of another set that the page's statement around a call at ``frame`` rests on; where the
    cells show too many, ``of`` names those that count.
    """
    others = {name for name, captures in _taken.items() if captures.name != store.current_set()}
    found = experiments_behind(frame, others) if others else []
    return found if of is None else [name for name in found if name in of.split()]


def metered(experiment: str, run: str) -> dict[str, tuple[dict[str, Any], PowerLog]]:
    """A run's record and power log on every machine at hand, by the GPU's short name.

    The set that the experiment is taken from comes first, then the other sets that hold the run.
    """
    from labcode.reports.power.log import open_log

    return {
        gpu: (captures.record(experiment, run), open_log(captures.path_of(experiment, run, ".power.json")))
        for gpu, captures in _everywhere(experiment, run).items()
    }


def recorded(experiment: str, run: str, clean: bool = False) -> dict[str, dict[str, Any]]:
    """A run's record on every machine at hand, as `metered` has them; ``clean`` as in `record`."""
    sets = _everywhere(experiment, run).items()
    return {gpu: captures.record(experiment, run, clean=clean) for gpu, captures in sets}


def unrecorded(experiment: str, run: str) -> list[str]:
    """The GPUs of the sets at hand that hold other experiments and not this run, by short name."""
    held = _everywhere(experiment, run)
    sets = [store.load_set(name) for name in store.list_sets()]
    others = {gpu_label(m) for one in sets if one not in held.values() for m in one.machines.values()}
    return sorted(others - {name.partition(" (")[0] for name in held})


def traced(experiment: str, run: str) -> dict[str, NsysReport]:
    """A run's Nsight Systems report on every machine whose traces are at hand, as `metered` has them."""
    from labcode.reports.nsys.report import open_report

    return {
        gpu: open_report(captures.path_of(experiment, run, ".sqlite"))
        for gpu, captures in _everywhere(experiment, run).items()
        if not captures.absent(experiment)
    }


def counted(experiment: str, run: str) -> dict[str, NcuReport]:
    """A run's Nsight Compute report on every machine whose traces are at hand, as `metered` has them."""
    from labcode.reports.ncu.report import open_report

    return {
        gpu: open_report(captures.path_of(experiment, run, ".ncu-rep"))
        for gpu, captures in _everywhere(experiment, run).items()
        if not captures.absent(experiment)
    }


def _everywhere(experiment: str, run: str) -> dict[str, store.CaptureSet]:
    """The sets that hold a run, by the GPU's short name, the one the experiment is taken from first."""
    mine = holder(experiment)
    found: dict[str, store.CaptureSet] = {}
    for captures in (mine, *(store.load_set(name) for name in store.list_sets() if name != mine.name)):
        held = captures.experiments.get(experiment)
        if held is None or run not in held.runs:
            continue
        name = gpu_label(captures.machine_of(experiment))
        found[name if name not in found else f"{name} ({captures.name})"] = captures
    return found
