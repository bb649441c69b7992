"""Rules that state facts and no cause: the tables of a capture in, findings out.

Small kernels, uneven iterations, and whether the profile can be believed; and, of all verdicts, whether a
steady state is good.
"""

from collections.abc import Sequence

import numpy as np

from labcode.analysis.ledger.owners import CODE
from labcode.analysis.rules.finding import HIGH, CannotJudgeError, Finding, Verdict, rule
from labcode.analysis.rules.tables import LAUNCHES, Tables, top
from labcode.analysis.timeline import intervals
from labcode.analysis.timeline.iterations import COLUMNS
from labcode.analysis.timeline.joins import duration_ns, in_window, named_like, spans
from labcode.analysis.timeline.summary import kernel_summary
from labcode.reports.nsys.report import NsysReport
from labcode.show import one_line, percent, time_text

TINY_SHARE = 0.10
TINY_NS = 3_000  # where no launch call says what is tiny: about what launching one kernel takes
LOST_SHARE = 0.05
ID = "good"
TITLE = "The steady state is good"
FEWEST = 8  # operations where nothing repeats, or once: of fewer nothing is said
UNEXPLAINED = 0.15  # of an iteration: idle time that no verdict explains
_BOUNDS = {
    "matmul": "the rate of the tensor cores: larger tiles of work, fewer bits, fewer operations",
    "no-tensor-cores": "the rate of the ordinary cores in fp32",
    "attention": "the rate of attention: shorter sequences, a newer kernel, fewer bits",
    "communication": "the link between the GPUs: fewer bytes",
    "copy-in": "the link to the host: fewer bytes",
    "copy-out": "the link to the host: fewer bytes",
}
# a matrix times a vector, or a sum of products: each number of the matrix is read for two operations
VECTOR = r"(?i)gem(?:v|k1_)|gevm|\bdot_kernel|reduce_1Block|_mv_"
_MEMORY = "the bandwidth of the memory: fewer bytes, fewer passes over the data"
START_UP_SHARE = 0.2
OVERHEAD_SHARE = 0.02
LOST = (
    r"(?i)\b(?:dropp?ed|lost|missing|discard|overflow|truncat|incomplete|not (?:be )?(?:collected|recorded))"
)


@rule(
    "tiny-kernels",
    title="Kernels shorter than their launch",
    book="nsys/patterns",
    advice="Fuse them (torch.compile, a kernel of your own), batch them, or capture them as a CUDA graph, "
    "which shortens the gaps between them.",
)
def tiny_kernels(tables: Tables) -> Finding:
    """Kernels that take less time than a launch call does, with the short gaps before them.

    Shorter than the median launch call of this capture (without launches, as under graphs: than 3 µs). Only
    gaps up to five launch calls count with them: longer ones have other causes. Numerator: the time of a GPU
    in tiny kernels that run alone and in the gaps before them, on the GPU with most of it. A fact, and
    no cause: what they cost is judged as launch-bound and as unfused-elementwise. Bound: the same over all
    GPUs, as if one kernel did the work of all of them in no time.
    """
    tables.need_ops()
    tables.need_kernels()
    launches = tables.is_call & named_like(tables.api["name"], LAUNCHES)
    limit = tables.launch_ns if launches.any() else TINY_NS
    is_tiny = tables.is_kernel & (duration_ns(tables.work) < limit)
    gaps = tables.gaps[(tables.gaps["op"] >= 0) & (tables.gaps["duration_ns"] < tables.patience_ns)]
    gaps = gaps[is_tiny[gaps["op"].to_numpy()]]
    worst, device, everywhere = 0, 0, []
    for number in tables.busy["device"].tolist():
        mine = tables.spans_of(number, is_tiny), spans(gaps[gaps["device"] == number])
        alone = intervals.subtract(*intervals.joined(mine), *tables.spans_of(number, ~is_tiny))
        everywhere.append(alone)
        spent = intervals.total(*alone)
        if spent > worst:
            worst, device = spent, number
    share = worst / tables.width
    gain = intervals.total(*intervals.joined(everywhere)) / tables.width
    return tables.finding(
        share >= TINY_SHARE,
        f"{int(is_tiny.sum()):,} of {int(tables.is_kernel.sum()):,} kernels take less than "
        f"{time_text(limit)}; with the short gaps before them they hold GPU {device} "
        f"for {tables.told(worst)}",
        worst,
        "ns in tiny kernels and the gaps before them on the worst GPU",
        kernel_summary(tables.some(is_tiny, "short_name"), by="short_name"),
        gain=gain,
        severity="info",
    )


