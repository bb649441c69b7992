"""Readers of what tools recorded: a path in, its kind or its opened report out.

    report = reports.open("capture.sqlite")

A format is a package here, its line in `FORMATS`, and its tables of reports and rules in `labcode.analysis`.
Importing this takes no pandas; opening a file imports its reader alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from labcode.errors import InputError, LabError

if TYPE_CHECKING:
    from labcode.reports.kineto.report import KinetoReport
    from labcode.reports.memory.history import MemoryHistory
    from labcode.reports.ncu.report import NcuReport
    from labcode.reports.nsys.report import NsysReport
    from labcode.reports.power.log import PowerLog
    from labcode.reports.report import TimelineReport

Kind = Literal["nsys", "kineto", "ncu", "memory", "power"]


@dataclass(frozen=True)
class Format:
    """What files of a kind are, how their names end, and the commands that read them."""

    what: str
    suffixes: tuple[str, ...]
    commands: str


FORMATS: dict[Kind, Format] = {  # the first whose suffix fits
    "nsys": Format(
        "a capture of Nsight Systems",
        (".sqlite", ".sqlite.xz", ".nsys-rep"),
        "stats, export, diagnose, compare, timeline, flame, scrub",
    ),
    "ncu": Format(
        "a report of Nsight Compute", (".ncu-rep", ".ncu-rep.xz"), "stats, diagnose, compare, roofline, scrub"
    ),
    "memory": Format(
        "a history of the allocator",
        (".memory.json", ".memory.json.xz", ".memory.json.gz"),
        "stats, timeline, scrub",
    ),
    "power": Format("a power log", (".power.json", ".power.json.xz"), "stats, diagnose, compare, timeline"),
    "kineto": Format(
        "a trace of torch.profiler",
        (".json", ".json.gz", ".json.xz"),
        "stats, diagnose, compare, timeline, scrub",
    ),
}
_TIMELINES: tuple[Kind, ...] = ("nsys", "kineto")


def kind_of(path: Path) -> Kind:
    """Of which kind a file is, by its name; a folder holds traces, one for each rank.

    What has none of the suffixes is taken for a capture of nsys, whose reader says what else it is. Raises
    `InputError` for the averages that are kept beside a trace.
    """
    name = path.name.lower()
    if path.is_dir():
        return "kineto"
    if name.endswith((".averages.json", ".averages.json.gz")):
        raise InputError(f"{path}: averages of a trace, not the trace; name the .trace.json.gz beside it")
    return next((kind for kind, one in FORMATS.items() if name.endswith(one.suffixes)), "nsys")


def expect(path: Path, command: str, *kinds: Kind) -> Kind:
    """The kind of a file that a command is to read; `LabError` says what reads it where that is not one of
    ``kinds``."""
    kind = kind_of(path)
    if kind not in kinds:
        takes = " or ".join(FORMATS[one].suffixes[0] for one in kinds)
        raise LabError(
            f"{path}: {FORMATS[kind].what}; `labcode {command}` reads {takes} and not this, which is for "
            f"labcode {FORMATS[kind].commands}"
        )
    return kind


def files_of(path: Path) -> list[Path]:
    """The files behind a path: itself, or the traces in a folder."""
    if not path.is_dir():
        return [path]
    from labcode.reports.kineto.open import trace_files

    return trace_files(path)


def open(path: str | Path) -> NsysReport | KinetoReport | NcuReport | MemoryHistory | PowerLog:
    """Open a file of any kind; raises `InputError` for one that is missing, damaged or of no kind."""
    path = Path(path)
    kind = kind_of(path)
    if kind == "ncu":
        return open_launches(path)
    if kind == "memory":
        from labcode.reports.memory.history import open_history

        return open_history(path)
    if kind == "power":
        from labcode.reports.power.log import open_log

        return open_log(path)
    return _timeline(path, kind)


def open_launches(path: Path) -> NcuReport:
    """Open a report of Nsight Compute."""
    from labcode.reports.ncu.report import open_report

    return open_report(path)


def open_timeline(path: Path, command: str) -> TimelineReport:
    """Open a capture of nsys or a trace of torch.profiler, for a command that takes either."""
    return _timeline(path, expect(path, command, *_TIMELINES))


def _timeline(path: Path, kind: Kind) -> NsysReport | KinetoReport:
    if kind == "kineto":
        from labcode.reports.kineto.report import open_trace

        return open_trace(path)
    from labcode.reports.nsys.report import open_report

    return open_report(path)
