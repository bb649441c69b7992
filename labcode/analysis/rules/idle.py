"""Rules about a GPU that waits for the CPU: the tables of a capture in, findings out."""

import numpy as np
import pandas as pd

from labcode.analysis.ledger import replay
from labcode.analysis.ledger.ledger import ALLOCATING, READ_BYTES
from labcode.analysis.ledger.replay import Gain, Program
from labcode.analysis.ledger.steady import LEAST_LOADING_NS
from labcode.analysis.ledger.view import CODE
from labcode.analysis.rules.finding import Finding, rule
from labcode.analysis.rules.host import found_blocking, found_nan_checks, found_recomputed
from labcode.analysis.rules.predicted import (
    calls_of_ops,
    cause,
    gain_of,
    op_sizes,
    owned,
    told_lines,
)
from labcode.analysis.rules.tables import GRAPH_LAUNCHES, LOADING, Tables, top
from labcode.analysis.timeline import intervals
from labcode.analysis.timeline.joins import duration_ns, named_like, spans
from labcode.analysis.timeline.utilization import explain_gaps
from labcode.reports.columns import Bools, Ints, at_rows, unique
from labcode.reports.frames import rows_of
from labcode.show import one_line, percent, time_text

IDLE_SHARE = 0.10
LAUNCH_BOUND_SHARE = 0.10
LOADING_SHARE = 0.25  # of the idle time in gaps whose longest call loads code
SYNC_CALLS = 3
MANY_READS = 10  # an iteration
NO_LAUNCH = f"{ALLOCATING}|{LOADING}"  # what other rules take out
CLOSE = 8  # launches between two reads that follow each other
IN_FUNCTION = 0.9  # of the time between two reads
EXPLICIT = r"torch/cuda/(?:__init__|streams)\.py:(?:synchronize|wait)$"
CHUNKS = 30
LOW = 0.5
LOW_SHARE = 0.10


@rule(
    "idle-gaps",
    title="The GPU is idle while the CPU does something else",
    book="nsys/timeline-basics",
    advice="Prepare the next batch on other threads or processes; move what the named range does off the "
    "launching thread; then look at what is left.",
)
def idle_gaps(tables: Tables) -> Finding:
    """Long stretches in which a GPU ran nothing, of any process, and what its launching thread did meanwhile.

    Long is more than five launch calls of this capture (see `Tables.patience_ns`): what is shorter is
    the pace of the launches. Time in which the profiler held the launching process up is not counted.
    Numerator: the idle time of the GPU with most of it. A fact, and no cause: what the CPU did is judged by
    other rules. Bound: if these gaps vanish and everything else stays, at most the time in which some GPU is
    in such a gap is saved, and never more than the busiest GPU's idle time (`Tables.idle_bound`).
    """
    tables.need_busy()
    gaps = tables.gaps[tables.gaps["duration_ns"] >= tables.patience_ns].reset_index(drop=True)
    few = _most(gaps.groupby("device")["duration_ns"].sum())[0] < IDLE_SHARE * tables.width
    if few and not len(_profiler(tables)):
        gaps = gaps.assign(own_ns=gaps["duration_ns"])  # what nobody asks for is not explained
    else:
        gaps = explain_gaps(gaps, tables.api, tables.nvtx, tables.work, tables.launch_row)
        gaps = gaps.assign(profiler_ns=_profiler_ns(tables, gaps))
        gaps["own_ns"] = gaps["duration_ns"] - gaps["profiler_ns"]
    idle = gaps.groupby("device")["own_ns"].sum()
    worst, device = _most(idle)
    gain = tables.idle_bound(*_without_profiler(tables, gaps))
    share = worst / tables.width
    found = share >= IDLE_SHARE
    message = (
        f"GPU {device} is idle for {tables.told(worst)} in gaps of {time_text(tables.patience_ns)} "
        f"or more ({int((gaps['device'] == device).sum()):,} of them)"
    )
    if found:
        message += "; " + _causes(gaps[gaps["device"] == device])
        loads = gaps[(gaps["device"] == device) & named_like(gaps["call"].fillna(""), LOADING)]
        if loads["own_ns"].sum() >= LOADING_SHARE * worst:
            message += "; code is loaded there for the first time: let it warm up before you measure"
        nodes = tables.view.ops["graph_node"].notna().to_numpy()[tables.op_rows].any()
        if nodes and named_like(gaps.loc[gaps["call_share"] >= 0.5, "call"], GRAPH_LAUNCHES).any():
            message += (
                " (tracing graphs node by node lengthens their launches: compare with the default trace)"
            )
    columns = ["device", "start_ns", "end_ns", "duration_ns", "range", "range_share", "call", "call_share"]
    more = ["api_share", "sync_share", "none_share", "profiler_ns", "pid", "tid"]
    return tables.finding(
        found,
        message,
        worst,
        "ns idle in long gaps on the worst GPU",
        top(gaps[[name for name in (*columns, *more) if name in gaps]], "duration_ns"),
        gain=gain,
        severity="info",
    )


