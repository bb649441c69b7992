"""A trace in; why streams stood idle, how long their queues were, what launching cost, out.

The definitions are those of Holistic Trace Analysis (Meta, https://hta.readthedocs.io), so that its numbers
and these are equal where both are given; here they are in nanoseconds, over all profiler steps.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from labcode.analysis.timeline import intervals
from labcode.analysis.timeline.joins import duration_ns, launch_rows
from labcode.analysis.timeline.launch import launch_latency, queue_changes
from labcode.analysis.timeline.overlap import communication_overlap
from labcode.reports.common import STEP
from labcode.reports.kineto.report import KinetoReport

BETWEEN_KERNELS_NS = 30_000  # a shorter gap, with the launch long made, is the GPU's own way to the next
LONG_CALL_NS = 50_000
LONG_DELAY_NS = 100_000
CATEGORIES = ("host_wait", "kernel_wait", "other")


def idle_gaps(
    report: KinetoReport,
    *,
    between_ns: int = BETWEEN_KERNELS_NS,
    of: Sequence[str] = ("rank", "device", "stream"),
) -> pd.DataFrame:
    """Every gap between two operations of a stream: rank, device, stream, start_ns, idle_ns, category.

    ``of`` ('rank', 'device') gives those of whole GPUs instead. ``host_wait``: the call that launched the
    operation after the gap began after the gap did, so the CPU was late. ``kernel_wait``: it began earlier
    and the gap is shorter than ``between_ns``. ``other``: longer, for instance a wait for another stream;
    also where the trace holds no launch.
    """
    ops, api = report.gpu_ops(), report.api()
    row = launch_rows(ops, api)
    called = np.where(row >= 0, np.append(api["start_ns"].to_numpy(np.int64), 0)[row], np.iinfo(np.int64).min)
    ops = ops[[*of, "start_ns", "end_ns"]].assign(called=called)
    parts = []
    for _, mine in ops.groupby(list(of), sort=True):
        mine = mine.sort_values("start_ns", kind="stable")
        before = np.maximum.accumulate(mine["end_ns"].to_numpy(np.int64))[:-1]
        after = mine.iloc[1:]
        gap = after["start_ns"].to_numpy(np.int64) - before
        late = after["called"].to_numpy(np.int64) > before
        kind = np.where(late, 0, np.where(gap < between_ns, 1, 2))
        parts.append(
            after[list(of)].assign(
                start_ns=before, idle_ns=np.maximum(gap, 0), category=np.array(CATEGORIES, object)[kind]
            )
        )
    columns = [*of, "start_ns", "idle_ns", "category"]
    gaps = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)
    return gaps.astype({**dict.fromkeys(columns[:-1], "int64"), "category": "str"})


def idle_breakdown(report: KinetoReport, *, between_ns: int = BETWEEN_KERNELS_NS) -> pd.DataFrame:
    """Idle time of each stream by its cause: rank, device, stream, category, gaps, idle_ns, share (of the
    stream's idle time; nan where it had none).
    """
    gaps = idle_gaps(report, between_ns=between_ns)
    keys = ["rank", "device", "stream"]
    streams = report.gpu_ops()[keys].drop_duplicates().sort_values(keys)
    every = streams.merge(pd.DataFrame({"category": pd.Series(CATEGORIES, dtype="str")}), how="cross")
    sums = gaps[gaps["idle_ns"] > 0].groupby([*keys, "category"])["idle_ns"].agg(["size", "sum"])
    table = every.merge(sums, how="left", left_on=[*keys, "category"], right_index=True)
    table = table.rename(columns={"size": "gaps", "sum": "idle_ns"})
    table = table.fillna({"gaps": 0, "idle_ns": 0}).astype({"gaps": "int64", "idle_ns": "int64"})
    whole = table.groupby(keys)["idle_ns"].transform("sum")
    table["share"] = table["idle_ns"] / whole.where(whole > 0)
    return table.reset_index(drop=True)


def comm_overlap(report: KinetoReport) -> pd.DataFrame:
    """Communication of each GPU and how much of it hides behind computing; see `communication_overlap`.

    rank; device; comm_ns, compute_ns; hidden_ns, exposed_ns; hidden_share (HTA's overlap); comm_count.
    """
    found = communication_overlap(report.kernels())
    ranks = report.kernels().groupby("device")["rank"].first()
    found.insert(0, "rank", found["device"].map(ranks).astype("int64"))
    return found[found["comm_count"] > 0].drop(columns="window_ns").reset_index(drop=True)


def queue_series(report: KinetoReport) -> pd.DataFrame:
    """Operations given to each stream and not begun: rank, device and as of `queue_changes`."""
    return queue_changes(report.gpu_ops(), report.api(), ["rank", "device", "stream"])


def queue_length(report: KinetoReport) -> pd.DataFrame:
    """The queue of each stream: rank, device, stream, changes, mean, std, min, p25, median, p75, max of the
    values after each change; mean_over_time weighs each with how long it lasted.
    """
    series = queue_series(report)
    rows = []
    for (rank, device, stream), mine in series.groupby(["rank", "device", "stream"], sort=True):
        values, times = mine["queued"], mine["start_ns"].to_numpy(np.int64)
        lasted = np.diff(times)
        stats = values.describe()
        over_time = float((values.to_numpy()[:-1] * lasted).sum() / lasted.sum()) if lasted.sum() else np.nan
        quarters = (stats["min"], stats["25%"], stats["50%"], stats["75%"], stats["max"])
        rows.append((rank, device, stream, len(mine), stats["mean"], stats["std"], *quarters, over_time))
    whole = ["rank", "device", "stream", "changes"]
    columns = [*whole, "mean", "std", "min", "p25", "median", "p75", "max", "mean_over_time"]
    types = {name: "int64" if name in whole else "float64" for name in columns}
    return pd.DataFrame(rows, columns=columns).astype(types)


def launches(report: KinetoReport) -> pd.DataFrame:
    """Every operation with the call that launched it: see `launch_latency`; and rank.

    call_ns is HTA's ``cpu_duration``, duration_ns its ``gpu_duration``, queue_ns its ``launch_delay``.
    """
    table = launch_latency(report.gpu_ops(), report.api())
    ranks = report.api().drop_duplicates("pid").set_index("pid")["rank"]
    table.insert(0, "rank", table["pid"].map(ranks).astype("int64"))
    return table


def launch_stats(report: KinetoReport) -> pd.DataFrame:
    """What launching cost, by rank and call.

    rank; call; calls; ops (on the GPU: a launch of a graph is one call with many); call_ns (in all),
    median_call_ns; median_op_ns (on the GPU); median_delay_ns (from the end of the call to the start of its
    first operation); shorter_than_call (calls whose operations together took less time on the GPU than the
    call on the CPU); long_calls (above 50 µs), long_delays (above 100 µs).
    """
    ops = launches(report)
    one = ops.groupby(["rank", "call", "pid", "tid", "call_start_ns"], sort=True)
    calls = one.agg(
        ops=("duration_ns", "size"),
        op_ns=("duration_ns", "sum"),
        call_ns=("call_ns", "first"),
        delay_ns=("queue_ns", "min"),
    ).reset_index()
    calls["shorter"] = calls["op_ns"] < calls["call_ns"]
    calls["long_call"], calls["long_delay"] = (
        calls["call_ns"] > LONG_CALL_NS,
        calls["delay_ns"] > LONG_DELAY_NS,
    )
    found = calls.groupby(["rank", "call"]).agg(
        calls=("ops", "size"),
        ops=("ops", "sum"),
        call_ns=("call_ns", "sum"),
        median_call_ns=("call_ns", "median"),
        median_delay_ns=("delay_ns", "median"),
        shorter_than_call=("shorter", "sum"),
        long_calls=("long_call", "sum"),
        long_delays=("long_delay", "sum"),
    )
    found.insert(4, "median_op_ns", ops.groupby(["rank", "call"])["duration_ns"].median())
    found = found.reset_index().astype({"call": "str"})
    return found.sort_values(["rank", "ops"], ascending=[True, False], kind="stable", ignore_index=True)


def steps(report: KinetoReport) -> pd.DataFrame:
    """The profiler's steps: rank; step (its number); start_ns, duration_ns; device; busy_ns, idle_ns,
    idle_share (of the rank's GPU within the step; a row for each GPU of a rank).
    """
    marks, ops = report.annotations(), report.gpu_ops()
    found = marks[marks["name"].str.fullmatch(rf"{STEP}\d{{1,18}}")].sort_values(["rank", "start_ns"])
    found = found.assign(step=found["name"].str.removeprefix(STEP).astype("int64"))
    parts = []
    for (rank, device), mine in ops.groupby(["rank", "device"], sort=True):
        own = found[found["rank"] == rank]
        start, end = own["start_ns"].to_numpy(np.int64), own["end_ns"].to_numpy(np.int64)
        busy = intervals.covered_within(mine["start_ns"], mine["end_ns"], start, end)
        idle = end - start - busy
        times = {"duration_ns": end - start, "device": device, "busy_ns": busy, "idle_ns": idle}
        share = np.divide(idle, end - start, out=np.full(len(own), np.nan), where=end > start)
        parts.append(own[["rank", "step", "start_ns"]].assign(**times, idle_share=share))
    columns = ["rank", "step", "start_ns", "duration_ns", "device", "busy_ns", "idle_ns", "idle_share"]
    types = {name: "float64" if name == "idle_share" else "int64" for name in columns}
    whole = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)
    return whole[columns].astype(types).sort_values(["rank", "step", "device"], ignore_index=True)


def arrivals(report: KinetoReport) -> pd.DataFrame:
    """When each rank began each collective: collective (its number), name, rank, start_ns, late_ns (after the
    first rank), duration_ns.

    The n-th kernel of one name on each rank is taken to be the same collective. A recording may begin while
    GPUs still work at what was launched before it; where ranks differ in the number of a name, only kernels
    whose launch was recorded count. Empty with one rank, and for names whose numbers differ even so.
    """
    from labcode.analysis.timeline.overlap import is_communication

    kernels = report.kernels()
    talk = kernels[is_communication(kernels)].sort_values("start_ns", kind="stable")
    launched = launch_rows(talk, report.api()) >= 0
    talk = talk[launched | talk["short_name"].isin(_matched(talk))]
    ranks = talk["rank"].nunique()
    talk = talk[talk["short_name"].isin(_matched(talk))] if ranks > 1 else talk.iloc[:0]
    number = talk.groupby(["rank", "short_name"]).cumcount()
    talk = talk.assign(number=number, duration_ns=duration_ns(talk))
    first = talk.groupby(["short_name", "number"])["start_ns"].transform("min")
    talk = talk.assign(late_ns=talk["start_ns"] - first, name=talk["short_name"])
    columns = ["number", "name", "rank", "start_ns", "late_ns", "duration_ns"]
    return talk[columns].rename(columns={"number": "collective"}).reset_index(drop=True)


def _matched(talk: pd.DataFrame) -> pd.Index:
    """The names of which each rank has the same number."""
    counts = talk.groupby(["short_name", "rank"]).size().unstack()
    return counts[counts.notna().all(axis=1) & (counts.nunique(axis=1) == 1)].index
