"""`labcode report`: files of one run in; the `Document` of what they say out.

Files are open for as long as the document is::

    with gather([Path("run.sqlite"), Path("run.power.json")], before=[Path("main.sqlite")]) as document:
        ...
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from labcode import reports
from labcode.analysis.ledger.ledger import MOST_GPUS
from labcode.analysis.ledger.view import OWNERS, kept
from labcode.analysis.rules.facts import ranking
from labcode.analysis.rules.finding import CannotJudgeError
from labcode.analysis.rules.tables import Tables
from labcode.analysis.stats.shelf import NOTES, LackingError, shelf_of
from labcode.analysis.stats.table import length, take, to_frame
from labcode.analysis.timeline.iterations import Iterations, iterations
from labcode.analysis.timeline.overlap import time_shares
from labcode.errors import LabError
from labcode.reports import FOLDERS, FORMATS, Kind, able, imported, is_timeline
from labcode.reports.facts import facts_of
from labcode.reports.frames import rows_of
from labcode.reports.report import CountedReport
from labcode.show import byte_text, time_text
from labcode.verbs.report import together
from labcode.verbs.report.document import TOP, Changes, Document, File, Folder, Found, Section, Shown, part_of

GPUS = 8  # whose ledgers are shown
_LEFT_OUT = frozenset(  # columns that a page has no room for
    {
        *(f"{what} ({unit})" for what in ("Min", "Max", "StdDev") for unit in ("ns", "MB")),
        *("Style", "device_type", "annotation", "stack", "meaning", "std_ns", "min_ns", "max_ns"),
        *("latency_cycles", "all_samples", "declined", "disagreement"),
    }
)
_SECTIONS: Mapping[str, str] = {
    "joined": "Joined: what several files say of the same ranges and kernels",
    "model": "Model: matmuls, attention, the rest",
    "kernels": "Kernels",
    "operators": "Operators",
    "modules": "Modules",
    "copies": "Copies",
    "ranges": "Ranges",
    "calls": "Calls of CUDA",
    "path": "Critical path",
    "counters": "Counters over time",
    "communication": "Communication",
    "memory": "Memory",
    "launches": "Launches in Nsight Compute",
    "energy": "Energy",
}


@contextmanager
def gather(
    files: Sequence[Path], *, before: Sequence[Path] = (), title: str = "", window: str | None = None
) -> Iterator[Document]:
    """The document on ``files``, compared with those of ``before``; the files stay open inside the context.

    ``window`` says what of a timeline is judged (`labcode.analysis.ledger.steady`), by default the steady
    state.

    Raises `LabError` for files that do not belong together (it says which and why), `InputError` for one that
    cannot be read.
    """
    if not files:
        raise LabError("report: name the files of a run: a capture of nsys, a trace, a .ncu-rep, a power log")
    with ExitStack() as stack:
        ranked = _folders(files, stack)
        instead = {one.path: one.looked_at for one in ranked}
        opened = _open([instead.get(path, path) for path in files], stack)
        together.refuse_strangers(opened)
        every = [(kind, report) for kind, some in opened.items() for report in some]
        told, tables = _judged(every, window)
        found = tables.iterations if tables is not None else None
        told = [*(one for folder in ranked for one in folder.told), *told]
        timelines = [report for kind, report in every if is_timeline(kind)]
        if len(timelines) > 1 and found is not None:
            traced = iterations(timelines[1])  # a trace, which knows shapes
            found = Iterations(found.how, found.table, traced.work if traced else None)
        shares, ledger = _ledger(tables)
        gpu_time = pd.DataFrame()
        if tables is not None:
            tables.let_go()
            gpu_time = time_shares(rows_of(tables.view.ops, tables.op_rows), tables.window)
        joined, notes = _joined(opened)
        sections = (*(s for one in ranked for s in one.sections), *_sections(every, joined, told))
        yield Document(
            title=title or " + ".join(_names(ranked, every)),
            files=(
                *(file for one in ranked for file in one.files),
                *(_file(kind, report, notes) for kind, report in every),
            ),
            headline=(
                *(line for one in ranked for line in one.headline),
                *_headline(tables, found, gpu_time),
                *_doubts(sections),
            ),
            found=tuple(one for one in told if one.verdict.status == "found"),
            others=tuple(one for one in told if one.verdict.status != "found"),
            iterations=found,
            sections=sections,
            changes=tuple(_changes(path, opened, stack) for path in before),
            shares=shares,
            ledger=ledger,
            gpu_time=gpu_time,
            opened=opened,
        )


def _names(ranked: Sequence[Folder], every: Sequence[tuple[Kind, Any]]) -> Iterator[str]:
    """What the page is on: of a folder its name, not that of the rank that is looked at."""
    of = {one.looked_at: one.path for one in ranked}
    return (of.get(Path(report.path), Path(report.path)).name for _, report in every)


def _folders(files: Sequence[Path], stack: ExitStack) -> list[Folder]:
    if not any(path.is_dir() for path in files):
        return []
    (kind,) = FOLDERS
    found: list[Folder] = imported(str(FORMATS[kind].report))(files, stack)
    return found


def _open(files: Sequence[Path], stack: ExitStack) -> dict[Kind, list[Any]]:
    opened: dict[Kind, list[Any]] = {}
    seen: set[str] = set()
    for path in files:
        real = os.path.realpath(path)  # `Path.resolve` raises for links that go in a circle
        if real in seen:
            raise LabError(f"{path}: named twice; name each file once")
        seen.add(real)
        opened.setdefault(reports.kind_of(path), []).append(_opened(path, stack))
    return {kind: opened[kind] for kind in FORMATS if kind in opened}


def _opened(path: Path, stack: ExitStack) -> Any:
    if is_timeline(reports.expect(path, "report")):
        return kept(stack.enter_context(reports.open_timeline(path, "report")))
    return reports.open(path)


# ---- what is said first


def _ledger(tables: Tables | None) -> tuple[pd.DataFrame, Shown | None]:
    """Where an iteration's time goes on each GPU: by owner, in ns; and as a table."""
    if tables is None:
        return pd.DataFrame(), None
    try:
        tables.need_busy()
        found = tables.beside
    except CannotJudgeError:
        return pd.DataFrame(), None
    if not found:
        return pd.DataFrame(), None
    shares = pd.DataFrame(
        {f"GPU {one.device}": [one.each(owner.id) for owner in OWNERS] for one in found[:GPUS]},
        index=[owner.id for owner in OWNERS],
    )
    shares = shares[shares.sum(axis=1) > 0]
    titles = {owner.id: owner.title for owner in OWNERS}
    rows = pd.DataFrame({"time of an iteration": [titles[str(owner)] for owner in shares.index]})
    for name in shares.columns:
        rows[f"{name}_ns"] = shares[name].to_numpy()
    rows["share"] = (shares.iloc[:, 0] / max(float(shares.iloc[:, 0].sum()), 1.0)).to_numpy()
    title = "Where an iteration's time goes" if tables.count else "Where the time of the window goes"
    return shares, Shown(title, rows, len(rows), Path(tables.report.path).name, "labcode diagnose")