@rule(
    "launch-bound",
    title="Launches set the pace: the GPU waits for the next one",
    book="nsys/patterns",
    advice="Launch less often: larger batches, fused kernels (torch.compile), CUDA graphs; or launch faster: "
    "less Python between launches.",
)
def launch_bound(tables: Tables) -> Finding:
    """Short gaps of a GPU that end with an operation which began as soon as its launch call allowed.

    Short is at most five launch calls (`Tables.patience_ns`); as soon: no longer than that after the call
    returned. Nodes of a graph, which share one call, are left out: no launch precedes them. Numerator: such
    idle time on the GPU with most of it. Evidence: stretches of consecutive operations each of which
    waited so. Gain: the replay in which calls and the code before them take a tenth, as in a graph, and so
    do kernels shorter than a launch, for one may do the work of many; cautious: half of the launching. Calls
    that allocate or load code stay as they are; where memory is allocated in each iteration, there can be no
    graph, and the cautious change is all that is promised. Where launches wait for their kernels, what they
    take by themselves is not known, and `blocking-launches` tells of them.
    """
    tables.need_busy()
    tables.need_api()
    gaps = tables.gaps
    waited = (gaps["call"] >= 0) & gaps["alone"] & (gaps["queue_ns"] <= tables.patience_ns)
    waited &= gaps["duration_ns"] < tables.patience_ns
    stretches, worst = _stretches(tables, gaps, waited.to_numpy())
    del gaps, waited
    ledger = tables.ledger
    owed = ledger.each("launch") * ledger.count

    def cheaper(program: Program, factor: float, fewer: bool) -> Program:
        paced = (program.waits == 0) & (program.gap <= tables.replay.host.pace_ns)
        paced &= (program.spent < LEAST_LOADING_NS) & ~named_like(
            tables.api["name"].iloc[program.row], NO_LAUNCH
        )
        less = replay.cheaper_launches(program, paced, factor, 1_000)
        tiny = fewer & (program.length < tables.launch_ns)
        return replay.with_lengths(less, np.where(tiny, less.length * factor, less.length))

    def half(program: Program) -> Program:
        return cheaper(program, 0.5, False)

    # no graph holds calls that allocate
    bold = half if _allocates(tables) else lambda p: cheaper(p, 0.1, True)
    gain = gain_of(tables, bold, half, 1.0 if owed else 0.0)
    checked = found_nan_checks(tables)[2] / max(ledger.whole_ns, 1)
    explained = max(tables.optimizer[0], _of_reads(tables)[1], checked, _of_recomputing(tables))
    gain = Gain(gain.share * (1 - explained), gain.low * (1 - explained), gain.high)
    count = int((tables.work["device"] == ledger.device).sum()) / max(tables.count, 1)
    # all that the thread does delays launches: it is never ahead
    where = told_lines(tables.lines.spread(tables.replay.host.pid, tables.replay.host.main, *ledger.edges))
    return cause(
        tables,
        gain,
        f"GPU {ledger.device} waits for the next launch for {tables.told(owed, ledger)}; {count:,.0f} "
        "operations "
        f"{'per iteration' if tables.count else 'in all'}, a launch call takes {time_text(tables.launch_ns)}"
        + (f"; {where}" if where else ""),
        worst,
        "ns idle waiting for a launch on the worst GPU",
        stretches,
        enough=max(worst, owed * tables.width / max(ledger.whole_ns, 1)) >= LAUNCH_BOUND_SHARE * tables.width
        and not found_blocking(tables)[0].any(),
        owner="launch",
    )


