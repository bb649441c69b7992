"""Rules about work that a GPU does slower than it could: the tables of a capture in, findings out."""

import re
from collections.abc import Callable

import numpy as np
import pandas as pd

from labcode.analysis.ledger import replay
from labcode.analysis.ledger.ledger import rows_on
from labcode.analysis.ledger.replay import Gain, Program
from labcode.analysis.ledger.view import CODE
from labcode.analysis.rules.finding import CannotJudgeError, Finding, rule
from labcode.analysis.rules.predicted import Change, cause, gain_of, lines_of_kernels, owned
from labcode.analysis.rules.tables import Tables, top
from labcode.analysis.timeline.joins import duration_ns, named_like, spans
from labcode.reports.columns import AnyInts, Bools, Floats, Ints
from labcode.reports.frames import codes_of, rows_of
from labcode.show import percent, time_text

TENSOR_SHARE, REAL = 0.05, 0.7  # of an iteration; of its peak a good kernel reaches
# Kernels that compute in fp64, by what their names say: of cuBLAS and CUTLASS the product, of templates the
# first type. A ``double`` farther back is a number handed over, as the learning rate to an optimizer in fp32.
DOUBLE = r"_f64f64_|d884gemm|(?i:(?<![a-z])dgemm)|<(?:\(?int\)?\d+, )*double\b|^\w+<int, int, double\b"
DOUBLE_SHARE, HALF = 0.05, 0.5  # of an iteration; of the bytes, which fp32 moves
CHAIN = 2  # elementwise kernels in a row that one could do
PLAIN_REDUCTION = r"reduce_kernel"
# Distances of all to all: a difference of tensors that are not of one shape, squared, summed.
DISTANCES = (
    r"(?<!vectorized_)(?<!unrolled_)elementwise_kernel<.*CUDAFunctor_add",
    "pow_tensor_scalar",
    r"reduce_kernel<.*sum_functor",
)
A_PRODUCT = (
    "These are squares of differences, summed: distances of all to all, formed by broadcasting. A matrix "
    "product gives them without writing a difference for each pair and dimension: torch.cdist, or "
    "a² − 2 a·b + b² by torch.addmm."
)
ATTENTION = (
    "This is attention, written out: F.scaled_dot_product_attention computes scores, softmax and product in "
    "one kernel, and no scores go through the memory; a mask is its attn_mask, a causal one is_causal=True. "
    "Other chains torch.compile fuses."
)
RANDOM = r"distribution_elementwise|curand"  # kernels that make random numbers
FUSED_NS = 2_000  # the least that a kernel takes
FEW = 0.5  # of the SMs that have a block
SHORT_NS = 3_000  # a kernel that short has nothing to gain from more blocks
ATOMIC = (
    r"(?i)indexing_backward|index_put|scatter_?add|scatter_gather|embedding_(?:dense_)?backward|"
    r"compute_grad_weight|sum_and_scatter|atomic|bincount|histogram|index_add|kernelHistogram|"
    r"_scatter_gather_elementwise|indexFunc(?:Small|Large)Index"
)
ATOMIC_SHARE = 0.05
FOREACH, NO_STEP = r"multi_tensor_apply_kernel", r"Fused|Norm|NonFinite|Copy|Zero"
# of a functor over lists of tensors: how many lists there are, how many are read, which is written
LISTS = re.compile(r"Functor<[^<>,]+, (?:\(int\))?\d+, (?:\(int\))?(\d+), (?:\(int\))?\d+")
ADAM = r"Sqrt"
ADAM_ACCESSES, SGD_ACCESSES = 7, 5  # of a parameter, its gradient and its states
LEAST_ACCESSES = 3  # of an optimizer without states
INTO_ROWS = r"sum_and_scatter|embedding_backward_(?:feature_)?kernel"  # the last kernel of a table's gradient
FILL = r"FillFunctor|(?i:^\[?memset)"
NEAR = 24  # operations from the zeros of a gradient to what is added to them
# Normalizations that read NCHW: a block for each channel; those of NHWC spread over all SMs.
BLOCK_A_CHANNEL = r"batch_norm_\w+_kernel(?!_channels_last)\b|\bbn_\w+NCHW"
NHWC = r"(?i)nchw_?to_?nhwc|nchw2nhwc"


