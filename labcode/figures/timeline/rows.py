"""A report in; the rows of its timeline out, in groups, and the few rectangles that show a row.

A row is a label and a table of bars with the columns start_ns, end_ns (int64, on the report's clock), lane
(int64, 0 on top), role (what it is: see style.ROLE_NAMES) and text (for its inside). A group is rows that
belong together, stacked as in the Nsight Systems window: each process with its CPU threads (NVTX ranges, CUDA
API calls), and below them its GPUs.

The number of a process alone says nothing to a reader. What is known besides is the rank (in traces of
PyTorch), the name of the main thread, which PyTorch sets in the workers of a data loader, and whether the
process worked on a GPU.

A hundred thousand kernels do not fit into a row of five hundred pixels. As in the Nsight Systems window,
events too narrow to be seen alone are drawn together, at a height that gives the share of time they cover,
stacked where they are of several kinds; a gap of a pixel or more always stays visible. There, positions are
in pixels (1/96 inch).
"""

import heapq
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np
import pandas as pd

from labcode.analysis.timeline import intervals
from labcode.analysis.timeline.intervals import Window
from labcode.analysis.timeline.nvtx import labels, project
from labcode.analysis.timeline.overlap import is_communication
from labcode.analysis.timeline.utilization import device_busy, idle_gaps
from labcode.figures.style import read_once
from labcode.reports.columns import Floats, Ints
from labcode.reports.common import MEASURED
from labcode.reports.frames import mapped, rows_of
from labcode.show import byte_text

ALONE_PX = 3.0  # an event at least this wide is a rectangle of its own
GAP_PX = 1.0  # a gap this wide is never closed
HAIR_PX = 0.8  # the least width that anything is drawn with
STEP_PX = 4.0  # the resolution of the height of joined events
LEVELS = 12  # heights of joined events are rounded to this many
FULL = 0.8  # the covered share from which events of a pixel or more are drawn at full height
LOWEST = 0.25  # the least height of joined events


@dataclass(frozen=True)
class Condensed:
    """What to draw of one lane.

    alone: indices of the events that are rectangles of their own.
    boxes: joined events, (n, 4): x0, x1 (pixels), bottom and top as shares of the lane's height.
    kinds: the kind of each box.
    runs: where joined events do not fill the lane's height, (n, 2): x0, x1.
    """

    alone: Ints
    boxes: Floats
    kinds: Ints
    runs: Floats


def condense(x0: Floats, x1: Floats, kind: Ints) -> Condensed:
    """Split the events of one lane (in any order, hardly overlapping) into wide ones and joined narrow ones.

    kind: a small number for each event; each kind has a color of its own.
    """
    wide = (x1 - x0) >= ALONE_PX
    alone = np.flatnonzero(wide).astype(np.int64)
    narrow = np.flatnonzero(~wide)
    narrow = narrow[np.argsort(x0[narrow], kind="stable")]
    start, end, kinds = x0[narrow], x1[narrow], kind[narrow]
    boxes: list[tuple[float, float, float, float]] = []
    box_kinds: list[int] = []
    runs: list[tuple[float, float]] = []
    if narrow.size:
        reach = np.maximum.accumulate(end)
        first = np.concatenate(([0], np.flatnonzero(start[1:] - reach[:-1] >= GAP_PX) + 1))
        last = np.concatenate((first[1:], [len(start)])) - 1
        for i, j in zip(first.tolist(), last.tolist(), strict=True):
            left, right = float(start[i]), max(float(reach[j]), float(start[i]) + HAIR_PX)
            if i == j:
                boxes.append((left, right, 0.0, 1.0))
                box_kinds.append(int(kinds[i]))
                continue
            part = slice(i, j + 1)
            if _can_stand_alone(start[part], end[part], right - left):
                boxes += [
                    (a, b, 0.0, 1.0) for a, b in zip(start[part].tolist(), end[part].tolist(), strict=True)
                ]
                box_kinds += kinds[part].tolist()
                continue
            for k, box in _steps(start[part], end[part], kinds[part], left, right):
                boxes.append(box)
                box_kinds.append(k)
            runs.append((left, right))
    return Condensed(
        alone,
        np.array(boxes, dtype=np.float64).reshape(-1, 4),
        np.array(box_kinds, dtype=np.int64),
        np.array(runs, dtype=np.float64).reshape(-1, 2),
    )