def _headline(tables: Tables | None, found: Iterations | None, shares: pd.DataFrame) -> Iterator[str]:
    if tables is not None and len(tables.op_rows):
        begin, end = tables.window
        yield f"Judged: {time_text(end - begin)}, {tables.judged.told}."
        told, of = shares, time_text(end - begin)
        if len(shares) > MOST_GPUS:
            whole = shares.sum().drop("device") / len(shares)
            of_all = _shared(whole, end - begin)
            yield f"{len(shares):,} GPUs, on average: {of_all} of {of}. The most idle of them:"
            told = shares.nlargest(GPUS, "idle_ns")
        for _, row in told.iterrows():
            yield f"GPU {row['device']}: {_shared(row.drop('device'), end - begin)} of {of}."
        yield from (f"note: {line}." for line in tables.judged.notes)
    elif tables is not None:
        yield from part_of(tables.report.format).idle(tables.report)
    if found is not None:
        warm, steady = int(found.table["warm_up"].sum()), found.steady
        apart = f", {warm} of them warm-up" if warm else ""
        spread = f", the middle four fifths within {found.spread:.0%} of it" if len(steady) > 2 else ""
        yield (
            f"{len(found.table):,} iteration{'s' * (len(found.table) != 1)}{apart}, found by {found.how}: "
            f"{time_text(found.median_ns)} each{spread}; "
            f"the GPU is busy for {float(steady['busy_share'].median()):.0%} of one."
        )
        yield from _work(found)


def _shared(spent: pd.Series, whole: float) -> str:
    """How a GPU's time, by `time_shares`, is shared out."""
    said = ("computing", "communicating alone", "copying alone", "idle")
    return ", ".join(
        f"{part / max(whole, 1):.0%} {name}" for part, name in zip(spent, said, strict=True) if part
    )


def _work(found: Iterations) -> Iterator[str]:
    work, seconds = found.work, found.median_ns / 1e9
    if work is None or not seconds:
        return
    if work.tokens == work.tokens:
        yield f"{work.tokens:,.0f} tokens per iteration, {work.tokens / seconds:,.0f} per second."
    if work.flops == work.flops:
        mfu = f", MFU {work.mfu:.1%} ({work.peak})" if work.mfu == work.mfu else ""
        without = f"; without {work.not_counted}" if work.not_counted else ""
        size, unit = (1e12, "TFLOP") if work.flops >= 1e9 else (1e9, "GFLOP")
        yield f"{work.flops / size:,.3g} {unit} in matmuls and attention per iteration{mfu}{without}."
    if work.payload_bytes == work.payload_bytes:
        yield f"{byte_text(work.payload_bytes)} in collectives per iteration."


