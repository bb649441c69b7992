"""What a report says, apart from how it looks: verdicts, iterations, tables, a comparison; records alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from labcode.analysis.rules.finding import Verdict
from labcode.analysis.timeline.iterations import Iterations
from labcode.reports import Kind


@dataclass(frozen=True)
class Shown:
    """A table: its first rows, of how many, of which file ('' of several), and what there is to know."""

    title: str
    rows: pd.DataFrame
    count: int
    file: str = ""
    note: str = ""


@dataclass(frozen=True)
class Section:
    """Tables about one thing; ``book`` is the book's page on it, '' where there is none."""

    id: str
    title: str
    tables: tuple[Shown, ...]
    book: str = ""


@dataclass(frozen=True)
class Found:
    """A verdict with its numbers in words; ``of`` is the launch it is about, '' of the whole run."""

    verdict: Verdict
    file: str
    of: str
    measured: str
    gain: str


@dataclass(frozen=True)
class File:
    """One of the files: its name, what it is, facts about it by name, and what is odd about it."""

    name: str
    what: str
    facts: Mapping[str, str]
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Folder:
    """What is told of all ranks of a folder, before the page on one of them.

    ``looked_at`` is the report of that rank (the folder itself, where its traces are opened as one).
    """

    path: Path
    looked_at: Path
    headline: tuple[str, ...]
    told: tuple[Found, ...]
    files: tuple[File, ...] = ()
    sections: tuple[Section, ...] = ()


@dataclass(frozen=True)
class Changes:
    """A comparison with a file of before: both names, the verdict in lines, tables."""

    before: str
    after: str
    lines: tuple[str, ...]
    tables: tuple[Shown, ...]


@dataclass(frozen=True)
class Chart:
    """A picture in a section: what draws it, by import path, and of what; its text for who cannot see it."""

    section: str
    draw: str
    of: Any
    alt: str


@dataclass(frozen=True)
class Document:
    """A report; ``opened`` holds the files that pictures are drawn of, by kind. ``shares`` is the time of an
    iteration of each GPU by owner (index: owner; columns: GPUs; ns), ``ledger`` the same as a table.
    """

    title: str
    files: tuple[File, ...]
    headline: tuple[str, ...]
    found: tuple[Found, ...]
    others: tuple[Found, ...]
    iterations: Iterations | None
    sections: tuple[Section, ...]
    changes: tuple[Changes, ...] = ()
    shares: pd.DataFrame = field(default_factory=pd.DataFrame)
    ledger: Shown | None = None
    gpu_time: pd.DataFrame = field(default_factory=pd.DataFrame)
    opened: Mapping[Kind, Sequence[Any]] = field(default_factory=dict)
