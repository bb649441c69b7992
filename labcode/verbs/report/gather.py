"""`labcode report`: files of one run in; the `Document` of what they say out.

with gather([Path("run.sqlite"), Path("run.power.json")], before=[Path("main.sqlite")]) as document:
    ...
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from labcode import reports
from labcode.analysis.ledger.owners import OWNERS
from labcode.analysis.lm import attribution, kineto
from labcode.analysis.lm import parts as lm_parts
from labcode.analysis.rules.counters import LEANS
from labcode.analysis.rules.finding import CannotJudgeError, Verdict
from labcode.analysis.rules.good import ID as GOOD
from labcode.analysis.rules.registry import own_rules
from labcode.analysis.rules.tables import Tables, kept
from labcode.analysis.rules.without_gpu import host_sentences
from labcode.analysis.rules.writing import gain_text, launch_gain_text, launch_measured_text, measured_text
from labcode.analysis.stats.nsys import path as nsys_path
from labcode.analysis.stats.shelf import NOTES, LackingError, shelf_of
from labcode.analysis.stats.table import length, take, to_frame
from labcode.analysis.timeline import counters
from labcode.analysis.timeline.critical_path import by_kind, critical_path, kinds_of
from labcode.analysis.timeline.iterations import Iterations, iterations
from labcode.analysis.timeline.overlap import communication_overlap, time_shares
from labcode.analysis.timeline.path_check import contradictions
from labcode.errors import InputError, LabError
from labcode.reports import FORMATS, METERED, TIMELINES, Kind
from labcode.reports.facts import facts_of
from labcode.reports.kineto.report import KinetoReport
from labcode.reports.ncu.report import NcuReport
from labcode.reports.nsys import schema
from labcode.reports.nsys.report import NsysReport
from labcode.reports.power.log import PowerLog
from labcode.reports.report import CountedReport, TimelineReport
from labcode.show import byte_text, time_text
from labcode.verbs.diagnose import applying, diagnose, judge, judge_all, rules_on, tables_of
from labcode.verbs.report import together
from labcode.verbs.report.document import Changes, Document, File, Found, Section, Shown
from labcode.verbs.report.folder import Folder, folders

TOP = 12  # rows of a table
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
_REPORTS: Mapping[Kind, Mapping[str, tuple[tuple[str, str], ...]]] = {
    "nsys": {
        "kernels": (("cuda_gpu_kern_sum", "Kernels by name, the most time first"),),
        "copies": (
            ("cuda_gpu_mem_time_sum", "Copies and memsets by time"),
            ("cuda_gpu_mem_size_sum", "Copies and memsets by size"),
        ),
        "calls": (
            ("cuda_api_sum", "Calls of the runtime and the driver"),
            ("osrt_sum", "Calls of the OS runtime"),
        ),
        "memory": (("cuda_memory_usage", "Memory that CUDA handed out"),),
    },
    "kineto": {
        "operators": (("op_sum", "Operators, calls and kernels by name"),),
        "kernels": (("kernel_sum", "Kernels by name, the most time first"),),
        "modules": (("module_sum", "Time by nn.Module, in both passes"),),
        "calls": (
            ("host_lines", "Where the time of the host went, by function of the program"),
            ("launch_stats", "What launching cost"),
            ("idle_breakdown", "Idle time of streams by cause"),
        ),
        "counters": (
            ("memory_bandwidth", "Bandwidth of copies and memsets over time, by direction"),
            ("queue_length", "How many operations wait in each stream"),
        ),
        "communication": (("comm_overlap", "Communication behind computing"),),
    },
    "ncu": {
        "launches": (
            ("speed_of_light", "Share of the peak"),
            ("occupancy", "Occupancy"),
            ("roofline", "Intensity, rate and roof"),
            ("stalls", "What warps wait for, the longest first"),
        )
    },
    "memory": {
        "memory": (
            ("peak", "What was in use at the peak"),
            ("sites", "What allocated the most"),
            ("leaks", "What grows and is never freed"),
        )
    },
    "power": {
        "energy": (
            ("power_sum", "Energy and power of each GPU"),
            ("energy_windows", "Energy of named windows"),
            ("clock_reasons", "What held the clocks down"),
        )
    },
}


@contextmanager
def gather(
    files: Sequence[Path], *, before: Sequence[Path] = (), title: str = "", window: str | None = None
) -> Iterator[Document]:
    """The document on ``files``, compared with those of ``before``; the files stay open inside the context.

    ``window`` says what of a timeline is judged (`labcode.analysis.ledger.judged`), by default the steady
    state.

    Raises `LabError` for files that do not belong together (it says which and why), `InputError` for one that
    cannot be read.
    """
    if not files:
        raise LabError("report: name the files of a run: a capture of nsys, a trace, a .ncu-rep, a power log")
    with ExitStack() as stack:
        ranked = folders(files, stack)
        instead = {one.path: one.looked_at for one in ranked}
        opened = _open([instead.get(path, path) for path in files], stack)
        together.refuse_strangers(opened)
        every = [(kind, report) for kind, some in opened.items() for report in some]
        told, tables = _verdicts(every, window)
        found = tables.iterations if tables is not None else None
        told = [*(one for folder in ranked for one in folder.told), *told]
        timeline = next((r for kind, r in every if kind in TIMELINES), None)
        shares, ledger = _ledger(tables)
        if opened.get("kineto") and timeline is not opened["kineto"][0] and found is not None:
            traced = iterations(opened["kineto"][0])  # which knows shapes
            found = Iterations(found.how, found.table, traced.work if traced else None)
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
                *_headline(tables, found),
                *_doubts(sections),
            ),
            found=tuple(one for one in told if one.verdict.status == "found"),
            others=tuple(one for one in told if one.verdict.status != "found"),
            iterations=found,
            sections=sections,
            changes=tuple(_changes(path, opened, stack) for path in before),
            shares=shares,
            ledger=ledger,
            gpu_time=time_shares(tables.ops, tables.window) if tables is not None else pd.DataFrame(),
            opened=opened,
        )


def _names(ranked: Sequence[Folder], every: Sequence[tuple[Kind, Any]]) -> Iterator[str]:
    """What the page is on: of a folder its name, not that of the rank that is looked at."""
    of = {one.looked_at: one.path for one in ranked}
    return (of.get(Path(report.path), Path(report.path)).name for _, report in every)


def _open(files: Sequence[Path], stack: ExitStack) -> dict[Kind, list[Any]]:
    opened: dict[Kind, list[Any]] = {}
    seen: set[str] = set()
    for path in files:
        real = os.path.realpath(path)  # `Path.resolve` raises for links that go in a circle
        if real in seen:
            raise LabError(f"{path}: named twice; name each file once")
        seen.add(real)
        opened.setdefault(reports.kind_of(path), []).append(_opened(path, stack))
    return {kind: opened[kind] for kind in ("nsys", "kineto", "ncu", "memory", "power") if kind in opened}


def _opened(path: Path, stack: ExitStack) -> Any:
    if reports.kind_of(path) in TIMELINES:
        return kept(stack.enter_context(reports.open_timeline(path, "report")))
    return reports.open(path)


# ---- what is said first


def _ledger(tables: Tables | None) -> tuple[pd.DataFrame, Shown | None]:
    """Where an iteration's time goes on each GPU: by owner, in ns; and as a table."""
    if tables is None:
        return pd.DataFrame(), None
    try:
        tables.need_busy()
        found = tables.ledgers
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