def _told_kernels(table: pd.DataFrame) -> pd.DataFrame:
    """Kernels together by name: count, total_ns, the most first."""
    found = table.assign(duration_ns=duration_ns(table)).groupby("short_name")["duration_ns"]
    rows = found.agg(["size", "sum"]).reset_index()
    return top(rows.rename(columns={"short_name": "name", "size": "count", "sum": "total_ns"}), "total_ns")


def _mine(tables: Tables) -> tuple[pd.DataFrame, Ints]:
    """The kernels of the worst GPU in its window, and the owner of each."""
    tables.need_busy()
    tables.need_kernels()
    return tables.worst_kernels


def scaled(chosen: Callable[[Program], Bools], factor: float) -> Change:
    """A change that makes some kernels take a fraction of their time."""
    return lambda p: replay.with_lengths(p, np.where(chosen(p), p.length * factor, p.length))


@rule(
    "no-tensor-cores",
    title="Matmuls in fp32 that use no tensor cores",
    book="lm/precision",
    advice="torch.set_float32_matmul_precision('high') (TF32), or bf16 by torch.autocast; for convolutions "
    "torch.backends.cudnn.allow_tf32.",
)
def no_tensor_cores(tables: Tables) -> Finding:
    """Kernels whose names say that they multiply in fp32 on the ordinary cores.

    By name alone (``sgemm``, ``simt``, ``ffma``): a kernel that hides what it does is not found. Numerator:
    their time on the worst GPU. Gain: the replay in which they run at the rate of the tensor cores, as the
    data sheet promises it against fp32, of which seven tenths are reached; cautious: at twice the rate, as
    where memory bounds them.
    """
    kernels, owner = _mine(tables)
    slow = kernels[owner == CODE["no-tensor-cores"]]
    spent = int(duration_ns(slow).sum())
    spec = tables.spec
    name = _name(tables)
    best, advice = _tensor_rate(tables)
    if best is None:
        return cause(
            tables,
            Gain(0.0, 0.0, 0.0),
            f"{len(slow):,} kernels multiply in fp32; {name or 'this GPU'} has no tensor cores that could",
            spent,
            "ns in which kernels multiply in fp32 on the ordinary cores of the worst GPU",
            _told_kernels(slow),
            enough=False,
        )
    factor = min(max((spec.fp32 if spec else 1.0) * 1e12 / best / REAL, 0.02), 0.9) if spec else 0.25

    def chosen(program: Program) -> Bools:
        return owned(tables, program, "no-tensor-cores")

    gain = gain_of(tables, scaled(chosen, factor), scaled(chosen, max(factor, 0.5)), spent / tables.width)
    took = tables.told(spent, tables.ledger)
    message = f"{len(slow):,} kernels multiply in fp32 without tensor cores, for {took}"
    if spent and spec:
        message += f"; {spec.name} promises {best / (spec.fp32 * 1e12):.3g} × the rate with them"
    message += _where(tables, slow)
    return cause(
        tables,
        gain,
        message,
        min(spent, tables.width),
        "ns in which kernels multiply in fp32 on the ordinary cores of the worst GPU",
        _told_kernels(slow),
        enough=spent >= TENSOR_SHARE * tables.width,
        advice=advice,
    )


