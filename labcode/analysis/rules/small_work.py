"""Rules about kernels and allocations that cost more to ask for than to do: tables in, findings out."""

import pandas as pd

from labcode.analysis.rules.finding import Finding, rule
from labcode.analysis.rules.tables import LAUNCHES, Tables, percent, time_text, top
from labcode.analysis.timeline import intervals
from labcode.analysis.timeline.joins import duration_ns, in_window, named_like, spans
from labcode.analysis.timeline.summary import kernel_summary

TINY_SHARE = 0.10
TINY_NS = 3_000  # where no launch call says what is tiny: about what launching one kernel takes
ALLOCATING = (
    r"^(?:cuda(?:Malloc|Free|HostAlloc|HostRegister|HostUnregister)|cuMem(?:Alloc|Free|Host))(?!.*Async)"
)
ALLOCATIONS = 10
ALLOCATION_SHARE = 0.02


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
    in tiny kernels that run alone and in the gaps before them, on the GPU with most of it. Bound: the
    same over all GPUs, as if one kernel did the work of all of them in no time; fusing keeps the work,
    so the real gain is smaller.
    """
    tables.need_ops()
    tables.need_kernels()
    launches = named_like(tables.calls["name"], LAUNCHES)
    limit = tables.launch_ns if launches.any() else TINY_NS
    kernels = tables.kernels
    is_tiny = (tables.ops["kind"] == "kernel").to_numpy() & (duration_ns(tables.ops) < limit)
    tiny, rest = tables.ops[is_tiny], tables.ops[~is_tiny]
    gaps = tables.gaps[(tables.gaps["op"] >= 0) & (tables.gaps["duration_ns"] < tables.patience_ns)]
    gaps = gaps[is_tiny[gaps["op"].to_numpy()]]
    worst, device, everywhere = 0, 0, []
    for number in tables.busy["device"].tolist():
        mine = pd.concat(
            [part.loc[part["device"] == number, ["start_ns", "end_ns"]] for part in (tiny, gaps)]
        )
        alone = intervals.subtract(*spans(mine), *spans(rest[rest["device"] == number]))
        everywhere.append(alone)
        spent = intervals.total(*alone)
        if spent > worst:
            worst, device = spent, number
    share = worst / tables.width
    gain = intervals.total(*intervals.joined(everywhere)) / tables.width
    return tables.finding(
        share >= TINY_SHARE,
        f"{len(tiny):,} of {len(kernels):,} kernels take less than {time_text(limit)}; with the short gaps "
        f"before them they hold GPU {device} for {percent(share)} of the window",
        worst,
        "ns in tiny kernels and the gaps before them on the worst GPU",
        kernel_summary(tiny, by="short_name"),
        gain=gain,
    )


@rule(
    "allocation-churn",
    title="Memory is allocated and freed in the steady state",
    book="nsys/patterns",
    advice="Allocate once before the loop and reuse; use cudaMallocAsync or a caching allocator; in PyTorch "
    "look for empty_cache() and for memory so scarce that the cache is given back.",
)
def allocation_churn(tables: Tables) -> Finding:
    """cudaMalloc, cudaFree and their kin after the warm-up; the stream-ordered ones are left out.

    The steady state is all of a window that the program marked, else what follows the first tenth of the
    operations. A driver call inside a runtime call counts once. Numerator: the time in such calls, in the
    process with most of it. Bound: the time in which some process is in such a call or a GPU is in a gap that
    began during one, for cudaFree waits for the GPU.
    """
    tables.need_api()
    steady = tables.steady
    width = max(steady[1] - steady[0], 1)
    calls = in_window(tables.api[named_like(tables.api["name"], ALLOCATING)], steady)
    count, worst = 0, 0
    for _, mine in calls.groupby("pid"):
        worst = max(worst, intervals.total(*spans(mine)))
        for _, thread in mine.groupby("tid"):
            count += int((intervals.parents(*spans(thread)) < 0).sum())
    behind = tables.gaps
    if len(calls) and len(behind):
        began = behind["start_ns"].to_numpy()
        behind = behind[intervals.covered_within(*spans(calls), began, began + 1) > 0]
    else:
        behind = behind.iloc[:0]
    both = pd.concat([calls[["start_ns", "end_ns"]], behind[["start_ns", "end_ns"]]])
    gain = intervals.total(*intervals.clip(*spans(both), steady)) / tables.width
    table = calls.assign(duration_ns=duration_ns(calls))
    columns = ["name", "start_ns", "duration_ns", "pid", "tid", "return_value"]
    return Finding(
        count >= ALLOCATIONS and gain >= ALLOCATION_SHARE,
        f"{count:,} calls allocate or free memory in the steady state, for {percent(worst / width)} of it",
        worst,
        "ns in allocating and freeing calls in the worst process",
        width,
        "ns of the steady state",
        gain,
        top(table[columns], "duration_ns"),
    )