def _of_recomputing(tables: Tables) -> float:
    """The share of the launching, calls and the code before them, that computes the forward pass again."""
    program = tables.replay.program
    again = found_recomputed(tables)
    if program is None or not again.any():
        return 0.0
    spent = program.gap + program.spent
    mine = np.append(calls_of_ops(program, again[program.op]), False)[replay.launch_of(program)]
    return float(spent[mine].sum() / max(float(spent.sum()), 1.0))


def _allocates(tables: Tables) -> bool:
    """Whether iterations allocate and free memory, two calls or more each."""
    program = tables.replay.program
    if program is None:
        return False
    calls = named_like(tables.api["name"].iloc[program.row], ALLOCATING)
    return int(calls.sum()) >= 2 * program.count


def _reads(tables: Tables, program: Program) -> Bools:
    """Which calls wait for a number: copies of 4 KiB or less to the host, or the wait right after one."""
    small = owned(tables, program, "copy-out") & (op_sizes(tables, program) <= READ_BYTES)
    asked = calls_of_ops(program, small)
    waiting = program.waits > 0
    after = np.append(False, asked[:-1]) & waiting & (program.last == program.first)
    own = asked & (program.waits == 2) & ~np.append(after[1:], False)
    return np.asarray(after | own, np.bool_)


def _of_reads(tables: Tables) -> tuple[float, float, float]:
    """Where many numbers are read in each iteration: the share of the launching that the function has which
    reads them; where that function holds the whole loop, or is called anew for each number, how much of that
    lies between reads that follow each other closely; and the numbers read in an iteration.
    """
    program, lines = tables.replay.program, tables.lines
    if program is None or not lines.known:
        return 0.0, 0.0, 0.0
    reads = _reads(tables, program)
    count = float(reads.sum()) / program.count
    if count < MANY_READS:
        return 0.0, 0.0, count
    host, pieces = tables.replay.host, tables.ledger.pieces
    calls = tables.api["start_ns"].to_numpy(np.int64)[program.row[reads]]
    read_at = lines.launched(host.pid, host.main, calls, np.ones(len(calls), np.float64))
    mine = pieces[pieces["owner"].to_numpy(np.int64) == CODE["launch"]]
    spread = lines.spread(host.pid, host.main, *spans(mine))
    if not read_at or not read_at[0][0].file:
        return 0.0, 0.0, count
    key = read_at[0][0].function, read_at[0][0].file
    share = sum(share for place, share in spread if (place.function, place.file) == key)
    if not lines.holds_loop(host.pid, host.main, read_at[0][0]):
        inside = lines.inside(host.pid, host.main, *_from_read_to_read(tables), read_at[0][0])
        if inside is None or inside >= IN_FUNCTION:  # the loop over the numbers is the function's own
            return share, share, count
    spent = program.gap + program.spent
    between = float(spent[_between_reads(program, reads)].sum() / max(float(spent.sum()), 1.0))
    return share, min(share, between), count


def _from_read_to_read(tables: Tables) -> tuple[Ints, Ints]:
    """The stretches of the main thread between reads of numbers, without the longest tenth: that from the
    last one of an iteration to the next one's first is no part of a loop over them.
    """
    view, ledger = tables.view, tables.ledger
    small = (view.owner == CODE["copy-out"]) & (view.ops["bytes"].fillna(0) <= READ_BYTES).to_numpy()
    small &= (view.row >= 0) & (view.ops["device"].to_numpy(np.int64) == ledger.device)
    calls = tables.api.iloc[np.unique(view.row[small])]
    start, end = spans(calls[(calls["tid"] == tables.replay.host.main).to_numpy()])
    inside = (start >= ledger.window[0]) & (end <= ledger.window[1])
    low, high = end[inside][:-1], start[inside][1:]
    usual = high - low <= np.quantile(high - low, 1 - 1 / MANY_READS) if len(low) else high > low
    return low[usual], np.maximum(low, high)[usual]


def _read_again(tables: Tables, program: Program) -> Bools:
    """Which copies of numbers to the host follow another one with nothing launched in between: one copy would
    bring them all.
    """
    small = owned(tables, program, "copy-out") & (op_sizes(tables, program) <= READ_BYTES)
    asked = calls_of_ops(program, small)
    before = replay.launched_before(program.last > program.first)
    again = asked & np.append(asked, False)[before]
    return np.asarray(small & again[replay.call_of(program)], np.bool_)


