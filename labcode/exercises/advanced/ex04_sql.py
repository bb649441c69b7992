"""Hidden cases of advanced-ex04 (SQL on the export): a generator or captures in, cases out.

Expected values come from the reader's tables. What typical mistakes would give comes from wrong queries, run
on the same export.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from labcode.analysis.timeline import intervals
from labcode.errors import LabError
from labcode.exercises.advanced.ex04_scenes import scenes
from labcode.exercises.advanced.exports import opened
from labcode.exercises.cases import Case, Mistake, Task
from labcode.grading.codec import write_database
from labcode.grading.exam import open_run
from labcode.grading.sql import run_query
from labcode.reports.nsys.report import NsysReport
from labcode.store import CaptureSet

Rows = list[list[Any]]
EXAM = (("multi_gpu", "exam_improved"), ("timeline_basics", "exam_improved"))
STREAM_COLUMNS = ("pid", "device", "context", "stream", "kernels", "total_ns")
RANGE_COLUMNS = ("range", "instances", "open", "total_ns")
WAIT_COLUMNS = ("kernel", "kernels", "launched", "mean_wait_ns")
BUSY_COLUMNS = ("device", "busy_ns", "idle_ns")


def streams(report: NsysReport) -> Rows:
    """Part a: a row for each stream."""
    kernels = report.kernels()
    kernels["ns"] = kernels["end_ns"] - kernels["start_ns"]
    table = kernels.groupby(["pid", "device", "context", "stream"])["ns"].agg(["size", "sum"]).reset_index()
    return _rows(table)


def ranges(report: NsysReport) -> Rows:
    """Part b: a row for each name of a range."""
    nvtx = report.nvtx()
    nvtx = nvtx[nvtx["event_type"].isin(["push_pop", "start_end"])]
    nvtx = nvtx.assign(ns=(nvtx["end_ns"] - nvtx["start_ns"]).fillna(0), open=nvtx["end_ns"].isna())
    table = nvtx.groupby("name").agg(n=("ns", "size"), open=("open", "sum"), ns=("ns", "sum")).reset_index()
    return _rows(table.sort_values(["ns", "name"], ascending=[False, True]))


def waits(report: NsysReport) -> Rows:
    """Part c: a row for each kernel."""
    kernels, api = report.kernels(), report.api()
    calls = api[["pid", "correlation", "start_ns"]].rename(columns={"start_ns": "called_ns"})
    joined = kernels.merge(calls.astype({"called_ns": "Int64"}), on=["pid", "correlation"], how="left")
    joined["wait_ns"] = (joined["start_ns"] - joined["called_ns"]).astype("Float64")
    grouped = joined.groupby("short_name")["wait_ns"].agg(["size", "count", "mean"]).reset_index()
    return _rows(grouped.sort_values("short_name"))


def busy(report: NsysReport) -> Rows:
    """Part d: a row for each GPU."""
    ops, window = report.gpu_ops(), report.window()
    rows = []
    for device, mine in ops.groupby("device"):
        spans = intervals.clip(mine["start_ns"].to_numpy(), mine["end_ns"].to_numpy(), window)
        if len(spans[0]):
            time = intervals.total(*spans)
            rows.append([int(str(device)), time, window[1] - window[0] - time])
    return rows


_STREAMS_OF = """
SELECT {pid} AS pid, deviceId AS device, {context} AS context, streamId AS stream, {rest}
FROM CUPTI_ACTIVITY_KIND_KERNEL GROUP BY {group} ORDER BY 1, 2, 3, 4
"""
_STREAMS = {
    "pid": "(globalPid >> 24) & 0xFFFFFF",
    "context": "contextId",
    "rest": "count(*) AS kernels, sum(end - start) AS total_ns",
    "group": "globalPid, deviceId, contextId, streamId",
}
_STREAM_MISTAKES = {
    "streams of the same number in two contexts of a process are poured together: group by context, too": {
        "group": "globalPid, deviceId, streamId"
    },
    "streams of the same number in several processes are poured together: group by pid, too": {
        "group": "deviceId, streamId"
    },
    "stream numbers repeat from device to device: group by device, too": {"group": "streamId"},
    "this is not yet the pid: it is in bits 24 to 47, so cut off what lies above, too (& 0xFFFFFF)": {
        "pid": "globalPid >> 24"
    },
    "this is globalPid itself: the pid is in its bits 24 to 47": {"pid": "globalPid"},
    "these are means; asked for is the sum of the durations": {
        "rest": "count(*) AS kernels, avg(end - start) AS total_ns"
    },
    "from the first start to the last end is not the kernels' time: add up end - start": {
        "rest": "count(*) AS kernels, max(end) - min(start) AS total_ns"
    },
}

_RANGES_OF = """
SELECT {name} AS range, count(*) AS instances, {open} AS open, {total} AS total_ns
FROM NVTX_EVENTS AS e LEFT JOIN StringIds AS s ON s.id = e.textId
WHERE {where} GROUP BY range ORDER BY total_ns DESC, range
"""
_RANGES = {
    "name": "coalesce(e.text, s.value)",
    "open": "sum(e.end IS NULL)",
    "total": "coalesce(sum(e.end - e.start), 0)",
    "where": "e.eventType IN (59, 60)",
}
_RANGE_MISTAKES = {
    "the text of some ranges is in StringIds: coalesce(text, value), joined by textId": {"name": "e.text"},
    "the text of some ranges stands in the column text itself, without a textId": {"name": "s.value"},
    "marks and domains are no ranges: only eventType 59 and 60": {"where": "1"},
    "marks are no ranges: only eventType 59 and 60": {"where": "e.eventType != 75"},
    "start/end ranges (eventType 60) are ranges, too": {"where": "e.eventType = 59"},
    "ranges that never ended are left out: they count, and `open` says how many": {
        "where": "e.eventType IN (59, 60) AND e.end IS NOT NULL"
    },
    "the time of a range of which no instance ended is 0 here, not NULL: coalesce(…, 0)": {
        "total": "sum(e.end - e.start)"
    },
    "an open range has no duration: it must not count until the end of the capture": {
        "total": "sum(coalesce(e.end, (SELECT max(end) FROM NVTX_EVENTS)) - e.start)"
    },
    "these are the ones that ended; `open` counts those that did not": {"open": "count(e.end)"},
}

_WAITS_OF = """
SELECT s.value AS kernel, {count} AS kernels, {launched} AS launched, {mean} AS mean_wait_ns
FROM CUPTI_ACTIVITY_KIND_KERNEL AS k JOIN StringIds AS s ON s.id = k.{name}
{join} JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS r ON {on}
GROUP BY s.value ORDER BY s.value
"""
_WAITS = {
    "count": "count(*)",
    "launched": "count(r.start)",
    "mean": "avg(k.start - r.start)",
    "name": "shortName",
    "join": "LEFT",
    "on": "r.correlationId = k.correlationId AND r.globalTid >> 24 = k.globalPid >> 24",
}
_WAIT_MISTAKES = {
    "kernels are joined to calls of other processes: match the process as well as the correlation id": {
        "on": "r.correlationId = k.correlationId"
    },
    "… and kernels without a call are lost as well: LEFT JOIN": {
        "on": "r.correlationId = k.correlationId",
        "join": "",
    },
    "kernels whose launch was not recorded are lost: LEFT JOIN": {"join": ""},
    "`launched` counts the kernels with a known call only: count a column of the call": {
        "launched": "count(*)"
    },
    "the wait begins when the call begins (r.start), not when it returns": {"mean": "avg(k.start - r.end)"},
    "a kernel without a known call has no wait: it is not a wait of 0": {
        "mean": "avg(coalesce(k.start - r.start, 0))"
    },
    "the sum of the waits; asked for is the mean": {"mean": "sum(k.start - r.start)"},
    "group by the short name: the long one has a kernel's template arguments": {"name": "demangledName"},
}

_UNION = " UNION ALL ".join(
    f"SELECT deviceId, globalPid, start, end FROM CUPTI_ACTIVITY_KIND_{kind}"
    for kind in ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE")
)
_BUSY_OF = """
WITH measured AS (SELECT {window} FROM NVTX_EVENTS WHERE text = 'lab:measured'),
ops AS ({ops}),
inside AS (SELECT deviceId, globalPid, {start} AS start, {end} AS end, high - low AS width FROM ops, measured
           WHERE end > low AND start < high),