@rule(
    "double-precision",
    title="The GPU computes in fp64",
    book="lm/precision",
    advice="NumPy's arrays are float64 unless told otherwise: torch.from_numpy(a).float(), dtype=np.float32, "
    "model.float(); keep fp64 for what needs its digits. Matmuls in fp32 are faster still with "
    "torch.set_float32_matmul_precision('high') (TF32).",
)
def double_precision(tables: Tables) -> Finding:
    """Kernels whose names say that they compute in fp64: matmuls of libraries, templates of PyTorch.

    Numerator: their time on the worst GPU. Gain: the replay in which they take half as long, for fp32 moves
    half of the bytes, and matmuls as long as on the tensor cores in TF32, by the rates of the data sheet, of
    which seven tenths are reached; cautious: all take three quarters.
    """
    kernels, owner = _mine(tables)
    is_slow = named_like(kernels["name"], DOUBLE)
    slow, products = kernels[is_slow], np.isin(owner[is_slow], [CODE["matmul"], CODE["no-tensor-cores"]])
    spent = int(duration_ns(slow).sum())
    spec, (best, _) = tables.spec, _tensor_rate(tables)
    rate = spec and (spec.peak("fp64_tensor") or spec.peak("fp64"))
    product = min(max(rate / best / REAL, 0.02), HALF) if rate and best else HALF

    def shorter(program: Program, factor: float, of_product: float) -> Program:
        chosen = named_like(tables.view.ops["name"].iloc[program.op], DOUBLE)
        less = np.where(owned(tables, program, "matmul", "no-tensor-cores"), of_product, factor)
        return replay.with_lengths(program, np.where(chosen, program.length * less, program.length))

    saved = float((duration_ns(slow) * (1 - np.where(products, product, HALF))).sum())
    return cause(
        tables,
        gain_of(
            tables,
            lambda p: shorter(p, HALF, product),
            lambda p: shorter(p, (1 + HALF) / 2, (1 + HALF) / 2),
            saved / tables.width,
        ),
        f"{len(slow):,} kernels compute in fp64, for {tables.told(spent, tables.ledger)}"
        + _where(tables, slow),
        min(spent, tables.width),
        "ns in which kernels compute in fp64 on the worst GPU",
        _told_kernels(slow),
        enough=spent >= DOUBLE_SHARE * tables.width,
    )


def _where(tables: Tables, kernels: pd.DataFrame) -> str:
    """Which lines launched kernels, as the end of a message."""
    where = lines_of_kernels(tables, kernels)
    return f"; {where}" if where else ""


def _name(tables: Tables) -> str:
    names = tables.report.gpus()["name"]
    return str(names.iloc[0]) if len(names) else ""


def _tensor_rate(tables: Tables) -> tuple[float | None, str]:
    """The rate of the tensor cores for what fp32 can be replaced with, and what to do on this GPU."""
    spec = tables.spec
    capability = tables.report.gpus()["compute_capability"]
    text = spec.cc if spec else str(capability.iloc[0]) if len(capability) else ""
    try:
        major = float(text)
    except ValueError:
        major = 8.0
    if major >= 8:
        return (spec.peak("tf32_tensor") or spec.peak("fp16_tensor")) if spec else 1.0, ""
    if major >= 7:
        return (spec.peak("fp16_tensor") if spec else 1.0), (
            "fp16 by torch.autocast(dtype=torch.float16) with a GradScaler: the tensor cores of this "
            "GPU know "
            "neither TF32 nor bf16."
        )
    return None, ""


@rule(
    "unfused-elementwise",
    title="Chains of small operations that one kernel could do",
    book="nsys/patterns",
    advice="torch.compile fuses them; or use the fused operator that there is (F.layer_norm, F.gelu, "
    "F.cross_entropy, scaled_dot_product_attention, fused optimizers).",
)
def unfused_elementwise(tables: Tables) -> Finding:
    """Elementwise kernels, casts and reductions that follow each other on one stream.

    Numerator: the time of such chains of two or more. Each of them reads and writes the memory anew; fused,
    the data move once per pass, and a pass ends where a kernel reduces. Gain: the replay in which a pass
    takes as long as its longest kernel, or as all that make random numbers, and is launched once, and the
    scores of attention (a softmax between two matmuls, alone or with such kernels around it) take no time;
    cautious: half of that. That the matmuls need not read and write scores either is not promised. No more
    than the chains take: what fewer launches save beyond that is told as launch-bound.
    """
    kernels, owner = _mine(tables)
    part = np.isin(owner, [CODE[one] for one in ("elementwise", "layout", "reduction")])
    edges = tables.ledger.edges[0]
    scores = _scores(kernels, part, np.isin(owner, [CODE["matmul"], CODE["no-tensor-cores"]]), edges)
    chain = _chains(kernels, part, edges, scores)
    number = _passes(kernels, chain, owner == CODE["reduction"])
    lengths = duration_ns(kernels).astype(np.float64)
    spent = int(lengths[chain >= 0].sum())
    of_scores = int(lengths[scores].sum())
    saved = spent - int(_fused(np.where(scores, 0.0, lengths), number, kernels["name"]).sum())

    def fused(program: Program, keep: float) -> Program:
        ops = tables.view.ops.iloc[program.op]
        inside = owned(tables, program, "elementwise", "layout", "reduction", "copy")
        scores = _scores(ops, inside, owned(tables, program, "matmul", "no-tensor-cores"), edges)
        where = _chains(ops, inside, edges, scores)
        one = _passes(ops, where, owned(tables, program, "reduction"))
        first = np.append(True, one[1:] != one[:-1])[: len(one)] | (one < 0)
        fewer = np.where(scores, 0.0, np.append(_fused(program.length, one, ops["name"]), 0.0)[one])
        length = np.where(one >= 0, np.where(first, fewer, 0.0), program.length)
        if keep:
            return replay.with_lengths(program, program.length * keep + length * (1 - keep))
        return replay.with_lengths(replay.without_ops(program, (one >= 0) & ~first), length)

    count = int(chain.max(initial=-1)) + 1
    gain = gain_of(tables, lambda p: fused(p, 0.0), lambda p: fused(p, 0.5), spent / tables.width)
    table = kernels[chain >= 0]
    members = int((chain >= 0).sum())
    distances = lengths[_distances(kernels, chain)].sum() >= spent / 2
    return cause(
        tables,
        gain,
        f"{members:,} elementwise kernels, casts and reductions follow each other in {count:,} chains of "
        f"{members / max(count, 1):.3g}; they take {tables.told(spent, tables.ledger)}, of which "
        "fused ones would "
        f"save {time_text(saved / max(tables.ledger.count, 1))} of the GPU's time"
        + (
            f"; {tables.told(of_scores, tables.ledger)} of these are the scores of attention, a softmax "
            "between two matmuls"
            if of_scores
            else ""
        )
        + _where(tables, table),
        min(spent, tables.width),
        "ns in chains of elementwise kernels on the worst GPU",
        _told_kernels(table),
        enough=count > 0 and saved >= 0.03 * tables.width,
        advice=A_PRODUCT if distances else ATTENTION if of_scores >= saved / 2 > 0 else "",
    )


