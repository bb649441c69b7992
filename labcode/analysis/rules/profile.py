"""Rules about the profile itself, whether it can be believed: the tables of a capture in, findings out."""

import numpy as np

from labcode.analysis.rules.finding import CannotJudgeError, Finding, rule
from labcode.analysis.rules.tables import Tables, top
from labcode.analysis.timeline import intervals
from labcode.analysis.timeline.joins import duration_ns, in_window, named_like, spans
from labcode.reports.nsys.report import NsysReport
from labcode.show import one_line, percent, time_text

START_UP_SHARE = 0.2
OVERHEAD_SHARE = 0.02
LOST = (
    r"(?i)\b(?:dropp?ed|lost|missing|discard|overflow|truncat|incomplete|not (?:be )?(?:collected|recorded))"
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