def _file(kind: Kind, report: Any, notes: Sequence[str]) -> File:
    facts: dict[str, str] = {}
    version = getattr(report, "product_version", "") or getattr(report, "torch", "")
    if version:
        facts["recorded by"] = str(version)
    names = together.gpu_names(kind, report)
    if names:
        facts["GPU"] = ", ".join(names)
    facts |= facts_of(kind).told(report)
    own = [line.removeprefix(f"{report.path}: ") for line in report.warnings]
    mine = [line.removeprefix(f"{report.path}: ") for line in notes if line.startswith(f"{report.path}: ")]
    return File(Path(report.path).name, FORMATS[kind].what, facts, (*own, *mine))


# ---- verdicts


def _judged(every: Sequence[tuple[Kind, Any]], window: str | None) -> tuple[list[Found], Tables | None]:
    """What all rules say, of the run first, worst first; and the tables of the timeline that was judged."""
    told: list[Found] = []
    first: Tables | None = None
    for kind, report in every:
        found, tables = part_of(kind).judged(report, window, first, told)
        told += found
        first = tables if first is None else first
    key = ranking([one.verdict for one in told])
    return sorted(told, key=lambda one: (bool(one.of), *key(one.verdict))), first


# ---- tables


def _sections(
    every: Sequence[tuple[Kind, Any]], joined: Sequence[Shown], told: Sequence[Found]
) -> tuple[Section, ...]:
    tables: dict[str, list[Shown]] = {name: [] for name in _SECTIONS}
    tables["joined"] += joined
    for kind, report in every:
        part, shelf = part_of(kind), shelf_of(kind)
        source = part.source(report)
        for section, asked in part.reports.items():
            for name, title in asked:
                try:
                    made = shelf.answer(source, name) if shelf.answer else shelf.reports[name](source)
                except LackingError:
                    continue
                shown = _first(made, name)
                if shown is not None:
                    tables[section].append(
                        Shown(title, *shown, Path(report.path).name, f"labcode stats -r {name}")
                    )
        for section, table in part.more(report, told):
            tables[section].append(table)
    on_path = "pytorch/critical-path"
    sampled = any(isinstance(report, CountedReport) for _, report in every)
    book = {"model": "lm/kernels", "path": on_path, "counters": "nsys/gpu-metrics" if sampled else on_path}
    return tuple(
        Section(name, _SECTIONS[name], tuple(some), book.get(name, ""))
        for name, some in tables.items()
        if some
    )


def _first(made: Any, name: str) -> tuple[pd.DataFrame, int] | None:
    """The rows to show, without the columns that a page has no room for, and how many there are."""
    if isinstance(made, pd.DataFrame):
        count = len(made)
        if name == "op_sum":
            made = made.sort_values(["device_self_ns", "cpu_self_ns"], ascending=False, kind="stable")
            made = made[[c for c in made if not c.endswith("_bytes")]]
        frame = _top_of_each(made) if name == "stalls" else made.head(TOP)
    else:
        count = length(made)
        frame = to_frame(take(made, pd.RangeIndex(min(count, TOP)).to_numpy()))
    if not count:
        return None
    return frame[[c for c in frame if c not in _LEFT_OUT]].reset_index(drop=True), count


def _top_of_each(table: pd.DataFrame) -> pd.DataFrame:
    """The three states of each launch that take the longest, of stalls."""
    stalled: pd.DataFrame = table[table["stall"]] if "stall" in table else table
    return stalled.groupby("launch").head(3).head(3 * TOP)


def _doubts(sections: Sequence[Section]) -> Iterator[str]:
    """Where the critical path says something else than the GPU's own time."""
    for table in (table for section in sections if section.id == "path" for table in section.tables[:1]):
        yield from (f"{line[:1].upper()}{line[1:]}." for line in table.rows.attrs.get(NOTES, ()))


def _joined(opened: together.Opened) -> tuple[list[Shown], list[str]]:
    table, notes = together.by_range(opened)
    shown = []
    if len(table):
        shown.append(Shown("By range: its time and energy in each file", table.head(TOP), len(table)))
    kernels = together.profiled_kernels(opened)
    if len(kernels):
        note = "Gains of the run: the launch's bound by the kernel's share; they do not add up."
        shown.append(
            Shown("What the profiled kernels are in the run", kernels.head(TOP), len(kernels), note=note)
        )
    return shown, notes


# ---- before and after


def _changes(path: Path, opened: together.Opened, stack: ExitStack) -> Changes:
    kind = reports.expect(path, "report --before", *(one for one in able("compare") if one not in FOLDERS))
    after = together.same_kind(path, kind, opened)
    before = _opened(path, stack)
    return Changes(path.name, Path(after.path).name, *imported(str(part_of(kind).changed))(before, after))
