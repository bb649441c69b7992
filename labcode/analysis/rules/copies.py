"""Rules about copies: the tables of a capture in, findings out."""

import numpy as np
import pandas as pd

from labcode.analysis.rules.finding import Finding, rule
from labcode.analysis.rules.tables import Tables, one_line, percent, time_text, top
from labcode.analysis.timeline import intervals
from labcode.analysis.timeline.joins import duration_ns, in_window, named_like, spans
from labcode.reports.columns import Ints
from labcode.reports.frames import mapped

PAGEABLE_SHARE = 0.02  # little, for it is cheap to mend
SMALL_BYTES = 1 << 16
SMALL_COPIES = 20
SMALL_SHARE = 0.02
REPEATED = 3
REPEATED_SHARE = 0.10
REPEATED_BYTES = 1 << 20  # a number for each step is no copy to think about
ASYNC = r"Async"
SYNC_SHARE = 0.02  # little, for it is cheap to mend
BUFFERED_BYTES = 64_000
SYNC_COPY, SYNC_MEMSET = r"^cu(?:da)?Memcpy(?!.*Async)", r"^cu(?:da)?Memset(?!.*Async)"


@rule(
    "pageable-copies",
    title="Asynchronous copies of pageable memory",
    book="nsys/memory-timeline",
    advice="Pin the host memory once (cudaMallocHost, cudaHostRegister; pin_memory=True in PyTorch's "
    "DataLoader) and copy with non_blocking=True.",
)
def pageable_copies(tables: Tables) -> Finding:
    """Copies that were asked for as asynchronous and cannot be, since the memory of the host is pageable.

    Each copy is joined with its call within its process. Numerator: the time in which such a copy runs or the
    call that made it has not returned. Bound: the same; pinned copies take less time and, hidden behind other
    work, cost none.
    """
    copies = tables.copies
    if len(copies):
        tables.need_api()
    lost = int((copies["row"] < 0).sum())
    asynchronous = named_like(copies["call"], ASYNC)
    slow = copies[asynchronous & (copies["host_memory"] == "pageable").to_numpy(np.bool_)]
    spent = intervals.total(*_copies_and_calls(tables, slow))
    share = spent / tables.width
    message = (
        f"{len(slow):,} of {len(copies):,} copies are asynchronous in name only; they and their calls take "
    )
    message += f"{percent(share)} of the window"
    if lost:
        message += f" ({lost:,} copies have no call in the capture and were not judged)"
    return tables.finding(
        share >= PAGEABLE_SHARE,
        message,
        spent,
        "ns in pageable asynchronous copies and their calls",
        _shown(slow),
    )


@rule(
    "small-copies",
    title="Many small copies",
    book="nsys/memory-timeline",
    advice="Pack small arrays into one buffer and copy that; keep scalars on the GPU.",
)
def small_copies(tables: Tables) -> Finding:
    """Copies between host and GPU (or GPUs) of less than 64 KiB, whose cost is the call and not the bytes.

    Numerator: the time in which such a copy runs or the call that made it has not returned. Bound: the same,
    for one copy of all the bytes takes at least some time.
    """
    copies = tables.copies
    between = ~copies["copy_kind"].isin(["D2D", "H2H"])
    small = copies[between & (copies["bytes"] < SMALL_BYTES)]
    spent = intervals.total(*_copies_and_calls(tables, small))
    share = spent / tables.width
    return tables.finding(
        len(small) >= SMALL_COPIES and share >= SMALL_SHARE,
        f"{len(small):,} of {int(between.sum()):,} copies between host and GPU are smaller than 64 KiB; they "
        f"and their calls take {percent(share)} of the window",
        spent,
        "ns in small copies and their calls",
        _shown(small),
    )


