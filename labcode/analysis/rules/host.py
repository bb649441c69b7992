"""Rules about a CPU that holds the GPU up by its own work: the tables of a capture in, findings out."""

import numpy as np
import pandas as pd

from labcode.analysis.ledger import replay
from labcode.analysis.ledger.ledger import ALLOCATING, BATCH_BYTES, READ_BYTES
from labcode.analysis.ledger.lines import BACKWARD
from labcode.analysis.ledger.replay import Gain, Program
from labcode.analysis.ledger.steady import loading_launches
from labcode.analysis.ledger.view import CODE, View
from labcode.analysis.rules.finding import CannotJudgeError, Finding, rule
from labcode.analysis.rules.predicted import (
    FOUND,
    calls_of_ops,
    cause,
    gain_of,
    lines_of_calls,
    lines_of_idle,
    op_sizes,
    owned,
    told_lines,
    told_places,
)
from labcode.analysis.rules.tables import Tables, top
from labcode.analysis.timeline import intervals
from labcode.analysis.timeline.joins import duration_ns, in_window, named_like, spans
from labcode.reports.columns import Bools, Floats, Ints
from labcode.reports.frames import codes_of, is_any
from labcode.reports.report import AllocatorReport, FunctionsReport, SampledReport
from labcode.show import percent, time_text

ALLOCATIONS, FREEING = 2, "Free"
BLOCKED = 0.5  # of the samples
CHECKS = 10  # an iteration: a loss that is looked at is told as a synchronization
FORWARD = 2  # times the code before a launch of the backward pass, which is no Python
IS_NAN = r"CompareEqFunctor|(?i:isnan)"  # a number that does not equal itself
ANY = r"reduce_kernel<.*\bor_kernel"
TRACES = r"(?:^|/)traceback\.py:|torch/fx/traceback\.py:"
CHECKPOINT = r"torch/utils/checkpoint\.py:(?:checkpoint|recompute_fn|unpack_hook|backward)$"
CHECKPOINTED = r"^(?:autograd::engine::evaluate_function: )?CheckpointFunction(?:Backward)?\b"
ALIKE = 3  # kernels in a row
LONG_NS = 20_000  # of a kernel: no launch that waits for nothing returns after its end
BLOCKING, FEWEST = 0.95, 10  # of the launches of such kernels; in all
AMPLE = 0.5  # of the GPU's memory: with more in use it is not said that there is plenty
OFTEN, TENTHS = 0.1, 10  # of the compiling: so much in an iteration counts
CUDNN = r"cudnn|_[fdw](?:prop|grad)_|implicit_gemm|convolve_|nhwcAddPadding|winograd|im2col"
TRIED = 6  # kernels in a row, each another: no network has so many convolutions, nothing between them
SEARCHES = (
    "cuDNN tries its kernels for each new shape, as torch.backends.cudnn.benchmark = True asks for: set it "
    "to False where shapes change, or pad the batches to few shapes; call each of these once before the loop."
)
GIVES_BACK = r"torch/cuda/memory\.py:empty_cache$"
_LOADING = CODE["loading"]


def _stretches(tables: Tables, owner: str, program: Program) -> Bools:
    return tables.replay.owned(owner, program=program)


@rule(
    "data-loading",
    title="The GPU waits for data",
    book="nsys/timeline-basics",
    advice="Load ahead: DataLoader(num_workers=…, pin_memory=True, prefetch_factor=…, "
    "persistent_workers=True), with as many workers as keep up; make the loading itself cheaper; "
    "decode and augment on the GPU.",
)
def data_loading(tables: Tables) -> Finding:
    """Idle time of the GPU in which the launching thread loads data, or waits for those who do.

    Told by the stack of Python (`__getitem__`, a data loader's frames), else by a range that says so, else
    because the first that is launched after it is a copy of a batch to the GPU. Numerator: that idle time.
    Gain: the replay without that code; cautious: a fifth of it stays, for somebody must hand the batches on.
    """
    ledger = tables.ledger
    found = ledger.places("data-loading")
    spent = float(found["total_ns"].sum())
    share = spent / max(ledger.whole_ns, 1)
    gain = gain_of(
        tables,
        lambda p: replay.without_code(p, _stretches(tables, "data-loading", p)),
        lambda p: replay.without_code(p, _stretches(tables, "data-loading", p), 0.2),
        1.0 if spent else 0.0,
    )
    where = told_places(found)
    return cause(
        tables,
        gain,
        f"GPU {ledger.device} waits for data for {tables.told(spent, ledger)}"
        + (f"; {where}" if where else ""),
        min(spent, tables.width),
        "ns idle while data are loaded on the worst GPU",
        found,
        enough=share > 0,
        owner="data-loading",
    )


