"""Rules that state facts and no cause: the tables of a capture in, findings out.

Small kernels, uneven iterations, and whether the profile can be believed; and, of all verdicts, their order,
what takes much of an iteration though none names it, and whether a steady state is good.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from labcode.analysis.ledger import replay
from labcode.analysis.ledger.ledger import rows_on
from labcode.analysis.ledger.lines import NOWHERE, Place
from labcode.analysis.ledger.replay import Gain
from labcode.analysis.ledger.view import CODE, OWNERS
from labcode.analysis.rules.finding import HIGH, CannotJudgeError, Finding, Rule, Verdict, rule, verdict_of
from labcode.analysis.rules.predicted import cause, gain_of, lines_of_idle, lines_of_kernels
from labcode.analysis.rules.tables import LAUNCHES, Tables, top
from labcode.analysis.timeline import intervals
from labcode.analysis.timeline.iterations import COLUMNS
from labcode.analysis.timeline.joins import duration_ns, in_window, named_like, spans
from labcode.analysis.timeline.summary import kernel_summary
from labcode.reports.columns import Bools, Floats, Ints, at_rows
from labcode.reports.frames import codes_of, rows_of
from labcode.reports.nsys.report import NsysReport
from labcode.show import one_line, percent, time_text

TINY_SHARE = 0.10
TINY_NS = 3_000  # where no launch call says what is tiny: about what launching one kernel takes
LOST_SHARE = 0.05
GROWN, IN_ORDER, LONGER = 10, 0.9, 1.5  # iterations at least; of their ranks; times the first ones
NAMES, STEPS, APART, MOST_GROWN = 12, 8, 1.2, 0.5  # of kernels that grow: see `_growing`; of the others' time
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
ALARMS = ("high", "medium")
# No graph and no fused kernel holds what these mend, or they make launches: they come before launch-bound.
BEFORE_LAUNCHES = (
    *("sync-in-loop", "drained-queue", "nan-checks"),
    *("recomputation", "allocation-in-loop", "compiling-in-loop"),
)
UNNAMED, UNNAMED_TITLE = "unnamed-work", "Much of the iteration is work that no rule names a cause for"
MUCH, NEARLY_ALL = 0.25, 0.9  # of an iteration: what takes nearly all of it is what the iteration is for
PRODUCTS = ("no-tensor-cores", "matmul", "attention", "communication", "late-rank")
AROUND = ("indexing", "layout", "optimizer", "kernel", "copy")  # kinds of work that serve the others
# Kernels of libraries among those of no known kind; products of sparse matrices, transforms and recurrent
# layers are work of their own, as are kernels that somebody wrote.
LIBRARY = r"(?i)at::|at_cuda_detail|\bcub::|thrust|cusparse|cusolver|magma"
OF_ITS_OWN = r"(?i)mm_|fft|rnn|gemm"
MASKED = r"cudnn.*sdpa|fmha_cutlass"  # kernels of attention that take a mask, where others take none
MOSTLY, STEADY_SHARE = 2 / 3, 0.9  # of a function's time, no products; of the iterations, alike
_ASKED = {
    "layout": "Is it put together or copied anew though most of it stays (torch.cat in a loop, clone, "
    "repeat, contiguous)? Allocate once and write into slices; use views (expand).",
    "optimizer": "The update goes over all parameters, however small the batch is: larger batches, or "
    "gradients added up over several.",
    "attention": "Is a mask given (attn_mask) that only hides what comes later? Causal attention, "
    "is_causal=True, leaves half of the scores out and reads no mask; masks of a pattern: flex_attention. "
    "Texts padded to one length: nested tensors, or batches of like lengths.",
    "idle": "See in the timeline what the launching thread and other streams do there; launch earlier what "
    "does not depend on it.",
    "": "Is it computed anew from what does not change (edges of a graph, an order, a mask, weights, a "
    "factorization)? Compute it once before the loop and keep it. Else: for all at once, or less of it (topk "
    "in place of a sort, indices in order, one gather for many).",
}
_ASKED["copy"] = _ASKED["layout"]
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
    "growing-iterations",
    title="Each iteration takes longer than the one before",
    book="nsys/patterns",
    advice="Does each go over all that came before: a whole prefix without a cache of keys and values, "
    "torch.cat of a history, a list that grows? Keep what was computed; write into memory allocated once.",
)
def growing_iterations(tables: Tables) -> Finding:
    """Iterations of which the later ones have more to do: longer ones, or kernels with more and more blocks.

    Longer: by their ranks, and at the end half as long again as at the begin. Numerator: what they take
    beyond the first fifth's median. Gain: the same, as if all took that; cautious: half. More blocks: most of
    the kernels that are neither products nor attention (whose blocks say little) grow in equal steps
    (`_growing`). Numerator: the time of all kernels. Gain: the replay in which a kernel takes what one step
    is of its blocks; cautious: half of that. Medium at most: the task itself may grow, as where batches are
    sorted by their length.
    """
    tables.need_ops()
    ledger = tables.ledger
    spent = (ledger.edges[1] - ledger.edges[0]).astype(np.float64)
    part = max(len(spent) // 5, 1)
    first, last = float(np.median(spent[:part])), float(np.median(spent[-part:]))
    longer = tables.count >= GROWN and last >= LONGER * first
    if longer:
        rank = np.corrcoef(np.argsort(np.argsort(spent)), np.arange(len(spent)))[0, 1]
        longer = bool(rank >= IN_ORDER)
    kernels, owner = tables.worst_kernels
    mine, step = (np.zeros(len(kernels), np.bool_), 1.0) if longer else _growing(tables)
    some = ~np.isin(owner, [CODE[one] for one in ("matmul", "no-tensor-cores", "attention", "communication")])
    length = duration_ns(kernels).astype(np.float64)
    more = bool(length[mine].sum() > MOST_GROWN * length[some].sum()) if mine.any() else False
    share = max(1 - first / max(float(spent.mean()), 1.0), 0.0) if longer else 0.0
    gain = Gain(share, share / 2, share)
    message = f"the first of {len(spent):,} iterations take {time_text(first)}, the last {time_text(last)}"
    if more:
        everything = float(intervals.total(*spans(kernels)))
        gain = gain_of(
            tables,
            lambda p: replay.with_lengths(p, np.where(p.op >= 0, p.length * step, p.length)),
            None,
            everything / tables.width,
        )
        share = everything / max(ledger.whole_ns, 1)
        blocks = tables.grids[0][kernels.index.to_numpy(np.int64)[mine]]
        message = (
            f"{int(mine.sum()):,} kernels have ever more blocks, by equal steps of a {1 / step:,.0f}th: what "
            f"came before seems to be gone over again each time (from {int(blocks[0]):,} blocks on)"
        )
    late = kernels[mine] if more else kernels[(kernels["start_ns"] >= ledger.edges[0][-part]).to_numpy()]
    where = lines_of_kernels(tables, late if more or longer else kernels[:0])
    return cause(
        tables,
        gain,
        message + (f"; {where}" if where else ""),
        min(share * ledger.whole_ns, tables.width),
        "ns beyond the first iterations" if not more else "ns of kernels of iterations that grow",
        pd.DataFrame({"duration_ns": spent}).iloc[[0, -1]] if longer or more else pd.DataFrame(),
        enough=longer or more,
        certain=False,
    )


def _growing(tables: Tables) -> tuple[Bools, float]:
    """Which kernels of the worst GPU's window have more blocks each time, by equal steps, and what share of
    its blocks a step is (the smallest of all).

    Looked at are `NAMES` names with the most time. Of one, values of blocks that differ by less than
    `APART` belong to one use of it; such a use grows where `STEPS` values or more come one after the other,
    each gone for good when the next has come, at distances that are the same for nine tenths.
    """
    kernels = tables.worst_kernels[0]
    found, least = np.zeros(len(kernels), np.bool_), 1.0
    blocks = tables.grids[0]
    if not len(blocks) or not len(kernels):
        return found, least
    blocks = blocks[kernels.index.to_numpy(np.int64)].astype(np.int64)
    codes, _ = codes_of(kernels["name"])
    spent = np.bincount(codes, duration_ns(kernels).astype(np.float64))
    for name in np.argsort(-spent)[:NAMES].tolist():
        rows = np.flatnonzero(codes == name)
        values, first, place = np.unique(blocks[rows], return_index=True, return_inverse=True)
        if len(values) < STEPS:
            continue
        last = np.zeros(len(values), np.int64)
        last[place] = np.arange(len(rows))  # the last one is kept
        for use in np.split(np.arange(len(values)), np.flatnonzero(values[1:] > APART * values[:-1]) + 1):
            if len(use) < STEPS or not (first[use][1:] > last[use][:-1]).all():
                continue
            step = np.diff(values[use])
            usual = int(np.median(step))
            if (step == usual).mean() >= STEADY_SHARE:
                found[rows[np.isin(place, use)]] = True
                least = min(least, usual / float(values[use].mean()))
    return found, least


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


def ranking(verdicts: Sequence[Verdict]) -> Callable[[Verdict], tuple[int, float]]:
    """By what verdicts are ordered: whether all is good first, then alarms, then what is low, or medium
    without a gain that a replay gives, the most to gain first, then facts, then what was not found.

    Launches that set the pace come after those of `BEFORE_LAUNCHES` that are alarms.
    """
    before = [one.gain or 0.0 for one in verdicts if one.rule in BEFORE_LAUNCHES and one.severity in ALARMS]

    def key(verdict: Verdict) -> tuple[int, float]:
        gain = verdict.gain if verdict.gain is not None else 1.0 if verdict.severity == "high" else 0.0
        if verdict.status != "found":
            return 3, 0.0
        if verdict.rule == ID:
            return -1, 0.0
        if verdict.rule == "launch-bound" and verdict.severity in ALARMS:
            gain = min([gain, *(one - 1e-9 for one in before)])
        alarm = verdict.severity == "high" or (verdict.severity == "medium" and verdict.predicted)
        return 0 if alarm else 1 if verdict.severity in ("medium", "low") else 2, -gain

    return key


def unnamed(tables: Tables, verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Where no verdict is an alarm, what takes over a quarter of an iteration, as a question; or nothing.

    Idle time of one owner; attention by kernels that take masks, if half of it is; what a function launches,
    two thirds of it no products and half of it of the kinds `AROUND`; else the work of one such kind. What
    takes nearly all of an iteration is what that is for. What is the same in each iteration may be needed
    once: then all of it is the best guess of the gain, otherwise half (causal attention leaves out half of
    the scores); at least it is nothing, for what the data depend on no capture tells. So it is no alarm.
    """
    try:
        tables.need_busy()
        tables.need_kernels()
        ledger = tables.ledger
    except (CannotJudgeError, IndexError):
        return []
    if any(one.status == "found" and one.severity in ALARMS for one in verdicts) or not tables.count:
        return []
    idle = [one.id for one in OWNERS if one.side == "idle" and one.id not in ("profiler", "loading")]
    owner = max(idle, key=ledger.share)
    if ledger.share(owner) >= MUCH:
        return [_question(tables, owner, ledger.share(owner), "", lines_of_idle(tables, owner))]
    rows = rows_on(tables.view, ledger.device, ledger.window)
    ops = rows_of(tables.view.ops[["name", "start_ns", "end_ns"]], rows)
    code = at_rows(tables.view.owner, rows)
    spent = duration_ns(ops) / max(ledger.whole_ns, 1)
    masks = named_like(ops["name"], MASKED)
    masked = float((spent * masks).sum()) if masks.any() else 0.0
    if masked >= 2 * MUCH:  # half of it is much
        where = lines_of_kernels(tables, ops[masks & (spent > 0)])
        return [_question(tables, "attention", masked, "", where)]
    own = named_like(ops["name"], OF_ITS_OWN) | ~named_like(ops["name"], LIBRARY)
    own &= code == CODE["kernel"]
    around = np.isin(code, [CODE[one] for one in AROUND]) & ~own
    place, share = _apart(tables, rows, spent, around, np.isin(code, [CODE[one] for one in PRODUCTS]) | own)
    each = {one: float(spent[around & (code == CODE[one])].sum()) for one in AROUND}
    kind = max(each, key=lambda one: each[one])
    if MUCH <= share < NEARLY_ALL:
        what = f"what `{place.function}` launches, products left out, most of it "
        return [_question(tables, kind, share, what, place.text, _alike(tables, ops, around))]
    share = min(each[kind], ledger.share(kind))
    if not MUCH <= share < NEARLY_ALL:
        return []
    mine = around & (code == CODE[kind])
    where = lines_of_kernels(tables, ops[mine])
    return [_question(tables, kind, share, "", where, _alike(tables, ops, mine))]