@rule(
    "optimizer-passes",
    title="The optimizer goes through the memory in many passes",
    book="pytorch/bottleneck-hunt",
    advice="Give the optimizer fused=True: one pass over parameters, gradients and states.",
)
def optimizer_passes(tables: Tables) -> Finding:
    """Kernels over lists of tensors, as PyTorch's ``foreach`` optimizers run: one per operation of a step.

    Each reads and writes whole lists; their names tell how many. Numerator: their time. Gain: the replay in
    which they take as long as a step that touches each list once, at the same bytes per second: parameters,
    gradients and both states read, all but the gradients written (Adam: 7 accesses; with one state 5);
    cautious: half of what is saved.
    """
    kernels, _ = _mine(tables)
    steps = kernels[_of_step(kernels["name"])]
    read = [found for name in steps["name"].unique() if (found := LISTS.search(str(name)))]
    accesses = sum(int(found[1]) + 1 for found in read)
    fused = ADAM_ACCESSES if named_like(steps["name"], ADAM).any() else SGD_ACCESSES
    factor = min(fused / max(accesses, 1), 1.0)
    spent = int(duration_ns(steps).sum())

    def chosen(program: Program) -> Bools:
        return _of_step(tables.view.ops["name"].iloc[program.op])

    gain = gain_of(
        tables, scaled(chosen, factor), scaled(chosen, (1 + factor) / 2), spent * (1 - factor) / tables.width
    )
    return cause(
        tables,
        gain,
        f"{len(read)} operations of an optimizer, a kernel each, read and write {accesses} lists of tensors "
        f"where {min(fused, accesses)} would do; they take {tables.told(spent, tables.ledger)}"
        + _where(tables, steps),
        min(spent, tables.width),
        "ns in kernels of the optimizer over lists of tensors on the worst GPU",
        _told_kernels(steps),
        enough=factor < 1.0,
    )


