"""nsys' reports of NVTX ranges on the CPU: an open export in, nsys' columns out."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labcode.analysis.stats.nsys.tables import merged, statistics
from labcode.analysis.stats.table import Made, Table, Texts, take
from labcode.analysis.timeline import intervals
from labcode.reports.columns import Column, Ints, objects, unique, without
from labcode.reports.nsys import schema
from labcode.reports.nsys.schema import pid_of, tid_of
from labcode.reports.nsys.source import Source

PUSH_POP, START_END = 59, 60
DEEPEST = 256  # levels of ranges that are written out
STYLE_NAMES = ("PushPop", "StartEnd")


@dataclass(frozen=True)
class Ranges:
    """NVTX ranges in the order of the export: times in ns, nsys' thread, RangeId, style, name."""

    start: Ints
    end: Ints
    thread: Ints
    number: Ints  # the row in NVTX_EVENTS, which nsys calls RangeId
    style: Ints
    code: Ints
    named: NDArray[np.bool_]  # whether the range has a text, be it an empty one
    names: list[str]

    def take(self, which: NDArray[np.bool_] | Ints) -> Ranges:
        """The same with only some rows."""
        parts = (self.start, self.end, self.thread, self.number, self.style, self.code)
        start, end, thread, number, style, code = (part[which] for part in parts)
        return Ranges(start, end, thread, number, style, code, self.named[which], self.names)


@dataclass(frozen=True)
class Stack:
    """Where each range lies: the row of the range around it (-1: none), its level, its direct children."""

    parent: Ints
    level: Ints
    children: Ints


def nest(ranges: Ranges) -> Stack:
    """How ranges nest on their threads.

    A range lies inside the shortest one of its thread that contains it, both ends included; of several as
    short, the one in the first row. Of ranges with the same start and end the later row lies inside the
    earlier.
    """
    count = len(ranges.start)
    parent = np.full(count, -1, np.int64)
    threads, thread = unique(ranges.thread)
    order = np.lexsort((ranges.number, -ranges.end, ranges.start, thread))
    for rows in np.split(order, np.cumsum(np.bincount(thread, minlength=len(threads)))[:-1]):
        start, end = ranges.start[rows], ranges.end[rows]
        holds = np.append(np.minimum.accumulate(end[:0:-1])[::-1] <= end[:-1], False)[: len(rows)]
        around = _stacked(start, end, holds)
        if around is None:
            around = _overlapping(start, end, ranges.number[rows], holds)
        parent[rows] = np.where(around >= 0, rows[around], -1)
    inner = parent >= 0
    children = np.bincount(parent[inner], minlength=count).astype(np.int64)
    return Stack(parent, intervals.depths(parent), children)


def parent_ids(ranges: Ranges, stack: Stack) -> Column:
    """The RangeId of the range around each; missing at the outermost level."""
    inner = stack.parent >= 0
    return Column(np.where(inner, np.append(ranges.number, 0)[stack.parent], 0), inner)


def breadth_first(ranges: Ranges, stack: Stack) -> Ints:
    """Each range's place when all outermost ranges come first, then all inside these, and so on."""
    place = np.zeros(len(stack.level), np.int64)
    done = 0
    by_level = np.argsort(stack.level, kind="stable")
    bounds = np.searchsorted(stack.level[by_level], np.arange(int(stack.level.max(initial=-1)) + 2))
    for level, (low, high) in enumerate(itertools.pairwise(bounds.tolist())):
        rows = by_level[low:high]
        around = place[stack.parent[rows]] if level else np.zeros(len(rows), np.int64)
        rows = rows[np.lexsort((ranges.number[rows], around))]
        place[rows] = np.arange(done, done + len(rows))
        done += len(rows)
    return place


