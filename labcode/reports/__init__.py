"""Readers of what tools recorded: a path in, its kind or its opened report out::

    report = reports.open("capture.sqlite")

A format is a package here, its line in `FORMATS`, and its tables of reports and rules in `labcode.analysis`.
Importing this module does not import pandas; opening a file imports only the reader of its format.
"""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, assert_never, get_args

from labcode.errors import InputError, LabError

if TYPE_CHECKING:
    from labcode.reports.kineto.report import KinetoReport
    from labcode.reports.memory.history import MemoryHistory
    from labcode.reports.ncu.report import NcuReport
    from labcode.reports.nsys.report import NsysReport
    from labcode.reports.power.log import PowerLog
    from labcode.reports.report import TimelineReport

Kind = Literal["nsys", "kineto", "ncu", "memory", "power", "ranks", "perfetto"]


@dataclass(frozen=True, kw_only=True)
class Format:
    """One kind of file: ``what`` it is, its ``suffixes``, and how each command handles it.

    The other fields are import paths (``module:name``): for each command the function that handles such
    files, None where there is none; ``facts`` the summary that `labcode.reports.facts` shows first.
    """

    what: str
    suffixes: tuple[str, ...]
    ranges: str = ""  # what its ranges with a name are called, where it has any
    stats: str | None
    export: str | None
    diagnose: str | None
    compare: str | None
    timeline: str | None
    flame: str | None
    roofline: str | None
    scrub: str | None
    facts: str | None
    tables: str | None  # what rules look at, of an opened timeline
    page: str | None  # what is told of it in a report
    several: bool = False  # whether a run may have several such files

    @property
    def commands(self) -> str:
        """The commands that read such files, as one text, separated by commas."""
        return ", ".join(verb for verb in VERBS if getattr(self, verb))


VERBS = ("stats", "export", "diagnose", "compare", "timeline", "flame", "roofline", "scrub")