def _can_stand_alone(start: Floats, end: Floats, width: float) -> bool:
    """Whether narrow events fill their run and are not too narrow: then they need no share of the height."""
    widths = end - start
    return bool(np.median(widths) >= GAP_PX and widths.sum() >= FULL * width)


def _steps(
    start: Floats, end: Floats, kinds: Ints, left: float, right: float
) -> list[tuple[int, tuple[float, float, float, float]]]:
    """One run of narrow events as boxes, stepwise as high as the share of time that each kind covers."""
    edges = np.linspace(left, right, max(1, round((right - left) / STEP_PX)) + 1)
    present = np.unique(kinds)
    shares = np.array([_coverage(start[kinds == k], end[kinds == k], edges) for k in present])
    total = shares.sum(axis=0)
    if not total.any():  # nothing but events without a duration
        shares = np.array([(kinds == k).mean() * np.ones(len(edges) - 1) for k in present])
        total = shares.sum(axis=0)
    occupied = np.maximum(total, 1e-12)
    shares = shares * (np.clip(occupied, LOWEST, 1.0) / occupied)
    tops = np.round(np.cumsum(shares, axis=0) * LEVELS) / LEVELS
    bottoms = np.vstack((np.zeros(len(edges) - 1), tops[:-1]))
    result = []
    for k, low, high in zip(present.tolist(), bottoms, tops, strict=True):
        change = np.flatnonzero((np.diff(low) != 0) | (np.diff(high) != 0)) + 1
        for a, b in zip([0, *change.tolist()], [*change.tolist(), len(low)], strict=True):
            if high[a] > low[a]:
                result.append((k, (float(edges[a]), float(edges[b]), float(low[a]), float(high[a]))))
    return result


def _coverage(start: Floats, end: Floats, edges: Floats) -> Floats:
    """The share of each interval between edges that events, sorted and hardly overlapping, cover."""
    times, values = np.zeros(2 * len(start)), np.zeros(2 * len(start))  # at the start and end of each
    times[::2], times[1::2] = start, np.maximum.accumulate(end)
    spent = np.append(start[0], times[1:-1:2])
    np.subtract(times[1::2], np.maximum(start, spent, out=spent), out=spent)
    values[1::2] = np.cumsum(spent, out=spent)
    values[2::2] = spent[:-1]
    np.maximum.accumulate(times, out=times)
    return np.asarray(np.diff(np.interp(edges, times, values)) / np.diff(edges), dtype=np.float64)


def assign_lanes(start: Ints, end: Ints, *, tolerance: int = 0, most: int | None = None) -> Ints:
    """The lane of each event so that events of one lane do not overlap, the earliest and longest in lane 0.

    Nested ranges get the depth of their nesting. `tolerance` (ns) is how far two events may overlap and still
    share a lane; with `most`, events that would need a further lane are put into the last one. Arrays in any
    order.
    """
    lanes = np.zeros(len(start), dtype=np.int64)
    order = np.lexsort((-end, start))
    s, e = start[order], end[order]
    if len(s) < 2 or (s[1:] + tolerance >= np.maximum.accumulate(e)[:-1]).all():
        return lanes
    free: list[int] = []  # lanes, the lowest first
    busy: list[tuple[int, int]] = []  # until when, lane
    until: list[int] = []  # the same by lane
    result: list[int] = []
    for a, b in zip(s.tolist(), e.tolist(), strict=True):
        while busy and busy[0][0] <= a + tolerance:
            t, lane = heapq.heappop(busy)
            if until[lane] == t:
                heapq.heappush(free, lane)
        if free:
            lane = heapq.heappop(free)
        elif most is None or len(until) < most:
            lane = len(until)
            until.append(b)
        else:
            lane = most - 1
            if b <= until[lane]:
                result.append(lane)
                continue
        until[lane] = max(until[lane], b)
        heapq.heappush(busy, (until[lane], lane))
        result.append(lane)
    lanes[order] = result
    return lanes


Copies = Literal["apart", "in streams"]

BAR_COLUMNS = {"start_ns": "int64", "end_ns": "int64", "lane": "int64", "role": "str", "text": "str"}
COPY_ROWS = {"H2D": "copies H2D", "D2H": "copies D2H", "P2P": "copies P2P"}
MOST_LANES = 4


@dataclass(frozen=True)
class Row:
    """One row: its label at the left, its bars, and a message where there is nothing to draw.

    ``place``: of which stream (pid, device, context, stream) or thread (pid, -1, -1, tid) it is, if of one.
    """

    label: str
    bars: pd.DataFrame
    message: str = ""
    self_explaining: bool = False  # whether the label says what the colors mean
    place: tuple[int, ...] = ()

    @property
    def lanes(self) -> int:
        """How many lanes high the row is."""
        return int(self.bars["lane"].max()) + 1 if len(self.bars) else 1