reached AS (SELECT *, max(end) OVER (PARTITION BY {part} ORDER BY start, end
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM inside)
SELECT deviceId AS device, sum({added}) AS busy_ns, width - sum({added}) AS idle_ns
FROM reached GROUP BY deviceId ORDER BY deviceId
"""
_BUSY = {
    "window": "min(start) AS low, max(end) AS high",
    "ops": _UNION,
    "start": "max(start, low)",
    "end": "min(end, high)",
    "part": "deviceId",
    "added": "max(end - max(start, coalesce(before, start)), 0)",
}
_BUSY_MISTAKES = {
    "what overlaps counts twice: durations are added up, where their union is asked for": {
        "added": "end - start"
    },
    "only kernels are counted: copies, memsets and graphs occupy a GPU, too": {
        "ops": _UNION.split(" UNION ALL ")[0]
    },
    "graphs that were traced as a whole are missing: CUPTI_ACTIVITY_KIND_GRAPH_TRACE": {
        "ops": _UNION.rpartition(" UNION ALL ")[0]
    },
    "memsets are missing": {"ops": _UNION.replace("UNION ALL " + _UNION.split(" UNION ALL ")[2], "")},
    "each process is counted by itself, so that what runs at once counts twice: group by device alone": {
        "part": "deviceId, globalPid"
    },
    "operations that reach over the window's ends are not cut off there": {"start": "start", "end": "end"},
    "looking back at one operation is not enough: an earlier one may reach further (a running maximum)": {
        "added": "max(end - max(start, coalesce(lag_end, start)), 0)"
    },
}


def _case(
    name: str, export: Path | Any, report: NsysReport, columns: tuple[str, ...],
    right: Callable[[NsysReport], Rows], template: str, base: Mapping[str, str],
    wrong: Mapping[str, Mapping[str, str]], sqlite: Path, *, exam: bool = False,
) -> Case:  # fmt: skip
    expected = right(report)
    mistakes = []
    for says, change in wrong.items():
        query = template.format(**{**base, **change})
        if "lag_end" in query:
            query = query.replace("lag_end", "before").replace("UNBOUNDED PRECEDING", "1 PRECEDING")
        mistakes.append(Mistake(says, run_query(query, sqlite)[1]))
    return Case(
        name=name,
        summary=_summary(report),
        function="answer",
        arguments=(export, list(columns)),
        expected=expected,
        mistakes=tuple(mistakes),
        relative=1e-9,
        show=_show(columns),
        exam=exam,
        limit_s=20.0,
    )


def _show(columns: tuple[str, ...]) -> Callable[[Any], str]:
    def shown(rows: Any) -> str:
        first = "; ".join(
            ", ".join(f"{c} {_text(v)}" for c, v in zip(columns, row, strict=True)) for row in rows[:3]
        )
        return f"{len(rows)} row{'s' * (len(rows) != 1)}: {first}{'; …' if len(rows) > 3 else ''}"

    return shown


def _text(value: Any) -> str:
    return "NULL" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)


def _summary(report: NsysReport) -> str:
    ops = report.gpu_ops()
    return (
        f"an export with {len(ops)} GPU operations of {ops['pid'].nunique()} process(es) on "
        f"{ops['device'].nunique()} GPU(s), {len(report.api())} calls, {len(report.nvtx())} NVTX events"
    )


def _task(
    columns: tuple[str, ...], right: Callable[[NsysReport], Rows], template: str, base: Mapping[str, str],
    wrong: Mapping[str, Mapping[str, str]],
) -> Task:  # fmt: skip
    def generated(rng: np.random.Generator) -> list[Case]:
        cases = []
        for name, database in scenes(rng):
            sqlite = write_database(database.tables)
            try:
                with opened(database) as report:
                    cases.append(_case(name, database, report, columns, right, template, base, wrong, sqlite))
            finally:
                shutil.rmtree(sqlite.parent, ignore_errors=True)
        return cases

    def exam(captures: CaptureSet) -> list[Case]:
        experiment, run = _exam_run(captures)
        path = captures.path_of(experiment, run)
        with open_run(captures, experiment, run) as report:
            name = f"a capture you have not seen ({experiment})"
            return [_case(name, path, report, columns, right, template, base, {}, path, exam=True)]

    return Task(generated, exam)


def _exam_run(captures: CaptureSet) -> tuple[str, str]:
    """The first of `EXAM` that the set has: one GPU alone captures no run on several."""
    for experiment, run in EXAM:
        if experiment in captures.experiments and run in captures.experiments[experiment].runs:
            return experiment, run
    raise LabError(f"the capture set {captures.name!r} has no run {EXAM[-1][1]} of {EXAM[-1][0]}")


def _rows(table: pd.DataFrame) -> Rows:
    return [
        [None if pd.isna(value) else value for value in row]
        for row in table.astype(object).to_numpy().tolist()
    ]


STREAMS = _task(STREAM_COLUMNS, streams, _STREAMS_OF, _STREAMS, _STREAM_MISTAKES)
RANGES = _task(RANGE_COLUMNS, ranges, _RANGES_OF, _RANGES, _RANGE_MISTAKES)
WAITS = _task(WAIT_COLUMNS, waits, _WAITS_OF, _WAITS, _WAIT_MISTAKES)
BUSY = _task(BUSY_COLUMNS, busy, _BUSY_OF, _BUSY, _BUSY_MISTAKES)
