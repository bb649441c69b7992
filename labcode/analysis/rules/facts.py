"""Rules that state a fact and no cause, and whether a steady state is good: tables in, findings out."""

from collections.abc import Sequence

import numpy as np

from labcode.analysis.rules.finding import CannotJudgeError, Finding, Verdict, rule
from labcode.analysis.rules.tables import LAUNCHES, Tables, top
from labcode.analysis.timeline import intervals
from labcode.analysis.timeline.iterations import COLUMNS
from labcode.analysis.timeline.joins import duration_ns, named_like, spans
from labcode.analysis.timeline.summary import kernel_summary
from labcode.show import percent, time_text

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
_MEMORY = "the bandwidth of the memory: fewer bytes, fewer passes over the data"


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
        kernel_summary(tables.some(is_tiny), by="short_name"),
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


def good(tables: Tables, verdicts: Sequence[Verdict]) -> Verdict:
    """Good is a steady state in which no verdict is more than low, and little time is idle.

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
    is_good = all(one.severity == "low" for one in causes) and idle < (UNEXPLAINED + 0.05) * ledger.each_ns
    table = ledger.table
    busy = table[table["side"] != "idle"].sort_values("total_ns", ascending=False)
    first = str(busy["owner"].iloc[0]) if len(busy) else ""
    bound = _BOUNDS.get(first, _MEMORY)
    message = f"the GPU computes for {percent(computing / max(ledger.each_ns, 1))} of an iteration"
    if most is not None:
        message += f"; the most that a verdict predicts is {percent(most.gain or 0.0)} ({most.rule})"
    if is_good:
        share = float(busy["share"].iloc[0]) if len(busy) else 0.0
        message += f"; next bounds it {bound} ({percent(share)} are {busy['title'].iloc[0]})"
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