@dataclass(frozen=True)
class Group:
    """Rows that belong together: texts above them, idle time shaded across them, its share at the right."""

    rows: tuple[Row, ...]
    heading: str = ""  # above the title, larger: the capture, where there are several
    aside: str = ""  # at the right end of the heading's line
    title: str = ""
    idle: pd.DataFrame | None = None  # start_ns, end_ns
    idle_share: float | None = None  # of the window
    end_ns: int | None = None  # where the capture ends, when the axis goes on


def make_bars(
    start_ns: Any, end_ns: Any, role: Any = "kernel", text: Any = "", lane: Any = 0
) -> pd.DataFrame:
    """A table of bars out of columns or single values."""
    frame = pd.DataFrame({"start_ns": start_ns, "end_ns": end_ns})
    return frame.assign(lane=lane, role=role, text=text).astype(BAR_COLUMNS)


def in_window(events: pd.DataFrame, window: Window) -> pd.DataFrame:
    """The events that overlap the window, cut to it; open-ended ones end with it."""
    start, ends = events["start_ns"].to_numpy(np.int64), events["end_ns"]
    if ends.dtype != np.int64:
        ends = ends.astype("Int64").fillna(window[1])
    end = ends.to_numpy(np.int64)
    inside = ((end > window[0]) & (start < window[1])) | (
        (start == end) & (start >= window[0]) & (start <= window[1])
    )
    kept = rows_of(events, inside)
    return kept.assign(start_ns=start[inside].clip(*window), end_ns=end[inside].clip(*window))


def nvtx_row(nvtx: pd.DataFrame, window: Window, *, label: str = "NVTX", levels: int = 3) -> Row:
    """The ranges of one thread, nested ones below each other, `levels` deep; marks are left out."""
    kinds = nvtx["event_type"].isin(["push_pop", "start_end"])
    ranges = in_window(nvtx[kinds & (labels(nvtx) != MEASURED)], window)
    return _range_row(label, ranges["start_ns"], ranges["end_ns"], ranges["name"], levels)


def projection_row(
    nvtx: pd.DataFrame, api: pd.DataFrame, ops: pd.DataFrame, window: Window, *, levels: int = 3
) -> Row:
    """The ranges of one process where their work ran on a GPU: ops are the operations of that GPU."""
    ranges = project(nvtx, api, ops, nested=False)
    ranges = ranges[ranges["label"] != MEASURED]
    spans = ranges[["name"]].assign(start_ns=ranges["gpu_start_ns"], end_ns=ranges["gpu_end_ns"])
    spans = in_window(spans, window)
    return _range_row("NVTX on the GPU", spans["start_ns"], spans["end_ns"], spans["name"], levels)


def _range_row(label: str, start: pd.Series, end: pd.Series, name: pd.Series, levels: int) -> Row:
    lane = assign_lanes(start.to_numpy("int64"), end.to_numpy("int64"))
    role = np.array([f"nvtx{min(level + 1, 3)}" for level in lane], dtype=object)
    bars = make_bars(start.to_numpy(), end.to_numpy(), role, name.to_numpy(), lane)
    return Row(label, bars[bars["lane"] < levels], self_explaining=True)


def api_role(name: str) -> str:
    """The role of an API call by its name."""
    if "Synchronize" in name:
        return "sync"
    if "Launch" in name:
        return "launch"
    return "copy_call" if "emcpy" in name or "emset" in name else "call"


def api_row(api: pd.DataFrame, window: Window, *, label: str = "CUDA API") -> Row:
    """The outermost calls of one thread."""
    calls = in_window(api, window).sort_values(["start_ns", "end_ns"], ascending=[True, False])
    end = calls["end_ns"].to_numpy("int64")
    reach = np.concatenate(([-1], np.maximum.accumulate(end)[:-1])) if len(end) else end
    calls = calls[end > reach]
    name = calls["name"].astype(str)
    roles = {one: api_role(one) for one in name.unique()}
    return Row(label, make_bars(calls["start_ns"], calls["end_ns"], name.map(roles), name))