def paths(ranges: Ranges, stack: Stack) -> Made:
    """The RangeIds from the outermost range to each, like ':3:4:5'; where a range lies deeper than `DEEPEST`
    levels, those of the first and its own, like ':3:4:…:90'. All of them would take the square of the depth.
    """
    from_top = _within(stack)
    parent, own = (np.ascontiguousarray(values).data for values in (stack.parent, ranges.number))

    def texts(rows: Ints) -> list[str]:
        outer, place = unique(stack.parent[rows])
        known = {-1: ""}
        for row in outer.tolist():
            top = from_top[row] if row >= 0 else -1
            steps, at = [], top
            while at not in known:
                steps.append(f":{own[at]}")
                at = parent[at]
            known[top] = known[at] + "".join(reversed(steps))
            known[row] = known[top] + (":…" if row != top else "")
        heads = objects(place, [known[row] for row in outer.tolist()])
        return list(map("%s:%d".__mod__, zip(heads.tolist(), ranges.number[rows].tolist(), strict=True)))

    return Made(np.arange(len(stack.parent)), texts, 8 * (np.minimum(stack.level, DEEPEST) + 1))


def _within(stack: Stack) -> Sequence[int]:
    """Of each range itself or, where it lies deeper than `DEEPEST`, the last around it that does not."""
    found: list[int] = list(range(len(stack.level)))
    deep = np.flatnonzero(stack.level >= DEEPEST)
    for row in deep[np.argsort(stack.level[deep], kind="stable")].tolist():
        found[row] = found[stack.parent[row]]
    return found


def _stacked(start: Ints, end: Ints, holds: NDArray[np.bool_]) -> Ints | None:
    """The range around each, of ranges by start, longest first; None where some that hold others overlap."""
    if (start >= end).any():
        return None
    around = intervals.holders(end)
    outer = np.flatnonzero(holds)
    siblings = outer[np.argsort(around[outer], kind="stable")]
    earlier, later = siblings[:-1], siblings[1:]
    crossing = (around[earlier] == around[later]) & (end[earlier] > start[later])
    return None if crossing.any() else around


def _overlapping(start: Ints, end: Ints, number: Ints, holds: NDArray[np.bool_]) -> Ints:
    """The same for any ranges, by halves: of each block of ranges, the first half may hold the second.

    The ranges of a block stand by end, the latest first, so that those of the first half which come before
    one of the second end late enough to hold it.
    """
    count = len(start)
    shortest = np.lexsort((number, end - start))
    rank = np.empty(count, np.int64)
    rank[shortest] = np.arange(count)
    rank[~holds | (end < start)] = count  # holds none
    least = np.full(count, count)
    order, place = np.argsort(-np.maximum(start, end), kind="stable"), np.arange(count)
    for bit in reversed(range((count - 1).bit_length())):
        late = (order >> bit & 1).astype(np.bool_)
        below = (place >> bit + 1) * (count + 1)  # what keeps the ranks of a block under all of those before
        best = np.minimum.accumulate(np.where(late, count, rank[order]) - below)[late] + below[late]
        second = order[late]
        least[second] = np.minimum(least[second], best)
        halves = np.empty_like(order)
        behind = (place >> bit & 1).astype(np.bool_)
        halves[behind], halves[~behind] = second, order[~late]
        order = halves
    return np.asarray(np.append(shortest, -1)[least], np.int64)


# ---- reading them, and the reports


DEFAULT_DOMAIN = (
    ":"  # what nsys 2025 prints before the name of a range of the default domain; 2024 printed nothing
)


def read_ranges(
    source: Source,
    styles: tuple[int, ...] = (PUSH_POP, START_END),
    *,
    default_domain: str = DEFAULT_DOMAIN,
    among_styles: bool = False,
    domains: bool = True,
) -> tuple[Ranges, NDArray[np.bool_]]:
    """Ranges of the given styles, and which of them were ended on another thread.

    Names begin with their domain where ``domains`` says so. A range without an end ends with the last of all
    NVTX events (with ``among_styles``, of all ranges of the given styles); where none has an end, it is left
    out.
    """
    more = ("endGlobalTid", "rowid")
    raw, code, named, names = _named_rows(source, styles, more, default_domain, domains=domains)
    ended = _ended(source, raw["end"], among_styles=among_styles)
    elsewhere = raw.pop("endGlobalTid").present
    ranges = Ranges(
        raw["start"].values,
        raw["end"].filled(ended or 0),
        raw["globalTid"].values,
        raw["rowid"].values,
        raw["eventType"].values,
        code,
        named,
        names,
    )
    if ended is None:
        return ranges.take(np.zeros(len(code), np.bool_)), np.zeros(0, np.bool_)
    return ranges, np.ones(len(code), np.bool_) if elsewhere is None else elsewhere


