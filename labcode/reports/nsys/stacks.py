"""Samples, context switches and call stacks of an nsys capture: its raw tables in, documented tables out.

`labcode.reports.nsys.report.NsysReport` has a method for each function here. A call stack is a table of
frames: the number of the sample or call it belongs to, ``depth`` (0 is the innermost function) and the
function.

nsys samples the stacks of Python threads (``--python-sampling=true``) and takes one at CUDA calls
(``--python-backtrace=cuda``, which also needs ``--sample=process-tree`` and, for calls shorter than 80 µs,
``--cudabacktrace=all:0``). Both arrive as NVTX marks with a JSON payload, which an export holds only when it
was made with ``nsys export --include-blobs=true --include-json=true``. Functions and files are numbers into
the table of texts, with ``<`` and ``>`` written as in HTML.
"""

import html
import json
from typing import Any, Literal

import numpy as np
import pandas as pd

from labcode.reports.columns import Column, Ints, named, objects
from labcode.reports.frames import frame
from labcode.reports.nsys import schema
from labcode.reports.nsys.schema import api_name, pid_of, tid_of
from labcode.reports.nsys.source import Source

UNKNOWN = "[unknown]"  # a function whose name the export does not hold
Kind = Literal["sample", "backtrace"]
_TITLES: dict[Kind, str] = {
    "sample": "Python Periodic Sampling",
    "backtrace": "Python Backtrace on CUDA",
}
_MARK = 34
_DEEPEST = 4096  # frames of one stack; Python's own limit is 1000
_LARGEST = 1 << 62
_Frames = list[tuple[int, int, int]]  # function, file, line
_RE_EXPORT = "export the report again with nsys export --include-blobs=true --include-json=true"


def cpu_samples(source: Source) -> pd.DataFrame:
    """See `NsysReport.cpu_samples`."""
    columns = ("id", "start", "cpu", "threadState", "globalTid", "cpuCycles")
    raw = source.ints(schema.SAMPLES, columns)
    return frame(
        sample=raw["id"].values,
        start_ns=raw["start"].values,
        pid=pid_of(raw["globalTid"].values),
        tid=tid_of(raw["globalTid"].values),
        cpu=raw["cpu"],
        thread_state=named(raw["threadState"].filled(-1), schema.THREAD_STATES),
        cycles=raw["cpuCycles"].values,
    )


def context_switches(source: Source) -> pd.DataFrame:
    """See `NsysReport.context_switches`."""
    columns = ["start", "cpu", "isSchedIn", "globalTid"]
    told = source.has_columns(schema.SWITCHES, ("threadState",))  # since nsys 2025
    raw = source.ints(schema.SWITCHES, [*columns, "threadState"] if told else columns)
    order = np.lexsort((raw["start"].values, raw["globalTid"].values))
    thread = raw["globalTid"].values[order]
    state = raw["threadState"].filled(0) if told else np.zeros(len(thread), np.int64)
    return frame(
        start_ns=raw["start"].values[order],
        pid=pid_of(thread),
        tid=tid_of(thread),
        cpu=raw["cpu"].take(order),
        is_sched_in=raw["isSchedIn"].values[order] != 0,
        thread_state=named(state, schema.THREAD_STATES)[order],
    )


def callchains(source: Source, table: str, key: str) -> pd.DataFrame:
    """The frames of a table of native call stacks, as ``key``, depth, symbol, module, unresolved.

    By stack, innermost function first. Of frames that claim the same place in a stack the first one counts;
    a warning says so.
    """
    raw = source.ints(table, ("id", "symbol", "module", "stackDepth", "unresolved"))
    number, depth = raw["id"].values, raw["stackDepth"].values
    order = np.lexsort((depth, number))
    again = np.zeros(len(order), np.bool_)
    again[1:] = (np.diff(number[order]) == 0) & (np.diff(depth[order]) == 0)
    if again.any():
        source.warn(f"table {table}: {int(again.sum())} frames stand where another one does; left out")
        order = order[~again]
    symbol, symbols = source.strings(raw["symbol"])
    module, modules = source.strings(raw["module"])
    return frame(
        **{key: number[order]},
        depth=depth[order],
        symbol=objects(symbol, [text or UNKNOWN for text in symbols])[order],
        module=objects(module, [text or UNKNOWN for text in modules])[order],
        unresolved=raw["unresolved"].values[order] != 0,
    )


