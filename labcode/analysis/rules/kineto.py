"""Expert rules on traces of ``torch.profiler``: a trace's tables in, findings out.

They stand beside the rules on GPU operations and calls that captures of nsys are judged by.
"""

from collections.abc import Callable
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labcode.analysis.rules.finding import CannotJudgeError, Finding, Rule, rule
from labcode.analysis.rules.tables import Tables, percent, time_text, top
from labcode.analysis.timeline import intervals
from labcode.analysis.timeline import links as kineto_links
from labcode.analysis.timeline.joins import in_window, named_like, spans
from labcode.reports.kineto.report import STEP, KinetoReport

READS = r"^aten::(?:item|_local_scalar_dense|nonzero|is_nonzero|equal|masked_select|unique)"
OPTIMIZER = r"^Optimizer\.step#"
# names of matmuls and convolutions in fp32 that use no tensor cores (cuBLAS, cuDNN, CUTLASS)
SIMT = (
    r"(?i)(?:ampere|volta|turing|maxwell)_s(?:gemm|cudnn)|simt_sgemm|implicit_convolve_sgemm|"
    r"f32f32_f32f32_f32|_ffma_|magma_sgemm|gemmSN_\w+<float|gemmk1_kernel<int, float"
)
COMPILING = (
    r"^(?:cuModuleLoad|cuLibraryLoad|cudaLibraryLoad)|torch/_inductor/compile_fx\.py|"
    r"torch/_dynamo/convert_frame\.py|triton/compiler/compiler\.py|CachingAutotuner"
)
SMALL_NS = 10_000
READ_CALLS, READ_SHARE = 3, 0.05
MANY, UPDATE_SHARE = 20, 0.05
SIMT_SHARE, COPY_SHARE, COPIES = 0.05, 0.03, 10
SLOW_FIRST, FIRST_SHARE = 1.5, 0.10
STACKS_NOTE = (
    "{path}: recorded with stacks; each call of a Python function cost the CPU some time, so that the GPU "
    "waited longer than it does without (record without with_stack to judge idle time)"
)


class TraceTables(Tables):
    """What rules look at, of a trace: `Tables`, and every GPU operation with what launched it."""

    def __init__(self, trace: KinetoReport) -> None:
        super().__init__(trace)
        self.trace = trace

    def how(self, option: str) -> str:
        """How to record what an option of nsys records."""
        return "record with ProfilerActivity.CUDA"

    @cached_property
    def marked(self) -> bool:
        """Whether the program says what is to be judged: a range, or the profiler's schedule."""
        return bool(len(self.steps)) or super().marked

    @cached_property
    def steps(self) -> pd.DataFrame:
        """The profiler's steps, by rank and start."""
        marks = self.trace.annotations()
        steps = marks[marks["name"].str.startswith(STEP)]
        return steps.sort_values(["rank", "start_ns"], ignore_index=True)

    @cached_property
    def launched(self) -> pd.DataFrame:
        """`op_kernel_trace` of the window, cut off at its ends, with end_ns and whole_name."""
        table = kineto_links.op_kernel_trace(self.trace)
        whole = self.trace.gpu_ops()["name"].array
        table = table.assign(end_ns=table["start_ns"] + table["duration_ns"], whole_name=whole)
        return in_window(table, self.window)

    def worst(self, table: pd.DataFrame) -> tuple[int, int, int]:
        """Of rows that ran on GPUs: time on the GPU with most of it, that GPU, time on any of them."""
        per_gpu = {
            int(device): intervals.total(*spans(table[table["device"] == device]))
            for device in sorted(table["device"].unique())
        }
        device = max(per_gpu, key=lambda number: per_gpu[number], default=0)
        return per_gpu.get(device, 0), device, intervals.total(*spans(table))


def _trace(tables: Tables) -> TraceTables:
    if not isinstance(tables, TraceTables):
        raise CannotJudgeError("this rule judges traces of torch.profiler")
    return tables


