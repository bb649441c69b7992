"""Does `labcode diagnose` name the cause? Captured cases in; a table, what it adds up to, an exit code out.

Of each case of ``benchmarks/diagnosis`` the recorded fault is judged. The first verdict that promises a gain
is compared with the planted cause, its gain with what the mended program gained without a profiler, its first
place with the line a person would point to. Rows of the cases set aside are shown only when asked for: who
writes rules is not to see them.
"""

import io
import json
import re
import statistics
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from labcode import store
from labcode.errors import LabError
from labcode.outputs import DOCUMENT_SCHEMA, whole
from labcode.show import terminal

FOLDER = "benchmarks/diagnosis"
EXPERIMENTS = ("diagnosis", "diagnosis_later", "diagnosis_two", "diagnosis_two_later")
AGAIN = 0.1  # of an iteration: what a mended program may be promised for the cause that was removed
ALARMING = frozenset({"high", "medium"})  # verdicts of this severity on a good program are false alarms
FACTOR = 1.5  # between the gain that is told and that of mending
NEAR = 2  # lines: as far as a call may be from the line that prepares it
# Which rules mean a cause. Where none is made for it, those whose advice covers it.
RULES: Mapping[str, frozenset[str]] = {
    cause: frozenset(rules.split())
    for cause, rules in {
        "data-loading": "data-loading",
        "host-code": "host-code",
        "host-sync": "sync-in-loop drained-queue",
        "explicit-sync": "sync-in-loop drained-queue",
        "pageable-copy": "pageable-copies synchronous-copies",
        "copy-not-hidden": "copies-not-hidden",
        "copy-back": "results-copied-back",
        "host-made-tensors": "",
        "no-tensor-cores": "no-tensor-cores",
        "unfused": "unfused-elementwise",
        "launch-bound": "launch-bound tiny-kernels unfused-optimizer",
        "small-grids": "small-grids",
        "allocation": "allocation-in-loop",
        "compilation": "compiling-in-loop",
        "checkpoint": "host-code",
        "garbage-collection": "host-code",
        "other-thread": "gil",
        "layout-conversion": "layout-conversions",
        "atomics": "atomics",
        "late-rank": "late-rank",
        "communication-not-overlapped": "communication-not-hidden serialized-communication",
        "small-collectives": "communication-not-hidden serialized-communication",
        "excess-communication": "communication-not-hidden serialized-communication",
        "unused-parameters": "host-code",
        "pipeline-bubble": "late-rank",
        "none": "",
    }.items()
}
_WIDTH = 132  # of the table, wherever it is printed
_PLACE = re.compile(
    r"(?:in `(?P<function>[^`]+)`, )?(?P<file>\w+\.py)(?::|, between lines )(?P<line>\d+)"
    r"(?:, from `[^`]+`, \w+\.py:(?P<loop>\d+))?"
)


@dataclass(frozen=True)
class Case:
    """A case as its ``case.toml`` has it; ``line``: file, function, text, or empty."""

    name: str
    cause: str
    accept: tuple[str, ...]
    gpus: int
    aside: bool
    line: Mapping[str, str]

    @property
    def rules(self) -> frozenset[str]:
        """The rules of which one has to come first."""
        return frozenset[str]().union(*(RULES[cause] for cause in (self.cause, *self.accept)))


@dataclass(frozen=True)
class Told:
    """The first verdict that promises a gain: its rule ('': none does), the gain as a share of an iteration
    with its bounds, its first place in the program (0: none), the line of the loop it was called from."""

    rule: str = ""
    severity: str = ""
    gain: float = 0.0
    least: float = 0.0
    most: float = 0.0
    function: str = ""
    line: int = 0
    loop: int = 0


@dataclass(frozen=True)
class Row:
    """A case that was judged. ``gained``: by mending it, as a share of an iteration; ``place``: whether the
    line is right, or the function, or neither; empty where nothing is asked. ``again``: the gain that the
    mended twin is promised for the same cause.
    """

    case: str
    cause: str
    aside: bool
    told: Told
    hit: bool
    gained: float | None
    place: str
    again: float

    @property
    def near(self) -> bool:
        """Whether the gain that is told is that of mending, by `FACTOR`."""
        return bool(self.gained) and 1 / FACTOR <= self.told.gain / (self.gained or 1.0) <= FACTOR


def main(set_name: str, *, show_aside: bool, json_file: Path | None, console: Console) -> int:
    """Judge all captured cases of a set, print the table, write the record; 0."""
    folder = store.repository_root() / FOLDER
    cases = read_cases(folder)
    captures = store.load_set(set_name)
    held = {
        name: experiment
        for experiment in EXPERIMENTS
        if experiment in captures.experiments
        for name in captures.experiments[experiment].runs
    }
    if not held:
        raise LabError(
            f"{set_name}: holds no cases of diagnosis; capture them with `labcode capture diagnosis`"
        )
    paths = {name: captures.stored(of, name, ".sqlite") for name, of in held.items()}
    with ProcessPoolExecutor() as pool, console.status("judging"):
        verdicts = dict(zip(paths, pool.map(judged, map(str, paths.values())), strict=True))
    seconds = {name: _seconds(path.with_name(f"{name}.clean.json")) for name, path in paths.items()}
    rows = [row_of(case, folder, verdicts, seconds) for case in cases if _names(case)[0] in held]
    console.width = max(console.width, _WIDTH)
    console.print(_table(row for row in rows if show_aside or not row.aside))
    lacking = [case.name for case in cases if _names(case)[0] not in held]
    for title, some in (
        ("all", rows),
        ("open", [row for row in rows if not row.aside]),
        ("set aside", [row for row in rows if row.aside]),
    ):
        console.print(f"{title}: {summary(some)}", highlight=False, soft_wrap=True)
    if lacking:
        console.print(f"not captured yet: {', '.join(lacking)}", highlight=False, soft_wrap=True)
    if json_file is not None:
        with whole(json_file) as made:
            document = {"schema": DOCUMENT_SCHEMA, "set": set_name, "cases": [asdict(row) for row in rows]}
            made.write_text(json.dumps(document, indent=1))
    return 0