@rule(
    "uneven-iterations",
    title="Some iterations take longer than the usual one",
    book="advanced/own-program",
    advice="Look at the slow iterations of the evidence in the timeline: loading, checkpoints, evaluation, "
    "and allocation come every so often; leave the warm-up out of what you report.",
)
def uneven_iterations(tables: Tables) -> Finding:
    """Iterations after the warm-up beside their median, in the process with the most to gain.

    Numerator: the time by which they exceed the median, summed. Bound: the same, as if each took the median.
    The warm-up counts for nothing: a longer run has a smaller share of it.
    """
    tables.need_ops()
    found = tables.iterations
    rows = tables.judged.rows
    if found is None or len(rows) < 2:
        raise CannotJudgeError(
            "no iterations were found: nothing repeats often enough (put each step in an NVTX range)"
        )
    worst, lost, table = "", -1, rows
    for pid, mine in rows.groupby("pid"):
        spent = mine["duration_ns"].to_numpy(np.int64)
        extra = int(np.maximum(spent - np.median(spent), 0).sum())
        if extra > lost:
            low, usual, high = np.quantile(spent, [0.1, 0.5, 0.9])
            warm = int((found.table["warm_up"] & (found.table["pid"] == pid)).sum())
            lost, table = extra, mine
            worst = (
                f"{len(mine):,} iterations ({found.how}) take {time_text(usual)} each, four in five "
                f"{time_text(low)} to {time_text(high)}; what exceeds the median is "
                f"{percent(extra / tables.width)} of the window"
                + (f"; {warm} before them are warm-up" if warm else "")
            )
    share = lost / tables.width
    return tables.finding(
        share >= LOST_SHARE,
        worst,
        lost,
        "ns above the median iteration",
        top(table[list(COLUMNS)], "duration_ns"),
        severity="info",
    )


@rule(
    "untraced-graphs",
    title="CUDA graphs whose kernels were not traced",
    book="nsys/kernel-overlap",
    of=("nsys",),
    advice="Record with --cuda-graph-trace=node to see the kernels; that makes the launches of graphs "
    "slower, so take times from the default trace.",
)
def untraced_graphs(tables: Tables) -> Finding:
    """Graph launches that stand in the capture as one block, or not at all.

    With nsys' default the kernels inside a graph are no rows of the kernel table. Numerator: launches
    without kernels. There is nothing to gain for the program: the profile is at fault.
    """
    whole = tables.some(tables.computes & ~tables.is_kernel)
    if len(whole) == 0:
        tables.need_api()
    lost = len(tables.lost_graph_launches)
    count = max(len(tables.graph_launches), len(whole) + lost)
    took = time_text(int(duration_ns(whole).sum()))
    message = f"{count:,} graph launches, all traced kernel by kernel" if count else "no graph launches"
    if len(whole) or lost:
        message = f"of {count:,} graph launches {len(whole):,} were traced as one block ({took} of GPU time) "
        message += f"and {lost:,} not at all"
    return Finding(
        bool(len(whole) or lost),
        message,
        len(whole) + lost,
        "graph launches without their kernels",
        count,
        "graph launches",
        None,
        whole[["device", "start_ns", "end_ns", "name", "pid", "stream"]].reset_index(drop=True)
        if len(whole)
        else tables.lost_graph_launches[["start_ns", "end_ns", "name", "pid", "tid"]].reset_index(drop=True),
    )