@rule(
    "dense-embedding",
    title="A whole embedding table is updated, of which few rows were looked up",
    book="pytorch/bottleneck-hunt",
    advice="nn.Embedding(sparse=True), with SparseAdam or SGD for the table and the usual optimizer for the "
    "rest; not for a table that is the output layer, too (tied weights): all of its rows have a gradient.",
)
def dense_embedding(tables: Tables) -> Finding:
    """Zeros for the gradient of a whole embedding, few rows of which are then added to, and an update of all.

    To write the zeros takes so long for all rows; the kernel that adds to the rows looked up writes these at
    least, so no greater share of the table has a gradient than its time is of theirs. Numerator: the time of
    the zeros, as far as rows stay untouched, and of the update of such rows: as many passes over them as the
    optimizer makes, at seven tenths of the rate of the zeros, and no more than the optimizer takes. Gain: the
    replay without both; cautious: half of it.
    """
    _mine(tables)
    ledger, view = tables.ledger, tables.view
    rows = rows_on(view, ledger.device, ledger.window)
    ops = rows_of(view.ops[["name", "start_ns", "end_ns", "context", "stream"]], rows)
    filled, zeros, untouched, updating, updated = _untouched(ops, view.owner[rows])

    def sparse(program: Program, keep: float) -> Program:
        _, zeros, kept, of_step, less = _untouched(view.ops.iloc[program.op], view.owner[program.op])
        length = np.where(zeros, program.length * (1 - kept), program.length)
        length = np.where(of_step, length * (1 - less), length)
        return replay.with_lengths(program, program.length * keep + length * (1 - keep))

    lengths = duration_ns(ops).astype(np.float64)
    saved = float((lengths * untouched)[zeros].sum() + lengths[updating].sum() * updated)
    gain = gain_of(tables, lambda p: sparse(p, 0.0), lambda p: sparse(p, 0.5), saved / tables.width)
    share = 1 - float((lengths * untouched)[zeros].sum() / max(lengths[zeros].sum(), 1.0))
    zeroing, update = (tables.told(lengths[some].sum(), ledger) for some in (zeros, updating))
    return cause(
        tables,
        gain,
        f"{filled:,} times zeros are written for the gradient of a whole embedding table, for {zeroing}, "
        f"though at most {percent(share)} of its rows were looked up; the optimizer goes over all of them "
        f"and takes {update}" + _where(tables, ops[updating])
        if filled
        else "no gradient of a whole embedding table is filled with zeros",
        min(saved, tables.width),
        "ns in which rows of embeddings without a gradient are zeroed and updated on the worst GPU",
        _told_kernels(view.ops.iloc[rows[zeros | updating]]),
        enough=filled > 0 and updated > 0,
        least=0.05,
    )


def _untouched(ops: pd.DataFrame, owner: AnyInts) -> tuple[int, Bools, Floats, Bools, float]:
    """Of operations of a GPU: how many gradients of embeddings are filled with zeros; which operations write
    these; for each at least which share of the rows is not added to; which operations are the optimizer's,
    and the share of their time that such rows take.
    """
    names = ops["name"]
    length = duration_ns(ops).astype(np.float64)
    adding = named_like(names, INTO_ROWS)
    zeros, untouched = np.zeros(len(ops), np.bool_), np.zeros(len(ops))
    updating = np.asarray(owner == CODE["optimizer"], np.bool_)
    if not adding.any():
        return 0, zeros, untouched, updating, 0.0
    order = np.lexsort(tuple(ops[name].to_numpy(np.int64) for name in ("start_ns", "stream", "context")))
    adds = np.flatnonzero(adding[order])
    stream = ops["stream"].to_numpy(np.int64)[order]
    place = np.arange(len(ops))
    which = np.minimum(np.searchsorted(adds, place), len(adds) - 1)  # the gradient that is added to next
    near = (adds[which] >= place) & (adds[which] - place <= NEAR) & (stream[adds[which]] == stream)
    near &= named_like(names, FILL)[order]
    fill = np.bincount(which[near], length[order][near], len(adds))
    share = np.maximum(1 - length[order][adds] / np.maximum(fill, 1.0), 0.0)
    zeros[order[near]] = True
    untouched[order[near]] = share[which[near]]
    distinct = names[updating].unique()
    read = [int(found[1]) + 1 for name in distinct if (found := LISTS.search(str(name)))]
    fused = ADAM_ACCESSES if any("FusedAdam" in str(name) for name in distinct) else LEAST_ACCESSES
    passes = max(sum(read), fused)
    spent = float(length[updating].sum())
    rows = passes * float((fill * share).sum()) / REAL
    return int((fill > 0).sum()), zeros, untouched, updating, min(rows / spent, 1.0) if spent else 0.0


def _of_step(names: pd.Series) -> Bools:
    """Which names are of kernels over lists of tensors that a fused step makes unnecessary."""
    return np.asarray(named_like(names, FOREACH) & ~named_like(names, NO_STEP), np.bool_)