def _headline(tables: Tables | None, found: Iterations | None) -> Iterator[str]:
    if tables is not None and len(tables.ops):
        begin, end = tables.window
        yield f"Judged: {time_text(end - begin)}, {tables.judged.told}."
        shares = time_shares(tables.ops, tables.window)
        for device, computing, talking, copying, idle in shares.itertuples(index=False, name=None):
            parts = [
                f"{part / max(end - begin, 1):.0%} {name}"
                for part, name in (
                    (computing, "computing"),
                    (talking, "communicating alone"),
                    (copying, "copying alone"),
                    (idle, "idle"),
                )
                if part
            ]
            yield f"GPU {device}: {', '.join(parts)} of {time_text(end - begin)}."
        yield from (f"note: {line}." for line in tables.judged.notes)
    elif tables is not None and isinstance(tables.report, KinetoReport):
        yield from _host(tables.report)
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


def _host(report: KinetoReport) -> Iterator[str]:
    """Where the time of a program without a GPU went."""
    lines = list(host_sentences(report))
    if lines:
        yield f"No GPU in use. {lines[0]}"
        yield from lines[1:]


def _work(found: Iterations) -> Iterator[str]:
    work, seconds = found.work, found.median_ns / 1e9
    if work is None or not seconds:
        return
    if work.tokens == work.tokens:
        yield f"{work.tokens:,.0f} tokens an iteration, {work.tokens / seconds:,.0f} a second."
    if work.flops == work.flops:
        mfu = f", MFU {work.mfu:.1%} ({work.peak})" if work.mfu == work.mfu else ""
        without = f"; without {work.not_counted}" if work.not_counted else ""
        size, unit = (1e12, "TFLOP") if work.flops >= 1e9 else (1e9, "GFLOP")
        yield f"{work.flops / size:,.3g} {unit} in matmuls and attention an iteration{mfu}{without}."
    if work.payload_bytes == work.payload_bytes:
        yield f"{byte_text(work.payload_bytes)} in collectives an iteration."


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