@rule(
    "start-up",
    title="Start-up, warm-up and the end",
    book="nsys/quick-commands",
    of=("nsys",),
    advice="They are left out of what is judged. For times of the whole run: run more steps, load what is "
    "needed later once before the loop.",
)
def start_up(tables: Tables) -> Finding:
    """What of the capture is no part of the steady state, by phase, against all of the capture.

    The capture begins with its first event, calls of the operating system's libraries included. Numerator:
    the time outside of what is judged. A fact: a longer run has the same start-up and a smaller share of it,
    so there is nothing to gain in each iteration.
    """
    tables.need_ops()
    _nsys(tables)
    table = tables.phases
    whole = int(table["duration_ns"].sum())
    outside = table[table["phase"] != "steady state"]
    spent = int(outside["duration_ns"].sum())
    rows = top(outside, "duration_ns")
    named = ", ".join(
        f"{time_text(ns)} {phase}"
        for phase, ns in zip(rows["phase"].iloc[:3], rows["duration_ns"].iloc[:3], strict=True)
    )
    return Finding(
        spent / max(whole, 1) >= START_UP_SHARE,
        f"{percent(spent / max(whole, 1))} of the capture lie outside of what is judged: {named}"
        if spent
        else "all of the capture is judged",
        spent,
        "ns outside of what is judged",
        max(whole, 1),
        "ns of the capture",
        None,
        table.reset_index(drop=True),
        "info",
    )


@rule(
    "profiler-overhead",
    title="The profiler held the program up",
    book="foundations/measuring",
    of=("nsys",),
    advice="Trace less (--trace=cuda,nvtx), sample less, record a shorter stretch; take speeds from a run "
    "without profiler.",
)
def profiler_overhead(tables: Tables) -> Finding:
    """The times that the profiler reports as its own, in the thread with most of them.

    It reports flushes of buffers and the like, and not what each traced event costs: compare with a run
    without profiler for that. Numerator: that time. There is nothing to gain for the program: without
    the profiler the time is not spent.
    """
    overhead = in_window(tables.report.profiler_overhead(), tables.window)
    per_thread = {key: intervals.total(*spans(mine)) for key, mine in overhead.groupby(["pid", "tid"])}
    worst = max(per_thread.values(), default=0)
    events = int(tables.is_call.sum()) + len(tables.op_rows)
    if events == 0 and len(overhead) == 0:
        raise CannotJudgeError("there are no CUDA events in the capture (record with --trace=cuda)")
    table = overhead.assign(duration_ns=duration_ns(overhead))
    return Finding(
        worst / tables.width >= OVERHEAD_SHARE,
        f"the profiler reports {percent(worst / tables.width)} of the window as its own, in the thread "
        f"with most of "
        f"it; besides, it recorded {events:,} CUDA events, whose cost only a run without profiler shows",
        worst,
        "ns of the profiler's own in the worst thread",
        tables.width,
        "ns of the window",
        None,
        top(table[["name", "start_ns", "duration_ns", "pid", "tid"]], "duration_ns"),
    )