def read_cases(folder: Path) -> list[Case]:
    """All cases, by name; `LabError` where there are none."""
    listed = folder / "aside.txt"
    if not listed.is_file():
        raise LabError(f"{folder}: no cases of diagnosis here; they lie in the repository")
    aside = set(listed.read_text(encoding="utf-8").split())
    found = []
    for path in sorted(folder.glob("*/case.toml")):
        told = tomllib.loads(path.read_text(encoding="utf-8"))
        name = path.parent.name
        accept = tuple(told["accept"])
        found.append(Case(name, told["cause"], accept, told["gpus"], name in aside, told.get("line", {})))
    return found


def judged(path: str) -> list[dict[str, Any]]:
    """The verdicts on a capture, in the judge's order."""
    from labcode.verbs.diagnose import verdicts as verb

    said = io.StringIO()
    verb.run(Path(path), fmt="json", only=[], output=said, notes=io.StringIO())
    verdicts: list[dict[str, Any]] = json.loads(said.getvalue())["verdicts"]
    return verdicts


def first(verdicts: Iterable[Mapping[str, Any]], rules: frozenset[str] | None = None) -> Told:
    """The first verdict that promises a gain; with ``rules`` of these alone."""
    for verdict in verdicts:
        gain = verdict.get("gain", verdict.get("gain_at_most"))
        if verdict["status"] == "found" and gain and (rules is None or verdict["rule"] in rules):
            bounds = [verdict.get(key) for key in ("gain_at_least", "gain_at_most")]
            least, most = (gain if bound is None else bound for bound in bounds)
            place = _PLACE.search(verdict["message"])
            where = (place["function"] or "", int(place["line"]), int(place["loop"] or 0)) if place else ()
            return Told(verdict["rule"], verdict["severity"], gain, least, most, *where)
    return Told()


def row_of(
    case: Case,
    folder: Path,
    verdicts: Mapping[str, Sequence[Mapping[str, Any]]],
    seconds: Mapping[str, float],
) -> Row:
    """What came of a case: a hit where the first verdict is of its rules, or, of a good program, no alarm."""
    names = _names(case)
    told = first(verdicts[names[0]])
    if case.cause == "none":
        some = [one for one in verdicts[names[0]] if one["status"] == "found"]
        hit = not any(one["severity"] in ALARMING for one in some)
        return Row(case.name, case.cause, case.aside, told, hit, None, "", 0.0)
    gained = 1 - seconds[names[1]] / seconds[names[0]]
    again = first(verdicts[names[1]], RULES[case.cause]).gain
    hit = told.rule in case.rules
    place = place_of(case, folder, told) if case.line else ""
    return Row(case.name, case.cause, case.aside, told, hit, gained, place, again)


def place_of(case: Case, folder: Path, told: Told) -> str:
    """``line``, ``function`` or ``no``: what of the told place, or of its loop, is that of the case."""
    lines = (folder / case.name / case.line["file"]).read_text(encoding="utf-8").splitlines()
    wanted = 1 + [line.strip() for line in lines].index(case.line["text"])
    if any(line and abs(line - wanted) <= NEAR for line in (told.line, told.loop)):
        return "line"
    return "function" if told.line and told.function in (case.line["function"], "") else "no"


def summary(rows: Sequence[Row]) -> str:
    """What rows add up to, in words."""
    faults = [row for row in rows if row.gained is not None]
    good = [row for row in rows if row.gained is None]
    hits = [row for row in faults if row.hit]
    asked = [row for row in faults if row.place]
    right = [row.place for row in asked]
    near = sum(row.near for row in hits)
    within = sum(row.told.least <= (row.gained or 0.0) <= row.told.most for row in hits)
    off = [abs(row.told.gain - (row.gained or 0.0)) for row in hits]
    text = f"{len(hits)} of {len(faults)} causes named first"
    if hits:
        text += f"; of these the gain within a factor of {FACTOR} in {near}, within its bounds in {within}"
        text += f", off by {100 * statistics.median(off):.0f} points in the median"
    text += f"; line right in {right.count('line')} of {len(asked)}"
    text += f", function in {right.count('function')} more"
    alarms = sum(not row.hit for row in good)
    again = sum(row.again >= AGAIN for row in faults)
    return f"{text}; false alarms in {alarms} of {len(good)} good programs, {again} mended ones told the same"


def _table(rows: Iterable[Row]) -> Table:
    numbers = ("gain told", "gain measured", "mended")
    table = terminal.table("case", "planted", "told first", "", "place", right=numbers)
    for row in rows:
        told = row.told
        gain = f"{told.gain:.0%} ({told.least:.0%}–{told.most:.0%})" if told.rule else "–"
        measured = "–" if row.gained is None else f"{row.gained:.0%}"
        again = "" if row.gained is None else f"{row.again:.0%}"
        verdict = "hit" if row.hit else "false alarm" if row.gained is None else "miss"
        table.add_row(row.case, row.cause, told.rule or "nothing", verdict, row.place, gain, measured, again)
    return table


def _names(case: Case) -> tuple[str, ...]:
    scripts = ("good",) if case.cause == "none" else ("fault", "mended")
    return tuple(f"{case.name}-{script}" for script in scripts)


def _seconds(record: Path) -> float:
    return float(json.loads(record.read_text(encoding="utf-8"))["results"]["seconds_per_iteration"])
