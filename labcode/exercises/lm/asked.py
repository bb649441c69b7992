"""When the program asked for what the GPU did: a report or a record in, the inputs of lm-ex06 out."""

from __future__ import annotations

import statistics
from typing import Any

import pandas as pd

from labcode.analysis.lm.parts import range_paths
from labcode.analysis.timeline.joins import launch_rows
from labcode.reports.nsys.report import NsysReport

PASSES = ("forward", "backward", "optimizer")
_COLUMNS = ["kind", "name", "start_ns", "end_ns", "device", "stream"]


def operations_asked(report: NsysReport) -> pd.DataFrame:
    """The GPU operations of the measured part with ``asked_ns`` and ``path``; those without a call are left
    out.
    """
    window, api = report.window(), report.api()
    ops = report.gpu_ops()
    ops = ops[(ops["end_ns"] > window[0]) & (ops["start_ns"] < window[1])].reset_index(drop=True)
    rows = launch_rows(ops, api)
    paths = range_paths(report.nvtx(), api, ops)
    known = rows >= 0
    asked = api["start_ns"].to_numpy()[rows[known]]
    return ops.loc[known, _COLUMNS].assign(asked_ns=asked, path=paths[known]).reset_index(drop=True)


def clean_passes(record: dict[str, Any]) -> dict[str, float]:
    """Milliseconds of each pass that a record has: the median of its steps."""
    results = record["results"]
    return {
        name: float(statistics.median(results[f"{name}_host_ms"]))
        for name in PASSES
        if f"{name}_host_ms" in results
    }