def _question(tables: Tables, owner: str, share: float, what: str, where: str, alike: int = 0) -> Verdict:
    """A verdict that asks about work (or idle time) of an owner, a share of an iteration."""
    title = next(one.title for one in OWNERS if one.id == owner)
    spent = share * tables.ledger.whole_ns
    message = f"{what}{title}: {tables.told(spent, tables.ledger)}"
    message += f"; the same {alike:,} operations of as many blocks in each iteration" if alike else ""
    advice = _ASKED.get(owner, _ASKED["idle" if CODE[owner] >= CODE["profiler"] else ""])
    asked: Rule[Tables] = Rule(UNNAMED, UNNAMED_TITLE, "nsys/patterns", advice, lambda _: found)
    found = Finding(
        True,
        message + (f"; {where}" if where else ""),
        min(spent, tables.width),
        "ns of it on the worst GPU",
        tables.width,
        "ns of the window",
        share if alike else share / 2,
        tables.ledger.table,
        severity="low",
        low=0.0,
        high=share,
    )
    return verdict_of(asked, found)


def _apart(tables: Tables, rows: Ints, spent: Floats, around: Bools, product: Bools) -> tuple[Place, float]:
    """Of operations (rows of the view, and shares of an iteration) the function of the program that launches
    most, where that is no products, and the loop is elsewhere: where it is, what it launches but products.
    """
    lines, host, row = tables.lines, tables.replay.host, at_rows(tables.view.row, rows)
    if not lines.known:
        return NOWHERE, 0.0
    start, tid = (tables.api[name].to_numpy(np.int64) for name in ("start_ns", "tid"))
    main = np.append(tid == host.main, False)[row]  # and of no call
    functions: dict[tuple[str, str], tuple[Place, Floats]] = {}
    for kind, some in enumerate((around, ~around & ~product, product)):
        some = some & main
        calls = start[row[some]]
        for place, part in lines.launched(host.pid, host.main, calls, spent[some], tables.repeated):
            _, sums = functions.setdefault((place.function, place.file), (place, np.zeros(3)))
            sums[kind] += part * spent[some].sum()
    best, most = NOWHERE, 0.0
    for place, (serves, others, products) in functions.values():
        whole = serves + others
        serving = serves >= others and whole >= MOSTLY * (whole + products)
        if place.file and whole > most and serving and not lines.holds_loop(host.pid, host.main, place):
            best, most = place, float(whole)
    return best, most


def _alike(tables: Tables, ops: pd.DataFrame, some: Bools) -> int:
    """How many of some operations an iteration has, where nearly all have the same, with as many blocks."""
    blocks = tables.grids[0]
    mine = ops[some]
    kind = codes_of(mine["name"])[0].astype(np.int64)
    if len(blocks):
        kind = kind + (1 + int(kind.max(initial=0))) * blocks[mine.index.to_numpy(np.int64)].astype(np.int64)
    low, high = (np.searchsorted(mine["start_ns"].to_numpy(np.int64), edge) for edge in tables.ledger.edges)
    each = [kind[a:b].tobytes() for a, b in zip(low.tolist(), high.tolist(), strict=True)]
    usual = max(set(each), key=each.count) if len(each) > 1 else b""
    return len(usual) // kind.itemsize if each.count(usual) >= STEADY_SHARE * len(each) else 0


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
        all(one.severity == "low" and (one.gain or 0.0) < HIGH and one.rule != UNNAMED for one in causes)
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
        if first not in PRODUCTS:
            kernels, owner = tables.worst_kernels
            where = lines_of_kernels(tables, kernels[owner == CODE[first]]) if first in CODE else ""
            message += f"; {where}" if where else ""
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