def device_ops(
    kernels: pd.DataFrame, memcpys: pd.DataFrame, memsets: pd.DataFrame, graphs: pd.DataFrame, window: Window
) -> pd.DataFrame:
    """All GPU operations in the window, with role and text; apart is the copy row they could go to."""
    kernels, memcpys, memsets, graphs = (in_window(t, window) for t in (kernels, memcpys, memsets, graphs))
    roles = np.array(["kernel", "nccl"], object)[is_communication(kernels).to_numpy(np.int8)]
    kind = memcpys["copy_kind"].astype(str).str.removeprefix("managed ")
    parts = [
        kernels.assign(role=roles, text=mapped(kernels["short_name"], kernel_label)),
        memcpys.assign(
            role=kind.map({"H2D": "h2d", "D2H": "d2h", "P2P": "p2p"}).fillna("d2d"),
            text=[byte_text(count, binary=True) for count in memcpys["bytes"]],
            apart=kind.map(COPY_ROWS).fillna(""),
        ),
        memsets.assign(role="memset", text="memset"),
        graphs.assign(role="graph", text="graph"),
    ]
    columns = ["start_ns", "end_ns", "pid", "device", "context", "stream", "role", "text", "apart"]
    parts = [part.assign(apart=part.get("apart", ""))[columns] for part in parts if len(part)]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def kernel_label(short_name: str) -> str:
    """A kernel's name; of NCCL's, only the collective."""
    for prefix in ("ncclDevKernel_", "ncclKernel_"):
        if short_name.startswith(prefix):
            return short_name.removeprefix(prefix).split("_")[0]
    return short_name


def stream_rows(
    ops: pd.DataFrame, *, copies: Copies = "apart", max_streams: int = 12, tolerance_ns: int = 0
) -> list[Row]:
    """Rows of one device: copies by direction, then one a stream; beyond `max_streams` they share one."""
    rows = []
    if copies == "apart":
        for label in COPY_ROWS.values():
            mine = ops[ops["apart"] == label]
            if len(mine):
                rows.append(replace(_gpu_row(label, mine, tolerance_ns), self_explaining=True))
        ops = ops[ops["apart"] == ""]
    several = ops["pid"].nunique() > 1
    number = ops.groupby(["pid", "context", "stream"]).ngroup()
    spent = (
        (ops["end_ns"] - ops["start_ns"]).groupby(number).sum().sort_values(ascending=False, kind="stable")
    )
    kept = spent.index if len(spent) <= max_streams else spent.index[: max_streams - 1]
    for key in sorted(kept):
        mine = ops[number == key]
        what = ", NCCL" if (mine["role"] == "nccl").all() else ""
        label = f"stream {mine['stream'].iloc[0]}{what}"
        label += f", process {mine['pid'].iloc[0]}" if several else ""
        place = tuple(int(mine[c].iloc[0]) for c in ("pid", "device", "context", "stream"))
        rows.append(replace(_gpu_row(label, mine, tolerance_ns), place=place))
    rest = ops[~number.isin(kept)]
    if len(rest):
        start, end = intervals.union(rest["start_ns"], rest["end_ns"])
        rows.append(Row(f"{len(spent) - len(kept)} more streams", make_bars(start, end)))
    return rows


def _gpu_row(label: str, ops: pd.DataFrame, tolerance_ns: int) -> Row:
    start, end = ops["start_ns"].to_numpy("int64"), ops["end_ns"].to_numpy("int64")
    lane = assign_lanes(start, end, tolerance=tolerance_ns, most=MOST_LANES)
    return Row(label, make_bars(start, end, ops["role"].to_numpy(), ops["text"].to_numpy(), lane))


# Names that a library gives the main thread of a process, and what such a process is.
ROLES: Mapping[str, str] = {"pt_data_worker": "data worker"}
RowKind = Literal["nvtx", "api", "projection", "streams"]
NO_GPU_WORK = "no GPU work in this window"
MOST_GROUPS = 256  # processes and GPUs below each other in one picture


def process_names(devices: Mapping[int, Collection[int]], threads: pd.DataFrame) -> dict[int, str]:
    """A name for each process: ``data worker (process 858)``, ``python3 on GPU 0 (process 816)``.

    devices: for each process the GPUs it worked on, none for one that did not. GPUs are part of the names
    where some processes used one and others did not. threads: columns pid tid name, and rank in traces.
    """
    apart = len({bool(used) for used in devices.values()}) > 1
    mains = threads[threads["pid"] == threads["tid"]]
    main = dict(zip(mains["pid"].tolist(), mains["name"].astype(str).tolist(), strict=True))
    ranks = rank_numbers(threads)
    names = {}
    for pid, used in devices.items():
        if pid in ranks:
            names[pid] = f"rank {ranks[pid]}"
            continue
        role = ROLES.get(main.get(pid, ""), "")
        known = role or main.get(pid, "")
        where = ""
        if apart and used:
            where = f"on GPU {', '.join(str(device) for device in sorted(used))}"
        elif apart and not role:
            where = "without GPU work"
        if known:
            names[pid] = " ".join(part for part in (known, where, f"(process {pid})") if part)
        else:
            names[pid] = ", ".join(part for part in (f"process {pid}", where) if part)
    return names