def chain_of(source: Source, chain: Column, table: str) -> Column:
    """The numbers of call stacks, missing where the export holds no such stack."""
    there = np.unique(source.ints(table, ("id",))["id"].values)
    found = np.isin(chain.values, there)
    return Column(chain.values, found if chain.present is None else found & chain.present)


def api_calls(source: Source) -> pd.DataFrame:
    """All records of CUDA calls, also the second one that a call with a stack has (it begins earlier).

    call_start_ns, call_end_ns, pid, tid, correlation, call_name, callchain (Int64).
    """
    columns = ("start", "end", "globalTid", "correlationId", "nameId", "callchainId")
    raw = source.ints(schema.RUNTIME, columns)
    codes, texts = source.strings(raw["nameId"])
    return frame(
        call_start_ns=raw["start"].values,
        call_end_ns=raw["end"].values,
        pid=pid_of(raw["globalTid"].values),
        tid=tid_of(raw["globalTid"].values),
        correlation=raw["correlationId"].values,
        call_name=objects(codes, [api_name(text) for text in texts]),
        callchain=chain_of(source, raw["callchainId"], schema.CUDA_STACKS),
    )


def api_callchains(source: Source) -> pd.DataFrame:
    """See `NsysReport.api_callchains`."""
    calls = api_calls(source).dropna(subset=["callchain"]).astype({"callchain": "int64"})
    calls = calls[["callchain", *(c for c in calls.columns if c != "callchain")]]
    return calls.merge(callchains(source, schema.CUDA_STACKS, "callchain"), on="callchain").sort_values(
        ["call_start_ns", "callchain", "depth"], kind="stable", ignore_index=True
    )


def enclosing_calls(at: Ints, pid: Ints, tid: Ints, calls: pd.DataFrame) -> Ints:
    """For each time of a thread the row of `api_calls` that was being executed, the innermost; -1: none."""
    found = np.full(len(at), -1, np.int64)
    groups = calls.groupby(["pid", "tid"], sort=False).indices
    wanted = pd.DataFrame({"pid": pid, "tid": tid}).groupby(["pid", "tid"], sort=False).indices
    for thread, places in wanted.items():
        if thread not in groups:
            continue
        rows = np.asarray(groups[thread], np.int64)
        start = calls["call_start_ns"].to_numpy(np.int64)[rows]
        rows = rows[np.argsort(start, kind="stable")]
        found[places] = _innermost(at[places], rows, calls)
    return found


def _innermost(at: Ints, rows: Ints, calls: pd.DataFrame) -> Ints:
    """The last call (``rows`` are one thread's, by start) that began by then and had not ended."""
    start = calls["call_start_ns"].to_numpy(np.int64)[rows]
    end = calls["call_end_ns"].to_numpy(np.int64)[rows]
    latest = np.maximum.accumulate(end)  # nothing before this row reaches further
    place = np.searchsorted(start, at, "right") - 1
    result = np.full(len(at), -1, np.int64)
    for i in np.flatnonzero(place >= 0):
        j = int(place[i])
        while j >= 0 and latest[j] >= at[i]:
            if end[j] >= at[i]:
                result[i] = rows[j]
                break
            j -= 1
    return result


class _MalformedError(ValueError):
    pass