def _runs(ops: pd.DataFrame, part: Bools, edges: Ints) -> tuple[Ints, Ints, Bools]:
    """Operations by stream and time (their places); of each there the number of its run of ``part`` on its
    stream, -1 outside; whether it is the first of its stream or iteration (``edges``: when they begin).
    """
    start, context, stream = (ops[name].to_numpy(np.int64) for name in ("start_ns", "context", "stream"))
    place = np.lexsort((start, stream, context))
    iteration = np.searchsorted(np.sort(edges), start[place], "right")
    another = np.append(True, np.diff(iteration) != 0)[: len(ops)]
    for column in (context, stream):
        another[1:] |= np.diff(column[place]) != 0
    inside = part[place]
    run = np.cumsum(inside & (~np.append(False, inside[:-1])[: len(ops)] | another)) - 1
    return place, np.where(inside, run, -1), another


def _scores(ops: pd.DataFrame, part: Bools, product: Bools, edges: Ints) -> Bools:
    """Which operations are of a run with one softmax that lies between two matmuls: attention by hand.

    Where the run holds softmax and its gradient, it is a loss: the backward pass begins there; one with many
    is a loop of them. A run that ends with its iteration is an output.
    """
    soft = named_like(ops["name"], r"(?i)softmax") & part
    if not soft.any():
        return np.zeros(len(ops), np.bool_)
    place, run, another = _runs(ops, part, edges)
    multiplies = product[place]
    before = np.append(False, multiplies[:-1]) & ~another
    after = np.append(multiplies[1:] & ~another[1:], False)
    count = int(run.max()) + 2  # the last is of what lies outside

    def of(some: Bools) -> Ints:
        return np.bincount(run[some & (run >= 0)], minlength=count)

    found = (of(before) > 0) & (of(after) > 0) & (of(soft[place]) == 1)
    scores = np.zeros(len(ops), np.bool_)
    scores[place] = found[run]
    return scores


def _chains(ops: pd.DataFrame, part: Bools, edges: Ints, scores: Bools | None = None) -> Ints:
    """For each operation the number of its chain on its stream, -1 for none.

    A chain ends where an iteration does (``edges``: when they begin), for the next one's data are others. One
    and the same kernel again and again is no chain but a loop. What is of ``scores`` is one, even alone.
    """
    found = np.full(len(ops), -1, np.int64)
    if not part.any():
        return found
    codes, _ = codes_of(ops["name"])
    place, run, _ = _runs(ops, part, edges)
    inside = run >= 0
    counts = np.bincount(run[inside])
    least, most = np.full(len(counts), len(codes)), np.full(len(counts), -1)
    np.minimum.at(least, run[inside], codes[place][inside])
    np.maximum.at(most, run[inside], codes[place][inside])
    kept = (counts >= CHAIN) & (least < most)
    if scores is not None:
        kept[run[scores[place]]] = True
    long = inside & kept[np.maximum(run, 0)]
    found[place[long]] = np.unique(run[long], return_inverse=True)[1]
    return found


def _passes(ops: pd.DataFrame, chain: Ints, reduces: Bools) -> Ints:
    """For each operation of a chain the number of its pass over the data, -1 for none.

    A pass ends with a kernel that reduces, for what follows needs its result, which is there when all data
    have been read: they must be read again. A fused operator of a library (softmax, a normalization) is a
    pass of its own: it is what chains are to be replaced with.
    """
    alone = reduces & ~named_like(ops["name"], PLAIN_REDUCTION)
    order = np.lexsort((ops["start_ns"].to_numpy(np.int64), chain))
    order = order[chain[order] >= 0]
    begins = np.append(True, (np.diff(chain[order]) != 0) | reduces[order][:-1] | alone[order][1:])[
        : len(order)
    ]
    found = np.full(len(ops), -1, np.int64)
    found[order] = np.cumsum(begins) - 1
    return found