def rank_numbers(threads: pd.DataFrame) -> dict[int, int]:
    """The rank of each process, where the report knows of several: one process per rank."""
    if "rank" not in threads or threads["rank"].nunique() < 2:
        return {}
    return {int(p): int(r) for p, r in zip(threads["pid"], threads["rank"], strict=True) if r >= 0}


class Report(Protocol):
    """What a timeline needs of a report: labcode.reports.nsys.report.NsysReport has it."""

    def window(self) -> Window:
        """Start and end of the measured part."""

    def kernels(self) -> pd.DataFrame:
        """Columns start_ns end_ns pid device context stream short_name."""

    def memcpys(self) -> pd.DataFrame:
        """Columns start_ns end_ns pid device context stream bytes copy_kind."""

    def memsets(self) -> pd.DataFrame:
        """Columns start_ns end_ns pid device context stream."""

    def graph_launches(self) -> pd.DataFrame:
        """Columns start_ns end_ns pid device context stream."""

    def gpu_ops(self) -> pd.DataFrame:
        """All of the above; also correlation."""

    def api(self) -> pd.DataFrame:
        """Columns start_ns end_ns pid tid correlation name."""

    def nvtx(self) -> pd.DataFrame:
        """Columns start_ns end_ns pid tid end_tid domain name event_type."""

    def threads(self) -> pd.DataFrame:
        """Columns pid tid name."""


@dataclass(frozen=True)
class Choice:
    """What of a report is shown; see labcode.figures.timeline.timeline."""

    devices: Collection[int] | None = None
    pids: Collection[int] | None = None
    kinds: Sequence[RowKind] = ("nvtx", "api", "streams")
    nvtx_levels: int = 3
    annotate_idle: bool = True
    max_streams: int = 12
    max_threads: int = 2
    copies: Copies = "apart"
    cpu_only: bool = False


@read_once
def report_groups(
    report: Report, window: Window, choice: Choice | None = None, *, tolerance_ns: int = 0
) -> list[Group]:
    """The groups of a report; kernels that overlap by less than `tolerance_ns` need no lane of their own.

    Idle time is a device's, over the operations of all its processes, also of those that are not shown.
    """
    choice = choice or Choice()
    everything = device_ops(
        report.kernels(), report.memcpys(), report.memsets(), report.graph_launches(), window
    )
    shown = everything
    if choice.devices is not None:
        shown = shown[shown["device"].isin(list(choice.devices))]
    if choice.pids is not None:
        shown = shown[shown["pid"].isin(list(choice.pids))]
    api, nvtx, threads = report.api(), report.nvtx(), report.threads()
    pairs = shown[["pid", "device"]].drop_duplicates()
    working = list(dict.fromkeys(pairs.sort_values("device", kind="stable")["pid"])) if len(shown) else []
    processes = list(dict.fromkeys([*working, *_without_gpu(api, nvtx, window, choice)]))
    if working and not choice.cpu_only:
        processes = working
    several_devices = shown["device"].nunique() > 1
    groups: list[Group] = []
    drawn: set[int] = set()
    used: dict[int, list[int]] = {pid: [] for pid in processes}
    for pid, device in pairs.sort_values("device").to_numpy("int64").tolist():
        used[pid].append(device)
    called, cut = process_names(used, threads), False
    for pid in processes:
        if len(groups) >= MOST_GROUPS:
            cut = True
            break
        own = [device for device in used[pid] if device not in drawn]
        cpu = _cpu_rows(pid, nvtx, api, threads, window, choice)
        named = len(processes) > 1 or several_devices
        if cpu:
            host = "CPU" if len(processes) == 1 else called[pid]
            one_gpu = len(own) == 1 and len(working) == len(processes)
            groups.append(Group(tuple(cpu), title=(f"GPU {own[0]}" if one_gpu else host) if named else ""))
        for device in own if {"streams", "projection"} & set(choice.kinds) else []:
            if len(groups) >= MOST_GROUPS:
                cut = True
                break
            drawn.add(device)
            rows: list[Row] = []
            if "projection" in choice.kinds:
                ops = _of(report.gpu_ops(), "device", device)
                rows.append(projection_row(nvtx, api, ops, window, levels=choice.nvtx_levels))
            if "streams" in choice.kinds:
                rows += stream_rows(
                    _of(shown, "device", device),
                    copies=choice.copies,
                    max_streams=choice.max_streams,
                    tolerance_ns=tolerance_ns,
                )
            title = f"GPU {device}" if named and not (cpu and len(own) == 1) else ""
            group = Group(tuple(row for row in rows if len(row.bars)), title=title)
            groups.append(_with_idle(group, everything, device, window) if choice.annotate_idle else group)
    if cut:
        message = f"{len(processes):,} processes, {shown['device'].nunique():,} GPUs: the rest is not shown"
        groups.append(Group((Row("", make_bars([], []), message=message),)))
    if "streams" in choice.kinds and not drawn:
        groups.append(Group((Row("GPU", make_bars([], []), message=NO_GPU_WORK),)))
    return groups