def _evidence(table: pd.DataFrame, by: list[str], ns: str = "duration_ns") -> pd.DataFrame:
    """Rows together by columns: count, time, the most first."""
    grouped = table.groupby(by, sort=True)[ns].agg(["size", "sum"]).reset_index()
    return top(grouped.rename(columns={"size": "count", "sum": "total_ns"}), "total_ns")


@rule(
    "reads-in-loop",
    title="Operators read results back from the GPU",
    book="pytorch/bottleneck-hunt",
    advice="Keep losses and counters on the GPU and read them every hundredth step; replace masks and "
    "nonzero() by torch.where; the evidence names the lines.",
)
def reads_in_loop(tables: Tables) -> Finding:
    """Operators such as ``aten::item`` and ``aten::nonzero``, inside which the CPU waits for the GPU.

    Numerator: the CPU's time in synchronizing calls inside of such operators, of the thread with most of it.
    Bound: that time, and no more than the GPUs idle (`Tables.idle_bound`).
    """
    trace = _trace(tables)
    tables.need_ops()
    ops = trace.trace.ops()
    reads = in_window(ops[named_like(ops["name"], READS)], tables.window)
    waits = tables.waits
    worst, found = 0, []
    for key, mine in reads.groupby(["pid", "tid"]):
        own = waits[(waits["pid"] == key[0]) & (waits["tid"] == key[1])]
        worst = max(worst, intervals.total(*intervals.intersect(*spans(mine), *spans(own))))
        waited = intervals.covered_within(*spans(own), *spans(mine))
        found.append(mine.assign(waited_ns=waited))
    table = pd.concat(found, ignore_index=True) if found else reads.assign(waited_ns=0)
    table = table[table["waited_ns"] > 0]  # an item() of a tensor on the host waits for nothing
    outer = table[intervals.parents(*spans(table)) < 0] if len(table) else table
    idle = tables.idle_bound(*spans(tables.gaps))
    share = worst / tables.width
    return tables.finding(
        len(outer) >= READ_CALLS and share >= READ_SHARE,
        f"{len(outer):,} operators read results back; the CPU waits in them for {percent(share)} of the "
        "window",
        worst,
        "ns of the CPU waiting inside of reading operators, on the thread with most of it",
        _evidence(_with_python(trace, outer), ["name", "python"], "waited_ns"),
        gain=min(share, idle),
    )


@rule(
    "unfused-optimizer",
    title="The optimizer runs many small kernels",
    book="pytorch/bottleneck-hunt",
    advice="Give the optimizer fused=True (one kernel for all parameters), or foreach=True.",
)
def unfused_optimizer(tables: Tables) -> Finding:
    """Kernels shorter than 10 µs that ``Optimizer.step`` launched, at least twenty a step.

    Numerator: from the first to the last kernel of each update, in steps with so many, on the GPU with most
    of it. Bound: the same; a fused update still reads and writes every parameter.
    """
    trace = _trace(tables)
    tables.need_kernels()
    marks = trace.trace.annotations()
    if not named_like(marks["name"], OPTIMIZER).any():
        raise CannotJudgeError("the trace marks no Optimizer.step (no optimizer of torch.optim ran in it)")
    table = trace.launched
    table = table[(table["kind"] == "kernel") & (table["pass"] == "optimizer")]
    updates = marks[named_like(marks["name"], OPTIMIZER)].sort_values("start_ns")
    table = table.assign(called=table["start_ns"] - table["queue_ns"])
    place = np.full(len(table), -1, np.int64)
    for rank, mine in updates.groupby("rank"):
        here = np.flatnonzero((table["rank"] == rank).to_numpy())
        before = np.searchsorted(mine["start_ns"].to_numpy(), table["called"].to_numpy()[here], "right") - 1
        place[here] = np.where(before >= 0, mine.index.to_numpy()[before], -1)
    small = table.assign(update=place)
    small = small[(small["duration_ns"] < SMALL_NS) & (place >= 0)]
    by = small.groupby(["device", "update"])
    spans_of = by.agg(count=("name", "size"), start_ns=("start_ns", "min"), end_ns=("end_ns", "max"))
    many = spans_of[spans_of["count"] >= MANY].reset_index()
    worst, device, anywhere = trace.worst(many)
    share = worst / tables.width
    typical = int(many["count"].median()) if len(many) else 0
    message = (
        f"{len(many):,} updates run {typical:,} kernels shorter than {time_text(SMALL_NS)} each (median) and "
        f"take {percent(share)} of the window on GPU {device}"
        if len(many)
        else f"no update runs {MANY} or more kernels shorter than {time_text(SMALL_NS)}"
    )
    return tables.finding(
        share >= UPDATE_SHARE,
        message,
        worst,
        "ns from first to last small kernel of an update on the worst GPU",
        _evidence(small, ["name"]),
        gain=anywhere / tables.width,
    )