def _distances(ops: pd.DataFrame, chain: Ints) -> Bools:
    """Which operations of chains are the three of `DISTANCES`, one after another, each perhaps in parts."""
    found = np.zeros(len(ops), np.bool_)
    hits = [named_like(ops["name"], pattern) & (chain >= 0) for pattern in DISTANCES]
    if not all(one.any() for one in hits):
        return found
    order = np.lexsort((ops["start_ns"].to_numpy(np.int64), chain))
    order = order[chain[order] >= 0]
    step = np.full(len(order), -1)
    for number, one in enumerate(hits):
        step[one[order]] = number
    first = np.flatnonzero(np.append(True, (np.diff(step) != 0) | (np.diff(chain[order]) != 0))[: len(order)])
    group = np.zeros(len(order), np.int64)
    group[first[1:]] = 1
    group = np.cumsum(group)
    kind, of = step[first], chain[order][first]
    begins = (kind[:-2] == 0) & (kind[1:-1] == 1) & (kind[2:] == 2) & (of[:-2] == of[2:])
    inside = np.zeros(len(first), np.bool_)
    for number in range(len(DISTANCES)):
        inside[np.flatnonzero(begins) + number] = True
    found[order[inside[group]]] = True
    return found


def _fused(length: Floats, number: Ints, names: pd.Series) -> Floats:
    """For each number what one kernel takes for all of its own: the longest, and no less than those that make
    random numbers together, for that is arithmetic, which fusing saves nothing of.
    """
    longest = np.zeros(int(number.max(initial=-1)) + 1)
    inside = number >= 0
    np.maximum.at(longest, number[inside], length[inside])
    makes = inside & named_like(names, RANDOM)
    return np.maximum(longest, np.bincount(number[makes], length[makes], len(longest)))


@rule(
    "small-grids",
    title="Kernels with too few blocks for the GPU",
    book="nsys/kernel-overlap",
    advice="Larger batches; split the reduction over more blocks; run independent kernels on several "
    "streams; "
    "batch small matmuls (bmm).",
)
def small_grids(tables: Tables) -> Finding:
    """Kernels with fewer blocks than half of the GPU's SMs, of 3 µs or more, with no other beside most of it.

    Numerator: their time. Gain: the replay in which they take as much less as there are SMs without a block,
    at least 2 µs; cautious: half of that.
    """
    kernels, _ = _mine(tables)
    sms = _sms(tables)
    blocks, threads = tables.grids
    if not len(blocks):
        raise CannotJudgeError("the capture does not tell the grids of all kernels")
    few = blocks[kernels.index.to_numpy(np.int64)]
    spent_of = duration_ns(kernels)
    alone = _alone(kernels)
    small = (few > 0) & (few < FEW * sms) & (spent_of >= SHORT_NS) & (2 * alone >= spent_of)
    small &= ~np.isin(tables.view.owner[kernels.index.to_numpy(np.int64)], [CODE["communication"]])
    spent = int(alone[small].sum())
    chosen = np.zeros(len(blocks), np.bool_)
    chosen[kernels.index.to_numpy(np.int64)[small]] = True

    def spread(program: Program, keep: float) -> Program:
        length = program.length
        less = np.maximum(length * blocks[program.op] / sms, FUSED_NS)
        less = length * keep + less * (1 - keep)
        return replay.with_lengths(program, np.where(chosen[program.op], less, length))

    gain = gain_of(tables, lambda p: spread(p, 0.0), lambda p: spread(p, 0.5), spent / tables.width)
    table = kernels.assign(blocks=few, threads=threads[kernels.index.to_numpy(np.int64)])[small]
    rows = table.assign(duration_ns=duration_ns(table)).groupby(["short_name", "blocks", "threads"])[
        "duration_ns"
    ]
    evidence = rows.agg(["size", "sum"]).reset_index()
    evidence = top(
        evidence.rename(columns={"short_name": "name", "size": "count", "sum": "total_ns"}), "total_ns"
    )
    return cause(
        tables,
        gain,
        f"{int(small.sum()):,} kernels have blocks for less than half of the {sms} SMs; alone on the "
        "GPU they "
        f"take {tables.told(spent, tables.ledger)}" + _where(tables, kernels[small]),
        min(spent, tables.width),
        "ns in kernels with few blocks on the worst GPU",
        evidence,
        enough=spent >= 0.05 * tables.width,
        least=0.05,
    )


def _sms(tables: Tables) -> int:
    counts = tables.report.gpus()["sm_count"].dropna()
    if not len(counts) or not int(counts.iloc[0]):
        raise CannotJudgeError("the capture does not tell how many SMs the GPU has")
    return int(counts.iloc[0])