def nvtx_sum(source: Source, *, default_domain: str = DEFAULT_DOMAIN) -> Table:
    """Ranges by style and name: Time (%), Total Time (ns), Instances, Avg … StdDev (ns), Style, Range."""
    raw, code, _, names = _named_rows(source, (PUSH_POP, START_END), (), default_domain)
    codes = code * 2 + (raw["eventType"].values == START_END)
    keys = [(style, name) for name in names for style in ("PushPop", "StartEnd")]
    ties = [(name, style) for style, name in keys]
    return _summary(source, raw, codes, keys, ["Style", "Range"], ties)


def nvtx_pushpop_sum(source: Source, *, default_domain: str = DEFAULT_DOMAIN) -> Table:
    """Push/pop ranges by name: Time (%), Total Time (ns), Instances, Avg … StdDev (ns), Range."""
    return _one_style(source, PUSH_POP, default_domain)


def nvtx_startend_sum(source: Source, *, default_domain: str = DEFAULT_DOMAIN) -> Table:
    """Start/end ranges by name: Time (%), Total Time (ns), Instances, Avg … StdDev (ns), Range."""
    return _one_style(source, START_END, default_domain)


def nvtx_pushpop_trace(source: Source, *, default_domain: str = DEFAULT_DOMAIN) -> Table:
    """Every push/pop range with its place on the thread's stack, by start time.

    Start, End, Duration, DurChild, DurNonChild (ns), Name, PID, TID, Lvl, NumChild, RangeId, ParentId,
    RangeStack, NameTree. Of two ranges with the same start and end the later row lies inside the earlier;
    nsys drops both.
    """
    ranges, _ = read_ranges(source, (PUSH_POP,), default_domain=default_domain, among_styles=True)
    stack = nest(ranges)
    duration = ranges.end - ranges.start
    inner = stack.parent >= 0
    children = np.zeros(len(duration), np.int64)
    np.add.at(children, stack.parent[inner], duration[inner])
    order = np.lexsort((breadth_first(ranges, stack), ranges.end, ranges.start))

    def tree_names(rows: Ints) -> list[str]:
        names = [*ranges.names, ""]
        label = np.where(
            ranges.named[rows], stack.level[rows] * len(names) + ranges.code[rows], len(names) - 1
        )
        labels, place = unique(label)
        found = (divmod(number, len(names)) for number in labels.tolist())
        return list(objects(place, ["--" * min(level, DEEPEST) + names[code] for level, code in found]))

    table: Table = {
        "Start (ns)": ranges.start,
        "End (ns)": ranges.end,
        "Duration (ns)": duration,
        "DurChild (ns)": children,
        "DurNonChild (ns)": duration - children,
        "Name": Texts(ranges.code, ranges.names),
        "PID": pid_of(ranges.thread),
        "TID": tid_of(ranges.thread),
        "Lvl": stack.level,
        "NumChild": stack.children,
        "RangeId": ranges.number,
        "ParentId": parent_ids(ranges, stack),
        "RangeStack": paths(ranges, stack),
        "NameTree": Made(np.arange(len(duration)), tree_names, 2 * np.minimum(stack.level, DEEPEST)),
    }
    return take(table, order)


def _one_style(source: Source, style: int, default_domain: str) -> Table:
    raw, code, _, names = _named_rows(source, (style,), (), default_domain)
    return _summary(source, raw, code, [(name,) for name in names], ["Range"])


