"""`labcode flame`: a capture and a file name in; its profile as SVG, HTML page, speedscope JSON or text out.

The suffix of the output decides: ``.svg`` a picture, ``.html`` a page to zoom and search, ``.json`` for
speedscope.app, ``.txt`` folded stacks for flamegraph.pl and others.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from labcode.analysis.timeline import stacks
from labcode.errors import LabError
from labcode.figures.pages.flame import flame, flame_text, speedscope
from labcode.figures.pages.flame_page import flame_page
from labcode.figures.pages.timeline_export import choose_window
from labcode.figures.style import render
from labcode.outputs import whole
from labcode.reports.nsys.report import NsysReport, open_report

KINDS = {
    "python": "Python samples; record them with nsys profile --python-sampling=true and export with "
    "--include-blobs=true --include-json=true",
    "cpu": "CPU samples; record them with nsys profile --sample=process-tree",
    "launches": "Python backtraces of CUDA calls; record them with nsys profile --python-backtrace=cuda "
    "--sample=process-tree --cudabacktrace=all:0",
}


def write_flame(
    file: Path, output: Path, *, of: str = "python", thread: str | None = None, window: str | None = None
) -> Path:
    """Write the profile of the capture ``file`` to ``output`` and return its path.

    of: 'python', 'cpu' or 'launches' (Python stacks of CUDA calls). thread: a thread's number or name.
    window: what of the capture, as for a timeline. Raises `LabError` for bad use and a capture without such
    samples, `InputError` for a capture that cannot be read.
    """
    write = _WRITERS.get(output.suffix.lower())
    if write is None:
        raise LabError(
            f"{output}: {output.suffix or 'no suffix'} is not a kind of flame graph; name a file that "
            f"ends in {', '.join(_WRITERS)}"
        )
    with whole(output, reads=[file]) as part, open_report(file) as report:
        folded = profile(report, of=of, thread=thread, window=window)
        part.write_bytes(write(folded, f"{file.name}: {_TITLES[of]}"))
    return output


def profile(
    report: NsysReport, *, of: str = "python", thread: str | None = None, window: str | None = None
) -> pd.DataFrame:
    """The folded profile of a capture (see `write_flame`); `LabError` when it holds no such samples."""
    if of not in KINDS:
        raise LabError(f"--of {of}: choose one of {', '.join(KINDS)}")
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
        raise LabError(f"{report.path}: holds no {KINDS[of]}")
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


_TITLES = {"python": "Python samples", "cpu": "CPU samples", "launches": "CUDA calls by line"}
_WRITERS: dict[str, Callable[[pd.DataFrame, str], bytes]] = {
    ".svg": lambda folded, title: render(lambda: flame(folded, title=title)),
    ".html": lambda folded, title: flame_page(folded, title=title).encode(),
    ".json": lambda folded, title: speedscope(folded, name=title).encode(),
    ".txt": lambda folded, title: flame_text(folded).encode(),
}