def _between_reads(program: Program, reads: Bools) -> Bools:
    """Which calls lie between two reads with few launches in between."""
    places = np.flatnonzero(reads)
    launched = np.cumsum((program.last > program.first) & ~reads)[places]
    following = np.searchsorted(places, np.arange(len(reads)), "left")  # the read that a call comes before
    close = np.concatenate(([False], np.diff(launched) <= CLOSE, [False]))
    return np.asarray(close[following], np.bool_)


def _without_reads(program: Program, waits: Bools, reads: Bools) -> Program:
    """Nobody waits in some calls, and what is launched between reads that follow each other is not."""
    close = _between_reads(program, reads)
    return replay.without_ops(replay.without_waits(program, waits), close[replay.call_of(program)])


@rule(
    "sync-in-loop",
    title="The CPU waits for the GPU inside the loop",
    book="nsys/patterns",
    advice="Look for .item(), .cpu(), print(tensor), synchronize() left from timing, cudaMemcpy and "
    "cudaFree; read results every hundredth step; wait on an event instead of the device.",
)
def sync_in_loop(tables: Tables) -> Finding:
    """Synchronizing calls of the launching thread during which the GPU ran dry, so that it then had to wait.

    A call counts when a gap began while it ran and ended with an operation launched after it; the wait
    at the end of the program does no harm. Numerator: the CPU's time in such calls. Copies of 4 KiB or less
    to the host count: a number is read. Gain: the replay in which nobody waits in these calls, so that the
    CPU may be ahead, and numbers read right after each other are one copy; cautious: a fifth less, for some
    results must be read. Where many numbers are read one
    by one, what is launched for them counts, too. Where the CPU hardly waits and the GPU does,
    `drained-queue` tells of it.
    """
    tables.need_busy()
    tables.need_api()
    waits, gaps = tables.waits, rows_of(tables.gaps, (tables.gaps["call"] >= 0).to_numpy())
    hits = _begun_inside(tables, gaps, waits)
    launched = tables.api["start_ns"].to_numpy()[gaps["call"].to_numpy()]
    ended = np.append(waits["end_ns"].to_numpy(), 0)[hits]
    some = (hits >= 0) & (launched >= ended)
    after = gaps[some]
    calls = waits.iloc[hits[some]]
    evidence = pd.DataFrame(
        {
            "call": calls["name"].map(one_line).astype("str").array,
            "call_start_ns": calls["start_ns"].to_numpy(),
            "call_ns": duration_ns(calls),
            "device": after["device"].to_numpy(),
            "gap_start_ns": after["start_ns"].to_numpy(),
            "gap_ns": after["duration_ns"].to_numpy(),
        }
    )
    used = np.unique(hits[some])
    waiting = intervals.total(*spans(waits.iloc[used]))
    return _synchronizing(tables, waiting, len(used), evidence, short=False)


@rule(
    "drained-queue",
    title="A synchronization drains the queue, though the CPU hardly waits",
    book="nsys/patterns",
    advice="The calls are quick, but all that was launched is done when they return, and the GPU waits until "
    "new work arrives: remove them, or launch the next work first. Look for synchronize(), .item(), .cpu().",
)
def drained_queue(tables: Tables) -> Finding:
    """Synchronizations whose cost is not the CPU's waiting but the GPU's afterwards.

    Numerator: the idle time of the GPU after synchronizations, until its queue is filled again. Gain: as of
    sync-in-loop, which tells of those that the CPU waits in for longer than they would save.
    """
    tables.need_busy()
    tables.need_api()
    ledger = tables.ledger
    drained = ledger.each("sync") * ledger.count
    return _synchronizing(tables, int(drained), 0, ledger.places("sync"), short=True)


