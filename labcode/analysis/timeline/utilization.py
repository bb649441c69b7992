"""How busy each GPU was and what the CPU did meanwhile: operations, calls and ranges in, times and gaps out.

A GPU is busy while at least one operation of any process runs on it: times are unions of intervals and never
exceed the window. Whole-graph launches count as operations.
"""

from collections.abc import Iterable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labcode.analysis.timeline import intervals
from labcode.analysis.timeline.intervals import Window
from labcode.analysis.timeline.joins import launch_rows, named_like, spans
from labcode.analysis.timeline.nvtx import labels
from labcode.reports.columns import Ints, by_code, unique
from labcode.reports.frames import codes_of, is_any, rows_of

Spans = dict[int, tuple[Ints, Ints]]  # by GPU the starts and ends of its operations

SYNCHRONIZING = (
    r"Synchronize|^(?:cu(?:da)?|hip)(?:Memcpy|Memset)(?!.*Async)|"
    r"^(?:cu(?:da)?|hip)(?:Free|MemFree)(?:_v\d+)?$"
)
LAUNCHING = r"^(?:cu(?:da)?|hip)(?:Ext)?(?:Module)?(?:Launch|GraphLaunch|Memcpy|Memset)"


def device_busy(
    ops: pd.DataFrame | Spans, window: Window | None = None, devices: Iterable[int] | None = None
) -> pd.DataFrame:
    """Busy and idle time of each GPU within the window (by default from its first to its last operation).

    device; window_ns; busy_ns; idle_ns; busy_share, idle_share (of window_ns; nan when it is 0); op_count
    (operations that ran within the window). ``devices`` adds GPUs that did nothing.
    """
    found = _by_device(ops)
    window = _extent(found) if window is None else window
    rows = []
    found = dict.fromkeys(devices or (), (np.empty(0, np.int64),) * 2) | found
    for device, (start, end) in sorted(found.items(), key=lambda item: item[0]):
        inside = intervals.clip(start, end, window)
        busy, width = intervals.total(*inside), max(window[1] - window[0], 0)
        share = busy / width if width else np.nan
        rows.append((device, width, busy, width - busy, share, 1 - share, len(inside[0])))
    columns = ["device", "window_ns", "busy_ns", "idle_ns", "busy_share", "idle_share", "op_count"]
    whole = {c: "float64" if c.endswith("share") else "int64" for c in columns}
    return pd.DataFrame(rows, columns=columns).astype(whole)


def idle_gaps(ops: pd.DataFrame | Spans, window: Window | None = None, min_gap_ns: int = 0) -> pd.DataFrame:
    """Stretches of the window in which a GPU ran nothing, the earliest first.

    device; start_ns; end_ns; duration_ns (at least ``min_gap_ns``).
    """
    found, parts = _by_device(ops), []
    window = _extent(found) if window is None else window
    for device, worked in found.items():
        start, end = intervals.complement(*worked, window)
        parts.append(pd.DataFrame({"device": np.full(len(start), device), "start_ns": start, "end_ns": end}))
    empty = pd.DataFrame({c: np.empty(0, np.int64) for c in ("device", "start_ns", "end_ns")})
    gaps = parts[0] if len(parts) == 1 else pd.concat(parts, ignore_index=True) if parts else empty
    gaps["duration_ns"] = gaps["end_ns"] - gaps["start_ns"]
    gaps = rows_of(gaps, (gaps["duration_ns"] >= min_gap_ns).to_numpy())
    if len(parts) == 1:  # in order
        return gaps.reset_index(drop=True)
    return gaps.sort_values(["start_ns", "device"], kind="stable", ignore_index=True)