def _of(table: pd.DataFrame, column: str, number: int) -> pd.DataFrame:
    """The rows of a process, a thread or a GPU: of very many no copy, where all are its own."""
    return rows_of(table, (table[column] == number).to_numpy(np.bool_))


def _without_gpu(api: pd.DataFrame, nvtx: pd.DataFrame, window: Window, choice: Choice) -> list[int]:
    """The processes that could be shown for what their CPU does: those named, or all with ranges or calls."""
    if choice.pids is not None:
        return sorted(choice.pids)
    tables = (in_window(api, window), in_window(nvtx, window)) if choice.cpu_only else (api, nvtx)
    return sorted({int(pid) for table in tables for pid in table["pid"].unique()})


def _cpu_rows(
    pid: int,
    nvtx: pd.DataFrame,
    api: pd.DataFrame,
    threads: pd.DataFrame,
    window: Window,
    choice: Choice,
) -> list[Row]:
    """The rows of one process, a thread at a time."""
    nvtx, api, threads = (_of(table, "pid", pid) for table in (nvtx, api, threads))
    rows: list[Row] = []
    for tid, suffix in _threads(pid, in_window(nvtx, window), in_window(api, window), threads, choice):
        if "nvtx" in choice.kinds:
            mine = _of(nvtx, "tid", tid)
            name = "annotations" if "rank" in nvtx else "NVTX"  # as torch.profiler's traces call them
            rows.append(nvtx_row(mine, window, label=name + suffix, levels=choice.nvtx_levels))
        if "api" in choice.kinds:
            row = api_row(_of(api, "tid", tid), window, label="CUDA API" + suffix)
            rows.append(replace(row, place=(pid, -1, -1, tid)))
    return [row for row in rows if len(row.bars)]


def _threads(
    pid: int, nvtx: pd.DataFrame, api: pd.DataFrame, threads: pd.DataFrame, choice: Choice
) -> list[tuple[int, str]]:
    """The threads to show, the main one first, and what to add to their rows' labels: nothing for the first.

    Shown are threads that put work on the GPU or wait for it, those that do so longest;
    without any, the others.
    """
    time = (api["end_ns"] - api["start_ns"]).groupby(api["tid"]).sum().sort_values(ascending=False)
    working = set(api.loc[mapped(api["name"], api_role) != "call", "tid"].unique())
    tids = list(dict.fromkeys(int(tid) for tid in [*time.index, *nvtx.sort_values("start_ns")["tid"]]))
    tids = [tid for tid in tids if tid in working] or tids
    tids = sorted(tids[: choice.max_threads], key=lambda tid: tid != pid)
    names = {int(tid): str(name) for tid, name in zip(threads["tid"], threads["name"], strict=True)}
    result = []
    for number, tid in enumerate(tids, start=1):
        name = names.get(tid, "")
        other = name if name and name != names.get(tids[0]) else f"thread {number}"
        result.append((tid, "" if number == 1 else f", {other}"))
    return result


def _with_idle(group: Group, ops: pd.DataFrame, device: int, window: Window) -> Group:
    """The group with its device's idle time and the share of the window it takes."""
    ops = _of(ops, "device", device)
    (share,) = device_busy(ops, window)["idle_share"]
    return replace(group, idle=idle_gaps(ops, window), idle_share=None if pd.isna(share) else float(share))
