"""Readers of what tools recorded: a path in, its kind or its opened report out::

    report = reports.open("capture.sqlite")

A format is a package here, which declares what each command does with its files (`FORMAT`), and its words in
`Kind` and `SUFFIXES` (`labcode.reports.common`). Importing this module does not import pandas; opening a file
imports only the reader of its format.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labcode.errors import InputError, LabError
from labcode.reports.common import SUFFIXES
from labcode.reports.common import VERBS as VERBS
from labcode.reports.common import Format as Format
from labcode.reports.common import Kind as Kind

if TYPE_CHECKING:
    from labcode.reports.kineto.report import KinetoReport
    from labcode.reports.memory.history import MemoryHistory
    from labcode.reports.ncu.report import NcuReport
    from labcode.reports.nsys.report import NsysReport
    from labcode.reports.power.log import PowerLog
    from labcode.reports.report import TimelineReport


class _Declared(Mapping[Kind, Format]):
    """What each kind of file declares; its package is imported when it is asked for."""

    def __getitem__(self, kind: Kind) -> Format:
        return _declared(kind)

    def __iter__(self) -> Iterator[Kind]:
        return iter(SUFFIXES)

    def __len__(self) -> int:
        return len(SUFFIXES)


@cache
def _declared(kind: Kind) -> Format:
    if kind not in SUFFIXES:
        raise KeyError(kind)
    found: Format = imported(f"labcode.reports.{kind}:FORMAT")
    return found


FORMATS: Mapping[Kind, Format] = _Declared()
TOGETHER = 8  # traces that are opened as one report; a folder of more is taken rank by rank
FOLDERS: tuple[Kind, ...] = ("ranks",)  # which hold a report for each rank
METERED: tuple[Kind, ...] = ("power",)  # which say what was drawn, and of no work
_OF_RANKS: tuple[Kind, ...] = ("nsys", "kineto", "power")


def imported(path: str) -> Any:
    """The object that an import path (``module:name``) names."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def able(verb: str) -> tuple[Kind, ...]:
    """The kinds of files that a command reads, or that declare any other field of `Format`."""
    return tuple(kind for kind, one in FORMATS.items() if getattr(one, verb))


def is_timeline(kind: Kind) -> bool:
    """Whether files of a kind say what happened when."""
    return FORMATS[kind].tables is not None


def timelines() -> tuple[Kind, ...]:
    """The kinds of files that say what happened when."""
    return able("tables")


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
    fits = [(len(end), kind) for kind, ends in SUFFIXES.items() for end in ends if name.endswith(end)]
    return max(fits)[1] if fits else "nsys"


def reports_of_ranks(folder: Path) -> tuple[Kind, list[Path]]:
    """The kind of the reports in a folder and their paths, sorted by name.

    Only captures of Nsight Systems, traces and power logs count; an ``.nsys-rep`` whose export lies beside it
    is left out. A folder without any of them counts as one of traces, with the JSON files in it. Raises
    `InputError` where there are reports of several kinds.
    """
    there = sorted(path for path in folder.iterdir() if path.is_file()) if folder.is_dir() else []
    found: dict[Kind, list[Path]] = {}
    for kind in _OF_RANKS:
        suffixes = (".trace.json", ".trace.json.gz") if kind == "kineto" else SUFFIXES[kind]
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
    if not kinds and getattr(FORMATS[kind], command):
        return kind  # no other format is looked at
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
    opened: NsysReport | KinetoReport | NcuReport | MemoryHistory | PowerLog = _opened(path, kind_of(path))
    return opened


def open_launches(path: Path) -> NcuReport:
    """Open a report of Nsight Compute; see `labcode.reports.ncu.report.open_report`."""
    opened: NcuReport = _opened(path, "ncu")
    return opened


def open_timeline(path: Path, command: str) -> TimelineReport:
    """Open a timeline (of nsys, torch.profiler or Perfetto) for a command; `LabError` for any other file."""
    kind = kind_of(path)
    opened: TimelineReport = _opened(path, kind if is_timeline(kind) else expect(path, command, *timelines()))
    return opened


def _opened(path: Path, kind: Kind) -> Any:
    return imported(FORMATS[kind].opens)(path)