@rule(
    "host-code",
    title="The GPU waits for the program's own code",
    book="nsys/timeline-basics",
    advice="Do it less often, on another thread or process, or on the GPU: logging, checkpoints (save a copy "
    "in the background), metrics, tokenizing, Python loops over samples.",
)
def host_code(tables: Tables) -> Finding:
    """Idle time of the GPU in long stretches of code between two calls of CUDA, by line or range.

    Long is ten times what usually lies between two launches: what is shorter is the pace of launching.
    Numerator: that idle time. Gain: the replay without that code, and without the pageable copies that bring
    what it makes, or bring it what it works with, where these take less than the code: done on the GPU or
    kept there, it needs none; cautious: half of the code stays, and all copies.
    """
    ledger = tables.ledger
    found = ledger.places("host-code")
    spent = float(found["total_ns"].sum())

    def elsewhere(program: Program) -> Program:
        code = _stretches(tables, "host-code", program)
        sizes, pageable = op_sizes(tables, program), tables.view.pageable[program.op]
        into = owned(tables, program, "copy-in") & pageable & (sizes >= BATCH_BYTES)
        back = owned(tables, program, "copy-out") & pageable & (sizes > READ_BYTES)
        copies = replay.copies_around(program, code, into, back)
        less = replay.without_code(program, code)
        smaller = program.length[copies].sum() < program.gap[code].sum()
        return replay.without_copies(less, copies) if smaller and copies.any() else less

    gain = gain_of(
        tables,
        elsewhere,
        lambda p: replay.without_code(p, _stretches(tables, "host-code", p), 0.5),
        1.0 if spent else 0.0,
    )
    # of all stretches together, for a sample falls into few of them; ranges where there are no samples
    where = lines_of_idle(tables, "host-code") if tables.lines.sampled else told_places(found)
    return cause(
        tables,
        gain,
        f"GPU {ledger.device} waits for code of the program between calls of CUDA for "
        f"{tables.told(spent, ledger)}" + (f"; {where}" if where else ""),
        min(spent, tables.width),
        "ns idle in the program's own code on the worst GPU",
        found,
        enough=bool(spent),
        owner="host-code",
    )