def explain_gaps(
    gaps: pd.DataFrame,
    api: pd.DataFrame,
    nvtx: pd.DataFrame,
    ops: pd.DataFrame | None = None,
    row: Ints | None = None,
) -> pd.DataFrame:
    """What the launching CPU thread was doing in each gap.

    The launching thread is the one whose call started the operation that ends the gap (with ``ops``), else
    the one that made the last launching call before the end of the gap. Adds to ``gaps``: pid, tid (Int64:
    missing where there is no such thread); range ('domain:name' of the NVTX range that was innermost for most
    of the gap, '' for none), range_share; call (API function that was innermost for most of the gap, '' for
    none), call_share; api_share (of the gap inside any API call), sync_share (inside a synchronizing call),
    none_share (in the program's own code). Shares are of the gap's duration. ``row`` is `launch_rows` of the
    operations, where that is known.
    """
    thread = _launching_threads(gaps, api, ops, row)
    explained = gaps.assign(
        pid=pd.array(np.where(thread[0] >= 0, thread[0], 0), dtype="Int64"),
        tid=pd.array(np.where(thread[1] >= 0, thread[1], 0), dtype="Int64"),
    )
    explained.loc[thread[0] < 0, ["pid", "tid"]] = pd.NA
    count = len(gaps)
    texts = {name: np.full(count, "", object) for name in ("range", "call")}
    shares = {name: np.zeros(count) for name in ("range_share", "call_share", "api_share", "sync_share")}
    start, end = spans(gaps)
    width = np.maximum(end - start, 1)
    columns = ["pid", "tid", "start_ns", "end_ns"]
    there = nvtx["end_ns"].notna().to_numpy() & is_any(nvtx["event_type"], "push_pop")
    there &= _meets(
        nvtx["start_ns"].to_numpy(np.int64), nvtx["end_ns"].fillna(0).to_numpy(np.int64), start, end
    )
    ranges = rows_of(nvtx[[*columns, "domain", "name"]], there)
    ranges = ranges.assign(end_ns=ranges["end_ns"].astype("int64"), label=labels(ranges))
    by_thread = dict(iter(ranges.groupby(["pid", "tid"])))
    calls_by_thread = dict(iter(_met(api[[*columns, "name"]], start, end).groupby(["pid", "tid"])))
    for key in sorted({pair for pair in zip(*(ids.tolist() for ids in thread), strict=True) if pair[0] >= 0}):
        here = np.flatnonzero((thread[0] == key[0]) & (thread[1] == key[1]))
        low, high = start[here], end[here]
        if key in by_thread:
            texts["range"][here], most = _dominant(by_thread[key], "label", low, high)
            shares["range_share"][here] = most / width[here]
        calls = calls_by_thread.get(key)
        if calls is not None:
            texts["call"][here], most = _dominant(calls, "name", low, high)
            shares["call_share"][here] = most / width[here]
            waits = calls[named_like(calls["name"], SYNCHRONIZING)]
            for name, some in (("api_share", calls), ("sync_share", waits)):
                inside = intervals.covered_within(some["start_ns"], some["end_ns"], low, high)
                shares[name][here] = inside / width[here]
    return explained.assign(
        range=pd.Series(texts["range"], dtype="str", index=gaps.index),
        range_share=shares["range_share"],
        call=pd.Series(texts["call"], dtype="str", index=gaps.index),
        **{name: shares[name] for name in ("call_share", "api_share", "sync_share")},
        none_share=1 - shares["api_share"],
    )


def _met(table: pd.DataFrame, low: Ints, high: Ints) -> pd.DataFrame:
    """The rows that overlap some window: few calls lie in gaps."""
    return rows_of(table, _meets(*spans(table), low, high))


def _meets(begun: Ints, ended: Ints, low: Ints, high: Ints) -> NDArray[np.bool_]:
    """Which of some stretches overlap some window."""
    low, high = intervals.union(low, high)
    following = np.searchsorted(high, begun, "right")  # the first window that ends after it began
    return np.append(low, np.iinfo(np.int64).max)[following] < ended