def _declared(kind: Kind) -> Format:
    match kind:
        case "nsys":
            return Format(
                what="a capture of Nsight Systems",
                suffixes=(".sqlite", ".sqlite.xz", ".nsys.xz", ".nsys-rep"),
                ranges="NVTX range",
                stats="labcode.analysis.stats.nsys.reports:SHELF",
                export="labcode.reports.nsys.export:export_all",
                diagnose="labcode.verbs.diagnose.files:run_on_timeline",
                compare="labcode.verbs.compare.pairs:run",
                timeline="labcode.verbs.timeline:draw_timeline",
                flame="labcode.verbs.flame:CAPTURES",
                roofline=None,
                scrub="labcode.capture.scrub:scrub_file",
                facts="labcode.reports.facts:CAPTURES",
                tables="labcode.analysis.rules.tables:Tables",
                page="labcode.verbs.report.captures:PART",
            )
        case "ncu":
            return Format(
                what="a report of Nsight Compute",
                suffixes=(".ncu-rep", ".ncu-rep.xz"),
                stats="labcode.analysis.stats.ncu:SHELF",
                export=None,
                diagnose="labcode.verbs.diagnose.files:run_on_launches",
                compare="labcode.verbs.compare.pairs:run",
                timeline=None,
                flame=None,
                roofline="labcode.verbs.roofline:write_roofline",
                scrub="labcode.capture.ncu_scrub:scrub_file",
                facts="labcode.reports.facts:LAUNCHES",
                tables=None,
                page="labcode.verbs.report.launches:PART",
                several=True,
            )
        case "memory":
            return Format(
                what="a history of the allocator",
                suffixes=(".memory.json", ".memory.json.xz", ".memory.json.gz", ".pickle", ".pkl"),
                stats="labcode.analysis.stats.memory:SHELF",
                export=None,
                diagnose=None,
                compare=None,
                timeline="labcode.verbs.timeline:draw_memory",
                flame=None,
                roofline=None,
                scrub="labcode.capture.torch_profile:scrub_file",
                facts="labcode.reports.facts:HISTORIES",
                tables=None,
                page="labcode.verbs.report.histories:PART",
            )
        case "power":
            return Format(
                what="a power log",
                suffixes=(".power.json", ".power.json.xz"),
                stats="labcode.analysis.stats.power:SHELF",
                export=None,
                diagnose="labcode.verbs.diagnose.files:run_on_log",
                compare="labcode.verbs.compare.pairs:run",
                timeline="labcode.verbs.timeline:draw_power",
                flame=None,
                roofline=None,
                scrub=None,
                facts="labcode.reports.facts:LOGS",
                tables=None,
                page="labcode.verbs.report.logs:PART",
            )
        case "kineto":
            return Format(
                what="a trace of torch.profiler",
                suffixes=(".json", ".json.gz", ".json.xz"),
                ranges="annotation",
                stats="labcode.analysis.stats.kineto:SHELF",
                export=None,
                diagnose="labcode.verbs.diagnose.files:run_on_timeline",
                compare="labcode.verbs.compare.pairs:run",
                timeline="labcode.verbs.timeline:draw_timeline",
                flame="labcode.verbs.flame:TRACES",
                roofline=None,
                scrub="labcode.capture.torch_profile:scrub_file",
                facts="labcode.reports.facts:TRACES",
                tables="labcode.analysis.rules.kineto:TraceTables",
                page="labcode.verbs.report.traces:PART",
            )
        case "perfetto":
            return Format(
                what="a trace in Perfetto's format",
                suffixes=(".pftrace", ".perfetto-trace", ".pftrace.gz", ".perfetto-trace.gz"),
                ranges="range",
                stats="labcode.analysis.stats.perfetto:SHELF",
                export=None,
                diagnose="labcode.verbs.diagnose.files:run_on_timeline",
                compare="labcode.verbs.compare.pairs:run",
                timeline="labcode.verbs.timeline:draw_timeline",
                flame="labcode.verbs.flame:TRACES",
                roofline=None,
                scrub=None,
                facts="labcode.reports.facts:TRACES",
                tables="labcode.analysis.rules.kineto:TraceTables",
                page="labcode.verbs.report.perfetto:PART",
            )
        case "ranks":
            return Format(
                what="a folder of reports, one per rank",
                suffixes=("/",),
                stats="labcode.analysis.stats.ranks:SHELF",
                export=None,
                diagnose="labcode.verbs.diagnose.files:run_on_ranks",
                compare="labcode.verbs.compare.pairs:run",
                timeline="labcode.verbs.timeline:draw_ranks",
                flame=None,
                roofline=None,
                scrub=None,
                facts=None,
                tables=None,
                page="labcode.verbs.report.folder:folders",
            )
        case _:
            assert_never(kind)


_BY_NAME: tuple[Kind, ...] = (
    "nsys",
    "ncu",
    "memory",
    "power",
    "perfetto",
    "kineto",
    "ranks",
)  # the first whose suffix fits
FORMATS: dict[Kind, Format] = {kind: _declared(kind) for kind in _BY_NAME}
TOGETHER = 8  # traces that are opened as one report; a folder of more is taken rank by rank
TIMELINES: tuple[Kind, ...] = ("nsys", "kineto", "perfetto")  # which say what happened when
FOLDERS: tuple[Kind, ...] = ("ranks",)  # which hold a report for each rank
METERED: tuple[Kind, ...] = ("power",)  # which say what was drawn, and of no work
_OF_RANKS: tuple[Kind, ...] = ("nsys", "kineto", "power")