def _summary(
    source: Source,
    raw: dict[str, Column],
    codes: Ints,
    keys: Sequence[tuple[str, ...]],
    columns: Sequence[str],
    ties: Sequence[tuple[str, str]] | None = None,
) -> Table:
    """The statistics of ranges by key."""
    ended = _ended(source, raw["end"])
    if ended is None:
        return statistics(codes[:0], keys, raw["start"].values[:0], columns, ties=ties)
    duration = raw.pop("end").filled(ended) - raw.pop("start").values
    return statistics(codes, keys, duration, columns, ties=ties)


def _ended(source: Source, end: Column, *, among_styles: bool = False) -> int | None:
    """Where ranges without an end are taken to end; None where none has one."""
    if not (among_styles or end.present is None or end.present.all()):
        end = source.ints(schema.NVTX, ("end",))["end"]
    ends = end.values if end.present is None else end.values[end.present]
    return int(ends.max()) if len(ends) else None


def _named_rows(
    source: Source,
    styles: tuple[int, ...],
    more: tuple[str, ...],
    default_domain: str,
    *,
    domains: bool = True,
) -> tuple[dict[str, Column], Ints, NDArray[np.bool_], list[str]]:
    """Ranges of the given styles: start, end, globalTid, eventType and more columns; their names as `_names`
    has them."""
    columns = ("start", "end", "globalTid", "eventType", "textId", "domainId", *more)
    wanted = ", ".join(map(str, (*styles, schema.DOMAIN_CREATED)))
    raw, texts = source.rows(schema.NVTX, columns, ("text",), f"eventType IN ({wanted})")
    own, own_texts = texts.pop("text")
    created = np.flatnonzero(raw["eventType"].values == schema.DOMAIN_CREATED)
    prefixes = _prefixes(raw["globalTid"].values[created], raw["domainId"].values[created],
                         own[created], own_texts)  # fmt: skip
    if len(created):
        own = without(own, created)
        raw = {name: raw.pop(name).without(created) for name in columns}
    code, named, names = _names(source, raw, own, own_texts, prefixes if domains else {}, default_domain)
    del raw["textId"], raw["domainId"]
    return raw, code, named, names


def _prefixes(thread: Ints, number: Ints, label: Ints, texts: list[str]) -> dict[tuple[int, int], str]:
    """What names of a process and domain begin with, of the events that created the domains."""
    prefixes: dict[tuple[int, int], str] = {}
    for pid, domain, text in zip(pid_of(thread).tolist(), number.tolist(), label.tolist(), strict=True):
        if text >= 0:
            prefixes.setdefault((pid, domain), f"{texts[text]}:")
    return prefixes


def _names(
    source: Source,
    raw: dict[str, Column],
    own: Ints,
    own_texts: list[str],
    prefixes: dict[tuple[int, int], str],
    default_domain: str,
) -> tuple[Ints, NDArray[np.bool_], list[str]]:
    """Names with their domain as codes into distinct names, '' for a range without a text; which have one."""
    registered, texts = source.strings(raw["textId"])
    text = own
    if any(texts):
        known = np.array([text != "" for text in texts], np.bool_)[registered]
        text = np.where(known, registered, np.where(own < 0, -1, own + len(texts)))
        own_texts = [*texts, *own_texts]
    numbers, number = unique(raw["domainId"].filled(0))
    pids, pid = np.zeros(1, np.int64), np.zeros(1, np.int64)
    if any(domain in numbers for _, domain in prefixes):  # else all have the same prefix
        pids, pid = unique(pid_of(raw["globalTid"].values))
    groups, group = unique((text + 1) * (len(pids) * len(numbers)) + pid * len(numbers) + number)
    names = []
    for key in groups.tolist():
        rest, n = divmod(key, len(numbers))
        t, process = divmod(rest, len(pids))
        prefix = prefixes.get((int(pids[process]), int(numbers[n])), default_domain)
        names.append(prefix + own_texts[t - 1] if t else "")
    codes, distinct = merged(group, names)
    return codes, text >= 0, distinct
