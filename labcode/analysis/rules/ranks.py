"""Rules about GPUs that work together: the tables of a capture in, findings out."""

import numpy as np
import pandas as pd

from labcode.analysis.rules.finding import CannotJudgeError, Finding, rule
from labcode.analysis.rules.tables import Tables, percent, time_text, top
from labcode.analysis.timeline import intervals
from labcode.analysis.timeline.joins import duration_ns, spans
from labcode.analysis.timeline.overlap import communication_overlap, is_communication, is_meeting

EXPOSED_SHARE = 0.05
WAIT_SHARE = 0.05
OVERLAPPING = 0.9
SAME_STREAM = 0.1  # of a GPU's computing


@rule(
    "exposed-communication",
    title="GPUs communicate while they compute nothing",
    book="nsys/multi-gpu",
    advice="Reduce gradients in buckets while the backward pass still runs; send fewer bytes; accumulate "
    "over several batches.",
)
def exposed_communication(tables: Tables) -> Finding:
    """Time in which NCCL's kernels run on a GPU and no other kernel does, on the GPU with the least of it.

    The least, because an NCCL kernel also waits for GPUs that come late: what the others have beyond that is
    judged as stragglers. Numerator: that time. Bound: the same: if all of it is hidden and the rest of that
    GPU's timeline stays, no more is saved. What is hidden makes the kernels beside it slower, so the
    real gain is smaller.
    """
    table = _communicating(tables)
    least = int(table["exposed_ns"].min()) if len(table) else 0
    share = least / tables.width
    if len(table):
        hidden = table["hidden_ns"].sum() / max(int(table["comm_ns"].sum()), 1)
        message = (
            f"{int(table['comm_count'].sum()):,} NCCL kernels on {len(table)} GPU{'s' * (len(table) != 1)}; "
        )
        message += (
            f"even the GPU with the least has {percent(share)} of the window of communication with no "
            f"computing beside it (the most: {percent(table['exposed_ns'].max() / tables.width)}; "
            f"{percent(hidden)} is hidden)"
        )
    else:
        message = f"no NCCL kernels on {len(tables.busy)} GPU{'s' * (len(tables.busy) != 1)}"
    return tables.finding(
        share >= EXPOSED_SHARE,
        message,
        least,
        "ns of exposed communication on the GPU with the least",
        top(table, "exposed_ns"),
    )


@rule(
    "serialized-communication",
    title="Communication stands in line with computing, on one stream",
    book="nsys/multi-gpu",
    advice="Give collectives a stream of their own (async_op=True in torch.distributed, DDP's buckets, one "
    "for NCCL's calls), and let the computing wait for an event where it needs the result.",
)
def serialized_communication(tables: Tables) -> Finding:
    """NCCL's kernels on streams on which the same process computes: neither can begin before the other ends.

    A stream counts when at least a tenth of the computing of its GPU runs on it. Numerator: the time of such
    NCCL kernels with no computing beside them, on the GPU with the least of it (see exposed-communication).
    Bound: the same, as if all of it were hidden.
    """
    _communicating(tables)
    columns = ["device", "pid", "context", "stream"]
    work = tables.ops.loc[tables.ops["kind"].isin(["kernel", "graph"]), [*columns, "start_ns", "end_ns"]]
    work["talks"] = is_communication(tables.ops)
    rows = []
    for device, mine in work.groupby("device", sort=True):
        compute = mine[~mine["talks"]]
        everything = max(int(duration_ns(compute).sum()), 1)
        for key, ops in mine.groupby(columns[1:], sort=True):
            talk, beside = ops[ops["talks"]], ops[~ops["talks"]]
            if len(talk) and duration_ns(beside).sum() >= SAME_STREAM * everything:
                exposed = intervals.total(*intervals.subtract(*spans(talk), *spans(compute)))
                rows.append((device, *key, len(talk), len(beside), intervals.total(*spans(talk)), exposed))
    columns += ["comm_count", "compute_count", "comm_ns", "exposed_ns"]
    table = pd.DataFrame(rows, columns=columns).astype("int64")
    least = int(table.groupby("device")["exposed_ns"].sum().min()) if len(table) else 0
    share = least / tables.width
    return tables.finding(
        share >= EXPOSED_SHARE,
        f"{int(table['comm_count'].sum()):,} NCCL kernels run on streams that compute; even the GPU with the "
        f"least waits for them for {percent(share)} of the window"
        if len(table)
        else "no NCCL kernels run on a stream that computes",
        least,
        "ns of NCCL kernels on a computing stream, with no computing beside, on the GPU with the least",
        top(table, "exposed_ns"),
    )