def _verdicts(every: Sequence[tuple[Kind, Any]], window: str | None) -> tuple[list[Found], Tables | None]:
    """What all rules say: of the run first, worst first; rules that judge both timelines judge the first.

    And the tables of that one.
    """
    told: list[Found] = []
    first: Tables | None = None
    for kind, report in every:
        name = Path(report.path).name
        if kind == "ncu":
            for one in report.list:
                of = f"launch {one.id}: {one.function}"
                told += [_found(v, name, of, launch_measured_text, launch_gain_text) for v in diagnose(one)]
        elif kind in METERED:
            told += [_found(v, name, "", measured_text, gain_text) for v in diagnose(report)]
        elif kind in TIMELINES:
            tables = tables_of(report, window)
            if first is None:
                rules, broken = rules_on(kind)
                verdicts = judge_all(tables, applying(rules, tables), broken)
                first = tables
            else:
                said = {one.verdict.rule for one in told}
                more = [one for one in own_rules("kineto") if one.id not in said]
                verdicts = judge(tables, applying(more, tables), [])
            told += [_found(v, name, "", measured_text, gain_text) for v in verdicts]
    return sorted(told, key=lambda one: (bool(one.of), *_weight(one))), first


def _found(
    verdict: Verdict, name: str, of: str, measured: Callable[[Verdict], str], gain: Callable[[Verdict], str]
) -> Found:
    return Found(verdict, name, of, measured(verdict) if verdict.status == "found" else "", gain(verdict))


def _weight(one: Found) -> tuple[int, float]:
    """Whether all is good first, then causes, then facts."""
    verdict = one.verdict
    gain = verdict.gain if verdict.gain is not None else 1.0 if verdict.severity == "high" else 0.0
    if verdict.status != "found":
        return 2, -gain
    return -1 if verdict.rule == GOOD else int(verdict.severity == "info"), -gain


# ---- tables


