"""The questions of the language-model case study: captures and records of `transformer` runs in, tables out.

A record is what the program says of its own run (`labcode.store.CaptureSet.record`); of its lists the last
steps are those that the profiler saw (``parameters.window``), and ``warmup_…`` come before all others.
"""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from labcode.analysis.lm import attribution
from labcode.analysis.lm import parts as lm_parts
from labcode.analysis.timeline.nvtx import project
from labcode.errors import InputError
from labcode.reports.nsys.report import NsysReport

Record = Mapping[str, Any]
WARM_UPS = (0, 1, 2, 5)
STEPS = 10


def end_to_end(
    record: Record, *, warm_ups: Sequence[int] = WARM_UPS, steps: int = STEPS, clock: str = "host"
) -> pd.DataFrame:
    """Mean and standard deviation of each pass over ``steps`` steps after so many warm-up steps.

    pass; warm_up; steps; mean_ms; std_ms (of a sample; nan for one step); least_ms, most_ms. All from one
    run: its warm-up steps are taken for measured ones where fewer are asked for. ``clock`` is 'host' or
    'event'. A warm-up longer than the run's own is left out.
    """
    results = record["results"]
    rows = []
    for name in attribution.PASSES:
        measured = results.get(f"{name}_{clock}_ms", [])
        early = results.get(f"warmup_{name}_{clock}_ms", [])
        for warm_up in warm_ups:
            values = [*early, *measured][warm_up : warm_up + steps]
            if warm_up > len(early) or not values:
                continue
            spread = statistics.stdev(values) if len(values) > 1 else float("nan")
            rows.append(
                (name, warm_up, len(values), statistics.fmean(values), spread, min(values), max(values))
            )
    columns = ["pass", "warm_up", "steps", "mean_ms", "std_ms", "least_ms", "most_ms"]
    return pd.DataFrame(rows, columns=columns)


def range_against_host(report: NsysReport, record: Record, name: str = "forward") -> pd.DataFrame:
    """A pass as its NVTX range times it, against the program's own clocks, for each profiled step.

    step (its number among the measured ones); range_ms (the NVTX range on the CPU); host_ms, event_ms (the
    program's; nan where it has no events); gpu_span_ms, gpu_busy_ms (of what the range launched); difference
    (range_ms / host_ms − 1). Raises `InputError` when capture and record do not belong together.
    """
    ranges = report.nvtx()
    low, high = report.window()
    inside = ranges[(ranges["start_ns"] >= low) & (ranges["start_ns"] < high) & (ranges["name"] == name)]
    found = project(inside, report.api(), report.gpu_ops()).sort_values("start_ns")
    host = record["results"].get(f"{name}_host_ms", [])
    if len(found) == 0 or len(found) > len(host):
        raise InputError(
            f"{report.path}: holds {len(found)} ranges {name!r} and the record times {len(host)}; "
            "name a capture and the record of the same run"
        )
    first = len(host) - len(found)
    events = record["results"].get(f"{name}_event_ms") or [float("nan")] * len(host)
    table = pd.DataFrame(
        {
            "step": range(first, len(host)),
            "range_ms": found["duration_ns"].to_numpy() / 1e6,
            "host_ms": host[first:],
            "event_ms": events[first:],
            "gpu_span_ms": found["span_ns"].to_numpy() / 1e6,
            "gpu_busy_ms": found["busy_ns"].to_numpy() / 1e6,
        }
    )
    return table.assign(difference=table["range_ms"] / table["host_ms"] - 1)


def most_expensive(report: NsysReport, steps: int) -> pd.DataFrame:
    """The kernel with the most GPU time: in each pass, and in all passes of the run ('all').

    pass; name; bucket; operations; per_step; time_ns; share (of the pass).
    """
    found = attribution.attribute(lm_parts.operations(report))
    found = found[found["kind"] == "kernel"]
    whole = attribution.kernels(found.assign(**{"pass": "all"}), steps=steps)
    each = attribution.kernels(found[found["pass"] != ""], steps=steps)
    table = pd.concat([whole, each], ignore_index=True).drop_duplicates("pass", ignore_index=True)
    return table[["pass", "name", "bucket", "operations", "per_step", "time_ns", "share"]]


def shares(runs: Mapping[str, NsysReport]) -> pd.DataFrame:
    """Shares of GPU time by bucket, a column for each run (such as inference and a training step).

    The index is the bucket, those with the largest share in the last run first; 0 where a run has none.
    """
    columns = {}
    for name, report in runs.items():
        table = attribution.buckets(attribution.attribute(lm_parts.operations(report)))
        columns[name] = table.set_index("bucket")["share"]
    table = pd.DataFrame(columns).fillna(0.0)
    return table.sort_values(list(columns)[::-1], ascending=False) if columns else table


def attention_parts(report: NsysReport, record: Record) -> pd.DataFrame:
    """The parts of attention in a forward pass, time beside FLOPs: see `attribution.attention`."""
    steps = record["parameters"].get("window") or record["parameters"]["steps"]
    found = attribution.attribute(lm_parts.operations(report))
    return attribution.attention(found, record["results"]["flops"], steps=steps)
