"""The GPU's own counters beside its timeline: samples and stretches of time in, shares and means out.

A timeline says when kernels ran, a counter what part of the GPU they used. A sample tells of the time until
the next one, which may lie half in a stretch: it counts there by the share of its time that does.
"""

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd

from labcode.analysis.timeline import intervals
from labcode.analysis.timeline.intervals import Spans
from labcode.analysis.timeline.nvtx import project
from labcode.reports.columns import Floats
from labcode.reports.nsys.counters import Counter
from labcode.reports.nsys.report import NsysReport

# What tells most, in the order in which it is shown; each in percent of what the GPU can do.
ACTIVE, ISSUE, TENSOR = r"SMs? Active", r"SM Issue", r"Tensor Active"
DRAM_READ, DRAM_WRITE = r"DRAM Read (?:Bandwidth|Throughput)", r"DRAM Write (?:Bandwidth|Throughput)"
PCIE = (r"PCIe RX Throughput", r"PCIe TX Throughput")
NVLINK = (r"NVLink RX Responses User Data", r"NVLink TX Responses User Data")
SHOWN = (ACTIVE, r"Compute Warps in Flight", ISSUE, TENSOR, DRAM_READ, DRAM_WRITE, *PCIE, *NVLINK)


def find(counters: Sequence[Counter], pattern: str, device: int) -> Counter | None:
    """The counter of a GPU whose name (without unit) matches, in percent; None where there is none."""
    for counter in counters:
        if counter.device == device and counter.unit == "%" and re.fullmatch(pattern, counter.name):
            return counter
    return None


def shown(counters: Sequence[Counter], device: int) -> list[Counter]:
    """The counters of a GPU that tell most, `SHOWN`'s order; those that are always 0 are left out."""
    found = (find(counters, pattern, device) for pattern in SHOWN)
    return [counter for counter in found if counter is not None and counter.values.any()]


def share_within(counter: Counter, spans: Spans) -> Floats:
    """For each sample the share of its time that the spans cover."""
    width = counter.until_ns - counter.time_ns
    covered = intervals.covered_within(*spans, counter.time_ns, counter.until_ns)
    return np.asarray(covered / np.maximum(width, 1), np.float64)


def mean_within(counter: Counter, share: Floats) -> float:
    """The mean of a counter, each sample weighted by a share; nan where all of them are 0."""
    weight = float(share.sum())
    return float((counter.values * share).sum() / weight) if weight else float("nan")


def summary(report: NsysReport, window: tuple[int, int] | None = None) -> pd.DataFrame:
    """Each counter in the window, by default the measured part, and while kernels ran.

    device; metric; samples; mean, median, min, max, std; busy_mean (while at least one kernel or graph ran
    on the GPU), busy_samples (how many samples' time that is); p25, p75. nan where there are none.
    """
    counters, spans = report.counters(), report.kernel_spans()
    window = window or report_window(report, counters)
    none: Spans = np.empty(0, np.int64), np.empty(0, np.int64)
    rows = []
    last, busy = None, np.empty(0)  # counters of a GPU are sampled together
    for counter in (whole.within(window) for whole in counters):
        values, device = counter.values, counter.device
        if not len(values):
            continue
        if last is None or last.device != device or not np.array_equal(last.time_ns, counter.time_ns):
            last, busy = counter, share_within(counter, spans.get(device, none))
        std = float(values.std(ddof=1)) if len(values) > 1 else 0.0
        low, middle, high = np.percentile(values, (25, 50, 75)).tolist()
        rows.append(
            (
                *(device, counter.metric, len(values), float(values.mean()), middle),
                *(int(values.min()), int(values.max()), std, mean_within(counter, busy), float(busy.sum())),
                *(low, high),
            )
        )
    columns = {"device": "int64", "metric": "str", "samples": "int64", "mean": "float64", "median": "float64"}
    columns |= {"min": "int64", "max": "int64", "std": "float64"}
    columns |= dict.fromkeys(("busy_mean", "busy_samples", "p25", "p75"), "float64")
    return pd.DataFrame(rows, columns=list(columns)).astype(columns)


def report_window(report: NsysReport, counters: Sequence[Counter]) -> tuple[int, int]:
    """The measured part; of a capture without events, from the first sample to the last."""
    window = report.window()
    if window[0] < window[1] or not counters:
        return window
    return min(int(c.time_ns[0]) for c in counters), max(int(c.until_ns[-1]) for c in counters)


def over_ranges(report: NsysReport) -> pd.DataFrame:
    """What the counters say of each NVTX range's work: a row for each GPU, label and counter of `shown`.

    device; label; instances; span_ns (from the first to the last operation of a range, the times of all its
    instances together, counted once); samples (how many samples' time that is); metric; mean; max. A range is
    judged where its work ran on the GPU, not where it was asked for.
    """
    counters, ops = report.counters(), report.gpu_ops()
    nvtx, api = report.nvtx(), report.api()
    rows = []
    for device in sorted({counter.device for counter in counters}):
        chosen = shown(counters, device)
        projected = project(nvtx, api, ops[ops["device"] == device])
        for label, mine in projected.groupby("label", sort=False):
            spans = mine["gpu_start_ns"].to_numpy(np.int64), mine["gpu_end_ns"].to_numpy(np.int64)
            for counter in chosen:
                share = share_within(counter, spans)
                inside = counter.values[share > 0]
                rows.append(
                    (
                        *(device, str(label), len(mine), intervals.total(*spans), float(share.sum())),
                        *(counter.metric, mean_within(counter, share), int(inside.max(initial=0))),
                    )
                )
    columns = {"device": "int64", "label": "str", "instances": "int64", "span_ns": "int64"}
    columns |= {"samples": "float64", "metric": "str", "mean": "float64", "max": "int64"}
    return pd.DataFrame(rows, columns=list(columns)).astype(columns)


def binned(counter: Counter, window: tuple[int, int], bins: int) -> Floats:
    """The mean of a counter in each of so many equal parts of the window; nan where there is no sample.

    Where samples are fewer than parts, each fills the time that it tells of.
    """
    edges = window[0] + (np.arange(bins + 1) * (window[1] - window[0])) // bins
    low, high = counter.time_ns, counter.until_ns
    if not len(low):
        return np.full(bins, np.nan)
    # the integral up to each edge: samples fill the time they tell of, one after the other
    area = np.concatenate(([0.0], np.cumsum(counter.values * (high - low))))
    time = np.concatenate((low[:1], high))
    upto = np.interp(edges, time, area)
    known = np.diff(np.clip(edges, time[0], time[-1])).astype(np.float64)
    means = np.full(bins, np.nan)
    np.divide(np.diff(upto), known, out=means, where=known > 0)
    return means