def python_stacks(source: Source, kind: Kind) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The stacks of one kind, and their frames; they are read once.

    First table: ``kind`` (a number, by time), start_ns, pid, tid, thread_state. Second: ``kind``, depth (0:
    innermost), function, file, line. Payloads that cannot be read are left out, and a warning counts them.
    """
    stacks, frames = source.once(f"python {kind}", lambda: _python_stacks(source, kind))
    return stacks.copy(deep=False), frames.copy(deep=False)


def _python_stacks(source: Source, kind: Kind) -> tuple[pd.DataFrame, pd.DataFrame]:
    wanted = f"eventType = {_MARK}"
    if not source.has_columns(schema.NVTX, ("jsonText",)):
        _warn_of_missing_payloads(source, kind)
        return _tables(source, kind, [], [], [], [], [])
    raw, own = source.once(  # of both kinds
        "marks' payloads",
        lambda: source.rows(schema.NVTX, ("start", "globalTid"), ("jsonText",), wanted),
    )
    codes, texts = own["jsonText"]
    there = np.flatnonzero(codes >= 0)
    raw, codes = {name: column.take(there) for name, column in raw.items()}, codes[there]
    parsed: list[tuple[str, _Frames] | None] = []
    broken: set[int] = set()
    shortened = 0
    for place, text in enumerate(texts):
        try:
            stack = _parse(text, kind)
        except _MalformedError:
            stack = None
            broken.add(place)
        if stack is not None and len(stack[1]) > _DEEPEST:
            shortened += 1
            stack = stack[0], stack[1][:_DEEPEST]
        parsed.append(stack)
    lost = sum(code in broken for code in codes.tolist())
    if lost:
        source.warn(f"{lost} Python stacks cannot be read (their payload is damaged); they are left out")
    if shortened:
        source.warn(f"{shortened} Python stacks are deeper than {_DEEPEST} frames; cut off there")
    kept = [i for i, code in enumerate(codes.tolist()) if parsed[code] is not None]
    kept.sort(key=lambda i: int(raw["start"].values[i]))
    if not kept:
        _warn_of_missing_payloads(source, kind)
    stacks = [stack for i in kept if (stack := parsed[int(codes[i])]) is not None]
    return _tables(
        source,
        kind,
        [int(raw["start"].values[i]) for i in kept],
        [int(raw["globalTid"].values[i]) for i in kept],
        [state for state, _ in stacks],
        [len(frames) for _, frames in stacks],
        [one for _, frames in stacks for one in frames],
    )


def python_backtraces(source: Source) -> pd.DataFrame:
    """See `NsysReport.python_backtraces`."""
    stacks = python_stacks(source, "backtrace")[0]
    no_calls = stacks.assign(call_start_ns=0, call_end_ns=0, correlation=0, call_name="")
    calls = api_calls(source) if len(stacks) else no_calls
    at, pid, tid = (stacks[column].to_numpy(np.int64) for column in ("start_ns", "pid", "tid"))
    rows = enclosing_calls(at, pid, tid, calls)
    found = rows >= 0
    for name in ("call_start_ns", "call_end_ns", "correlation"):
        values = np.zeros(len(rows), np.int64)
        values[found] = calls[name].to_numpy(np.int64)[rows[found]]
        stacks[name] = pd.arrays.IntegerArray(values, ~found)
    names = np.full(len(rows), "", object)
    names[found] = calls["call_name"].to_numpy(object)[rows[found]]
    stacks["call_name"] = pd.Series(names, dtype="str")
    return stacks


def _tables(
    source: Source,
    kind: Kind,
    starts: list[int],
    threads: list[int],
    states: list[str],
    depths: list[int],
    frames: _Frames,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    thread = np.array(threads, np.int64)
    stacks = frame(
        **{kind: np.arange(len(starts), dtype=np.int64)},
        start_ns=np.array(starts, np.int64),
        pid=pid_of(thread),
        tid=tid_of(thread),
        thread_state=np.array([state.lower() for state in states], object),
    )
    columns = np.array(frames, np.int64).reshape(-1, 3)
    texts = []
    for place in (0, 1):
        codes, found = source.strings(Column(columns[:, place]))
        texts.append(objects(codes, [html.unescape(text) or UNKNOWN for text in found]))
    return stacks, frame(
        **{kind: np.repeat(np.arange(len(starts), dtype=np.int64), depths)},
        depth=np.array([place for depth in depths for place in range(depth)], np.int64),
        function=texts[0],
        file=texts[1],
        line=columns[:, 2].copy(),
    )


def _parse(text: str, kind: Kind) -> tuple[str, _Frames] | None:
    """The state of the thread and the frames in a payload; None for a payload of another kind."""
    title = _TITLES[kind]
    if title not in text[: len(title) + 20]:
        return None
    try:
        content: Any = json.loads(text)
        stack = content[title]
        frames = [(one["Function"], one["File"], one["Line"]) for one in stack["Frames"]]
        state = stack.get("Thread state", "")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise _MalformedError from None
    if not all(type(value) is int and 0 <= value < _LARGEST for one in frames for value in one):
        raise _MalformedError
    return str(state), frames


def _warn_of_missing_payloads(source: Source, kind: Kind) -> None:
    """Say so when the program was sampled but the export does not hold what was seen."""
    raw, own = source.domains()
    domains = {*own["text"][1], *source.strings(raw["textId"])[1]}
    if domains & {_TITLES[kind], "Python Backtrace"}:
        source.warn(f"Python stacks were recorded, but this export does not hold them: {_RE_EXPORT}")