def imported(path: str) -> Any:
    """The object that an import path (``module:name``) names."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def able(verb: str) -> tuple[Kind, ...]:
    """The kinds of files that a command reads."""
    return tuple(kind for kind in get_args(Kind) if getattr(FORMATS[kind], verb))


def doing(verb: str, path: Path) -> Any:
    """The function that handles a file for a command; `LabError` where the command does not read its kind."""
    return imported(getattr(FORMATS[expect(path, verb)], verb))


def kind_of(path: Path) -> Kind:
    """The kind of a file, judged by its name; a folder counts as 'ranks', with one report per rank.

    A folder of up to `TOGETHER` traces is 'kineto' instead, because they are opened as one report. A name
    with an unknown suffix counts as a capture of nsys, whose reader then says what is wrong with the file.
    Raises `InputError` for the averages that are stored beside a trace.
    """
    name = path.name.lower()
    if path.is_dir():
        kind, files = reports_of_ranks(path)
        return "kineto" if kind == "kineto" and len(files) <= TOGETHER else "ranks"
    if name.endswith((".averages.json", ".averages.json.gz")):
        raise InputError(f"{path}: averages of a trace, not the trace; name the .trace.json.gz beside it")
    return next((kind for kind, one in FORMATS.items() if name.endswith(one.suffixes)), "nsys")


def reports_of_ranks(folder: Path) -> tuple[Kind, list[Path]]:
    """The kind of the reports in a folder and their paths, sorted by name.

    Only captures of Nsight Systems, traces and power logs count; an ``.nsys-rep`` whose export lies beside it
    is left out. A folder without any of them counts as one of traces, with the JSON files in it. Raises
    `InputError` where there are reports of several kinds.
    """
    there = sorted(path for path in folder.iterdir() if path.is_file()) if folder.is_dir() else []
    found: dict[Kind, list[Path]] = {}
    for kind in _OF_RANKS:
        suffixes = (".trace.json", ".trace.json.gz") if kind == "kineto" else FORMATS[kind].suffixes
        files = [path for path in there if path.name.lower().endswith(suffixes)]
        if files:
            found[kind] = files
    if len(found) > 1:
        what = " and ".join(f"{FORMATS[kind].what} ({files[0].name})" for kind, files in found.items())
        raise InputError(f"{folder}: holds {what}; name a folder with reports of one kind, one per rank")
    for kind, files in found.items():
        if kind == "nsys":
            ends = re.compile(r"\.(?:sqlite(?:\.xz)?|nsys\.xz)$", re.IGNORECASE)
            exports = {ends.sub("", path.name) for path in files if ends.search(path.name)}
            files = [p for p in files if p.suffix != ".nsys-rep" or p.name[: -len(p.suffix)] not in exports]
        return kind, files
    return "kineto", [path for path in there if path.name.lower().endswith((".json", ".json.gz"))]


def expect(path: Path, command: str, *kinds: Kind) -> Kind:
    """The kind of a file, if the command reads it.

    ``kinds`` are those to accept, by default all that declare the command. Raises `LabError` for a file of
    another kind, naming the commands that do read it.
    """
    kind = kind_of(path)
    kinds = kinds or able(command)
    if kind not in kinds:
        if kinds == ("ranks",) and path.is_dir():
            raise LabError(
                f"{path}: a folder of up to {TOGETHER} traces, which are read as one; leave out --scheduler"
            )
        takes = (
            " or ".join(FORMATS[one].suffixes[0] for one in kinds if one != "ranks") or "a folder of ranks"
        )
        commands = FORMATS[kind].commands
        raise LabError(
            f"{path}: {FORMATS[kind].what}; `labcode {command}` reads {takes} and not this, which is for "
            f"{f'labcode {commands}' if commands else 'no command'}"
        )
    return kind


def files_of(path: Path) -> list[Path]:
    """The files behind a path: itself, or the traces in a folder."""
    if not path.is_dir():
        return [path]
    kind, files = reports_of_ranks(path)
    if kind != "kineto":
        return files
    from labcode.reports.kineto.open import trace_files

    return trace_files(path)


def open(path: str | Path) -> NsysReport | KinetoReport | NcuReport | MemoryHistory | PowerLog:
    """Open a recording, with the reader that `kind_of` its name selects; a folder of traces is one report.

    Raises `InputError` for a file that is missing, damaged or of another format than its name says, and
    `ToolError` where a tool is needed to read it (nsys for an ``.nsys-rep``) and missing.
    """
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
    """Open a report of Nsight Compute; see `labcode.reports.ncu.report.open_report`."""
    from labcode.reports.ncu.report import open_report

    return open_report(path)


def open_timeline(path: Path, command: str) -> TimelineReport:
    """Open a timeline (of nsys, torch.profiler or Perfetto) for a command; `LabError` for any other file."""
    return _timeline(path, expect(path, command, *TIMELINES))


def _timeline(path: Path, kind: Kind) -> NsysReport | KinetoReport:
    if kind == "kineto":
        from labcode.reports.kineto.report import open_trace

        return open_trace(path)
    if kind == "perfetto":
        from labcode.reports.perfetto.report import open_pftrace

        return open_pftrace(path)
    from labcode.reports.nsys.report import open_report

    return open_report(path)