@rule(
    "fp32-without-tensor-cores",
    title="Matmuls in fp32 that use no tensor cores",
    book="lm/precision",
    advice="torch.set_float32_matmul_precision('high') (TF32), or bf16 by torch.autocast; for convolutions "
    "torch.backends.cudnn.allow_tf32.",
)
def fp32_products(tables: Tables) -> Finding:
    """Kernels whose names say that they multiply in fp32 on the ordinary cores.

    By name alone (``sgemm``, ``simt``): a kernel that hides what it does is not found. Numerator: their time
    on the GPU with most of it. Bound: the same, as if tensor cores took no time.
    """
    return _by_kernels(
        tables,
        lambda table: named_like(table["whole_name"], SIMT),
        "kernels multiply in fp32 without tensor cores",
        SIMT_SHARE,
        1,
        ["name", "op"],
    )


@rule(
    "contiguous-copies",
    title="Tensors are copied to change their layout",
    book="pytorch/bottleneck-hunt",
    advice="Keep tensors in the layout that the next operator wants: transpose weights once, use "
    "channels_last throughout, avoid .contiguous() after .transpose() in the loop.",
)
def contiguous_copies(tables: Tables) -> Finding:
    """Kernels and copies that ``aten::contiguous`` and ``aten::reshape`` launched.

    Numerator: their time on the GPU with most of it. Bound: the same, as if the next operator read the
    other layout as fast.
    """
    trace = _trace(tables)
    tables.need_ops()
    names = _ancestors(trace, r"^aten::(?:contiguous|reshape)$")
    return _by_kernels(
        tables,
        lambda table: names[table.index.to_numpy()],
        "operations copy tensors to make them contiguous",
        COPY_SHARE,
        COPIES,
        ["name", "op", "python"],
    )


@rule(
    "slow-first-step",
    title="The first step is slower: warm-up or compilation",
    book="pytorch/profiler",
    advice="Let the schedule skip it: schedule(wait=1, warmup=2, active=…), and call the compiled function "
    "before the profiler starts.",
)
def slow_first_step(tables: Tables) -> Finding:
    """The first recorded step takes half as long again as the median of the others, or compiles.

    Numerator: how much longer it is. There is nothing to gain for the program: the profile is at fault.
    """
    trace = _trace(tables)
    steps = trace.steps
    if steps.groupby("rank").size().max() < 3 if len(steps) else True:
        raise CannotJudgeError("fewer than three profiler steps (call prof.step() after each step)")
    extra, worst, ratio = 0, 0, 1.0
    rows = []
    for rank in sorted(steps["rank"].unique()):
        mine = steps[steps["rank"] == rank]
        length = (mine["end_ns"] - mine["start_ns"]).to_numpy(np.int64)
        usual = float(np.median(length[1:]))
        rows.append((rank, mine["name"].iloc[0], int(length[0]), usual, length[0] / max(usual, 1.0)))
        if length[0] - usual > extra:
            extra, worst, ratio = int(length[0] - usual), int(rank), float(rows[-1][4])
    names = pd.concat(
        [
            table[["name", "start_ns", "end_ns"]]
            for table in (trace.trace.api(), trace.trace.python_functions())
        ]
    )
    first = steps.groupby("rank")["end_ns"].min().max()
    compiling = names[named_like(names["name"], COMPILING) & (names["start_ns"] <= first).to_numpy()]
    built = intervals.total(*spans(compiling))
    message = f"the first step takes {ratio:.3g} × the median of the others (rank {worst})"
    if len(compiling):
        message += f"; {time_text(built)} of the time up to its end go to compiling or loading kernels"
    found = ratio >= SLOW_FIRST and extra / tables.width >= FIRST_SHARE
    table = pd.DataFrame(rows, columns=["rank", "step", "first_ns", "median_of_others_ns", "ratio"])
    return Finding(
        found,
        message,
        extra,
        "ns that the first step is longer than the median of the others",
        tables.width,
        "ns of the window",
        None,
        table,
        "info" if found else "",
    )


