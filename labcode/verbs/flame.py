"""`labcode flame`: a capture with stacks and a file name in; its flame graph out.

The suffix of the output decides: ``.svg`` a picture, ``.html`` a page to zoom and search, ``.json`` for
speedscope.app, ``.txt`` folded stacks for flamegraph.pl and others.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from labcode.analysis.ledger.steady import choose_window
from labcode.analysis.timeline import stacks
from labcode.errors import LabError
from labcode.figures.pages.flame import flame, flame_page, flame_text, speedscope
from labcode.figures.style import render
from labcode.outputs import whole
from labcode.reports import FORMATS, imported, open_timeline
from labcode.reports.kineto.report import KinetoReport
from labcode.reports.nsys.report import NsysReport
from labcode.reports.report import TimelineReport

KINDS = {
    "python": "Python samples; record them with nsys profile --python-sampling=true and export with "
    "--include-blobs=true --include-json=true",
    "cpu": "CPU samples; record them with nsys profile --sample=process-tree",
    "launches": "Python backtraces of CUDA calls; record them with nsys profile --python-backtrace=cuda "
    "--sample=process-tree --cudabacktrace=all:0",
}


TRACE_KINDS = {
    "python": "Python functions by time on the CPU; record them with torch.profiler.profile(with_stack=True)",
    "cpu": "Python functions, operators and CUDA calls by time on the CPU",
    "modules": "modules and kernels by time on the GPU; record them with torch.profiler.profile("
    "with_stack=True, with_modules=True)",
}


def write_flame(
    file: Path, output: Path, *, of: str = "python", thread: str | None = None, window: str | None = None
) -> Path:
    """Write the profile of the capture ``file`` to ``output`` and return its path.

    of: for nsys a key of `KINDS`, for a trace of torch.profiler one of `TRACE_KINDS`. thread: a
    thread's number or name. window: what of the capture, as for a timeline. Raises `LabError` for bad use and
    a capture without such samples, `InputError` for a capture that cannot be read.
    """
    write = _WRITERS.get(output.suffix.lower())
    if write is None:
        raise LabError(
            f"{output}: {output.suffix or 'no suffix'} is not a kind of flame graph; name a file that "
            f"ends in {', '.join(_WRITERS)}"
        )
    with whole(output, reads=[file]) as part, open_timeline(file, "flame") as report:
        folded = profile(report, of=of, thread=thread, window=window)
        own = profiles_of(report)
        part.write_bytes(write(folded, f"{file.name}: {own.kinds[of].partition(';')[0]}", own.unit))
    return output


def profile(
    report: TimelineReport, *, of: str = "python", thread: str | None = None, window: str | None = None
) -> pd.DataFrame:
    """The folded profile of a capture (see `write_flame`); `LabError` when it holds no such samples."""
    own = profiles_of(report)
    if of not in own.kinds:
        raise LabError(f"{report.path}: --of {of}: choose one of {', '.join(own.kinds)}")
    return own.fold(report, of, thread, window)


def profiles_of(report: TimelineReport) -> "Profiles":
    """What the format of a report declares."""
    found: Profiles = imported(str(FORMATS[report.format].flame))
    return found


def _of_trace(report: KinetoReport, of: str, thread: str | None, window: str | None) -> pd.DataFrame:
    span = None if window == "all" else choose_window(report, window)
    folded = stacks.of_trace(report, of, span, _threads_named(report, thread))
    if not len(folded):
        raise LabError(f"{report.path}: holds no {TRACE_KINDS[of]}; or none in this window or thread")
    return folded


def _of_capture(report: NsysReport, of: str, thread: str | None, window: str | None) -> pd.DataFrame:
    if of == "cpu":
        samples, frames = report.cpu_samples(), report.cpu_callchains()
        labels = stacks.native_labels(frames)
    elif of == "python":
        samples, frames = report.python_samples(), report.python_frames()
        labels = stacks.python_labels(frames)
    else:
        samples, frames = report.python_backtraces(), report.python_backtrace_frames()
        labels = stacks.python_labels(frames, by="line")
    if not len(samples):
        tables = {
            "python": report.python_samples,
            "cpu": report.cpu_samples,
            "launches": report.python_backtraces,
        }
        there = " or ".join(kind for kind, table in tables.items() if kind != of and len(table()))
        raise LabError(
            f"{report.path}: holds no {KINDS[of]}{there and f'; what it has is drawn with --of {there}'}"
        )
    span = None if window == "all" else choose_window(report, window)
    if window is None and span is not None and span[0] >= span[1]:
        span = None  # a capture with nothing but samples
    chosen = stacks.during(samples, span)
    if thread is not None:
        chosen = _of_thread(report, chosen, thread)
    if not len(chosen):
        raise LabError(f"{report.path}: no samples in this window; choose another one with --window, or all")
    return stacks.fold(frames, labels, chosen[stacks.key_of(frames)])


def _of_thread(report: NsysReport, samples: pd.DataFrame, thread: str) -> pd.DataFrame:
    names = report.threads()
    wanted = names[names["name"] == thread]
    keys = set(zip(wanted["pid"], wanted["tid"], strict=True))
    threads = list(zip(samples["pid"], samples["tid"], strict=True))
    found = [one in keys or thread == str(one[1]) for one in threads]
    if not any(found):
        known = dict(zip(zip(names["pid"], names["tid"], strict=True), names["name"], strict=True))
        most = pd.Series(threads).value_counts().index[:6]
        listed = ", ".join(f"{tid} ({known.get((pid, tid), 'no name')})" for pid, tid in most)
        raise LabError(
            f"{report.path}: no samples of a thread {thread}; there are some of {listed or 'none'}"
        )
    return samples[found]


def _threads_named(report: KinetoReport, thread: str | None) -> list[tuple[int, int]] | None:
    """The (pid, tid) that a thread's number or name means; None for all."""
    if thread is None:
        return None
    events = pd.concat([table[["pid", "tid"]] for table in (report.ops(), report.python_functions())])
    names = report.threads()
    named = names[names["name"] == thread]
    numbered = events[events["tid"].astype("str") == thread].drop_duplicates()
    found = [(int(pid), int(tid)) for pid, tid in pd.concat([named, numbered])[["pid", "tid"]].to_numpy()]
    if not found:
        most = ", ".join(str(tid) for tid in events["tid"].value_counts().index[:6])
        raise LabError(f"{report.path}: nothing of a thread {thread}; there is something of {most or 'none'}")
    return found


_WRITERS: dict[str, Callable[[pd.DataFrame, str, str], bytes]] = {
    ".svg": lambda folded, title, unit: render(lambda: flame(folded, title=title, unit=unit)),
    ".html": lambda folded, title, unit: flame_page(folded, title=title, unit=unit).encode(),
    ".json": lambda folded, title, unit: speedscope(folded, name=title, unit=unit).encode(),
    ".txt": lambda folded, title, unit: flame_text(folded).encode(),
}


@dataclass(frozen=True)
class Profiles:
    """What files of a format can be asked for, what their profiles count, and how one is folded."""

    kinds: Mapping[str, str]
    unit: str
    fold: Callable[[Any, str, str | None, str | None], pd.DataFrame]


CAPTURES = Profiles(KINDS, "samples", _of_capture)
TRACES = Profiles(TRACE_KINDS, "ns", _of_trace)