@rule(
    "dropped-events",
    title="The profiler could not record everything",
    book="nsys/quick-commands",
    of=("nsys",),
    advice="Read the messages; trace less or a shorter stretch, and flush more often "
    "(--cuda-flush-interval).",
)
def dropped_events(tables: Tables) -> Finding:
    """Warnings and errors of the profiler, and messages of any kind that speak of lost events.

    Numerator: such messages. There is nothing to gain for the program; what was lost may be the cause of
    anything in the other verdicts.
    """
    report = _nsys(tables)
    messages = report.diagnostics()
    if len(messages) == 0:
        old = report.schema.minor < 11
        raise CannotJudgeError(
            f"exports of schema {report.schema} hold no messages of the profiler (export the .nsys-rep with "
            "nsys 2024.2 or newer)"
            if old
            else "the capture holds no messages of the profiler"
        )
    losing = named_like(messages["text"], LOST)
    bad = losing | messages["severity"].isin(["warning", "error"]).to_numpy(np.bool_)
    table = messages[bad].assign(loses_events=losing[bad])
    table = table.sort_values(["loses_events", "time_ns"], ascending=[False, True], ignore_index=True)
    lost = int((tables.launch_row < 0).sum())
    message = f"{len(table):,} warnings or errors among {len(messages):,} messages of the profiler"
    if len(table):
        message += f": “{one_line(str(table['text'].iloc[0]), 160)}”"
    if lost:
        message += f"; {lost:,} of {len(tables.op_rows):,} GPU operations have no launch call in the capture"
    return Finding(
        len(table) > 0,
        message,
        len(table),
        "warnings, errors and messages of lost events",
        len(messages),
        "messages of the profiler",
        None,
        table,
        "high" if bool(losing.any()) else "info",
    )


def _nsys(tables: Tables) -> NsysReport:
    if not isinstance(tables.report, NsysReport):
        raise CannotJudgeError("this rule judges captures of nsys")
    return tables.report


def good(tables: Tables, verdicts: Sequence[Verdict]) -> Verdict:
    """Good is a steady state in which no verdict is more than low or promises a quarter, and little is idle.

    Numerator: the time in which the GPU computes. There is nothing to gain that the rules know of.
    """
    try:
        tables.need_busy()
        tables.need_kernels()
        ledger = tables.ledger
    except (CannotJudgeError, IndexError) as missing:
        return Verdict(ID, TITLE, "could not judge", f"could not judge: {missing}")
    if tables.count < 2 and len(tables.work) < FEWEST:
        count = len(tables.work)
        told = f"{count} operation{'s' * (count > 1)} in all, and nothing repeats: that is no steady state"
        return Verdict(ID, TITLE, "could not judge", f"could not judge: {told}")
    causes = [one for one in verdicts if one.status == "found" and one.predicted and one.gain]
    most = max(causes, key=lambda one: one.gain or 0.0, default=None)
    computing, idle = ledger.side("computing"), ledger.side("idle") + ledger.side("moving")
    is_good = (
        all(one.severity == "low" and (one.gain or 0.0) < HIGH for one in causes)
        and idle < (UNEXPLAINED + 0.05) * ledger.each_ns
    )
    table = ledger.table
    busy = table[table["side"] != "idle"].sort_values("total_ns", ascending=False)
    first = str(busy["owner"].iloc[0]) if len(busy) else ""
    bound = _BOUNDS.get(first, _MEMORY)
    if is_good and first in ("matmul", "no-tensor-cores"):
        kernels, owner = tables.worst_kernels
        spent = duration_ns(kernels) * (owner == CODE[first])
        vector = spent[named_like(kernels["name"], VECTOR)].sum() / max(spent.sum(), 1)
        if vector >= 0.5:
            bound = f"{_MEMORY}: {percent(vector)} of the products are a matrix times a vector"
    what = "an iteration" if tables.count else "the window"
    message = f"the GPU computes for {percent(computing / max(ledger.each_ns, 1))} of {what}"
    if most is not None:
        message += f"; the most that a verdict predicts is {percent(most.gain or 0.0)} ({most.rule})"
    if is_good:
        share = float(busy["share"].iloc[0]) if len(busy) else 0.0
        message += f"; what bounds it next is {bound} ({busy['title'].iloc[0]}: {percent(share)})"
    return Verdict(
        ID,
        TITLE,
        "found" if is_good else "not found",
        message,
        "info" if is_good else "",
        computing * ledger.count,
        "ns in which the worst GPU computes",
        float(max(ledger.whole_ns, 1)),
        "ns of the iterations",
        None,
        table,
        "foundations/measuring",
        "Change something only for a reason of its own; compare with a measurement what you change."
        if is_good
        else "",
    )