@rule(
    "no-steps",
    title="The profiler was not told where steps begin",
    book="pytorch/profiler",
    advice="Give the profiler a schedule and call prof.step() after each step: then warm-up is left out and "
    "steps can be told apart.",
)
def no_steps(tables: Tables) -> Finding:
    """Whether the trace has ``ProfilerStep#`` ranges. There is nothing to gain for the program."""
    trace = _trace(tables)
    count = len(trace.steps)
    ranks = len(trace.trace.ranks)
    without = ranks - trace.steps["rank"].nunique()
    return Finding(
        without > 0,
        f"{without} of {ranks} traces have no profiler steps ({count:,} in all)",
        without,
        "traces without profiler steps",
        ranks,
        "traces",
        None,
        severity="info" if without else "",
    )


@rule(
    "cut-off-trace",
    title="The trace is not whole",
    book="pytorch/profiler",
    advice="Record it again, with fewer steps; leave room on the disk; wait until export_chrome_trace has "
    "returned.",
)
def cut_off_trace(tables: Tables) -> Finding:
    """Files that end early and ranks that are missing. There is nothing to gain for the program."""
    trace = _trace(tables).trace
    files = trace.distributed()
    cut = int((~files["complete"]).sum())
    missing = max(trace.world_size - len(trace.ranks), 0) if len(trace.ranks) > 1 else 0
    total = max(trace.world_size, len(files)) if len(trace.ranks) > 1 else 1
    return Finding(
        cut + missing > 0,
        f"{cut} of {len(files)} traces are cut off; {missing} ranks are missing",
        cut + missing,
        "traces cut off or missing",
        total,
        "ranks",
        None,
        files,
        "high" if cut or missing else "",
    )


def _by_kernels(
    tables: Tables,
    chosen: Callable[[pd.DataFrame], NDArray[np.bool_]],
    what: str,
    least_share: float,
    least_count: int,
    by: list[str],
) -> Finding:
    """A finding about the GPU time of some operations."""
    trace = _trace(tables)
    tables.need_kernels()
    table = trace.launched
    table = table[chosen(table)]
    worst, device, anywhere = trace.worst(table)
    share = worst / tables.width
    return tables.finding(
        share >= least_share and len(table) >= least_count,
        f"{len(table):,} {what}"
        + (f"; {percent(share)} of the window on GPU {device}" if len(table) else ""),
        worst,
        f"ns in which such {what.split()[0]} run on the worst GPU",
        _evidence(table, by),
        gain=anywhere / tables.width,
    )


def _ancestors(trace: TraceTables, pattern: str) -> NDArray[np.bool_]:
    """For each GPU operation of the trace whether an operator around its launch has such a name."""
    from labcode.analysis.timeline import tree as kineto_tree

    tree = kineto_tree.build(trace.trace, python=False)
    wanted = named_like(tree.events["name"], pattern) & (tree.events["kind"] == "op").to_numpy()
    inside = kineto_links.nearest(tree, wanted) >= 0
    return np.append(inside, False)[kineto_links.launch_events(trace.trace, tree)]


def _with_python(trace: TraceTables, ops: pd.DataFrame) -> pd.DataFrame:
    """Operators with the innermost frame of Python outside of PyTorch; '' where none was recorded."""
    return ops.assign(python=kineto_links.python_lines(trace.trace, ops)).astype({"python": "str"})


TRACE_RULES: tuple[Rule[Tables], ...] = (
    reads_in_loop,
    unfused_optimizer,
    fp32_products,
    contiguous_copies,
    slow_first_step,
    no_steps,
    cut_off_trace,
)