@rule(
    "allocation-in-loop",
    title="Memory is allocated and freed in each iteration",
    book="nsys/patterns",
    advice="Allocate once before the loop and reuse; use cudaMallocAsync or a caching allocator; in PyTorch "
    "look for empty_cache() and for memory so scarce that the cache is given back.",
)
def allocation_in_loop(tables: Tables) -> Finding:
    """cudaMalloc, cudaFree and their kin in the steady state; the stream-ordered ones are left out.

    A driver call inside a runtime call counts once. Of a single iteration only calls that free as often as
    others allocate tell that it is so in each: a cache that grows is start-up. Numerator: the time in such
    calls, in the process with most of it. Gain: the replay in which they take no time and wait for nothing;
    cautious: a fifth stays.
    """
    tables.need_api()
    tables.need_busy()
    calls = in_window(tables.api[named_like(tables.api["name"], ALLOCATING)], tables.window)
    count, worst = 0, 0
    for _, mine in calls.groupby("pid"):
        worst = max(worst, intervals.total(*spans(mine)))
        for _, thread in mine.groupby("tid"):
            count += int((intervals.parents(*spans(thread)) < 0).sum())

    def chosen(program: Program) -> Bools:
        return named_like(tables.api["name"].iloc[program.row], ALLOCATING)

    gain = gain_of(
        tables,
        lambda p: replay.without_calls(p, chosen(p)),
        lambda p: replay.without_calls(replay.without_waits(p, chosen(p)), chosen(p), 0.2),
        1.0 if count else 0.0,
    )
    host, mine = tables.replay.host, calls[(calls["pid"] == tables.ledger.pid).to_numpy()]
    # a stack that names who gives the memory back says more than the many that ask for it again
    _, given_back = tables.lines.naming(host.pid, host.main, *spans(mine), GIVES_BACK)
    where = told_lines(given_back) or told_places(tables.ledger.places("allocation"))
    table = calls.assign(duration_ns=duration_ns(calls))
    columns = ["name", "start_ns", "duration_ns", "pid", "tid", "return_value"]
    each = f" ({count / tables.count:.3g} per iteration)" if tables.count and count else ""
    return cause(
        tables,
        gain,
        f"{count:,} calls allocate or free memory in the steady state{each}, for {tables.told(worst)}"
        + (f"; {where}" if where else ""),
        worst,
        "ns in allocating and freeing calls in the worst process",
        top(table[columns], "duration_ns"),
        enough=count >= max(ALLOCATIONS, tables.count // 2)
        and (tables.count != 1 or 2 * int(named_like(calls["name"], FREEING).sum()) >= len(calls)),
        owner="allocation",
    )


@rule(
    "compiling-in-loop",
    title="Code is compiled or loaded in the steady state",
    book="nsys/patterns",
    advice="Look for shapes that change (pad them, mark_dynamic, bucket the batches), graph breaks and "
    "guards that fail (TORCH_LOGS=recompiles); call each shape once before the loop.",
)
def compiling_in_loop(tables: Tables) -> Finding:
    """Idle time of the GPU while code is compiled or modules are loaded, after the warm-up.

    Numerator: that time. Gain: the replay without these calls and the code before them; cautious: half of it
    stays. Where it comes back in few iterations that lie apart, as for a shape every so often, no round that
    is played holds as much of it: then the idle time itself, for nothing runs beside it. What lies in one
    place (`_once`) is not seen to come back: a fact, without a gain, for a longer run has no more of it.
    Where nothing repeats, what first launches load is start-up, and no verdict.
    """
    tables.need_api()
    ledger = tables.ledger
    found = ledger.places("loading")
    spent = float(found["total_ns"].sum())
    pieces = ledger.pieces[(ledger.pieces["owner"] == _LOADING).to_numpy()]
    first_ns = 0
    if not tables.count:
        first = tables.api.iloc[loading_launches(tables.view.ops, tables.view.row, tables.api)]
        first_ns = int(intervals.covered_within(*intervals.union(*spans(first)), *spans(pieces)).sum())

    def changed(program: Program, keep: float) -> Program:
        start, end = spans(tables.api.iloc[program.row])
        low, high = spans(pieces)
        inside = intervals.covered_within(low, high, start, end) > 0
        before = np.append(0, np.maximum.accumulate(end)[:-1])
        code = intervals.covered_within(low, high, np.minimum(before, start), start) > 0
        less = replay.without_calls(program, inside, keep)
        return replay.without_code(less, code, keep)

    where, share = told_places(found), spent / max(ledger.whole_ns, 1)
    begins = ledger.edges[0]
    if tables.count < 2:
        begins = ledger.window[0] + np.arange(TENTHS) * tables.width // TENTHS
    again = _apart(pieces, ledger.edges[0])
    name = "ns idle while code is compiled or loaded on the worst GPU"
    if share >= FOUND and spent >= 2 * first_ns and _once(pieces, begins):
        message = f"GPU {ledger.device} waits while code is compiled or loaded for {time_text(spent)}, once"
        message += f" in {tables.count:,} iterations" if tables.count > 1 else ""
        message += ": a longer run has no more of it" + (f"; {where}" if where else "")
        spent = min(spent, tables.width)
        return Finding(True, message, spent, name, tables.width, "ns of the window", None, found, "info")
    gain = gain_of(tables, lambda p: changed(p, 0.0), lambda p: changed(p, 0.5), 1.0 if spent else 0.0)
    searches = spent > 0 and _searches(tables)
    if again > 1 and share > gain.share:
        gain = Gain(share, share / 2, share)
        where = f"most of it in {again} iterations that lie apart" + (f"; {where}" if where else "")
    return cause(
        tables,
        gain,
        f"GPU {ledger.device} waits while code is compiled or loaded for "
        f"{tables.told(spent, ledger)}"
        + ("; cuDNN searches for the quickest kernels of convolutions (cudnn.benchmark)" * searches)
        + (f"; {where}" if where else ""),
        min(spent, tables.width),
        name,
        found,
        enough=spent > 0 and spent >= 2 * first_ns,
        owner="loading",
        advice=SEARCHES if searches else "",
    )


def _searches(tables: Tables) -> bool:
    """Whether most kernels of cuDNN lie in runs of many different ones, as when it tries all for a shape."""
    names = tables.worst_kernels[0]["name"]
    part = named_like(names, CUDNN)
    run = np.cumsum(np.diff(part, prepend=False))[part]
    distinct = np.bincount(np.unique(np.stack((run, codes_of(names)[0][part])), axis=1)[0])
    return bool(len(run)) and 2 * int((distinct[run] >= TRIED).sum()) >= len(run)


def _apart(pieces: pd.DataFrame, begins: Ints) -> int:
    """How many iterations, none right after another, hold a tenth or more of some idle time each."""
    spent = _in_each(pieces, begins)
    much = np.flatnonzero(spent >= OFTEN * max(spent.sum(), 1.0))
    return int((np.diff(much) > 1).sum()) + bool(len(much))


def _once(pieces: pd.DataFrame, begins: Ints) -> bool:
    """Whether nine tenths of some idle time lie in one iteration, or within a tenth of all, in a row."""
    spent = _in_each(pieces, begins)
    order = np.argsort(-spent, kind="stable")
    count = int(np.searchsorted(np.cumsum(spent[order]), (1 - OFTEN) * spent.sum())) + 1
    return bool(np.ptp(order[:count]) < max(len(begins) // TENTHS, 1))


def _in_each(pieces: pd.DataFrame, begins: Ints) -> Floats:
    """ns of some idle time in each iteration."""
    start, end = spans(pieces)
    inside = np.searchsorted(begins, start, "right") - 1
    return np.asarray(np.bincount(np.maximum(inside, 0), end - start, len(begins)), np.float64)


@rule(
    "nan-checks",
    title="Results are checked for NaN, one after another",
    book="nsys/patterns",
    advice="Is torch.autograd.set_detect_anomaly(True), or detect_anomaly(), left on? It checks all that the "
    "backward pass makes and keeps a stack of Python for each operation of the forward pass. Look at the "
    "loss alone, every hundredth iteration; switch the rest on when a NaN was seen.",
)
def nan_checks(tables: Tables) -> Finding:
    """A comparison of a tensor with itself, then whether any element is so, then a copy of that to the host.

    From ten an iteration on; the three follow each other on their stream. Numerator: the idle time and that
    of these operations from the first of each three to what follows the copy. Gain: the replay without them
    and the waits for their results; where a thread of autograd's checks and samples show that the main thread
    takes stacks meanwhile, the code before a launch of its is no more than `FORWARD` times what it is in
    the backward pass; cautious: half of it.
    """
    tables.need_busy()
    tables.need_api()
    ledger, view, host = tables.ledger, tables.view, tables.replay.host
    checks, count, spent = found_nan_checks(tables)
    low, high = ledger.edges
    taken, _ = tables.lines.naming(host.pid, host.main, low, high, TRACES)

    copies = view.row[np.flatnonzero(checks & is_any(view.ops["kind"], "memcpy"))] if count else view.row[:0]
    thread = tables.api["tid"].to_numpy(np.int64)
    elsewhere = 2 * (thread[copies] == host.main).sum() < len(copies)  # on a thread of autograd's

    def unchecked(program: Program) -> Program:
        launch = replay.launch_of(program)
        mine = np.append(calls_of_ops(program, checks[program.op]), False)[launch]
        less = replay.without_code(replay.without_copies(program, checks[program.op]), mine)
        code = np.bincount(launch, less.gap, len(program.row) + 1)
        left = (program.last > program.first) & ~mine
        main = thread[program.row] == host.main
        if not (elsewhere and taken and (left & ~main).any()):
            return less
        most = FORWARD * float(np.median(code[:-1][left & ~main]))
        factor = np.where(np.append(left & main, False), np.minimum(most / np.maximum(code, 1.0), 1.0), 1.0)
        return less.change(gap=less.gap * factor[launch])

    gain = gain_of(tables, unchecked, None, 1.0 if count else 0.0)
    each = count / max(ledger.count, 1)
    where = ""
    if elsewhere:
        where = told_lines(tables.lines.naming(host.pid, host.main, low, high, BACKWARD.pattern)[1])
    elif count:
        where = lines_of_calls(tables, copies, np.ones(len(copies)))
    return cause(
        tables,
        gain,
        f"{each:,.0f} times in each iteration a tensor is checked for NaN and the CPU reads the result, for "
        f"{tables.told(spent, ledger)}" + (f"; {where}" if where else "")
        if count
        else "no tensors are checked for NaN one after another",
        min(spent, tables.width),
        "ns in checks for NaN and until work follows on the worst GPU",
        pd.DataFrame(),
        enough=each >= CHECKS,
    )


def found_nan_checks(tables: Tables) -> tuple[Bools, int, float]:
    """Of the worst GPU in its window: which operations of the view are of such checks, how many checks there
    are, and ns until what follows them. What a reduction over several blocks clears before counts to it.
    """
    ledger, ops = tables.ledger, tables.view.ops
    found = np.zeros(len(ops), np.bool_)
    asks = named_like(ops["name"], IS_NAN)
    if not asks.any():
        return found, 0, 0.0
    start, end = spans(ops)
    mine = (ops["device"].to_numpy(np.int64) == ledger.device) & (start >= ledger.window[0])
    rows = np.flatnonzero(mine & (end <= ledger.window[1]))
    context, stream = (ops[name].to_numpy(np.int64) for name in ("context", "stream"))
    rows = rows[np.lexsort((start[rows], stream[rows], context[rows]))]
    cleared = is_any(ops["kind"], "memset")[rows]
    places = np.flatnonzero(~cleared)
    kept = rows[places]
    if len(kept) < 3:
        return found, 0, 0.0
    reads = tables.view.owner[kept] == CODE["copy-out"]
    reads &= (ops["bytes"].iloc[kept].fillna(0) <= 8).to_numpy()
    any_of = named_like(ops["name"], ANY)[kept]
    first = np.flatnonzero(asks[kept][:-2] & any_of[1:-1] & reads[2:])
    first = first[stream[kept[first]] == stream[kept[first + 2]]]
    for low, high in zip(places[first].tolist(), places[first + 2].tolist(), strict=True):
        found[rows[low : high + 1]] = True
    after = np.append(start[kept], end[kept[-1]])[first + 3]
    return found, len(first), float(np.maximum(after - start[kept[first]], 0).sum())


@rule(
    "blocking-launches",
    title="Each launch waits for its kernel",
    book="guides/environment",
    advice="Is CUDA_LAUNCH_BLOCKING=1 left in the environment (for AMD's GPUs HIP_LAUNCH_BLOCKING or "
    "AMD_SERIALIZE_KERNEL)? It finds the line of an error; unset it for all else.",
)
def blocking_launches(tables: Tables) -> Finding:
    """Calls that launch a kernel and return when it has ended: nearly all of those of 20 µs or more.

    By themselves launches return before such kernels have ended. Numerator: the time in such calls of the
    process of the worst GPU. Gain: the replay in which no launch takes longer than a call that waits for
    nothing; cautious: half of it. It is of the program as it was recorded, for what a launch takes by itself
    no other call tells.
    """
    tables.need_busy()
    tables.need_api()
    blocked, long = found_blocking(tables)
    start, end = spans(tables.api.iloc[np.unique(tables.view.row[blocked])])
    spent = intervals.total(*intervals.clip(start, end, tables.window))
    gain, program = Gain(0.0, 0.0, 0.0), tables.replay.program
    if program is not None and blocked.any():
        mine = calls_of_ops(program, blocked[program.op])
        least = float(replay.OF_ITSELF_NS)
        less = program.change(
            spent=np.where(mine, np.minimum(program.spent, least), program.spent),
            made=np.where(blocked[program.op], np.minimum(program.made, least), program.made),
        )
        share = max(1 - less.play() / max(tables.replay.recorded_ns, 1.0), 0.0)
        gain = Gain(share, share / 2, min(share * (1 + replay.LEAST_ERROR), 1.0))
    return cause(
        tables,
        gain,
        f"{int(blocked.sum()):,} launches return when their kernels have ended, and take {tables.told(spent)}"
        if blocked.any()
        else f"launches do not wait for their kernels (looked at: {long:,} kernels of 20 µs or more)",
        spent,
        "ns in launch calls that wait for their kernels",
        pd.DataFrame(),
        enough=bool(blocked.any()),
    )


def found_blocking(tables: Tables) -> tuple[Bools, int]:
    """Which kernels of the view had ended when the calls returned that launched them; how many long ones were
    looked at. None where not nearly all of these had.
    """
    view, ledger = tables.view, tables.ledger
    start, end = spans(view.ops)
    mine = (view.row >= 0) & (view.ops["pid"].to_numpy(np.int64) == ledger.pid)
    mine &= (start >= ledger.window[0]) & (end <= ledger.window[1]) & is_any(view.ops["kind"], "kernel")
    rows = np.flatnonzero(mine)
    ended = spans(tables.api)[1][view.row[rows]] >= end[rows]
    long = end[rows] - start[rows] >= LONG_NS
    found, count = np.zeros(len(mine), np.bool_), int(long.sum())
    if count >= FEWEST and int(ended[long].sum()) >= BLOCKING * count:
        found[rows[ended]] = True
    return found, count


@rule(
    "recomputation",
    title="The backward pass computes the forward pass again",
    book="pytorch/memory",
    advice="It is the price of checkpoints of activations, which save memory. Where memory is left, "
    "checkpoint fewer layers (every second one) or none (gradient_checkpointing_disable()), and see whether "
    "the peak still fits (torch.cuda.max_memory_allocated()).",
)
def recomputation(tables: Tables) -> Finding:
    """Kernels of the forward pass that the backward pass launches again, where checkpoints are seen.

    Stacks, functions, ranges or operators have to name PyTorch's checkpoints. Numerator: the time of these
    kernels on the worst GPU (`found_recomputed`). Gain: the replay without them and their launches; cautious:
    half of it, as if every second layer were checkpointed. Whether the activations would fit no capture
    tells: more than medium it is only where less than half of the GPU's memory is known to be in use.
    """
    tables.need_busy()
    tables.need_kernels()
    again = found_recomputed(tables)
    ledger, host, ops = tables.ledger, tables.replay.host, tables.view.ops
    start, end = spans(ops)
    mine = again & (ops["device"].to_numpy(np.int64) == ledger.device) & is_any(ops["kind"], "kernel")
    mine &= (start >= ledger.window[0]) & (end <= ledger.window[1])
    count, spent = int(mine.sum()), int((end - start)[mine].sum())

    def once(program: Program) -> Program:
        less = replay.without_ops(program, again[program.op])
        mine = np.append(calls_of_ops(program, again[program.op]), False)
        return replay.without_code(less, mine[replay.launch_of(program)])

    gain = gain_of(tables, once, None, 1.0 if count else 0.0)
    if not count:
        message = (
            "the backward pass launches nothing of the forward pass again, as far as checkpoints are seen"
        )
        return cause(
            tables,
            gain,
            message,
            0,
            "ns in kernels computed again on the worst GPU",
            pd.DataFrame(),
            enough=False,
        )
    message = (
        f"{count / max(ledger.count, 1):,.0f} kernels of the forward pass "
        f"{'in each iteration ' if tables.count else ''}are computed again in the backward pass, for "
        f"{tables.told(spent, ledger)}: a price paid for memory"
    )
    used, size = _memory_used(tables)
    if size:
        message += (
            f", of which the program used up to {used / 1e9:.3g} of {size / 1e9:.3g} GB"
            if used
            else f"; how much of the GPU's {size / 1e9:.3g} GB is in use the capture does not tell"
        )
    where = told_lines(tables.lines.above(host.pid, host.main, ledger.window, CHECKPOINT))
    names = ops["short_name"][mine].to_numpy(object)
    rows = pd.DataFrame({"name": names, "total_ns": (end - start)[mine]}).groupby("name")["total_ns"]
    evidence = rows.agg(["size", "sum"]).reset_index()
    return cause(
        tables,
        gain,
        message + (f"; {where}" if where else ""),
        min(spent, tables.width),
        "ns in kernels computed again on the worst GPU",
        top(evidence.rename(columns={"size": "count", "sum": "total_ns"}), "total_ns"),
        certain=0 < used < AMPLE * size,
    )


def found_recomputed(tables: Tables) -> Bools:
    """Which operations of the view are of the forward pass, launched again by a thread of autograd's.

    Kernels that stand in three launches in a row, not all alike, which the main thread makes in the same
    order, too, with as many blocks and threads; and what lies between them. None without a checkpoint.
    """
    view, host = tables.view, tables.replay.host
    found = np.zeros(len(view.ops), np.bool_)
    if not _checkpoints(tables):
        return found
    every = np.flatnonzero((view.row >= 0) & (view.ops["pid"].to_numpy(np.int64) == host.pid))
    every = every[np.argsort(_launched_at(view, every), kind="stable")]
    tid = view.api["tid"].to_numpy(np.int64)[view.row[every]]
    is_kernel = is_any(view.ops["kind"], "kernel")[every]
    kind = codes_of(view.ops["name"])[0].astype(np.int64)
    for sizes in tables.grids:
        if len(sizes):
            kind = np.unique(np.stack((kind, sizes.astype(np.int64))), axis=1, return_inverse=True)[1].ravel()
    forward, others = every[is_kernel & (tid == host.main)], every[is_kernel & (tid != host.main)]
    if len(forward) < ALIKE or len(others) < ALIKE:
        return found
    runs = np.lib.stride_tricks.sliding_window_view
    known, asked = runs(kind[forward], ALIKE), runs(kind[others], ALIKE)
    number = np.unique(np.concatenate((known, asked)), axis=0, return_inverse=True)[1].ravel()
    same = np.isin(number[len(known) :], number[: len(known)]) & (asked != asked[:, :1]).any(axis=1)
    for step in range(ALIKE):
        found[others[step : step + len(same)][same]] = True
    rest = every[~is_kernel & (tid != host.main)]  # what lies between two of these kernels belongs to them
    place = np.searchsorted(_launched_at(view, others), _launched_at(view, rest))
    some = (place > 0) & (place < len(others))
    rest, place = rest[some], place[some]
    found[rest] = found[others[place - 1]] & found[others[place]]
    return found


def _launched_at(view: View, ops: Ints) -> Ints:
    return view.api["start_ns"].to_numpy(np.int64)[view.row[ops]]


def _checkpoints(tables: Tables) -> bool:
    """Whether something names PyTorch's checkpoints of activations."""
    if tables.lines.any_frame(CHECKPOINT):
        return True
    report = tables.report
    names = [report.ops()["name"]] if isinstance(report, FunctionsReport) else []
    return any(bool(named_like(one, CHECKPOINTED).any()) for one in (tables.view.nvtx["name"], *names))


def _memory_used(tables: Tables) -> tuple[int, int]:
    """The most bytes of the worst GPU that PyTorch held, and its size; 0 where the capture does not tell."""
    gpus = tables.report.gpus()
    size = gpus.loc[gpus["device"] == tables.ledger.device, "memory_bytes"].dropna()
    held = 0
    if isinstance(tables.report, AllocatorReport):
        memory = tables.report.memory()
        mine = memory[(memory["device_type"] == "cuda") & (memory["device"] == tables.ledger.device)]
        held = int(mine["reserved_bytes"].fillna(0).max()) if len(mine) else 0
    return held, int(size.iloc[0]) if len(size) else 0


@rule(
    "gil",
    title="The launching thread waits for other threads of Python",
    book="advanced/own-program",
    of=("nsys",),
    advice="Only one thread runs Python at a time: move the work of the others to processes (a DataLoader's "
    "workers, multiprocessing), or into code that lets the lock go (NumPy, torch, compiled extensions).",
)
def gil(tables: Tables) -> Finding:
    """Another thread of the process runs the program's own Python while the launching one does, too.

    Needs samples of Python's stacks. A thread counts that launches nothing, in samples in which it does not
    wait by its state; one that is always at one line, where it may wait or compute without the lock, only if
    the launching thread waits for Python's lock a tenth of the time, by calls of the operating system.
    Numerator: its samples for each hundred of the launching thread's. Gain: that share
    of the idle time in which the launching thread runs code, for they take turns; cautious: half of it.
    """
    report = tables.report
    if not isinstance(report, SampledReport) or not len(report.python_samples()):
        raise CannotJudgeError("there are no samples of Python's stacks (record with --python-sampling=true)")
    share, place, active = tables.contended
    return cause(
        tables,
        Gain(0.9 * share, share / 2, share),
        f"another thread of the process runs Python in {active} of 100 samples of the launching thread"
        + (f", {place.text}" if place.text else "")
        + f"; GPU {tables.ledger.device} waits for the launching thread's code for "
        + tables.told(tables.ledger.each("host-code", "launch") * tables.ledger.count, tables.ledger)
        if active
        else "no other thread of the process runs the program's Python",
        active,
        "samples of other threads for 100 of the launching thread's",
        pd.DataFrame({"thread runs": [place.text], "samples of 100": [active]}) if active else pd.DataFrame(),
        enough=active >= 100 * BLOCKED,
        least=0.05,
    )


@rule(
    "unfused-optimizer",  # traces have a rule of their own for it
    title="The optimizer updates parameter by parameter",
    book="pytorch/bottleneck-hunt",
    of=("nsys",),
    advice="Give the optimizer fused=True (one kernel for all parameters), or foreach=True.",
)
def unfused_optimizer(tables: Tables) -> Finding:
    """Samples of Python's stacks inside of PyTorch's loop over single parameters (``_single_tensor_…``).

    Numerator: their share of the launching thread's samples, in percent. Gain: as much of the iteration, but
    no more than the GPU idles; cautious: half of it. In traces of torch.profiler kernels tell it.
    """
    report = tables.report
    if not isinstance(report, SampledReport) or not len(report.python_samples()):
        raise CannotJudgeError("there are no samples of Python's stacks (record with --python-sampling=true)")
    share, where = tables.optimizer
    most = min(share, tables.ledger.side("idle") / max(tables.ledger.each_ns, 1))
    host = tables.replay.host
    return cause(
        tables,
        Gain(0.9 * most, most / 2, most),
        f"the launching thread spends {percent(share)} of the iterations in an update parameter by parameter "
        "(_single_tensor_…)" + (f"; {told}" if (told := told_lines(where)) else ""),
        100 * share,
        "percent of samples in the update of single parameters",
        pd.DataFrame({"share": [share], "thread": [host.main]}),
        enough=share >= 0.05,
    )
