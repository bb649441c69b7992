"""`labcode timeline`: a capture and a file name in; its timeline as SVG, HTML page or trace out.

The suffix of the output decides: ``.svg`` a picture, ``.html`` a page to zoom and search
(`labcode.figures.pages.interactive`), ``.json`` or ``.json.gz`` a trace in Chrome's format
(`labcode.figures.timeline.chrome_trace`), ``.pftrace`` one in
Perfetto's (`labcode.figures.timeline.perfetto`).
"""

import functools
import gzip
import io
import itertools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from labcode.analysis.ledger.steady import choose_window
from labcode.analysis.timeline.intervals import Window
from labcode.errors import LabError
from labcode.figures.charts.memory import write_memory_timeline
from labcode.figures.charts.power import write_power
from labcode.figures.pages.interactive import tiled_page
from labcode.figures.pages.ranks import write_ranks
from labcode.figures.pages.tiles import remove as remove_tiles
from labcode.figures.style import render
from labcode.figures.timeline.chrome_trace import write_chrome_trace
from labcode.figures.timeline.overlay import too_many
from labcode.figures.timeline.perfetto import write_pftrace
from labcode.figures.timeline.picture import timeline
from labcode.outputs import base_names, staged, whole
from labcode.reports import doing, expect, files_of, open_timeline, timelines
from labcode.reports.common import MOST_WALKED
from labcode.reports.power.log import open_log
from labcode.reports.report import TimelineReport

__all__ = ["SUFFIXES", "choose_window", "export_traces", "write_timeline"]

SUFFIXES = (".svg", ".html", ".pftrace", ".json")


def write_timeline(
    file: Path, output: Path, *, window: str | None = None, scheduler: str | None = None
) -> Path:
    """Write the timeline of the capture ``file`` to ``output`` and return its path.

    window: what of the capture (see `choose_window`); by default the measured part. scheduler: where the
    reports of a folder are read. Raises `LabError` for an unknown suffix, a window that is none, or a capture
    without events, and `InputError` for a capture that cannot be read.
    """
    draw: Draw = doing("timeline", file)
    if scheduler is not None:
        expect(file, "timeline --scheduler", "ranks")
    return draw(file, output, window, scheduler)


def export_traces(files: Sequence[Path], folder: Path, *, force: bool = False) -> list[Path]:
    """Write all of each capture or trace as ``<capture>.pftrace`` into a folder: all files or none.

    Raises `LabError` for files of another kind, one without events, or a file that exists (without
    ``force``), and `InputError` for a capture that cannot be read.
    """
    if not files:
        raise LabError("export: name at least one capture")
    for file in files:
        expect(file, "export --format pftrace", *timelines())
    targets = {file: f"{base}.pftrace" for file, base in base_names(files).items()}
    with staged(folder, force=force, reads=[one for file in files for one in files_of(file)]) as work:
        for file, name in targets.items():
            with (
                open_timeline(file, "export --format pftrace") as report,
                (work / name).open("wb") as stream,
            ):
                if not write_pftrace(report, stream):
                    raise LabError(f"{file}: no events to write; record some first")
    return [folder / name for name in targets.values()]


# ---- what formats declare: a file, where to write, a window, where a folder's reports are read

Draw = Callable[[Path, Path, str | None, str | None], Path]


def draw_power(file: Path, output: Path, window: str | None, _: str | None) -> Path:
    """The timeline of a power log."""
    _without_window(file, window)
    return write_power(open_log(file), output)


def draw_ranks(file: Path, output: Path, window: str | None, scheduler: str | None) -> Path:
    """The timeline of a folder of ranks."""
    _without_window(file, window)
    return write_ranks(file, output, scheduler=scheduler)


def draw_memory(file: Path, output: Path, window: str | None, _: str | None) -> Path:
    """The timeline of a history of the allocator."""
    _without_window(file, window)
    return write_memory_timeline(file, output)


def _without_window(file: Path, window: str | None) -> None:
    if window is not None:
        raise LabError(f"timeline: --window is for timelines of captures and traces; leave it out for {file}")


def draw_timeline(file: Path, output: Path, window: str | None, _: str | None) -> Path:
    """The timeline of a capture or a trace."""
    write = _writer(output)
    with whole(output, reads=files_of(file)) as part, open_timeline(file, "timeline") as report:
        chosen = choose_window(report, window)
        if chosen[0] >= chosen[1]:
            raise LabError(
                f"{file}: no events to draw; record some with nsys (--trace=cuda,nvtx) or torch.profiler"
            )
        write(report, chosen, file.name, part)
    return output


# ---- the kinds of files

_Writer = Callable[[TimelineReport, Window, str, Path], None]


def _writer(output: Path) -> _Writer:
    name = output.name.lower()
    if name.endswith(".json.gz"):
        return _write_trace
    writers: dict[str, _Writer] = {
        ".svg": _write_picture,
        ".html": functools.partial(_write_page, place=Path(os.path.realpath(output))),
        ".json": _write_trace,
        ".pftrace": _write_pftrace,
    }
    suffix = output.suffix.lower()
    if suffix not in writers:
        raise LabError(
            f"{output}: {suffix or 'no suffix'} is not a kind of timeline; name a file that ends in "
            f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]} (or .json.gz)"
        )
    return writers[suffix]


def _write_picture(report: TimelineReport, window: Window, name: str, output: Path) -> None:
    output.write_bytes(render(lambda: timeline(report, window=window, title=name)))


def _write_page(report: TimelineReport, window: Window, name: str, output: Path, *, place: Path) -> None:
    """The page; of more events than it can hold with a folder of the same name beside its ``place``."""
    folder = place.with_suffix(".tiles")
    page, files = tiled_page(report, folder.name, window=window, title=name)
    output.write_bytes(page.encode())
    first, again, written = next(files, None), place.exists(), set()
    if first is not None:
        with staged(folder, force=again) as work:
            for name, text in itertools.chain([first], files):
                (work / name).write_text(text, encoding="ascii")
                written.add(name)
    if again:
        remove_tiles(folder, but=written)


def _write_trace(report: TimelineReport, window: Window, name: str, output: Path) -> None:
    with output.open("wb") as stream:
        if output.name.lower().endswith(".gz"):
            with (
                gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) as packed,
                _text(packed) as text,
            ):
                count = write_chrome_trace(report, text, window=window)
        else:
            with _text(stream) as text:
                count = write_chrome_trace(report, text, window=window)
        _some(report, count, window)


def _write_pftrace(report: TimelineReport, window: Window, name: str, output: Path) -> None:
    with output.open("wb") as stream:
        _some(report, write_pftrace(report, stream, window=window), window)


def _some(report: TimelineReport, count: int, window: Window) -> None:
    if not count:
        raise LabError(f"{report.path}: no events in this window; choose another one")
    if too_many(report, window):
        told = f"more than {MOST_WALKED:,} GPU operations; --window FROM..TO of fewer has it"
        print(f"note: the critical path is left out: {told}", file=sys.stderr)


@contextmanager
def _text(stream: io.BufferedWriter | gzip.GzipFile) -> Iterator[TextIO]:
    """A text stream over a binary one that stays open."""
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="\n", write_through=False)
    try:
        yield text
    finally:
        text.flush()
        text.detach()