@rule(
    "repeated-copies",
    title="The same amount of data is copied to the GPU again and again",
    book="nsys/memory-timeline",
    advice="Where it is the same data, keep it on the GPU; where it is new data, hide the copy behind "
    "kernels (pinned memory, a stream of its own).",
)
def repeated_copies(tables: Tables) -> Finding:
    """Copies from host to GPU of one size, at least three of 1 MiB or more, while no kernel runs on that GPU.

    A capture knows sizes and not contents, so this is a suspicion. Copies that hide behind kernels cost
    nothing and do not count. Numerator: the time of such copies, but for the first of each size, with
    no kernel or graph beside them, on the GPU with most of it. Bound: the same over all GPUs.
    """
    copies = tables.copies
    inward = copies[(copies["copy_kind"] == "H2D") & (copies["bytes"] >= REPEATED_BYTES)]
    inward = inward.sort_values("start_ns", kind="stable")
    by = inward.groupby(["pid", "device", "bytes"])
    again = inward[(by.cumcount() > 0) & (by["bytes"].transform("size") >= REPEATED)]
    uncovered = np.zeros(len(again), np.int64)
    exposed = []
    compute = tables.ops[tables.ops["kind"].isin(["kernel", "graph"])]
    for device, rows in again.groupby("device", sort=True).indices.items():
        mine, beside = again.iloc[rows], spans(compute[compute["device"] == device])
        uncovered[rows] = duration_ns(mine) - intervals.covered_within(*beside, *spans(mine))
        exposed.append(intervals.subtract(*spans(mine), *beside))
    table = (
        again.assign(copy_ns=duration_ns(again), exposed_ns=uncovered, total_bytes=again["bytes"])
        .groupby(["device", "pid", "bytes"], sort=True)
        .agg(
            repetitions=("copy_ns", "size"),
            total_bytes=("total_bytes", "sum"),
            copy_ns=("copy_ns", "sum"),
            exposed_ns=("exposed_ns", "sum"),
        )
        .reset_index()
    )
    worst = max((intervals.total(*alone) for alone in exposed), default=0)
    share = worst / tables.width
    everywhere = intervals.joined(exposed)
    return tables.finding(
        share >= REPEATED_SHARE,
        f"{len(again):,} copies to the GPU repeat the size of an earlier one; alone on the GPU they take "
        f"{percent(share)} of the window" + (f" ({time_text(worst)})" if worst else ""),
        worst,
        "ns of repeated copies with no kernel beside them on the worst GPU",
        top(table, "exposed_ns"),
        gain=intervals.total(*everywhere) / tables.width,
    )


@rule(
    "synchronous-copies",
    title="Copies for which the host waits",
    book="nsys/memory-timeline",
    advice="Call cudaMemcpyAsync on a stream, from and to pinned memory, and wait for an event where the "
    "data is needed.",
)
def synchronous_copies(tables: Tables) -> Finding:
    """Copies by calls without Async in their names, which return when all bytes are there.

    Copies within one GPU are left out, and those to the GPU of 64 KB or less: the host does not wait for
    them. Numerator: the time in such calls. Bound: the same; asynchronous copies hide behind other work.
    """
    copies = tables.copies
    if len(copies):
        tables.need_api()
    small = (copies["copy_kind"] == "H2D") & (copies["bytes"] <= BUFFERED_BYTES)
    between = ~small & ~copies["copy_kind"].isin(["D2D", "H2H"])
    return _waited(tables, copies[between & named_like(copies["call"], SYNC_COPY)], "copies")


@rule(
    "synchronous-memsets",
    title="Memsets for which the host waits",
    book="nsys/memory-timeline",
    advice="Call cudaMemsetAsync on a stream; set the GPU's own memory, or touch managed and pinned memory "
    "on the side that reads it.",
)
def synchronous_memsets(tables: Tables) -> Finding:
    """Memsets of pinned or managed memory by calls without Async in their names.

    For memsets of the GPU's own memory the host does not wait. Numerator: the time in such calls. Bound: the
    same.
    """
    tables.need_ops()
    memsets = in_window(tables.report.memsets(), tables.window).reset_index(drop=True)
    if len(memsets):
        tables.need_api()
    memsets = tables.called(memsets)
    host = memsets["mem_kind"].isin(["pinned", "managed", "managed static"])
    return _waited(tables, memsets[host & named_like(memsets["call"], SYNC_MEMSET)], "memsets")


def _waited(tables: Tables, ops: pd.DataFrame, what: str) -> Finding:
    calls = tables.api.iloc[np.unique(ops["row"].to_numpy(np.int64))]
    spent = intervals.total(*intervals.clip(*spans(calls), tables.window))
    share = spent / tables.width
    return tables.finding(
        share >= SYNC_SHARE,
        f"the host waits for {len(ops):,} {what}, for {percent(share)} of the window",
        spent,
        f"ns in calls that wait for {what}",
        _shown(ops),
    )


def _copies_and_calls(tables: Tables, copies: pd.DataFrame) -> tuple[Ints, Ints]:
    """The times in which one of the copies runs or its call has not returned, within the window."""
    calls = tables.api.iloc[np.unique(copies.loc[copies["row"] >= 0, "row"].to_numpy(np.int64))]
    return intervals.clip(*intervals.joined([spans(copies), spans(calls)]), tables.window)


def _shown(copies: pd.DataFrame) -> pd.DataFrame:
    """The columns of copies or memsets that are evidence, the longest first."""
    table = copies.assign(duration_ns=duration_ns(copies), call=mapped(copies["call"], one_line))
    kinds = ("copy_kind", "src_kind", "dst_kind", "mem_kind")
    columns = ["device", "start_ns", "duration_ns", "bytes", *(k for k in kinds if k in table), "call", "pid"]
    return top(table[columns], "duration_ns")