@rule(
    "stragglers",
    title="GPUs wait for one that comes late",
    book="nsys/multi-gpu",
    advice="Find what the late GPU does before the collective: more data, a slower CPU thread, lower clocks, "
    "work that only rank 0 does (logging, checkpoints).",
)
def stragglers(tables: Tables) -> Finding:
    """How long GPUs wait inside collectives for the one that starts last, with nothing to compute meanwhile.

    The k-th NCCL kernel of a name belongs together on all GPUs; this is believed only where at least
    nine of ten such sets overlap in time. A GPU waits from its own start to the start of the last.
    Numerator: the waiting with no other kernel beside it, on the GPU that waits most. Bound: the time
    in which some GPU so waits.
    """
    if len(_communicating(tables)) < 2:
        return tables.finding(
            False,
            "fewer than two GPUs communicate",
            0,
            "ns of waiting for the last GPU on the GPU that waits most",
            gain=0.0,
        )
    sets = _collectives(tables)
    last = sets.groupby("collective")["start_ns"].transform("max")
    first_end = sets.groupby("collective")["end_ns"].transform("min")
    together = float((last < first_end).mean())
    if together < OVERLAPPING:
        raise CannotJudgeError(
            f"only {percent(together)} of the collectives overlap on all GPUs: they cannot be matched "
            "(several communicators, or reports of several machines with clocks apart)"
        )
    sets = sets.assign(
        wait_end_ns=last, late_ns=sets["start_ns"] - sets.groupby("collective")["start_ns"].transform("min")
    )
    compute = tables.ops[tables.ops["kind"].isin(["kernel", "graph"]) & ~is_communication(tables.ops)]
    rows, waits = [], []
    for device, mine in sets.groupby("device", sort=True):
        beside = spans(compute[compute["device"] == device])
        waiting = mine["start_ns"].to_numpy(np.int64), mine["wait_end_ns"].to_numpy(np.int64)
        alone = intervals.subtract(*waiting, *beside)
        waits.append(alone)
        is_last = (mine["start_ns"] == mine["wait_end_ns"]) & (mine["late_ns"] > 0)
        rows.append(
            {
                "device": device,
                "collectives": len(mine),
                "last_count": int(is_last.sum()),
                "median_late_ns": int(mine["late_ns"].median()),
                "wait_ns": intervals.total(*waiting),
                "exposed_wait_ns": intervals.total(*alone),
            }
        )
    table = pd.DataFrame(rows)
    worst = int(table["exposed_wait_ns"].max())
    late = top(table, "last_count").to_dict("records")[0]
    bound = intervals.total(*intervals.joined(waits)) / tables.width
    return tables.finding(
        worst / tables.width >= WAIT_SHARE,
        f"a GPU waits for the last one for up to {percent(worst / tables.width)} of the window; GPU "
        f"{late['device']} is last in {late['last_count']:,} of {late['collectives']:,} collectives, by "
        f"{time_text(late['median_late_ns'])} in the median",
        worst,
        "ns of waiting for the last GPU on the GPU that waits most",
        top(table, "last_count"),
        gain=bound,
    )


def _communicating(tables: Tables) -> pd.DataFrame:
    """`communication_overlap` of the GPUs that communicate."""
    tables.need_ops()
    if len(tables.kernels) == 0:
        tables.need_kernels()
    table = communication_overlap(tables.ops, tables.window)
    inside = (tables.ops["kind"] == "graph").any() or len(tables.lost_graph_launches) > 0
    if inside and len(tables.busy) > 1 and not table["comm_count"].any():
        raise CannotJudgeError(
            "kernels inside graphs were not traced, NCCL's may be among them (record with "
            "--cuda-graph-trace=node)"
        )
    return table[table["comm_count"] > 0].reset_index(drop=True)


def _collectives(tables: Tables) -> pd.DataFrame:
    """NCCL kernels that all GPUs have and all wait in, with the number of the set they belong to.

    A recording may begin while GPUs still work at what was launched before it; where their numbers differ,
    kernels whose launch was not recorded are left out.
    """
    talk = tables.kernels[is_meeting(tables.kernels)].sort_values("start_ns", kind="stable")
    if not _alike(talk):
        talk = talk[tables.launch_row[talk.index.to_numpy(np.int64)] >= 0]
    if not _alike(talk) or len(talk) == 0:
        raise CannotJudgeError(
            "the GPUs ran different numbers of NCCL kernels, so that they cannot be matched "
            "(a trimmed capture, or several communicators)"
        )
    talk = talk[["start_ns", "end_ns", "device", "short_name"]]
    place = talk.groupby(["short_name", "device"]).cumcount().to_numpy(np.int64)
    codes = np.asarray(pd.factorize(talk["short_name"])[0], np.int64)
    return talk.assign(collective=codes * (int(place.max(initial=0)) + 1) + place)


def _alike(talk: pd.DataFrame) -> bool:
    """Whether the GPUs have the same number of each of these kernels."""
    counts = talk.groupby(["short_name", "device"]).size().unstack(fill_value=0)
    return bool((counts.nunique(axis=1) == 1).all())
