"""Tables of a report in; the rows of a timeline out: NVTX ranges, CUDA API calls, copies, streams.

A row is a label and a table of bars with the columns start_ns, end_ns (int64, on the report's clock), lane
(int64, 0 on top), role (what it is: see style.ROLE_NAMES) and text (for its inside). A group is rows that
belong together: the CPU side of a process, or a GPU.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from labcode.analysis.timeline import intervals
from labcode.analysis.timeline.nvtx import labels, project
from labcode.analysis.timeline.overlap import is_communication
from labcode.figures.timeline.condense import assign_lanes
from labcode.reports.common import MEASURED
from labcode.reports.frames import mapped, rows_of
from labcode.show import byte_text

Copies = Literal["apart", "in streams"]
Window = tuple[int, int]

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
