"""Rules about GPUs that work together: the tables of a capture in, findings out."""

import numpy as np
import pandas as pd

from labcode.analysis.ledger import replay
from labcode.analysis.ledger.replay import Gain, Program
from labcode.analysis.ledger.view import CODE, OWNERS
from labcode.analysis.rules.finding import CannotJudgeError, Finding, rule
from labcode.analysis.rules.predicted import cause, gain_of, lines_of_kernels, owned, told_places
from labcode.analysis.rules.tables import Tables, top
from labcode.analysis.timeline import intervals, overlap
from labcode.analysis.timeline.joins import duration_ns, spans
from labcode.analysis.timeline.overlap import communication_overlap
from labcode.show import percent, time_text

EXPOSED_SHARE = 0.05
COMPUTING = [one.id for one in OWNERS if one.side != "idle"]
SAME_STREAM = 0.1  # of a GPU's computing


@rule(
    "communication-not-hidden",
    title="GPUs communicate while they compute nothing",
    book="nsys/multi-gpu",
    advice="Reduce gradients in buckets while the backward pass still runs; send fewer bytes; accumulate "
    "over several batches.",
)
def exposed_communication(tables: Tables) -> Finding:
    """Time in which NCCL's kernels run on a GPU and no other kernel does, on the GPU with the least of it.

    The least, because such a kernel also waits for GPUs that come late: what the others have beyond that is
    judged as late-rank. Numerator: that time. Gain: the replay in which communication runs on a stream of its
    own and nobody waits for it; cautious: a third of that, for what is hidden makes the kernels beside it
    slower, and the last bucket has nothing to hide behind.
    """
    table = _communicating(tables)
    least = int(table["exposed_ns"].min()) if len(table) else 0
    share = least / tables.width
    if len(table):
        hidden = table["hidden_ns"].sum() / max(int(table["comm_ns"].sum()), 1)
        message = (
            f"{int(table['comm_count'].sum()):,} communication kernels "
            f"on {len(table)} GPU{'s' * (len(table) != 1)}; "
        )
        message += (
            f"even the GPU with the least has {tables.told(least)} of communication with no "
            f"computing beside it (the most: {percent(table['exposed_ns'].max() / tables.width)}; "
            f"{percent(hidden)} is hidden)"
        )
        view, worst = tables.view, tables.ledger.device
        begun, ended = spans(view.ops)
        mine = (view.owner == CODE["communication"]) & (view.ops["device"] == worst).to_numpy()
        mine &= (begun < tables.window[1]) & (ended > tables.window[0])
        launched = lines_of_kernels(tables, view.ops[mine])
        message += f"; {launched}" if launched else ""
    else:
        message = f"no communication kernels on {len(tables.busy)} GPU{'s' * (len(tables.busy) != 1)}"

    def aside(program: Program) -> Program:
        return replay.own_stream(program, owned(tables, program, "communication"))

    gain = gain_of(tables, aside, None, share)
    gain = Gain((gain.high + gain.high / 3) / 2, gain.high / 3 if gain.low else 0.0, gain.high)
    return cause(
        tables,
        gain,
        message,
        least,
        "ns of exposed communication on the GPU with the least",
        top(table, "exposed_ns"),
        enough=share >= EXPOSED_SHARE,
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
    communication kernels with no computing beside them, on the GPU with the least of it (see
    exposed-communication).
    A fact that explains communication-not-hidden. Bound: the same, as if all of it were hidden.
    """
    talking = _communicating(tables)
    columns = ["device", "pid", "context", "stream"]
    some = tables.computes if len(talking) else tables.computes & False
    work = tables.some(some)[[*columns, "start_ns", "end_ns"]].assign(talks=tables.talks[some])
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
        f"{int(table['comm_count'].sum()):,} communication kernels run on streams that compute; "
        "even the GPU with the "
        f"least waits for them for {tables.told(least)}"
        if len(table)
        else "no communication kernels run on a stream that computes",
        least,
        "ns of communication kernels on a computing stream, nothing beside, on the GPU with the least",
        top(table, "exposed_ns"),
        severity="info",
    )


@rule(
    "late-rank",
    title="GPUs wait for one that comes late",
    book="nsys/multi-gpu",
    advice="Find what the late GPU does before the collective: more data, a slower CPU thread, lower clocks, "
    "work that only rank 0 does (logging, checkpoints).",
)
def stragglers(tables: Tables) -> Finding:
    """How long GPUs wait inside collectives for the one that starts last, with nothing to compute meanwhile.

    The k-th NCCL kernel of a name belongs together on all GPUs; this is believed only where at least
    nine of ten such sets overlap in time. A GPU waits from its own start to the start of the last.
    Numerator: the waiting with no other kernel beside it, on the GPU that waits most. Gain: what the GPU in
    the middle waits; cautious: half of that, for someone always comes last.
    """
    if len(_communicating(tables)) < 2:
        return tables.finding(
            False,
            "fewer than two GPUs communicate",
            0,
            "ns of waiting for the last GPU on the GPU that waits most",
            gain=0.0,
        )
    some = overlap.meets(tables.view.ops)[tables.op_rows]
    sets, why = overlap.waits(tables.some(some), tables.launch_row[some])
    if why:
        raise CannotJudgeError(why)
    late_ns = sets["start_ns"] - sets.groupby("set")["start_ns"].transform("min")
    sets = sets.assign(late_ns=late_ns)
    rows = []
    for device, mine in sets.groupby("device", sort=True):
        beside = tables.spans_of(int(str(device)), tables.computes & ~tables.talks)
        waiting = mine["start_ns"].to_numpy(np.int64), mine["until_ns"].to_numpy(np.int64)
        alone = intervals.subtract(*waiting, *beside)
        rows.append(
            {
                "device": device,
                "collectives": len(mine),
                "last_count": int(mine["last"].sum()),
                "median_late_ns": int(mine["late_ns"].median()),
                "wait_ns": intervals.total(*waiting),
                "exposed_wait_ns": intervals.total(*alone),
            }
        )
    table = pd.DataFrame(rows)
    worst = int(table["exposed_wait_ns"].max())
    late = top(table, "last_count").to_dict("records")[0]
    others = table[table["device"] != late["device"]]["exposed_wait_ns"]
    usual = float(others.median()) / tables.width
    return cause(
        tables,
        Gain(usual, usual / 2, worst / tables.width),
        f"GPU {late['device']} is last in {late['last_count']:,} of {late['collectives']:,} collectives, by "
        f"{time_text(late['median_late_ns'])} in the median; others wait for it for up to "
        f"{tables.told(worst)}" + _why_late(tables, int(late["device"])),
        worst,
        "ns of waiting for the last GPU on the GPU that waits most",
        top(table, "last_count"),
    )


def _why_late(tables: Tables, device: int) -> str:
    """What the late GPU has more of than the others, in words."""
    mine = next((one for one in tables.ledgers if one.device == device), None)
    others = [one for one in tables.ledgers if one.device != device]
    if mine is None or not others:
        return ""
    table = mine.table[~mine.table["owner"].isin(["late-rank", "communication"])]
    usual = {
        owner: float(np.median([one.each(owner) for one in others])) for owner in table["owner"].tolist()
    }
    more = {
        owner: each - usual[owner]
        for owner, each in zip(table["owner"], table["each_ns"], strict=True)
        if each - usual[owner] > 0.02 * mine.each_ns
    }
    if not more:
        return ""
    owner = max(more, key=lambda one: more[one])
    title = next(one.title for one in OWNERS if one.id == owner)
    where = told_places(mine.places(owner), 1) if owner not in COMPUTING else ""
    return f"; it has {time_text(more[owner])} more of “{title}”" + (f", {where}" if where else "")


def _communicating(tables: Tables) -> pd.DataFrame:
    """`communication_overlap` of the GPUs that communicate."""
    tables.need_ops()
    tables.need_kernels()
    talks = tables.computes & tables.talks
    table = communication_overlap(tables.some(tables.computes & talks.any()), tables.window)
    inside = (tables.computes & ~tables.is_kernel).any() or len(tables.lost_graph_launches) > 0
    if inside and len(tables.busy) > 1 and not table["comm_count"].any():
        raise CannotJudgeError(
            "kernels inside graphs were not traced, NCCL's may be among them (record with "
            "--cuda-graph-trace=node)"
        )
    return table[table["comm_count"] > 0].reset_index(drop=True)
