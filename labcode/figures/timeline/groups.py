"""A report in; the groups of rows that its timeline shows out, stacked as in the Nsight Systems window.

Each process comes with its CPU threads (NVTX ranges, CUDA API calls), and below them its GPUs.

The number of a process alone says nothing to a reader. What is known besides is the rank (in traces of
PyTorch), the name of the main thread, which PyTorch sets in the workers of a data loader, and whether the
process worked on a GPU.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np
import pandas as pd

from labcode.analysis.timeline.utilization import device_busy, idle_gaps
from labcode.figures.style import read_once
from labcode.figures.timeline.rows import (
    Copies,
    Group,
    Row,
    Window,
    api_role,
    api_row,
    device_ops,
    in_window,
    make_bars,
    nvtx_row,
    projection_row,
    stream_rows,
)
from labcode.reports.frames import mapped, rows_of

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
