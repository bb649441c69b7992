"""Expert rules on traces of ``torch.profiler``: a trace's tables in, findings out.

They stand beside the rules on GPU operations and calls that captures of nsys are judged by.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labcode.analysis.ledger import replay
from labcode.analysis.ledger.replay import Program
from labcode.analysis.ledger.view import SIMT as _SIMT
from labcode.analysis.rules.finding import CannotJudgeError, Finding, rule
from labcode.analysis.rules.predicted import cause, gain_of
from labcode.analysis.rules.tables import Tables, top
from labcode.analysis.rules.without_gpu import host_sentences
from labcode.analysis.timeline import intervals
from labcode.analysis.timeline import links as kineto_links
from labcode.analysis.timeline.joins import in_window, named_like, spans
from labcode.reports.columns import Bools
from labcode.reports.common import STEP
from labcode.reports.kineto.report import KinetoReport
from labcode.show import time_text

READS = r"^aten::(?:item|_local_scalar_dense|nonzero|is_nonzero|equal|masked_select|unique)"
OPTIMIZER = r"^Optimizer\.step#"
SIMT = _SIMT.pattern
COMPILING = (
    r"^(?:cuModuleLoad|cuLibraryLoad|cudaLibraryLoad)|torch/_inductor/compile_fx\.py|"
    r"torch/_dynamo/convert_frame\.py|triton/compiler/compiler\.py|CachingAutotuner"
)
SMALL_NS = 10_000
READ_CALLS, READ_SHARE = 3, 0.05
MANY, UPDATE_SHARE = 20, 0.05
SLOW_FIRST, FIRST_SHARE = 1.5, 0.10
STACKS_NOTE = (
    "{path}: recorded with stacks; each call of a Python function cost the CPU some time, so that the GPU "
    "waited longer than it does without (record without with_stack to judge idle time)"
)


class TraceTables(Tables):
    """What rules look at, of a trace: `Tables`, and every GPU operation with what launched it."""

    def __init__(self, trace: KinetoReport, window: str | None = None) -> None:
        super().__init__(trace, window)
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

    def relaid(self) -> Bools:
        """Besides what kernels' names tell, what ``aten::contiguous`` and ``aten::reshape`` launched."""
        asked = _ancestors(self, r"^aten::(?:contiguous|reshape)$")
        return super().relaid() | (asked & (self.view.ops["kind"] == "kernel").to_numpy())

    def remarks(self) -> Sequence[str]:
        """What is odd about the trace, where its time went without a GPU, what stacks change."""
        without = () if len(self.trace.gpu_ops()) else host_sentences(self.trace)
        stacks = [STACKS_NOTE.format(path=self.trace.path)] if self.trace.metadata().get("with_stack") else ()
        return [*self.trace.warnings, *without, *stacks]

    def relaid_evidence(self, ops: pd.DataFrame) -> pd.DataFrame:
        """By kernel, operator and line."""
        launched = kineto_links.op_kernel_trace(self.trace).iloc[ops.index.to_numpy(np.int64)]
        return _evidence(launched, ["name", "op", "python"])


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
    A fact that names the operators of sync-in-loop. Bound: that time, and no more than the GPUs idle
    (`Tables.idle_bound`).
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
        f"{len(outer):,} operators read results back; the CPU waits in them for {tables.told(worst)}",
        worst,
        "ns of the CPU waiting inside of reading operators, on the thread with most of it",
        _evidence(_with_python(trace, outer), ["name", "python"], "waited_ns"),
        gain=min(share, idle),
        severity="info",
    )


@rule(
    "unfused-optimizer",
    title="The optimizer runs many small kernels",
    book="pytorch/bottleneck-hunt",
    advice="Give the optimizer fused=True (one kernel for all parameters), or foreach=True.",
)
def unfused_optimizer(tables: Tables) -> Finding:
    """Kernels shorter than 10 µs that ``Optimizer.step`` launched, at least twenty per step.

    Numerator: from the first to the last kernel of each update, in steps with so many, on the GPU with most
    of it. Gain: the replay in which they are launched once per update, for a fused update still reads and
    writes every parameter; cautious: half of that.
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
    worst, device, _ = trace.worst(many)
    share = worst / tables.width
    at = trace.view.ops["start_ns"].to_numpy(np.int64)
    chosen = np.isin(at, small["start_ns"].to_numpy(np.int64))

    def fused(program: Program) -> Program:
        some = chosen[program.op]
        kept = replay.without_ops(program, some)
        return replay.with_lengths(kept, program.length)

    gain = gain_of(tables, fused, None, 1.0 if len(many) else 0.0)
    typical = int(many["count"].median()) if len(many) else 0
    message = (
        f"{len(many):,} updates run {typical:,} kernels shorter than {time_text(SMALL_NS)} each (median) and "
        f"take {tables.told(worst)} on GPU {device}"
        if len(many)
        else f"no update runs {MANY} or more kernels shorter than {time_text(SMALL_NS)}"
    )
    return cause(
        tables,
        gain,
        message,
        worst,
        "ns from first to last small kernel of an update on the worst GPU",
        _evidence(small, ["name"]),
        enough=share >= UPDATE_SHARE,
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