def _alone(kernels: pd.DataFrame) -> Ints:
    """For each kernel the time in which no other one runs."""
    start, end = spans(kernels)
    if (end >= start).all() and (start[1:] >= end[:-1]).all():  # on one stream: nothing is to be sorted
        return end - start
    edges = np.concatenate((start, end))
    order = np.argsort(edges, kind="stable")
    edges = edges[order]
    running = np.cumsum(np.where(order < len(start), 1, -1))[:-1]
    single = np.empty(len(edges), np.int64)  # by the place of a begin or an end: time with one up to there
    single[order[:1]] = 0
    single[order[1:]] = np.cumsum(np.where(running == 1, np.diff(edges), 0))
    return single[len(start) :] - single[: len(start)]


@rule(
    "layout-conversions",
    title="Tensors are copied to change their layout",
    book="pytorch/bottleneck-hunt",
    advice="Keep tensors in the layout that the next operator wants: transpose weights once, use "
    "channels_last throughout, avoid .contiguous() after .transpose() in the loop.",
)
def layout_conversions(tables: Tables) -> Finding:
    """Kernels that only bring data into another order, by their names (and, in traces, their operators).

    Strided copies (``.contiguous()``) and conversions between NCHW and NHWC; casts of the dtype do not count.
    Numerator: their time. Gain: the replay without them, as if the next operator read the other layout as
    fast; where convolutions want NHWC, normalizations of NCHW with a block for each of few channels have all
    SMs then; cautious: half of the time of the copies stays.
    """
    kernels, _ = _mine(tables)
    index = tables.relaid()
    some = index[kernels.index.to_numpy(np.int64)]
    spent = int(duration_ns(kernels[some]).sum())
    blocks, _ = tables.grids
    narrow = np.zeros(len(index), np.bool_)
    if len(blocks) and named_like(kernels["name"], NHWC).any():
        narrow = named_like(tables.view.ops["name"], BLOCK_A_CHANNEL) & (blocks > 0) & (blocks < _sms(tables))

    def relaid(program: Program) -> Program:
        less = replay.without_ops(program, index[program.op])
        if not narrow.any():
            return less
        spread = np.maximum(less.length * blocks[program.op] / _sms(tables), FUSED_NS)
        return replay.with_lengths(
            less, np.where(narrow[program.op], np.minimum(spread, less.length), less.length)
        )

    gain = gain_of(
        tables,
        relaid,
        lambda p: replay.with_lengths(p, np.where(index[p.op], p.length / 2, p.length)),
        1.0 if spent else 0.0,
    )
    return cause(
        tables,
        gain,
        f"{int(some.sum()):,} kernels copy tensors into another layout, for "
        f"{tables.told(spent, tables.ledger)}" + _where(tables, kernels[some]),
        min(spent, tables.width),
        "ns in kernels that change the layout on the worst GPU",
        tables.relaid_evidence(kernels[some]),
        enough=spent >= 0.02 * tables.width,
    )


@rule(
    "atomics",
    title="Many threads add to the same places",
    book="nsys/patterns",
    advice="Sum in registers or shared memory first, sort by the index, give embeddings fewer collisions; of "
    "an index that is a mask or a range, use slices or torch.where.",
)
def atomics(tables: Tables) -> Finding:
    """Kernels that add at indices, by their names: gradients of indexing and embeddings, histograms.

    Numerator: their time on the worst GPU. Gain: the replay in which they take a tenth, about what the same
    bytes take without collisions; cautious: half.
    """
    kernels, _ = _mine(tables)
    some = named_like(kernels["name"], ATOMIC)
    spent = int(duration_ns(kernels[some]).sum())

    def chosen(program: Program) -> Bools:
        return named_like(tables.view.ops["name"].iloc[program.op], ATOMIC)

    gain = gain_of(tables, scaled(chosen, 0.1), scaled(chosen, 0.5), spent / tables.width)
    return cause(
        tables,
        gain,
        f"{int(some.sum()):,} kernels add at indices, where threads collide, for "
        f"{tables.told(spent, tables.ledger)}" + _where(tables, kernels[some]),
        min(spent, tables.width),
        "ns in kernels that add at indices on the worst GPU",
        _told_kernels(kernels[some]),
        enough=spent >= ATOMIC_SHARE * tables.width,
    )