def _synchronizing(tables: Tables, spent: int, dry: int, evidence: pd.DataFrame, *, short: bool) -> Finding:
    """What synchronizations of the launching threads cost, of either kind."""
    names = tables.api["name"]
    read = 0

    def chosen(program: Program) -> Bools:
        nonlocal read
        copied = (program.waits == 2) & (program.last > program.first)
        reads = _reads(tables, program)
        small = owned(tables, program, "copy-out") & (op_sizes(tables, program) <= READ_BYTES)
        quick = copied & calls_of_ops(program, small)  # the copy itself, where the wait comes after it
        large = np.append(False, (copied & ~quick)[:-1])  # the wait right after a large copy is of the copy
        waits = (program.waits > 0) & ~copied & ~large
        waits &= ~named_like(names.iloc[program.row], ALLOCATING)
        read = int(reads.sum())
        reads = reads | quick
        return np.asarray(waits | reads, np.bool_)

    program = tables.replay.program
    count = waited = 0.0
    places, kinds = "", ""
    if program is not None:
        mine = chosen(program)
        again = _read_again(tables, program)

        def unread(p: Program) -> Program:
            less = replay.without_waits(p, mine)
            return replay.without_copies(less, again) if again.any() else less

        free = tables.replay.gain(unread, unread) if mine.any() else None
        gain = Gain(free.share, 0.8 * free.low, free.high) if free is not None else Gain(0.0, 0.0, 0.0)
        reading, between, _ = _of_reads(tables)
        extra = reading * tables.ledger.share("launch", "sync", "copy-call")
        if extra > gain.share and between < reading:
            reads = _reads(tables, program)
            whole = tables.replay.gain(*[lambda p: _without_reads(p, mine, reads)] * 2)
            extra = min(extra, whole.share) if whole is not None else extra
        if extra > gain.share:  # numbers read one by one: without the reads their launches go, too
            gain = Gain(extra, max(gain.low, extra / 2), max(gain.high, extra))
        count = float(mine.sum()) / program.count
        calls = tables.api.iloc[program.row[mine]]
        waited = float(duration_ns(calls).sum()) / program.count
        kinds = ", ".join(calls["name"].map(one_line).value_counts().index[:3])
        places = _told_calls(tables, calls)
        often = program.count < 2 or count >= 0.5
        often &= mine.sum() >= (1 if tables.count else SYNC_CALLS)
    else:
        often = dry >= SYNC_CALLS
        bound = spent / tables.width if often else 0.0
        gain = Gain(bound, 0.0, bound)
    each = tables.ledger.each_ns
    is_short = waited < 0.5 * gain.share * each and (program is None or 2 * read < count * program.count)
    message = (
        f"{count:,.3g} synchronizing calls {'per iteration' if tables.count else 'in all'}"
        if program is not None
        else f"{dry:,} synchronizing calls let the GPU run dry"
    )
    message += f" ({kinds})" if kinds else ""
    if count:
        message += f"; the CPU waits in them for {time_text(waited)}, the GPU then for "
        message += time_text(tables.ledger.each("sync"))
        message += (
            f"; {read / max(program.count, 1):.3g} of them read a number from the GPU (.item(), "
            ".cpu(), print)"
            if read and program is not None
            else ""
        )
    message += f"; {places}" if places else ""
    return cause(
        tables,
        gain,
        message,
        min(spent, tables.width),
        "ns idle after synchronizations on the worst GPU"
        if short
        else "ns of the CPU in synchronizing calls that let the GPU run dry",
        evidence if short else top(evidence, "gap_ns"),
        enough=bool(often) and is_short == short and bool(len(evidence)),
        owner="sync",
    )


def _told_calls(tables: Tables, calls: pd.DataFrame, most: int = 2) -> str:
    """Where in the program most of some calls stand, in words."""
    lines, host = tables.lines, tables.replay.host
    if not len(calls) or not lines.known:
        return ""
    # a stack that names the call says more than one that was taken near it
    _, named = lines.naming(host.pid, host.main, *spans(calls), EXPLICIT)
    if named:
        return told_lines(named, most)
    found = pd.Series([one.text for one in lines.at_calls(calls)])
    spent = pd.Series(duration_ns(calls)).groupby(found.to_numpy()).sum().sort_values(ascending=False)
    spent = spent[spent.index != ""]
    whole = max(int(duration_ns(calls).sum()), 1)
    return ", ".join(f"{percent(ns / whole)} of that {place}" for place, ns in spent.iloc[:most].items())


