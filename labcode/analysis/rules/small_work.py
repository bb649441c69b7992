"""Rules about kernels that cost more to ask for than to do: the tables of a capture in, findings out."""

from labcode.analysis.rules.finding import Finding, rule
from labcode.analysis.rules.tables import LAUNCHES, Tables
from labcode.analysis.timeline import intervals
from labcode.analysis.timeline.joins import duration_ns, named_like, spans
from labcode.analysis.timeline.summary import kernel_summary
from labcode.show import time_text

TINY_SHARE = 0.10
TINY_NS = 3_000  # where no launch call says what is tiny: about what launching one kernel takes


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
