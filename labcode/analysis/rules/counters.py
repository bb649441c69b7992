"""Rules about what part of a busy GPU works: a capture with the GPU's own counters in, findings out."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labcode.analysis.buckets import bucket_of_name
from labcode.analysis.rules.finding import CannotJudgeError, Finding, rule
from labcode.analysis.rules.tables import Tables, top
from labcode.analysis.timeline import counters as series
from labcode.analysis.timeline.joins import duration_ns, spans
from labcode.reports.columns import Floats
from labcode.reports.nsys.counters import Counter
from labcode.show import percent

UNUSED_SHARE = 0.10
FULL, FULL_SHARE = 80, 0.10  # percent of the peak; of the window
LINK, LINK_SHARE = 50, 0.10
TENSOR, TENSOR_SHARE = 5, 0.10
MOST_NAMES = 20  # kernels in the evidence, those with the most time


@rule(
    "unused-multiprocessors",
    title="The GPU is busy, and most of its multiprocessors are not",
    book="nsys/gpu-metrics",
    advice="Give the kernels of the evidence more blocks: larger batches, a grid over more dimensions, split "
    "long rows or sums; or run independent kernels side by side on several streams.",
)
def unused_multiprocessors(tables: Tables) -> Finding:
    """Time in which kernels run and multiprocessors have no warp, by the counter SMs Active.

    A busy GPU on the timeline may work on one multiprocessor of a hundred. Numerator: the time of kernels, of
    each sample the share of multiprocessors without work, on the GPU with most of it. Bound: the same, as if
    the same work were spread over all of them evenly.
    """
    rows, lost = [], []
    for device, active in _each(tables, series.ACTIVE):
        share = _kernel_share(tables, device, active)
        width = active.until_ns - active.time_ns
        lost.append(float((width * np.maximum(share - active.values / 100, 0)).sum()))
        rows.append((device, series.mean_within(active, share), _by_kernel(tables, device, {"sm": active})))
    worst = int(np.argmax(lost))
    device, mean, table = rows[worst]
    gain = lost[worst] / tables.width
    return tables.finding(
        gain >= UNUSED_SHARE,
        f"while kernels run on GPU {device}, {mean:.0f} % of its multiprocessors have work in the mean; the "
        f"others' share of the window is {percent(gain)}",
        lost[worst],
        "ns of kernels times the share of multiprocessors without work on the worst GPU",
        table.rename(columns={"sm": "sms_active_percent"}),
    )


@rule(
    "memory-saturated",
    title="The GPU's memory gives all it can",
    book="compute/roofline",
    advice="Move fewer bytes: fuse what reads the same tensors (torch.compile), use smaller types, keep what "
    "is read again in cache or shared memory. More arithmetic would be free there.",
)
def memory_saturated(tables: Tables) -> Finding:
    """Time in which reads and writes of DRAM take at least 80 % of its peak.

    Numerator: that time, on the GPU with most of it. Bound: the same, as if the bytes were not moved at all;
    a copy reaches hardly more than nine tenths of the peak.
    """
    found = []
    for device, read in _each(tables, series.DRAM_READ):
        write = series.find(tables.counters, series.DRAM_WRITE, device)
        total = read.values + (
            write.values if write is not None and len(write.values) == len(read.values) else 0
        )
        both = Counter(device, "DRAM [%]", read.time_ns, read.until_ns, total)
        full = _time_in(both, total >= FULL)
        table = _by_kernel(tables, device, {"dram_percent": both})
        found.append((full, device, float(total.mean()), table))
    full, device, mean, table = max(found, key=lambda one: one[:2])
    share = full / tables.width
    return tables.finding(
        share >= FULL_SHARE,
        f"DRAM of GPU {device} moves at least {FULL} % of its peak for {percent(share)} of the window, and "
        f"{mean:.0f} % in the mean",
        full,
        f"ns with DRAM at {FULL} % of its peak or above on the worst GPU",
        table,
    )


@rule(
    "link-saturated",
    title="PCIe or NVLink is full while multiprocessors wait",
    book="nsys/memory-timeline",
    advice="Hide the transfers behind kernels (another stream, pinned memory, buckets), send fewer bytes, or "
    "keep the data on the GPU.",
)
def link_saturated(tables: Tables) -> Finding:
    """Time in which a link carries at least half of what it can and less than half of the SMs have work.

    Numerator: that time, on the GPU with most of it. Bound: the same, as if the transfers were hidden.
    """
    rows = []
    for device, active in _each(tables, series.ACTIVE):
        waiting = active.values < 50
        for pattern in (*series.PCIE, *series.NVLINK):
            link = series.find(tables.counters, pattern, device)
            if link is not None and len(link.values) == len(active.values):
                full = _time_in(link, (link.values >= LINK) & waiting)
                rows.append((device, link.name, full, int(link.values.max(initial=0))))
    if not rows:
        raise CannotJudgeError(_lacking("PCIe or NVLink throughput"))
    columns = ["device", "link", "full_ns", "most_percent"]
    table = top(pd.DataFrame(rows, columns=columns).astype({"link": "str"}), "full_ns")
    first = table.iloc[0]
    share = float(first["full_ns"]) / tables.width
    return tables.finding(
        share >= LINK_SHARE,
        f"{first['link']} of GPU {first['device']} is at least half full for {percent(share)} of the window "
        "with fewer than half of the multiprocessors at work",
        float(first["full_ns"]),
        "ns with a link half full or more and few multiprocessors at work",
        table,
    )


@rule(
    "idle-tensor-cores",
    title="Matmuls run without tensor cores",
    book="lm/precision",
    advice="Multiply in bf16 or fp16 (torch.autocast), or allow TF32 for fp32 "
    "(torch.set_float32_matmul_precision); sizes should be multiples of 8.",
)
def idle_tensor_cores(tables: Tables) -> Finding:
    """Kernels that are products of matrices by their name, during which tensor cores hardly work.

    Hardly: less than 5 % of the time in the mean over a kernel's samples. Numerator: the time of such
    kernels, on the GPU with most of it. Bound: the same; tensor cores make products several times as fast.
    """
    found = []
    for device, tensor in _each(tables, series.TENSOR):
        table = _by_kernel(tables, device, {"tensor_percent": tensor}, most=None)
        products = table[table["name"].map(bucket_of_name) == "matmul"]
        without = products[products["tensor_percent"] < TENSOR].reset_index(drop=True)
        found.append((int(without["time_ns"].sum()), int(products["time_ns"].sum()), device, without))
    without_ns, products_ns, device, table = max(found, key=lambda one: one[:3])
    share = without_ns / tables.width
    return tables.finding(
        share >= TENSOR_SHARE,
        f"matmuls take {percent(products_ns / tables.width)} of the window on GPU {device}; those "
        f"during which tensor cores hardly work take {percent(share)}",
        without_ns,
        "ns of matmuls with tensor cores idle on the worst GPU",
        table,
    )


def _lacking(what: str) -> str:
    return f"there are no samples of {what} in the capture (record with --gpu-metrics-devices=all)"


def _each(tables: Tables, pattern: str) -> list[tuple[int, Counter]]:
    """The counter of each GPU that has it; `CannotJudgeError` where there is none."""
    tables.need_ops()
    devices = sorted({counter.device for counter in tables.counters})
    found = [(device, series.find(tables.counters, pattern, device)) for device in devices]
    some = [(device, counter) for device, counter in found if counter is not None and len(counter.values)]
    if not some:
        raise CannotJudgeError(
            _lacking(pattern.replace("?", "").replace("(?:Bandwidth|Throughput)", "Bandwidth"))
        )
    return some


def _kernels(tables: Tables, device: int) -> pd.DataFrame:
    mine = tables.ops["kind"].isin(["kernel", "graph"]) & (tables.ops["device"] == device)
    some: pd.DataFrame = tables.ops[mine]
    return some


def _kernel_share(tables: Tables, device: int, counter: Counter) -> Floats:
    return series.share_within(counter, spans(_kernels(tables, device)))


def _time_in(counter: Counter, which: NDArray[np.bool_]) -> int:
    return int((counter.until_ns - counter.time_ns)[which].sum())


def _by_kernel(
    tables: Tables, device: int, columns: dict[str, Counter], most: int | None = MOST_NAMES
) -> pd.DataFrame:
    """Kernels of a GPU by name, the most time first, with the mean of counters while each ran.

    device, name, count, time_ns, and a column a counter (percent; missing where no sample tells of them).
    """
    kernels = _kernels(tables, device)
    by = kernels.assign(time_ns=duration_ns(kernels)).groupby("short_name")["time_ns"].agg(["size", "sum"])
    names = top(by.reset_index(), "sum").iloc[:most]
    table = pd.DataFrame(
        {
            "device": device,
            "name": names["short_name"].astype("str"),
            "count": names["size"],
            "time_ns": names["sum"],
        }
    )
    groups = kernels.groupby("short_name").indices
    for column, counter in columns.items():
        table[column] = [
            series.mean_within(counter, series.share_within(counter, spans(kernels.iloc[groups[name]])))
            for name in names["short_name"]
        ]
    return table


LEANS: Mapping[str, tuple[str, ...]] = {  # what each rule judges by
    "unused-multiprocessors": (series.ACTIVE,),
    "memory-saturated": (series.DRAM_READ, series.DRAM_WRITE),
    "link-saturated": (series.ACTIVE, *series.PCIE, *series.NVLINK),
    "idle-tensor-cores": (series.TENSOR,),
}
