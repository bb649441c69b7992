"""A timeline in; its iterations, found without being told (steps of training, requests, frames), out.

Four ways, of which the first that answers counts:

- ranges: a name, its number left out, that comes again and again on one thread;
- optimizer: the end of an optimizer's step, which PyTorch itself marks (``Optimizer.step#AdamW.step``);
- updates: the first kernel of each update by an optimizer, known by its name;
- period: the kernel that comes once in each repetition of the sequence of launches, in which a kernel many
  times in a row counts once where nothing else repeats; or each launch, where there is one kernel, or graph.

An iteration lasts on the GPU, from its first operation to that of the next one: the CPU may run ahead.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from labcode.analysis.buckets import bucket_of_name
from labcode.analysis.timeline import intervals
from labcode.analysis.timeline.joins import launches_of, named_like, spans
from labcode.analysis.timeline.nvtx import NUMBER
from labcode.reports.columns import Bools, Ints, Objects, by_code, unique
from labcode.reports.common import MEASURED
from labcode.reports.frames import codes_of, is_any, rows_in_order, rows_of
from labcode.reports.report import FunctionsReport, TimelineReport

FEWEST = 3  # instances of a name that does not say what it is
COVERED = 0.5  # of the time from the first to the last operation, or of the operations
ALIKE = 0.8  # of the distances between a kernel's launches are the same where it tells a period
EQUAL = 0.03  # a difference in likeness that says nothing
EVIDENCE = 16  # so many kernels have to come in the same order where a period is seen few times
LOOKED_AT = 200_000  # kernels, the last ones
SHORTEST = 8  # so many distances are tried of each kind
ABOUT = 0.1  # by so much distances may differ and still be the same
WARM = 0.1  # a leading iteration further than this from the median of the later half is a warm-up
CAPTURE = r"^cu(?:da)?StreamBeginCapture"  # of a graph
_COMPARED = 64  # iterations, the last ones
_COMBINATIONS = 1 << 16  # that are counted by number
_RANGE = ["start_ns", "end_ns", "pid", "tid", "name", "event_type"]
_NUMBERS = ["start_ns", "end_ns", "device", "context", "stream"]
_STEP = re.compile(r"(?i)(?:^|[^a-z])(?:step|iter|iteration|batch|minibatch|frame|request)s?(?:$|[^a-z])")
_OPTIMIZER = re.compile(r"^Optimizer\.step#")
_OPERATOR = re.compile(  # as emit_nvtx marks them, and compiled code itself
    r"^(?:aten|c10d?|autograd|prims)::|, (?:op_id|seq) = \d|CompiledFxGraph|^Torch-Compiled Region"
)
_SIZES = {"float": 4, "double": 8, "half": 2, "bfloat16": 2, "c10::bfloat16": 2, "c10::half": 2, "int": 4}
_SIZES |= {"long": 8, "byte": 1, "char": 1, "bool": 1, "long int": 8, "float8_e4m3fn": 1, "float8_e5m2": 1}
_ATTENTION = re.compile(r"^aten::_(?:scaled_dot_product_)?(?:flash|efficient|cudnn)_attention(_\w+)?$")
COLUMNS = {
    **dict.fromkeys(("pid", "iteration", "start_ns", "duration_ns", "busy_ns"), "int64"),
    "busy_share": "float64",
    "ops": "int64",
    "warm_up": "bool",
}


@dataclass(frozen=True)
class Work:
    """What an iteration does, from recorded shapes: nan where none were recorded, or nothing can be counted.

    ``tokens``: indices looked up in the embedding with the most rows. ``flops`` of matrix multiplications and
    of attention (backward twice forward: what a kernel recomputes does not count), ``mfu`` their share of
    what the GPU's datasheet promises for their precision. ``payload_bytes`` of collectives. ``not_counted``:
    what is missing from ``flops``, in words.
    """

    tokens: float
    flops: float
    mfu: float
    payload_bytes: float
    peak: str
    not_counted: str


@dataclass(frozen=True)
class Iterations:
    """Iterations: ``how`` they were found, in words, and a row for each with the columns `COLUMNS`.

    busy_ns: time in which an operation of the process ran on some GPU.
    """

    how: str
    table: pd.DataFrame
    work: Work | None = None

    @property
    def steady(self) -> pd.DataFrame:
        """The rows without warm-up."""
        return self.table[~self.table["warm_up"]]

    @property
    def median_ns(self) -> float:
        """The median duration without warm-up."""
        return float(self.steady["duration_ns"].median())

    @property
    def spread(self) -> float:
        """From the tenth to the ninetieth percentile of the durations without warm-up, by the median."""
        low, high = np.quantile(self.steady["duration_ns"], [0.1, 0.9])
        return float((high - low) / self.median_ns) if self.median_ns else float("nan")

    def rows(self) -> pd.DataFrame:
        """The table with what each iteration does beside its times, where that is known."""
        known = {} if self.work is None else {"tokens": self.work.tokens, "flops": self.work.flops}
        known |= {} if self.work is None else {"mfu": self.work.mfu, "payload_bytes": self.work.payload_bytes}
        return self.table.assign(**{name: value for name, value in known.items() if value == value})


def iterations(report: TimelineReport) -> Iterations | None:
    """The iterations of the measured part; None where nothing in it repeats."""
    begin, end = report.window()
    every, api = report.gpu_ops(), report.api()
    start = every["start_ns"].to_numpy(np.int64)
    inside = (start >= begin) & (start < end)
    if not inside.any():
        return None
    ops, rows = (
        rows_of(every[["pid", "kind", "name", *_NUMBERS]], inside),
        launches_of(report, every, api)[inside],
    )
    nvtx = report.nvtx()
    began = nvtx["start_ns"].to_numpy(np.int64)
    nvtx = rows_of(nvtx[_RANGE], (began >= begin) & (began <= end))
    how, found = "", []
    pids = ops["pid"].to_numpy(np.int64)
    of_pid = {pid: pids == pid for pid in unique(pids)[0].tolist()}
    processes = [_Process(pid, ops, own, rows[np.flatnonzero(own)], api, nvtx) for pid, own in of_pid.items()]
    del ops
    for way in (_by_ranges, _by_optimizer, _by_updates, _by_period):
        for mine in processes:
            told, edges = way(mine)
            if len(edges) > 1:
                how = how or told
                found.append(_measured(mine, edges))
        if found:
            break
    if not found:
        return None
    table = pd.concat(found, ignore_index=True).astype(COLUMNS)
    work = None
    if isinstance(report, FunctionsReport):  # which records shapes
        most = table["pid"].value_counts().index[0]
        work = _work(report, int(most), table[table["pid"] == most])
    return Iterations(how, table, work)


@dataclass(frozen=True)
class _Process:
    """Which operations are of a process, the place in ``api`` of the call of each, and the ranges of all."""

    pid: int
    every: pd.DataFrame
    own: Bools
    rows: Ints
    api: pd.DataFrame
    nvtx: pd.DataFrame

    def launches(self, tid: int | None = None) -> tuple[Ints, Ints]:
        """When the operations of the main stream were launched, by one thread or any, ascending; and when
        each began. The main stream is that with the most kernels: on others data may be fetched ahead.
        """
        known = np.flatnonzero((self.rows >= 0) & self._on_main)
        if tid is not None:
            known = known[np.flatnonzero(self.api["tid"].to_numpy()[self.rows[known]] == tid)]
        called = self.api["start_ns"].to_numpy(np.int64)[self.rows[known]]
        order = np.argsort(called, kind="stable")
        return called[order], self.ops["start_ns"].to_numpy(np.int64)[known[order]]

    @cached_property
    def ops(self) -> pd.DataFrame:
        """Its operations, without their texts: to take a million of these takes longest."""
        return rows_of(self.every[_NUMBERS], self.own)

    def work(self, *kinds: str) -> pd.DataFrame:
        """Its operations of some kinds on the GPU with the most of them, with their names, by start."""
        found = rows_of(
            self.every[["kind", "name", *_NUMBERS]], self.own & is_any(self.every["kind"], *kinds)
        )
        if len(found):
            found = found[found["device"] == found["device"].value_counts().index[0]]
        return found.sort_values("start_ns", kind="stable")

    @cached_property
    def _on_main(self) -> Bools:
        keys = ["device", "context", "stream"]
        work = rows_of(self.every[keys], self.own & is_any(self.every["kind"], "kernel", "graph"))
        found = np.ones(len(self.ops), np.bool_)
        if len(work):
            for key, number in zip(keys, _most_frequent(work), strict=True):
                found &= self.ops[key].to_numpy() == number
        return found

    @cached_property
    def ranges(self) -> pd.DataFrame:
        """Its ranges, by start and the longest first: start_ns, end_ns, tid, name."""
        ends = self.nvtx["end_ns"].notna().to_numpy()
        mine = ends & (self.nvtx["pid"].to_numpy(np.int64) == self.pid)
        mine &= is_any(self.nvtx["event_type"], "push_pop", "start_end")
        found = rows_of(self.nvtx[["start_ns", "end_ns", "tid", "name"]], mine)
        start, end = spans(found)
        found = found.assign(end_ns=end).reset_index(drop=True)
        if ((start[1:] > start[:-1]) | ((start[1:] == start[:-1]) & (end[1:] <= end[:-1]))).all():
            return found
        order = np.argsort(start, kind="stable")
        if not np.diff(start[order]).all():  # some begin together
            order = np.lexsort((-end, start))
        return rows_in_order(found, order)


def _most_frequent(rows: pd.DataFrame) -> Sequence[int]:
    """The combination of numbers that most rows have."""
    columns = [unique(rows[name].to_numpy(np.int64)) for name in rows]
    key = np.zeros(len(rows), np.int64)
    for distinct, place in columns:
        key = key * len(distinct) + place
    if np.prod([float(len(distinct)) for distinct, _ in columns]) < _COMBINATIONS:
        counts = np.bincount(key)
        best = int(counts.argmax())
        if (counts == counts[best]).sum() == 1:
            found = []
            for distinct, _ in reversed(columns):
                best, at = divmod(best, len(distinct))
                found.append(int(distinct[at]))
            return found[::-1]
    return list(rows.value_counts().index[0])


def _by_ranges(process: _Process) -> tuple[str, Ints]:
    """When the first operations of the ranges of one family began; of few ranges also the last one's end."""
    ranges = process.ranges
    codes, names = codes_of(ranges["name"])
    passed_over = np.array(
        [name == MEASURED or bool(_OPTIMIZER.match(name) or _OPERATOR.search(name)) for name in names],
        np.bool_,
    )
    family, families = pd.factorize(np.array([NUMBER.sub("", name) for name in names], np.object_), sort=True)
    kept = np.flatnonzero(~passed_over[codes])
    none = process.rows[:0]
    if not len(kept):
        return "", none
    best: tuple[float, str, Ints] = (0.0, "", none)
    start, end = spans(ranges)
    spent = np.maximum(end - start, 0)
    extent = max(int(end[kept].max()) - int(start[kept].min()), 1)
    tids, thread = unique(ranges["tid"].to_numpy(np.int64))
    group = (np.asarray(family, np.int64)[codes] * len(tids) + thread)[kept]
    groups, group = unique(group)
    for number, rows in zip(groups.tolist(), by_code(group, len(groups)), strict=True):
        place = kept[rows]
        name = str(families[number // len(tids)])
        step = bool(_STEP.search(f" {name} ")) or name.startswith("ProfilerStep")
        apart = bool((start[place[1:]] >= end[place[:-1]]).all())
        covered = float(spent[place].sum()) / extent
        if not apart or (len(place) < FEWEST and not step) or covered < COVERED * (0.5 if step else 1):
            continue
        if covered + step > best[0]:
            best = (covered + step, name, place)
    _, name, place = best
    chosen = ranges.iloc[place]
    if not len(chosen):
        return "", none
    edges = spans(chosen)
    for tid in (int(chosen["tid"].iloc[0]), None):  # of the thread itself, unless others launch for it
        called, began = process.launches(tid)
        low, high = np.searchsorted(called, edges[0], "left"), np.searchsorted(called, edges[1], "right")
        some = np.flatnonzero(high > low)
        if 2 * len(some) > len(chosen):
            break
    else:
        return "", none
    first = began[low[some]]
    told = f"ranges named “{name} …”"
    if len(first) > 2:  # the last one's end is not known
        return told, _ascending(first)
    called, began = process.launches()
    until = began[: np.searchsorted(called, edges[1][-1], "right")].max()
    last = process.ops.loc[process.ops["start_ns"] <= until, "end_ns"].max()
    return told, _ascending(np.append(first, last))


def _by_optimizer(process: _Process) -> tuple[str, Ints]:
    """When the operations of each optimizer step ended on the GPU, after the first operation of all."""
    ranges = process.ranges
    called, began = process.launches()
    marks = ranges[named_like(ranges["name"], _OPTIMIZER.pattern)]
    if len(marks) < 2 or not len(called):
        return "", called[:0]
    name = marks["name"].value_counts().index[0]
    after = np.searchsorted(called, marks.loc[marks["name"] == name, "end_ns"].to_numpy(np.int64), "right")
    last = int(process.ops["end_ns"].max())
    edges = np.append(began, last)[np.minimum(after, len(began))]
    edges = _in_turn(process.work("kernel"), _ascending(np.append(began[:1], edges)))
    return f"steps of the optimizer ({name.removeprefix('Optimizer.step#')})", edges


def _by_updates(process: _Process) -> tuple[str, Ints]:
    """Starts of the optimizer's kernels, known by their names, that follow other kernels: one an update."""
    ops = process.work("kernel")
    codes, names = codes_of(ops["name"])
    of_step = np.array([bucket_of_name(str(name)) == "optimizer" for name in names] + [False], np.bool_)[
        codes
    ]
    places = np.flatnonzero(of_step)
    if len(places) < FEWEST + 1 or 2 * len(places) > len(ops):
        return "", process.rows[:0]
    distance = np.diff(places)
    ordered = np.sort(distance)
    apart = int(ordered[np.searchsorted(ordered.cumsum(), ordered.sum() / 2)])  # half of all lies in such
    first = places[np.append(True, distance > max(apart // 4, 1))]  # within an update few others run
    gaps = np.diff(first)
    if len(first) < FEWEST + 1 or int(gaps.sum()) < COVERED * len(ops):
        return "", process.rows[:0]
    usual = float(np.median(gaps))
    if (np.abs(gaps - usual) <= ABOUT * usual).mean() < 0.5:
        return "", process.rows[:0]
    told = "updates by the optimizer, from one’s first kernel to the next"
    return told, _in_turn(ops, ops["start_ns"].to_numpy(np.int64)[first])


def _in_turn(ops: pd.DataFrame, edges: Ints) -> Ints:
    """Edges of iterations; where optimizers take turns, of which each has kernels of its own, only those of
    the first of them: most iterations run others than the next, and the same as that ``turn`` later.
    """
    some = edges[-_COMPARED - 1 :]
    begun = np.searchsorted(ops["start_ns"].to_numpy(np.int64), some, "left")
    codes, names = codes_of(ops["name"].iloc[begun[0] : begun[-1]])
    which = np.repeat(np.arange(len(some) - 1), np.diff(begun))
    ran = np.zeros((len(some) - 1, len(names)), np.int64)
    np.add.at(ran, (which, codes), 1)
    for turn in range(1, min(SHORTEST, len(ran) // FEWEST) + 1):
        most = np.maximum(ran[turn:].sum(axis=1), ran[:-turn].sum(axis=1))
        same = float(np.median(np.minimum(ran[turn:], ran[:-turn]).sum(axis=1) / np.maximum(most, 1)))
        if turn == 1 and same >= 1 - ABOUT:
            break
        if same >= 1 - EQUAL:
            return edges[::turn]
    return edges


def _by_period(process: _Process) -> tuple[str, Ints]:
    """Starts of what comes once in each repetition of the sequence of kernels, or graphs, on a GPU.

    The period is the distance at which the sequence of names is most like itself: a part of an iteration (a
    layer, a micro-batch) repeats, too, but what lies between its repetitions breaks the sequence there. Where
    kernels alone have none, copies count, too, and what runs so often in a row that this alone is likeness
    counts once; if nothing repeats then, and the later half of all is one kernel, an iteration is a launch.
    """
    for kinds in (("kernel", "graph"), ("kernel", "graph", "memcpy", "memset")):
        ops = process.work(*kinds)
        start, end = spans(ops)
        codes, names = codes_of(ops["name"])
        sequence = np.asarray(codes, np.int64)
        if period := _period(sequence[-LOOKED_AT:]):
            how, places = _repeated(sequence, period, names)
            return how, start[places]
    later, spent = len(ops) // 2, np.where(is_any(ops["kind"], "kernel", "graph"), end - start, 0)
    if not later or not _steady(sequence, spent):
        return "", start[:0]
    heads = np.flatnonzero(np.append(True, np.diff(sequence) != 0))
    if period := _period(sequence[heads][-LOOKED_AT:]):
        how, places = _repeated(sequence[heads], period, names)
        places = heads[places]
        within = places[places >= later]
        if len(within) and within[-1] - within[0] >= COVERED * later:
            return how, start[places]
    lasted = np.diff(np.append(heads, len(ops)))
    first = int(heads[lasted.argmax()])
    same = sequence == sequence[first]
    *_, other, most = np.sort(np.append(0, lasted[same[heads]]))  # in a row: no loop in another one
    alone = most >= max(EVIDENCE, COVERED * later, other / COVERED)
    if not alone or spent[first:][same[first:]].sum() < ALIKE * spent[first:].sum():
        return "", start[:0]
    return f"launches of “{str(names[sequence[first]])[:60]}”, one each", start[first:][:most]


def _repeated(sequence: Ints, period: int, names: Objects) -> tuple[str, Ints]:
    """How iterations were found, in words, and the places in a sequence where they begin."""
    counts = np.bincount(sequence)
    for code in np.argsort(counts, kind="stable"):
        if not 1 < counts[code] <= 2 * len(sequence) // period:
            continue
        places = np.flatnonzero(sequence == code)
        gaps = np.diff(places)
        same = np.abs(gaps - period) <= ABOUT * period
        if same.mean() >= ALIKE and int(gaps[same].sum()) >= COVERED * (len(sequence) - period):
            return f"the period of the launches, from “{str(names[code])[:60]}” to the next", places
    places = np.arange(len(sequence) - 1, -1, -period)[::-1]  # no kernel comes once: counted from the end
    return f"the period of the launches, {period:,} of them", places


def _steady(sequence: Ints, spent: Ints) -> bool:
    """Whether most launches of the kernel that takes longest take about as long as each other: those of a
    benchmark of many sizes do not.
    """
    taken = spent[sequence == np.bincount(sequence, spent).argmax()]
    usual = float(np.median(taken))
    return bool((np.abs(taken - usual) <= COVERED * usual).mean() >= ALIKE)


def _period(codes: Ints) -> int:
    """The distance at which a sequence repeats, 0 where it does not.

    Looked at is its later half, or its last two periods where these are longer, for what comes first is
    start-up. Candidates are the distances between occurrences of the same name, and of the sequence's end. Of
    those at which it is about as much like itself as it is at any, it is the shortest.
    """
    count = len(codes)
    lengths = _distances(codes)
    lengths = lengths[(lengths >= 1) & (2 * lengths <= count)]
    likeness = {}
    for length in lengths.tolist():
        first = max(min(count // 2, count - 2 * length), 0)
        alike = codes[first : count - length] == codes[first + length :]
        if len(alike) >= (EVIDENCE if count < FEWEST * length else FEWEST):
            likeness[length] = float(alike.mean())
    most = max(likeness.values(), default=0.0)
    if most < ALIKE or likeness.get(1, 0.0) >= most - EQUAL:  # one kernel again and again tells no iteration
        return 0
    return int(min(length for length, like in likeness.items() if like >= most - EQUAL))


def _distances(codes: Ints) -> Ints:
    """At which distances a sequence may repeat."""
    count = len(codes)
    found = [np.arange(1, min(SHORTEST, count))]
    order = np.argsort(codes, kind="stable")
    edges = np.flatnonzero(np.append(True, np.diff(codes[order]) != 0))[:count]
    for low, high in pairwise([*edges.tolist(), count]):
        gaps = np.diff(order[low:high])
        if len(gaps) > SHORTEST:
            lengths, often = np.unique(gaps, return_counts=True)
            gaps = lengths[np.argsort(-often, kind="stable")[:FEWEST]]
        found.append(gaps)
    for width in (16, 64, 256):  # where the end of the sequence was before
        if 2 * width >= count:
            break
        places = np.arange(count - width)
        for back in range(width):
            places = places[codes[places + back] == codes[count - width + back]]
        found.append((count - width - places)[-SHORTEST:])
    return np.unique(np.concatenate(found))


def _ascending(edges: Ints) -> Ints:
    return np.maximum.accumulate(np.asarray(edges, np.int64))


def _measured(process: _Process, edges: Ints) -> pd.DataFrame:
    """The rows of a process."""
    low, high = edges[:-1], edges[1:]
    begun, ended = (process.ops[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
    spent = high - low
    busy = intervals.covered_within(begun, ended, low, high)
    places = np.searchsorted(np.sort(begun, kind="stable"), edges, "left")  # mostly in order
    share = np.divide(busy, spent, out=np.full(len(low), np.nan), where=spent > 0)
    return pd.DataFrame(
        {
            "pid": process.pid,
            "iteration": np.arange(len(low)),
            "start_ns": low,
            "duration_ns": spent,
            "busy_ns": busy,
            "busy_share": share,
            "ops": np.diff(places),
            "warm_up": np.arange(len(low)) < max(_warming_up(spent), _capturing(process, edges)),
        }
    )


def _warming_up(spent: Ints) -> int:
    """How many leading iterations, of at most half, differ from the later half, or lie before a pause: one
    that takes longer than all that follow it, which are many.
    """
    half = len(spent) // 2
    later = np.sort(spent[half:])
    usual = float(np.median(later))
    apart = max(WARM * usual, 5 * float(np.median(np.abs(later - usual))))
    odd = np.abs(spent[:half] - usual) > apart
    first = int(np.argmin(np.append(odd, False)))
    following = int(spent.sum()) - np.cumsum(spent[:half])
    pauses = np.flatnonzero(spent[:half] > following)
    return max(first, int(pauses[-1]) + 1) if len(pauses) and len(later) >= EVIDENCE else first


def _capturing(process: _Process, edges: Ints) -> int:
    """How many leading iterations, of at most half, there are up to the last that captures a graph; 0 where
    later ones do so, too.
    """
    api = process.api[named_like(process.api["name"], CAPTURE)]
    calls = api.loc[api["pid"] == process.pid, "start_ns"].to_numpy(np.int64)
    last = int(np.searchsorted(edges[:-1], calls[calls < edges[-1]].max(initial=edges[0] - 1), "right"))
    return last if last <= len(edges) // 2 else 0


# ---- what recorded shapes tell of an iteration


def _work(report: Any, pid: int, table: pd.DataFrame) -> Work | None:
    """Tokens, operations and payload of an iteration of a process, over all of its iterations."""
    count, spent = len(table), int(table["duration_ns"].sum()) / 1e9
    ops, kernels = report.ops(), report.kernels()
    low, high = int(table["start_ns"].min()), int((table["start_ns"] + table["duration_ns"]).max())
    kernels = kernels[(kernels["pid"] == pid) & kernels["start_ns"].between(low, high)]
    # operators whose own work began on the GPU in one of the iterations
    launched = set(kernels["external_id"].dropna().astype("int64"))
    ops = ops[ops["pid"] == pid]
    mine = ops["external_id"].isin(launched).to_numpy()
    inner = np.sort(ops["start_ns"].to_numpy(np.int64)[mine])
    lookup = (ops["name"] == "aten::embedding").to_numpy()  # what it calls launches its work
    around = np.searchsorted(inner, ops["end_ns"]) > np.searchsorted(inner, ops["start_ns"])
    ops = ops[(ops["input_dims"] != "") & (mine | (lookup & around))]
    name = report.gpus()["name"]
    from labcode.hardware.specs import find_spec

    spec = find_spec(str(name.iloc[0])) if len(name) else None
    tf32 = bool(named_like(kernels["name"], "tf32", ignore_case=True).any())
    flops, ideal_s = 0.0, 0.0
    peaks: set[str] = set()
    skipped: set[str] = set()
    looked: dict[int, int] = {}
    alike = ops.groupby(["name", "input_dims", "input_types"]).size().reset_index(name="often")
    for op, dims, types, often in alike.itertuples(index=False, name=None):
        sizes, kinds = _decoded(dims, list[list[int]]), _decoded(types, list[str])
        if op == "aten::embedding" and len(sizes) > 1 and sizes[0]:
            looked[sizes[0][0]] = looked.get(sizes[0][0], 0) + often * int(np.prod(sizes[1]))
        done = often * _flops(op, sizes)
        if op in ("aten::convolution", "aten::cudnn_convolution", "aten::_scaled_mm"):
            skipped.add(op.removeprefix("aten::"))
        if done:
            flops += done
            precision = _precision(str(kinds[min(1, len(kinds) - 1)] if kinds else ""), tf32=tf32)
            peak = spec.peak(precision) if spec else None
            peaks.add(precision.replace("_tensor", ""))
            ideal_s += done / peak if peak else float("nan")
    talk = kernels[kernels["collective"] != ""]
    sizes_of = talk["message_type"].str.lower().map(_SIZES)
    payload = float((talk["message_in"].astype("float64") * sizes_of).sum()) if len(talk) else float("nan")
    tokens = float(looked[max(looked)]) / count if looked else float("nan")
    if not flops and not looked and not len(talk):
        return None
    mfu = ideal_s / spent if flops and spent else float("nan")
    promised = f"{spec.name}: {spec.source}" if spec and flops else ""
    return Work(
        tokens,
        flops / count or float("nan"),
        mfu,
        payload / count,
        f"{', '.join(sorted(peaks))} of {promised}" if promised else "",
        ", ".join(sorted(skipped)),
    )


def _decoded(text: str, kind: Any) -> Any:
    """What was recorded of an operator's operands, [] where that is something else."""
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError:
        return []


def _flops(op: str, sizes: list[list[int]]) -> float:
    """Floating-point operations of one call: 2 for each multiplication with its addition."""
    first = {"aten::mm": 0, "aten::bmm": 0, "aten::addmm": 1, "aten::baddbmm": 1}.get(op)
    if first is not None and len(sizes) > first + 1:
        left, right = sizes[first], sizes[first + 1]
        return 2.0 * float(np.prod(left)) * right[-1] if left and right else 0.0
    found = _ATTENTION.match(op)
    if not found or len(sizes) < 3:
        return 0.0
    backward = (found[1] or "").endswith("backward")
    query, key = sizes[1 if backward else 0], sizes[2 if backward else 1]
    if len(query) != 4 or len(key) != 4:
        return 0.0
    return (8.0 if backward else 4.0) * float(np.prod(query)) * key[-2]


def _precision(kind: str, *, tf32: bool) -> str:
    """The datasheet's precision for the type of an operand."""
    kind = kind.lower()
    if "half" in kind or "bfloat16" in kind:
        return "fp16_tensor"
    if "double" in kind:
        return "fp64_tensor"
    return "tf32_tensor" if tf32 else "fp32"
