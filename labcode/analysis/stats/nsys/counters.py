"""Reports on the GPU's own counters over time: an open capture in, a table out."""

import pandas as pd

from labcode.analysis.timeline import counters
from labcode.reports.nsys.report import NsysReport


def gpu_metrics_sum(report: NsysReport) -> pd.DataFrame:
    """The GPU's own counters over time: GPU, Samples, Avg … StdDev, Busy Avg, Busy Samples, Metric.

    Of the measured part. Busy: while at least one kernel or graph ran on the GPU.
    """
    found = counters.summary(report)
    names = {
        "device": "GPU",
        "samples": "Samples",
        "mean": "Avg",
        "median": "Med",
        "min": "Min",
        "max": "Max",
    }
    names |= {"std": "StdDev", "busy_mean": "Busy Avg", "busy_samples": "Busy Samples", "metric": "Metric"}
    return found.rename(columns=names)[list(names.values())]


def gpu_metrics_ranges(report: NsysReport) -> pd.DataFrame:
    """The GPU's own counters while the work of each range ran: GPU, Range Instances, Span … Range.

    Of every counter that tells much and is not always 0 the mean, each sample weighted by the share of its
    time that lies between the first operation of a range and its last.
    """
    found = counters.over_ranges(report)
    keys = {"device": "GPU", "instances": "Range Instances", "span_ns": "Span (ns)", "samples": "Samples"}
    found = found.assign(metric=found["metric"].str.replace(r"\s*\[.*%\]$", " (%)", regex=True))
    wide = found.drop_duplicates(["device", "label"])[[*keys, "label"]]
    for metric, mine in found.groupby("metric", sort=False):
        means = mine[["device", "label", "mean"]].rename(columns={"mean": metric})
        wide = wide.merge(means, on=["device", "label"], how="left")
    order = [name for name in wide.columns if name not in (*keys, "label")]
    return wide.rename(columns={**keys, "label": "Range"})[[*keys.values(), *order, "Range"]]