def _sections(
    every: Sequence[tuple[Kind, Any]], joined: Sequence[Shown], told: Sequence[Found]
) -> tuple[Section, ...]:
    tables: dict[str, list[Shown]] = {name: [] for name in _SECTIONS}
    tables["joined"] += joined
    for kind, report in every:
        shelf = shelf_of(kind)
        source = report.source if isinstance(report, NsysReport) else report
        for section, asked in _REPORTS[kind].items():
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
        if kind in TIMELINES:
            ranges = together.spent(report).reset_index()
            if len(ranges):
                tables["ranges"].append(_whole("Ranges, numbers left out: CPU and GPU time", ranges, report))
        if kind == "nsys":
            talk = communication_overlap(report.kernels(), report.window())
            talk = talk[talk["comm_count"] > 0]
            if len(talk):
                tables["communication"].append(_whole("Communication behind computing", talk, report))
            tables["counters"] += _counters(report, told)
        if kind in TIMELINES:
            tables["model"] += _model(report)
            tables["path"] += _path(report)
        if kind == "kineto" and len(memory := report.memory()):
            tables["memory"].append(_whole("Memory by the trace", _peaks(memory), report))
    on_path = "pytorch/critical-path"
    sampled = any(isinstance(report, CountedReport) for _, report in every)
    book = {"model": "lm/kernels", "path": on_path, "counters": "nsys/gpu-metrics" if sampled else on_path}
    return tuple(
        Section(name, _SECTIONS[name], tuple(some), book.get(name, ""))
        for name, some in tables.items()
        if some
    )


def _counters(report: NsysReport, told: Sequence[Found]) -> Iterator[Shown]:
    """The GPU's own counters that verdicts lean on, then those that tell much; none that is always 0."""
    if not report.source.has_rows(schema.COUNTERS):
        return
    found = [one.verdict.rule for one in told if one.verdict.status == "found"]
    whole = counters.summary(report)
    names = whole["metric"].str.replace(r"\s*\[[^\[]*%\]$", "", regex=True)
    place, leaning = np.full(len(whole), len(counters.SHOWN)), np.full(len(whole), "", object)
    for number, pattern in enumerate(counters.SHOWN):
        mine = (names.str.fullmatch(pattern) & (whole["max"] > 0)).to_numpy()
        lean = [rule for rule in found if pattern in LEANS.get(rule, ())]
        place[mine], leaning[mine] = number, ", ".join(lean)
    order = np.lexsort((place, leaning == ""))
    order = order[place[order] < len(counters.SHOWN)]
    columns = ["device", "metric", "samples", "mean", "min", "p25", "median", "p75", "max", "busy_mean"]
    table = whole[columns].assign(verdicts=leaning).iloc[order]
    if len(table):
        yield _whole("The GPU's own counters, in the measured part", table, report, "gpu_metrics_sum")


MOST_WALKED = 500_000  # GPU operations


def _model(report: NsysReport | KinetoReport) -> Iterator[Shown]:
    """Of a transformer, by pass where the program marks them: shares of matmuls, attention, all other."""
    if not 0 < len(report.gpu_ops()) <= MOST_WALKED:
        return
    found = attribution.attribute(
        kineto.operations(report) if isinstance(report, KinetoReport) else lm_parts.operations(report)
    )
    if attribution.is_model(found):
        title = "Time of the GPU's operations; attention is fused attention and softmax"
        yield _whole(title, attribution.breakdown(found), report, "lm_buckets")


def _path(report: NsysReport | KinetoReport) -> Iterator[Shown]:
    """What lies on the critical path of each rank or process: by kind, then the biggest entries by name.

    Of an export with very many operations it is left to `labcode stats`, for it takes seconds.
    """
    count = len(report.gpu_ops())
    if not (count and len(report.api())):
        return
    if isinstance(report, KinetoReport):
        path = critical_path(report)
        named = by_kind(path, names=True)
        tables = kinds_of(named), named
        tables[0].attrs[NOTES] = contradictions(path, report.gpu_ops())
    elif count > MOST_WALKED:
        return
    else:
        try:
            tables = nsys_path.summed(report)
        except LackingError:
            return
    titles = ("What decides how long the run took, by kind", "What lies on the path, the most time first")
    for title, name, table in zip(titles, ("critical_path", "critical_path_sum"), tables, strict=True):
        table = table.sort_values("total_ns", ascending=False, kind="stable")
        if len(table):
            yield _whole(title, table.rename(columns={"at_most": "times as fast at most"}), report, name)