@rule(
    "low-utilization",
    title="Stretches in which the GPU is mostly idle",
    book="nsys/timeline-basics",
    advice="See where in the program these stretches lie (the ranges in idle-gaps name them) and begin with "
    "the longest.",
)
def low_utilization(tables: Tables) -> Finding:
    """Thirtieths of the window in which a GPU is busy for less than half of the time; neighbors become one.

    Busy is the union of the operations of all processes, whole graphs included, so no part exceeds 100 %. The
    evidence tells kernels apart from time with copies or memsets alone, in which nothing is computed.
    Numerator: the length of such stretches on the GPU with most of it. A fact, and no cause. Bound: the idle
    time in them (`Tables.idle_bound`).
    """
    tables.need_busy()
    edges = tables.window[0] + (np.arange(CHUNKS + 1) * tables.width) // CHUNKS
    rows: list[tuple[int, int, int, int, int, int, int, float]] = []
    idle: list[tuple[Ints, Ints]] = []
    for number in tables.busy["device"].tolist():
        mine = tables.spans_of(number)
        busy = intervals.covered_within(*mine, edges[:-1], edges[1:])
        computing = tables.spans_of(number, tables.computes)
        kernel = intervals.covered_within(*computing, edges[:-1], edges[1:])
        length = np.diff(edges)
        quiet = (busy < LOW * length) & (length > 0)
        first = np.flatnonzero(quiet & ~np.append(False, quiet[:-1]))
        last = np.flatnonzero(quiet & ~np.append(quiet[1:], False)) + 1
        for a, b in zip(first.tolist(), last.tolist(), strict=True):
            begin, end = int(edges[a]), int(edges[b])
            spent, computed = int(busy[a:b].sum()), int(kernel[a:b].sum())
            both = spent, computed, spent - computed, spent / (end - begin)
            rows.append((number, begin, end, end - begin, *both))
            idle.append(intervals.complement(*mine, (begin, end)))
    whole = ["device", "start_ns", "end_ns", "duration_ns", "busy_ns", "kernel_ns", "copy_only_ns"]
    found = pd.DataFrame(rows, columns=[*whole, "busy_share"])
    found = found.astype({**dict.fromkeys(whole, "int64"), "busy_share": "float64"})
    per_gpu = found.groupby("device")["duration_ns"].sum()
    worst, device = _most(per_gpu)
    gain = tables.idle_bound(*intervals.joined(idle))
    lowest = tables.busy["busy_share"].min()
    held = found.loc[found["device"] == device, ["kernel_ns", "copy_only_ns"]].sum() / max(worst, 1)
    return tables.finding(
        worst / tables.width >= LOW_SHARE,
        f"GPU {device} is less than half busy in {percent(worst / tables.width)} of the window: in these "
        f"stretches kernels run for {percent(held['kernel_ns'])} of the time, copies and memsets alone for "
        f"{percent(held['copy_only_ns'])}"
        if worst
        else f"no thirtieth of the window is less than half busy; the least busy GPU is busy for "
        f"{percent(lowest)}",
        worst,
        "ns in stretches less than half busy on the worst GPU",
        top(found, "duration_ns"),
        gain=gain,
        severity="info",
    )


def _causes(gaps: pd.DataFrame) -> str:
    """What the CPU did in most of the idle time, in words."""
    where = pd.DataFrame(
        {
            "range": gaps["range"].where(gaps["range_share"] >= 0.5, "").map(one_line),
            "call": gaps["call"].where(gaps["call_share"] >= 0.5, "").map(one_line),
            "own_ns": gaps["own_ns"],
        }
    )
    by = top(where.groupby(["range", "call"]).sum().reset_index(), "own_ns").iloc[:2]
    whole = max(int(gaps["own_ns"].sum()), 1)
    parts = [
        f"{percent(ns / whole)} of that {f'in “{name}”' if name else 'outside of ranges'}, "
        f"{f'mostly in {call}' if call else 'in its own code'}"
        for name, call, ns in zip(by["range"], by["call"], by["own_ns"], strict=True)
    ]
    return "the launching thread spends " + ", ".join(parts)


def _most(per_gpu: pd.Series) -> tuple[int, int]:
    """The largest value of a series over GPUs, and the GPU; zeros when it is empty."""
    if len(per_gpu) == 0:
        return 0, 0
    place = int(per_gpu.to_numpy().argmax())
    return int(per_gpu.to_numpy()[place]), int(per_gpu.index.to_numpy()[place])


