"""What formats have in common: their kinds, what each declares, names of ranges, what a notebook shows."""

from collections.abc import Mapping
from importlib import import_module
from typing import Literal, NamedTuple

Kind = Literal[
    "nsys",
    "kineto",
    "ncu",
    "memory",
    "power",
    "ranks",
    "perfetto",
]
SUFFIXES: Mapping[Kind, tuple[str, ...]] = {  # of names; the longest that fits says of which kind a file is
    "nsys": (".sqlite", ".sqlite.xz", ".nsys.xz", ".nsys-rep"),
    "kineto": (".json", ".json.gz", ".json.xz"),
    "ncu": (".ncu-rep", ".ncu-rep.xz"),
    "memory": (".memory.json", ".memory.json.xz", ".memory.json.gz", ".pickle", ".pkl"),
    "power": (".power.json", ".power.json.xz"),
    "ranks": ("/",),
    "perfetto": (".pftrace", ".perfetto-trace", ".pftrace.gz", ".perfetto-trace.gz"),
}
VERBS = ("stats", "export", "diagnose", "compare", "timeline", "flame", "roofline", "scrub")
STEP = "ProfilerStep#"  # what torch.profiler calls its steps
MEASURED = "lab:measured"  # the part that counts; `labcode.experiments.shared.common` opens it
MOST_WALKED = 500_000  # GPU operations of a run whose critical path is looked for unasked: it takes seconds


class Read(NamedTuple):
    """Versions of a format that are read, where a file says its own, what becomes of a newer one."""

    what: str
    versions: str
    told_by: str
    newer: str


class Format(NamedTuple):
    """One kind of file: ``what`` it is, and how each command handles it.

    Most fields are import paths (``module:name``): of what opens a file; of the versions that are read; for
    each command of the function that handles such files, None where there is none; ``facts`` the summary that
    `labcode.reports.facts` shows first. ``rules`` are the groups of rules (`labcode.analysis.rules.registry`)
    that judge such files, in their order.
    """

    kind: Kind
    what: str
    opens: str
    versions: str | None
    stats: str | None
    export: str | None
    diagnose: str | None
    rules: tuple[str, ...]
    compare: str | None
    timeline: str | None
    flame: str | None
    roofline: str | None
    scrub: str | None
    facts: str | None
    tables: str | None  # what rules look at, of an opened timeline: of any file that says what happened when
    report: str | None  # what is told of it in one
    several: bool = False  # whether a run may have several such files
    ranges: str = ""  # what its ranges with a name are called, where it has any

    @property
    def suffixes(self) -> tuple[str, ...]:
        """How names of such files end."""
        return SUFFIXES[self.kind]

    @property
    def commands(self) -> str:
        """The commands that read such files, as one text, separated by commas."""
        return ", ".join(verb for verb in VERBS if getattr(self, verb))


class Shown:
    """What a notebook shows as a card: its file and what is said of it first (`labcode.reports.facts`)."""

    def _repr_html_(self) -> str:
        card: str = import_module("labcode.reports.facts").card(self)
        return card
