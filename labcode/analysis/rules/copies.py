"""Rules about copies: the tables of a capture in, findings out."""

import numpy as np
import pandas as pd

from labcode.analysis.ledger import replay
from labcode.analysis.ledger.ledger import READ_BYTES
from labcode.analysis.ledger.replay import Program
from labcode.analysis.rules.finding import Finding, rule
from labcode.analysis.rules.predicted import (
    calls_of_ops,
    cause,
    gain_of,
    lines_of_calls,
    op_sizes,
    owned,
    told_places,
)
from labcode.analysis.rules.tables import Tables, top
from labcode.analysis.timeline import intervals
from labcode.analysis.timeline.joins import duration_ns, in_window, named_like, spans
from labcode.reports.columns import Bools, Ints, unique
from labcode.reports.frames import is_any, mapped, rows_of
from labcode.show import one_line

PAGEABLE_SHARE = 0.02  # little, for it is cheap to mend
SMALL_BYTES = 1 << 16
SMALL_COPIES = 20
SMALL_SHARE = 0.02
REPEATED = 3
_LINKS = ((9.0, 55e9), (8.0, 25e9), (0.0, 12e9))  # by compute capability: PCIe 5, 4 and 3
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

    Each copy is joined with its call within its process; copies of 4 KiB or less, which are results that
    somebody reads, are left out. Numerator: the time in which such a copy runs or the call that made it has
    not returned. Gain: the replay in which nobody waits for them, they go as fast as the link, and those to
    the GPU on a stream of their own; cautious: in their place, at most twice as fast as now.
    """
    copies = tables.copies
    if len(copies):
        tables.need_api()
    lost = int((copies["row"] < 0).sum())
    asynchronous = named_like(copies["call"], ASYNC)
    # a few bytes to the host are a number that somebody reads
    large = (copies["bytes"].to_numpy() > READ_BYTES) | ~is_any(copies["copy_kind"], "D2H")
    slow = copies[asynchronous & large & is_any(copies["host_memory"], "pageable")]
    spent = intervals.total(*_copies_and_calls(tables, slow))

    def pinned(program: Program, faster: bool) -> Program:
        inward = owned(tables, program, "copy-in")
        some = tables.view.pageable[program.op] & (inward | (op_sizes(tables, program) > READ_BYTES))
        inward &= some
        free = replay.not_blocking(program, some)
        free = replay.own_stream(free, inward) if faster else free
        least = op_sizes(tables, program) / _link(tables) * 1e9
        least = least if faster else np.maximum(least, program.length / 2)
        length = np.where(some, np.minimum(program.length, least), program.length)
        return replay.with_lengths(free, length)

    gain = gain_of(tables, lambda p: pinned(p, True), lambda p: pinned(p, False), 1.0 if len(slow) else 0.0)
    where = told_places(tables.ledger.places("copy-call"), 1)
    message = (
        f"{len(slow):,} of {len(copies):,} copies are asynchronous in name only, for their memory is "
        "pageable; "
        f"they and their calls take {tables.told(spent)}"
    )
    message += f"; {where}" if where else ""
    if lost:
        message += f" ({lost:,} copies have no call in the capture and were not judged)"
    return cause(
        tables,
        gain,
        message,
        spent,
        "ns in pageable asynchronous copies and their calls",
        _shown(slow),
        enough=bool(len(slow)) and spent >= PAGEABLE_SHARE * tables.width,
        least=PAGEABLE_SHARE,
    )


@rule(
    "small-copies",
    title="Many small copies",
    book="nsys/memory-timeline",
    advice="Pack small arrays into one buffer and copy that; keep scalars on the GPU.",
)
def small_copies(tables: Tables) -> Finding:
    """Copies between host and GPU (or GPUs) of less than 64 KiB, whose cost is the call and not the bytes.

    Numerator: the time in which such a copy runs or the call that made it has not returned. Gain: the replay
    without them, in which those to the GPU that follow each other are waited for once; cautious: half of
    that, for one copy of all the bytes takes some time, too.
    """
    copies = tables.copies
    between = ~is_any(copies["copy_kind"], "D2D", "H2H")
    small = copies[between & (copies["bytes"].to_numpy() < SMALL_BYTES)]
    spent = intervals.total(*_copies_and_calls(tables, small))

    def packed(program: Program) -> Program:
        sizes = op_sizes(tables, program)
        some = owned(tables, program, "copy-in", "copy-out") & (sizes < SMALL_BYTES)
        less = replay.without_ops(replay.not_blocking(program, some), some)
        inward = calls_of_ops(program, some & owned(tables, program, "copy-in"))
        # one copy is waited for once: not after those that the next one follows
        waits = (program.waits > 0) & (program.last == program.first) & np.append(False, inward[:-1])
        launch = np.append(replay.launch_of(program)[1:], len(waits))  # what the next call is made for
        waits &= np.append(inward, False)[launch]
        return replay.without_code(replay.without_calls(less, waits), waits)

    gain = gain_of(tables, packed, None, 1.0 if len(small) else 0.0)
    rows = small["row"].to_numpy(np.int64)
    rows = rows[rows >= 0]
    where = lines_of_calls(tables, rows, duration_ns(tables.api.iloc[rows]).astype(np.float64))
    return cause(
        tables,
        gain,
        f"{len(small):,} of {int(between.sum()):,} copies between host and GPU are smaller than 64 KiB; they "
        f"and their calls take {tables.told(spent)}" + (f"; {where}" if where else ""),
        spent,
        "ns in small copies and their calls",
        _shown(small),
        enough=len(small) >= SMALL_COPIES and spent >= SMALL_SHARE * tables.width,
        least=SMALL_SHARE,
    )


@rule(
    "copies-not-hidden",
    title="Copies to the GPU that nothing hides",
    book="nsys/memory-timeline",
    advice="Copy the next batch while this one is computed: pinned memory, a stream of its own, "
    "non_blocking=True, an event before the first use; where it is the same data, keep it on the GPU.",
)
def copies_not_hidden(tables: Tables) -> Finding:
    """Copies from host to GPU of 64 KiB or more, in each iteration, while no kernel runs on that GPU.

    Copies that hide behind kernels cost nothing and do not count, nor do those of pageable memory, which
    pageable-copies judges. Numerator: the time of such copies with no
    kernel or graph beside them, on the worst GPU. Gain: the replay in which they run on a stream of their own
    and nobody waits for them; cautious: half of that.
    """
    return _beside(tables, "H2D", "to the GPU", SMALL_BYTES)


@rule(
    "results-copied-back",
    title="Results are copied back in each iteration, and all wait",
    book="nsys/memory-timeline",
    advice="Keep results on the GPU and copy them every hundredth step; or copy into pinned memory "
    "on a stream "
    "of its own, and read them when an event says that they are there.",
)
def results_copied_back(tables: Tables) -> Finding:
    """Copies from GPU to host of more than 4 KiB, while no kernel runs on that GPU.

    Smaller ones are numbers that somebody reads: that is a synchronization. Numerator: the time of such
    copies with no kernel beside them. Gain: the replay in which they run on a stream of their own and nobody
    waits for them, and without the code that works with what came, where it takes less than the copies (a
    metric: on the GPU neither is needed); cautious: half of that.
    """
    return _beside(tables, "D2H", "from the GPU", READ_BYTES + 1)


def _beside(tables: Tables, kind: str, direction: str, least_bytes: int) -> Finding:
    """Copies in one direction with nothing beside them, and what they cost."""
    tables.need_busy()
    owner = {"H2D": "copy-in", "D2H": "copy-out"}[kind]
    device = tables.ledger.device
    copies = tables.copies
    some = is_any(copies["copy_kind"], kind) & (copies["bytes"].to_numpy() >= least_bytes)
    if kind == "H2D":  # pageable ones cannot be hidden: they are judged as such
        some &= ~is_any(copies["host_memory"], "pageable")
    some &= copies["device"].to_numpy() == device
    mine = copies[["device", "pid", "bytes", "host_memory", "start_ns", "end_ns", "row"]][some]
    mine = mine.sort_values("start_ns", kind="stable")
    beside = tables.spans_of(device, tables.computes)
    exposed = intervals.total(*intervals.subtract(*spans(mine), *beside))
    alone = duration_ns(mine) - intervals.covered_within(*beside, *spans(mine))
    table = (
        mine.assign(copy_ns=duration_ns(mine), exposed_ns=alone, total_bytes=mine["bytes"])
        .groupby(["device", "pid", "bytes", "host_memory"], sort=True)
        .agg(
            repetitions=("copy_ns", "size"),
            total_bytes=("total_bytes", "sum"),
            copy_ns=("copy_ns", "sum"),
            exposed_ns=("exposed_ns", "sum"),
        )
        .reset_index()
    )

    def aside(program: Program) -> Program:
        some = owned(tables, program, owner) & (op_sizes(tables, program) >= least_bytes)
        some &= (kind != "H2D") | ~tables.view.pageable[program.op]
        moved = replay.own_stream(program, some)
        if kind != "D2H":
            return moved
        after = np.append(False, calls_of_ops(program, some)[:-1])  # the wait right after such a copy
        moved = replay.without_waits(moved, after & (program.waits != 2))
        code = worked(program, some)
        if code.any():
            return replay.without_code(replay.without_copies(moved, some), code)
        return moved

    def worked(program: Program, some: Bools) -> Bools:
        # what the CPU does with them, where that is the lesser part: done on the GPU, neither is needed
        code = replay.code_after(program, tables.replay.owned("host-code", program=program), some)
        return np.asarray(code & (program.gap[code].sum() < program.length[some].sum()), np.bool_)

    # no more than nothing hides, the CPU waits for, and what it does with what came
    owed = exposed / tables.width + tables.ledger.share("copy-call", "sync")
    program = tables.replay.program
    if kind == "D2H" and program is not None:
        some_ops = owned(tables, program, owner) & (op_sizes(tables, program) >= least_bytes)
        code = float(program.gap[worked(program, some_ops)].sum()) / max(program.count, 1)
        owed += code / max(tables.ledger.each_ns, 1)
    gain = gain_of(tables, aside, None, owed if len(mine) else 0.0)
    called = mine["row"].to_numpy(np.int64) >= 0
    where = lines_of_calls(tables, mine["row"].to_numpy(np.int64)[called], alone[called].astype(np.float64))
    where = where or told_places(tables.ledger.places("copy-call"), 1)
    moved = int(mine["bytes"].sum())
    return cause(
        tables,
        gain,
        f"{len(mine):,} copies {direction} ({moved / max(tables.count, 1) / 1e6:,.3g} MB "
        f"{'per iteration' if tables.count else 'in all'}) run with no kernel beside them for "
        f"{tables.told(exposed)}" + (f"; {where}" if where else ""),
        exposed,
        f"ns of copies {direction} with no kernel beside them on the worst GPU",
        top(table, "exposed_ns"),
        enough=len(mine) >= (tables.count / 2 if tables.count else REPEATED),
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
    small = is_any(copies["copy_kind"], "H2D") & (copies["bytes"].to_numpy() <= BUFFERED_BYTES)
    between = ~small & ~is_any(copies["copy_kind"], "D2D", "H2H")
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
    memsets, (low, high) = tables.report.memsets(), tables.window
    start, end = spans(memsets)
    inside = np.minimum(end, high) > np.maximum(start, low)
    if inside.any():
        tables.need_api()
    host = is_any(memsets["mem_kind"], "pinned", "managed", "managed static")
    place = np.cumsum(inside)[inside & host] - 1  # among those of the window
    memsets = tables.called(in_window(rows_of(memsets, host), tables.window).set_axis(place, axis=0))
    return _waited(tables, memsets[named_like(memsets["call"], SYNC_MEMSET)], "memsets")


def _waited(tables: Tables, ops: pd.DataFrame, what: str) -> Finding:
    calls = tables.api.iloc[unique(ops["row"].to_numpy(np.int64))[0]]
    spent = intervals.total(*intervals.clip(*spans(calls), tables.window))
    rows = ops["row"].to_numpy(np.int64)

    def free(program: Program) -> Program:
        mine = np.isin(program.row, rows)
        short = np.where(mine, np.minimum(program.spent, 5_000.0), program.spent)
        return replay.without_waits(program, mine).change(spent=short)

    gain = gain_of(tables, free, None, 1.0 if len(ops) else 0.0)
    return cause(
        tables,
        gain,
        f"the host waits for {len(ops):,} {what}, for {tables.told(spent)}",
        spent,
        f"ns in calls that wait for {what}",
        _shown(ops),
        enough=spent >= SYNC_SHARE * tables.width,
        least=SYNC_SHARE,
    )


def _link(tables: Tables) -> float:
    """Bytes a second from pinned memory: what PCIe of the GPU's generation gives."""
    spec = tables.spec
    capability = float(spec.cc) if spec else 8.0
    return next(rate for least, rate in _LINKS if capability >= least)


def _copies_and_calls(tables: Tables, copies: pd.DataFrame) -> tuple[Ints, Ints]:
    """The times in which one of the copies runs or its call has not returned, within the window."""
    calls = tables.api.iloc[unique(copies.loc[copies["row"] >= 0, "row"].to_numpy(np.int64))[0]]
    return intervals.clip(*intervals.joined([spans(copies), spans(calls)]), tables.window)


def _shown(copies: pd.DataFrame) -> pd.DataFrame:
    """The columns of copies or memsets that are evidence, the longest first."""
    table = copies.assign(duration_ns=duration_ns(copies), call=mapped(copies["call"], one_line))
    kinds = ("copy_kind", "src_kind", "dst_kind", "mem_kind")
    columns = ["device", "start_ns", "duration_ns", "bytes", *(k for k in kinds if k in table), "call", "pid"]
    return top(table[columns], "duration_ns")
