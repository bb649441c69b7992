"""nsys' reports on kernel launches: an open export in, nsys' columns out."""

from dataclasses import dataclass

import numpy as np

from labcode.analysis.stats.nsys.tables import bare_name, grid_text, merged, round_half_up, with_correlation
from labcode.analysis.stats.table import Table, Texts, Values, take
from labcode.analysis.timeline.grouped import GroupStats, group_stats
from labcode.analysis.timeline.intervals import expand
from labcode.reports.columns import Column, Ints, process_keys, unique
from labcode.reports.nsys import schema
from labcode.reports.nsys.schema import pid_of, tid_of
from labcode.reports.nsys.source import Source


@dataclass(frozen=True)
class Launches:
    """Every pair of a kernel and a call with its correlation in its process; times in ns.

    ``queue`` is the time from the end of the call to the start of the kernel, 0 or less where there was none;
    ``total`` from the start of the call to the end of the call or of the kernel, whichever is later.
    """

    kernel: dict[str, Column]
    kernel_start: Ints
    kernel_time: Ints
    api_start: Ints
    api_time: Ints
    queue: Ints
    total: Ints
    thread: Ints
    call: Ints
    call_names: list[str]
    name: Ints
    kernel_names: list[str]


def cuda_kern_exec_trace(source: Source) -> Table:
    """Every kernel with its launch call, by the start of the call.

    API Start, API Dur, Queue Start, Queue Dur, Kernel Start, Kernel Dur, Total Dur (ns), PID, TID, DevId, API
    Function, GridXYZ, BlockXYZ, Kernel Name. Queue times are missing where the kernel began before the call
    returned.
    """
    pairs = _launches(source, (*schema.GRID,))
    kernel = pairs.kernel
    queued = pairs.queue >= 0
    grids, grid_texts = grid_text(*(kernel.pop(c).values for c in schema.GRID[:3]))
    blocks, block_texts = grid_text(*(kernel.pop(c).values for c in schema.GRID[3:]))
    table: Table = {
        "API Start (ns)": pairs.api_start,
        "API Dur (ns)": pairs.api_time,
        "Queue Start (ns)": Column(pairs.api_start + pairs.api_time, queued),
        "Queue Dur (ns)": Column(pairs.queue, queued),
        "Kernel Start (ns)": pairs.kernel_start,
        "Kernel Dur (ns)": pairs.kernel_time,
        "Total Dur (ns)": pairs.total,
        "PID": pid_of(pairs.thread),
        "TID": tid_of(pairs.thread),
        "DevId": kernel["deviceId"].values,
        "API Function": Texts(pairs.call, pairs.call_names),
        "GridXYZ": Texts(grids, grid_texts),
        "BlockXYZ": Texts(blocks, block_texts),
        "Kernel Name": Texts(pairs.name, pairs.kernel_names),
    }
    if (pairs.api_start[1:] >= pairs.api_start[:-1]).all():
        return table
    return take(table, np.argsort(pairs.api_start, kind="stable"))


def cuda_kern_exec_sum(source: Source) -> Table:
    """Launches by thread, device, API function and kernel, the largest total time first.

    PID, TID, DevId, Count, QCount, and Avg, Med, Min, Max, StdDev (ns) of the total (T…), API (A…), queue
    (Q…) and kernel (K…) time, API Name, Kernel Name. Only launches with a queue time count in Q….
    """
    pairs = _launches(source, ())
    keys = [pairs.thread, pairs.kernel["deviceId"].values, pairs.call, pairs.name]
    group = np.zeros(len(pairs.total), np.int64)
    for key in keys:
        numbers, codes = unique(key)
        group = unique(group * len(numbers) + codes)[1]
    groups = int(group.max()) + 1 if len(group) else 0
    first = np.zeros(groups, np.int64)
    first[group[::-1]] = np.arange(len(group))[::-1]
    queued = pairs.queue >= 0
    total = group_stats(group, pairs.total, groups)
    queue = group_stats(group[queued], pairs.queue[queued], groups)
    calls, kernels = np.array([*pairs.call_names, ""]), np.array([*pairs.kernel_names, ""])
    ties = (kernels[pairs.name[first]], calls[pairs.call[first]], pairs.kernel["deviceId"].values[first])
    order = np.lexsort((*ties, pairs.thread[first], -round_half_up(total.mean, 1)))
    columns: dict[str, Values] = {
        "PID": pid_of(pairs.thread)[first],
        "TID": tid_of(pairs.thread)[first],
        "DevId": pairs.kernel["deviceId"].values[first],
        "Count": total.count,
        "QCount": queue.count,
        **_five("T", total),
        **_five("A", group_stats(group, pairs.api_time, groups)),
        **_five("Q", queue),
        **_five("K", group_stats(group, pairs.kernel_time, groups)),
        "API Name": Texts(pairs.call[first], pairs.call_names),
        "Kernel Name": Texts(pairs.name[first], pairs.kernel_names),
    }
    return take(columns, order)


def _launches(source: Source, more: tuple[str, ...]) -> Launches:
    frame = ("start", "end", "globalPid", "correlationId", "deviceId", "demangledName")
    kernel = source.ints(schema.KERNEL, (*frame, *more))
    api = source.ints(schema.RUNTIME, ("start", "end", "globalTid", "correlationId", "nameId"))
    kernel = with_correlation(kernel)
    api = with_correlation(api)
    kernel_key, api_key = process_keys(
        pid_of(kernel["globalPid"].values),
        kernel["correlationId"].values,
        pid_of(api["globalTid"].values),
        api["correlationId"].values,
    )
    order = np.argsort(api_key, kind="stable")
    keys = api_key[order]
    row, place = expand(np.searchsorted(keys, kernel_key, "left"), np.searchsorted(keys, kernel_key, "right"))
    place = order[place]
    del kernel_key, api_key, keys, order
    kernel = {name: kernel.pop(name).take(row) for name in list(kernel)}
    api = {name: api.pop(name).take(place) for name in list(api)}
    start, end = kernel["start"].values, kernel["end"].values
    began, returned = api["start"].values, api["end"].values
    call, texts = source.strings(api["nameId"])
    call, call_names = merged(call, [bare_name(text) for text in texts])
    name, kernel_names = source.kernel_names(kernel["demangledName"])
    return Launches(
        kernel=kernel,
        kernel_start=start,
        kernel_time=end - start,
        api_start=began,
        api_time=returned - began,
        queue=start - returned,
        total=np.maximum(end, returned) - began,
        thread=api["globalTid"].values,
        call=call,
        call_names=call_names,
        name=name,
        kernel_names=kernel_names,
    )


def _five(letter: str, stats: GroupStats) -> dict[str, Values]:
    """Avg, Med, Min, Max, StdDev; missing where there are no values, but for a standard deviation of 0."""
    some = stats.count > 0
    return {
        f"{letter}Avg (ns)": round_half_up(stats.mean, 1),
        f"{letter}Med (ns)": round_half_up(stats.median, 1),
        f"{letter}Min (ns)": Column(stats.least, some),
        f"{letter}Max (ns)": Column(stats.greatest, some),
        f"{letter}StdDev (ns)": round_half_up(np.where(some, stats.std, 0.0), 1),
    }