def _doubts(sections: Sequence[Section]) -> Iterator[str]:
    """Where the critical path says something else than the GPU's own time."""
    for table in (table for section in sections if section.id == "path" for table in section.tables[:1]):
        yield from (f"{line[:1].upper()}{line[1:]}." for line in table.rows.attrs.get(NOTES, ()))


def _peaks(memory: pd.DataFrame) -> pd.DataFrame:
    """Of each device of a trace's allocations: allocations, the most allocated and reserved."""
    grouped = memory.groupby(["rank", "device_type", "device"])
    return grouped.agg(
        events=("allocated_bytes", "size"),
        most_allocated_bytes=("allocated_bytes", "max"),
        most_reserved_bytes=("reserved_bytes", "max"),
    ).reset_index()


def _whole(title: str, table: pd.DataFrame, report: Any, stats: str = "") -> Shown:
    """The first rows of a table; ``stats`` names the report that has all of it."""
    note = f"labcode stats -r {stats}" if stats else ""
    return Shown(title, table.head(TOP).reset_index(drop=True), len(table), Path(report.path).name, note)


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
    kind = reports.expect(path, "report --before", *_CHANGED)
    after = together.same_kind(path, kind, opened)
    before = _opened(path, stack)
    return Changes(path.name, Path(after.path).name, *_CHANGED[kind](before, after))


def _changed_timeline(
    before: TimelineReport, after: TimelineReport
) -> tuple[tuple[str, ...], tuple[Shown, ...]]:
    for report in (before, after):
        if report.window()[0] >= report.window()[1]:
            raise InputError(f"{report.path}: no events to compare; record some with nsys or torch.profiler")
    from labcode.analysis.compare.interval import SAME, UNDECIDED
    from labcode.verbs.compare.pairs import TITLES, compare, readable

    found = compare(before, after)
    tables = []
    for kind, table in found.tables.items():
        if len(table):
            weight = (table["total_after_ns"] - table["total_before_ns"]).abs()
            rows = table.loc[weight.sort_values(ascending=False, kind="stable").index]
            told = rows[rows["verdict"] != SAME]
            unsure = told["verdict"] == UNDECIDED
            changed = pd.concat([told[~unsure], told[unsure]])
            shown = readable(kind, changed.head(TOP)).reset_index(drop=True)
            same = len(table) - len(changed)
            notes = [f"{same} did not change"] * bool(same)
            notes += [f"{int(unsure.sum())} undecided: their intervals are too wide"] * bool(unsure.any())
            tables.append(Shown(TITLES[kind], shown, len(changed), note="; ".join(notes)))
    return (*found.summary, *(f"note: {line}" for line in found.warnings)), tuple(tables)


def _changed_launches(before: NcuReport, after: NcuReport) -> tuple[tuple[str, ...], tuple[Shown, ...]]:
    from labcode.analysis.compare import launches

    found = launches.compare(before, after)
    changed = found.table[found.table["changed"]].drop(columns=["changed", "kernel_before"])
    lines = [f"{len(found.pairs)} launches compared", *found.warnings]
    lines += [f"new: {', '.join(found.new)}"] * bool(found.new)
    lines += [f"vanished: {', '.join(found.vanished)}"] * bool(found.vanished)
    return tuple(lines), (Shown("What changed", changed.head(3 * TOP).reset_index(drop=True), len(changed)),)


def _changed_energy(before: PowerLog, after: PowerLog) -> tuple[tuple[str, ...], tuple[Shown, ...]]:
    from labcode.analysis.compare import power

    table = power.compare(before, after)
    return tuple(power.notes_on(before, after)), (Shown("Energy of windows", table.head(TOP), len(table)),)


_CHANGED: dict[Kind, Callable[..., tuple[tuple[str, ...], tuple[Shown, ...]]]] = {
    "nsys": _changed_timeline,
    "kineto": _changed_timeline,
    "ncu": _changed_launches,
    "power": _changed_energy,
}