def _by_device(ops: pd.DataFrame | Spans) -> Spans:
    """Starts and ends of the operations of each GPU, by its number."""
    if not isinstance(ops, pd.DataFrame):
        return ops
    start, end = spans(ops)
    devices, code = unique(ops["device"].to_numpy(np.int64))
    if len(devices) == 1:
        return {int(devices[0]): (start, end)}
    parts = by_code(code, len(devices))
    return {device: (start[rows], end[rows]) for device, rows in zip(devices.tolist(), parts, strict=True)}


def _extent(found: Spans) -> Window:
    """From the first start to the last end; (0, 0) where there are none."""
    low = min((int(start.min()) for start, _ in found.values() if len(start)), default=0)
    return low, max((int(end.max(initial=low)) for _, end in found.values()), default=0)


def _launching_threads(
    gaps: pd.DataFrame, api: pd.DataFrame, ops: pd.DataFrame | None, row: Ints | None
) -> tuple[Ints, Ints]:
    """pid and tid for each gap; -1 where there is none."""
    pid, tid = np.full(len(gaps), -1, np.int64), np.full(len(gaps), -1, np.int64)
    ends = gaps["end_ns"].to_numpy(np.int64)
    if ops is None or len(ops) == 0:
        _last_launching(pid, tid, ends, api)
        return pid, tid
    row = launch_rows(ops, api) if row is None else row
    known = np.flatnonzero(row >= 0)
    begun, on = (ops[c].to_numpy(np.int64)[known] for c in ("start_ns", "device"))
    for device in gaps["device"].unique():
        here = np.flatnonzero(gaps["device"].to_numpy() == device)
        mine = np.flatnonzero(on == device)
        mine = mine[np.argsort(begun[mine], kind="stable")]
        starts = begun[mine]
        following = np.searchsorted(starts, ends[here], "left")
        some = following < len(starts)
        caller = row[known[mine[following[some]]]]
        pid[here[some]], tid[here[some]] = api["pid"].to_numpy()[caller], api["tid"].to_numpy()[caller]
    _last_launching(pid, tid, ends, api)
    return pid, tid


def _last_launching(pid: Ints, tid: Ints, ends: Ints, api: pd.DataFrame) -> None:
    """Fill in the thread with the last launching call before an end, where none is known."""
    open_ = np.flatnonzero(pid < 0)
    if not len(open_):
        return
    launching = api.loc[named_like(api["name"], LAUNCHING), ["pid", "tid", "start_ns"]]
    launching = launching.sort_values("start_ns", kind="stable")
    before = np.searchsorted(launching["start_ns"].to_numpy(), ends[open_], "left") - 1
    some = before >= 0
    pid[open_[some]] = launching["pid"].to_numpy()[before[some]]
    tid[open_[some]] = launching["tid"].to_numpy()[before[some]]


def _dominant(table: pd.DataFrame, column: str, low: Ints, high: Ints) -> tuple[NDArray[np.object_], Ints]:
    """For each window the name that was innermost in it longest ('' for none), and for how long."""
    table = _met(table, low, high)  # the others are innermost nowhere that counts
    start, end, row = intervals.innermost(*spans(table))
    codes, names = codes_of(table[column])
    text, most = np.full(len(low), "", object), np.zeros(len(low), np.int64)
    window, piece = intervals.expand(np.searchsorted(end, low, "right"), np.searchsorted(start, high, "left"))
    if len(window) == 0:
        return text, most
    time = np.minimum(end[piece], high[window]) - np.maximum(start[piece], low[window])
    key = window * len(names) + codes[row[piece]]
    keys, place = np.unique(key, return_inverse=True)
    sums = np.bincount(place, weights=time).astype(np.int64)
    best = np.lexsort((-sums, keys // len(names)))
    owner = keys[best] // len(names)
    first = np.concatenate(([True], owner[1:] != owner[:-1]))
    text[owner[first]] = np.asarray(names, object)[keys[best][first] % len(names)]
    most[owner[first]] = sums[best][first]
    return text, most