def _profiler(tables: Tables) -> pd.DataFrame:
    """Profiler overhead with the process; empty in most captures."""
    return tables.report.profiler_overhead()


def _profiler_ns(tables: Tables, gaps: pd.DataFrame) -> Ints:
    """How much of each gap the profiler held the launching process up."""
    spent = np.zeros(len(gaps), np.int64)
    overhead = _profiler(tables)
    pids = gaps["pid"].fillna(-1).to_numpy(np.int64)
    for pid, mine in overhead.groupby("pid"):
        here = np.flatnonzero(pids == pid)
        part = gaps.iloc[here]
        spent[here] = intervals.covered_within(*spans(mine), part["start_ns"], part["end_ns"])
    return spent


def _without_profiler(tables: Tables, gaps: pd.DataFrame) -> tuple[Ints, Ints]:
    """The gaps without the time in which the profiler held their process up."""
    overhead = _profiler(tables)
    if len(overhead) == 0:
        return spans(gaps)
    parts = []
    pids = gaps["pid"].fillna(-1).to_numpy(np.int64)
    for pid in np.unique(pids):
        mine = overhead[overhead["pid"] == pid]
        parts.append(intervals.subtract(*spans(gaps[pids == pid]), *spans(mine)))
    return intervals.joined(parts)


def _stretches(tables: Tables, gaps: pd.DataFrame, some: Bools) -> tuple[pd.DataFrame, int]:
    """Of some gaps runs with nothing but short work between them: where launches set the pace, the longest
    first; and the ns that these gaps take on the GPU with most.

    device; start_ns, end_ns; duration_ns; gaps; idle_ns; busy_ns.
    """
    parts, most = [], 0
    on = gaps["device"].to_numpy(np.int64)
    for device in unique(on)[0].tolist():
        mine = np.flatnonzero(some & (on == device))
        if not len(mine):
            continue
        start, end = (at_rows(times, mine) for times in spans(gaps))
        most = max(most, int((end - start).sum()))
        reach = start[1:] - end[:-1]  # the work between two gaps
        first = np.flatnonzero(np.append(True, reach > tables.patience_ns))
        last = np.append(first[1:], len(mine))
        idle = np.add.reduceat(end - start, first)
        length = end[last - 1] - start[first]
        parts.append(
            pd.DataFrame(
                {
                    "device": device,
                    "start_ns": start[first],
                    "end_ns": end[last - 1],
                    "duration_ns": length,
                    "gaps": last - first,
                    "idle_ns": idle,
                    "busy_ns": length - idle,
                }
            )
        )
    if not parts:
        columns = ("device", "start_ns", "end_ns", "duration_ns", "gaps", "idle_ns", "busy_ns")
        return pd.DataFrame({c: np.empty(0, np.int64) for c in columns}), 0
    return top(pd.concat(parts, ignore_index=True), "idle_ns"), most


def _begun_inside(tables: Tables, gaps: pd.DataFrame, waits: pd.DataFrame) -> Ints:
    """For each gap the position in ``waits`` of the call, of the thread that ended it, in which it began.

    -1 where there is none. Of nested calls it is the outer one.
    """
    hit = np.full(len(gaps), -1, np.int64)
    pid = tables.api["pid"].to_numpy()[gaps["call"].to_numpy()]
    tid = tables.api["tid"].to_numpy()[gaps["call"].to_numpy()]
    began = gaps["start_ns"].to_numpy()
    for rows in waits.groupby(["pid", "tid"]).indices.values():
        start, end = spans(waits.iloc[rows])
        here = np.flatnonzero(
            (pid == waits["pid"].to_numpy()[rows[0]]) & (tid == waits["tid"].to_numpy()[rows[0]])
        )
        order = np.lexsort((-end, start))
        outer_start, _ = intervals.union(start, end)
        outer = order[np.searchsorted(start[order], outer_start, "left")]
        place = np.searchsorted(outer_start, began[here], "right") - 1
        some = place >= 0
        inside = end[outer[place[some]]] >= began[here[some]]
        hit[here[some][inside]] = rows[outer[place[some][inside]]]
    return hit
