"""Tables of a report in; the rows of a timeline out: NVTX ranges, CUDA API calls, copies, streams.

A row is a label and a table of bars with the columns start_ns, end_ns (int64, on the report's clock), lane
(int64, 0 on top), role (what it is: see style.ROLE_NAMES) and text (for its inside). A group is rows that
belong together: the CPU side of a process, or a GPU.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np
import pandas as pd

from labcode.analysis import intervals
from labcode.figures.condense import assign_lanes

RowKind = Literal["nvtx", "api", "streams"]
Copies = Literal["apart", "in streams"]
Window = tuple[int, int]

BAR_COLUMNS = {"start_ns": "int64", "end_ns": "int64", "lane": "int64", "role": "str", "text": "str"}
NO_GPU_WORK = "no GPU work in this window"
COPY_ROWS = {"H2D": "copies H2D", "D2H": "copies D2H", "P2P": "copies P2P"}
MOST_LANES = 4
MEASURED = "lab:measured"


class Report(Protocol):
    """What a timeline needs of a report: labcode.reports.nsys.NsysReport has it."""

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

    def api(self) -> pd.DataFrame:
        """Columns start_ns end_ns pid tid name."""

    def nvtx(self) -> pd.DataFrame:
        """Columns start_ns end_ns pid tid name event_type."""


@dataclass(frozen=True)
class Row:
    """One row: its label at the left, its bars, and a message where there is nothing to draw."""

    label: str
    bars: pd.DataFrame
    message: str = ""
    self_explaining: bool = False  # whether the label says what the colors mean

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
    start = events["start_ns"].astype("int64")
    end = events["end_ns"].astype("Int64").fillna(window[1]).astype("int64")
    inside = ((end > window[0]) & (start < window[1])) | ((start == end) & start.between(*window))
    kept = events[inside]
    return kept.assign(start_ns=start[inside].clip(*window), end_ns=end[inside].clip(*window))


def nvtx_rows(nvtx: pd.DataFrame, window: Window, *, levels: int = 3) -> list[Row]:
    """One row a thread with ranges, nested ones below each other, `levels` deep; marks are left out."""
    ranges = nvtx[
        nvtx["event_type"].isin(["push_pop", "start_end"])
        & ~nvtx["name"].astype(str).str.startswith(MEASURED)
    ]
    ranges = in_window(ranges, window)
    rows = []
    for number, (_, mine) in enumerate(_threads(ranges)):
        lane = assign_lanes(mine["start_ns"].to_numpy(), mine["end_ns"].to_numpy())
        mine, lane = mine[lane < levels], lane[lane < levels]
        role = [f"nvtx{min(level + 1, 3)}" for level in lane]
        bars = make_bars(mine["start_ns"], mine["end_ns"], role, mine["name"], lane)
        rows.append(Row("NVTX" if number == 0 else f"NVTX, thread {number + 1}", bars, self_explaining=True))
    return rows


def api_role(name: str) -> str:
    """The role of an API call by its name."""
    if "Synchronize" in name:
        return "sync"
    if "Launch" in name:
        return "launch"
    return "copy_call" if "emcpy" in name or "emset" in name else "call"


def api_rows(api: pd.DataFrame, window: Window, *, max_threads: int = 2) -> list[Row]:
    """One row a thread with its outermost calls; of more than `max_threads`, those longest in calls."""
    calls = in_window(api, window)
    roles = {name: api_role(name) for name in calls["name"].astype(str).unique()}
    kept = sorted(_threads(calls), key=lambda item: -int((item[1]["end_ns"] - item[1]["start_ns"]).sum()))
    rows = []
    for number, (_, mine) in enumerate(kept[:max_threads]):
        outer = mine.sort_values(["start_ns", "end_ns"], ascending=[True, False])
        end = outer["end_ns"].to_numpy()
        reach = np.concatenate(([-1], np.maximum.accumulate(end)[:-1]))
        outer = outer[(outer["start_ns"].to_numpy() >= reach) | (end > reach)]
        name = outer["name"].astype(str)
        bars = make_bars(outer["start_ns"], outer["end_ns"], name.map(roles), name)
        rows.append(Row("CUDA API" if number == 0 else f"CUDA API, thread {number + 1}", bars))
    return rows


def _threads(events: pd.DataFrame) -> Iterator[tuple[object, pd.DataFrame]]:
    """The events of each thread, in the order in which the threads began."""
    return iter(events.groupby("tid", sort=False)) if len(events) else iter(())


def device_ops(report: Report, window: Window) -> pd.DataFrame:
    """All GPU operations in the window, with role and text; apart is the copy row they could go to."""
    kernels, copies, sets, graphs = (
        in_window(table, window)
        for table in (report.kernels(), report.memcpys(), report.memsets(), report.graph_launches())
    )
    name = kernels["short_name"].astype(str)
    kind = copies["copy_kind"].astype(str)
    parts = [
        kernels.assign(role=np.where(is_nccl(name), "nccl", "kernel"), text=name.map(kernel_label)),
        copies.assign(
            role=kind.map({"H2D": "h2d", "D2H": "d2h", "D2D": "d2d", "P2P": "p2p"}).fillna("d2d"),
            text=copies["bytes"].map(format_bytes),
            apart=kind.map(COPY_ROWS).fillna(""),
        ),
        sets.assign(role="memset", text="memset"),
        graphs.assign(role="graph", text="CUDA graph"),
    ]
    columns = ["start_ns", "end_ns", "pid", "device", "context", "stream", "role", "text", "apart"]
    parts = [part.assign(apart=part.get("apart", ""))[columns] for part in parts if len(part)]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def is_nccl(name: pd.Series) -> pd.Series:
    """Whether a kernel belongs to NCCL, by its name."""
    return name.str.contains("nccl", case=False, regex=False)


def kernel_label(short_name: str) -> str:
    """A kernel's name; of NCCL's, only the collective."""
    for prefix in ("ncclDevKernel_", "ncclKernel_"):
        if short_name.startswith(prefix):
            return short_name.removeprefix(prefix).split("_")[0]
    return short_name


def format_bytes(count: float) -> str:
    """Bytes in the largest unit that leaves a whole number of at least 1, binary if that comes out even."""
    for size, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= size and (count % size == 0 or count >= 10 * size):
            return f"{count / size:.0f} {unit}"
    return f"{count / 1024:.1f} KiB" if count >= 10_000 else f"{count:.0f} B"


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
    streams = list(ops.groupby(["pid", "context", "stream"])) if len(ops) else []
    several = ops["pid"].nunique() > 1
    if len(streams) > max_streams:
        by_time = sorted(streams, key=lambda item: -int((item[1]["end_ns"] - item[1]["start_ns"]).sum()))
        kept = {key for key, _ in by_time[: max_streams - 1]}
    else:
        kept = {key for key, _ in streams}
    for key, mine in streams:
        if key in kept:
            what = ", NCCL" if (mine["role"] == "nccl").all() else ""
            label = f"stream {key[2]}{what}" + (f", process {key[0]}" if several else "")
            rows.append(_gpu_row(label, mine, tolerance_ns))
    rest = [mine for key, mine in streams if key not in kept]
    if rest:
        both = pd.concat(rest)
        start, end = intervals.union(both["start_ns"], both["end_ns"])
        rows.append(Row(f"{len(rest)} more streams", make_bars(start, end)))
    return rows


def _gpu_row(label: str, ops: pd.DataFrame, tolerance_ns: int) -> Row:
    start, end = ops["start_ns"].to_numpy("int64"), ops["end_ns"].to_numpy("int64")
    lane = assign_lanes(start, end, tolerance=tolerance_ns, most=MOST_LANES)
    return Row(label, make_bars(start, end, ops["role"].to_numpy(), ops["text"].to_numpy(), lane))


def report_groups(
    report: Report,
    window: Window,
    *,
    devices: Collection[int] | None = None,
    pids: Collection[int] | None = None,
    kinds: Sequence[RowKind] = ("nvtx", "api", "streams"),
    nvtx_levels: int = 3,
    annotate_idle: bool = True,
    max_streams: int = 12,
    max_threads: int = 2,
    copies: Copies = "apart",
    tolerance_ns: int = 0,
) -> list[Group]:
    """The groups of a report: each process' CPU rows, then its GPUs, as the Nsight Systems window has them.

    Idle time is a device's, over the operations of all its processes, also of those that `pids` leaves out.
    """
    everything = device_ops(report, window)
    shown = everything
    if devices is not None:
        shown = shown[shown["device"].isin(list(devices))]
    if pids is not None:
        shown = shown[shown["pid"].isin(list(pids))]
    cpu = {"nvtx": report.nvtx(), "api": report.api()}
    processes = list(dict.fromkeys(shown.sort_values("device")["pid"])) if len(shown) else []
    if not processes:
        processes = sorted({*cpu["api"]["pid"], *cpu["nvtx"]["pid"]}) if pids is None else sorted(pids)
    many = len(processes) > 1 or shown["device"].nunique() > 1
    groups: list[Group] = []
    drawn: set[int] = set()
    for pid in processes:
        rows: list[Row] = []
        if "nvtx" in kinds:
            rows += nvtx_rows(cpu["nvtx"][cpu["nvtx"]["pid"] == pid], window, levels=nvtx_levels)
        if "api" in kinds:
            rows += api_rows(cpu["api"][cpu["api"]["pid"] == pid], window, max_threads=max_threads)
        own = [int(d) for d in sorted(shown.loc[shown["pid"] == pid, "device"].unique()) if d not in drawn]
        one = f"GPU {own[0]}" if len(own) == 1 else ("CPU" if len(processes) == 1 else f"process {pid}")
        if rows:
            groups.append(Group(tuple(rows), title=one if many else ""))
        for device in own if "streams" in kinds else []:
            drawn.add(device)
            mine = shown[shown["device"] == device]
            gpu = Group(
                tuple(stream_rows(mine, copies=copies, max_streams=max_streams, tolerance_ns=tolerance_ns)),
                title=f"GPU {device}" if many and not (rows and len(own) == 1) else "",
            )
            groups.append(
                _with_idle(gpu, everything[everything["device"] == device], window) if annotate_idle else gpu
            )
    if "streams" in kinds and not drawn:
        groups.append(Group((Row("GPU", make_bars([], []), message=NO_GPU_WORK),)))
    return groups


def _with_idle(group: Group, ops: pd.DataFrame, window: Window) -> Group:
    """The group with its device's idle time and the share of the window it takes."""
    start, end = intervals.complement(ops["start_ns"], ops["end_ns"], window)
    share = float((end - start).sum()) / max(1, window[1] - window[0])
    return replace(group, idle=pd.DataFrame({"start_ns": start, "end_ns": end}), idle_share=share)
