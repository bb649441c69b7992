"""Hidden exports: what recorders wrote down in, an nsys export (its tables) out, and its report.

The tables are those of schema 3.20, with the columns that the reader and the exercises need.
"""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd

from labcode.grading.codec import Database, write_database
from labcode.grading.inputs import Recorder, Row
from labcode.grading.sql import EVENTS
from labcode.reports.nsys.report import MEASURED, NsysReport, open_report

_VM = 1 << 48  # nsys writes the number of the (virtual) machine above the pid
PUSH_POP, START_END, MARK, DOMAIN = 59, 60, 34, 75
_KINDS = {"kernel": "KERNEL", "memcpy": "MEMCPY", "memset": "MEMSET", "graph": "GRAPH_TRACE"}
_EVENT_TYPES = {"push_pop": PUSH_POP, "start_end": START_END, "mark": MARK}
_COPY_KINDS = {"H2D": (1, 1, 2), "D2H": (2, 2, 1), "D2D": (8, 2, 2)}


class _Strings:
    """Texts to ids, in an order of their own in every export."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._next = int(rng.integers(20, 400))
        self._step = int(rng.integers(1, 9))
        self.ids: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        if text not in self.ids:
            self.ids[text] = self._next
            self._next += self._step
        return self.ids[text]


def export_of(
    recorders: Sequence[Recorder],
    rng: np.random.Generator,
    *,
    window: tuple[int, int] | None = None,
    registered: float = 0.5,
    extra_nvtx: Sequence[Row] = (),
) -> Database:
    """The export of a run; tables without rows are left out.

    ``window`` adds the range ``lab:measured``. ``registered`` is the share of range names that are kept in
    StringIds; ``extra_nvtx`` are more rows like those of `Recorder.ranges` (end_ns may be None).
    """
    strings = _Strings(rng)
    rows: dict[str, list[Row]] = {name: [] for name in EVENTS}
    for recorder in recorders:
        for op in recorder.ops:
            rows[f"CUPTI_ACTIVITY_KIND_{_KINDS[op['kind']]}"].append(_op(op, strings))
        for call in recorder.calls:
            rows["CUPTI_ACTIVITY_KIND_RUNTIME"].append(_call(call, strings))
    ranges = [row for recorder in recorders for row in recorder.ranges] + list(extra_nvtx)
    if window is not None:
        pid = recorders[0].pid
        measured = {"start_ns": window[0], "end_ns": window[1], "pid": pid, "tid": pid, "name": MEASURED}
        ranges.append({**measured, "event_type": "push_pop"})
    names = sorted({str(row["name"]) for row in ranges if row["name"] != MEASURED})
    in_strings = {name for name in names if rng.random() < registered}
    rows["NVTX_EVENTS"] = [_range(row, strings, registered=row["name"] in in_strings) for row in ranges]
    tables = {name: _frame(some, EVENTS[name], rng) for name, some in rows.items() if some}
    ids = sorted(strings.ids.items(), key=lambda item: item[1])
    tables["StringIds"] = pd.DataFrame(
        {
            "id": pd.Series([i for _, i in ids], dtype="int64"),
            "value": pd.Series([t for t, _ in ids], dtype="str"),
        }
    )
    facts = {"EXPORT_SCHEMA_VERSION": "3.20.3", "EXPORT_PRODUCT_VERSION": "2025.3.1.90-253135822126v0"}
    tables["META_DATA_EXPORT"] = pd.DataFrame(
        {"name": pd.Series(list(facts), dtype="str"), "value": pd.Series(list(facts.values()), dtype="str")}
    )
    return Database(tables)


@contextmanager
def opened(database: Database) -> Iterator[NsysReport]:
    """The report of a hidden export; its file is gone afterwards."""
    path = write_database(database.tables)
    try:
        with open_report(path) as report:
            yield report
    finally:
        shutil.rmtree(path.parent, ignore_errors=True)


def _op(op: Row, strings: _Strings) -> Row:
    row: Row = {
        "start": op["start_ns"],
        "end": op["end_ns"],
        "deviceId": op["device"],
        "contextId": op["context"],
        "streamId": op["stream"],
        "correlationId": op["correlation"],
        "globalPid": _VM | op["pid"] << 24,
    }
    node = {"graphNodeId": op.get("graph_node")}
    if op["kind"] == "kernel":
        name = str(op["name"])
        short = name.split("(")[0].split("<")[0].split(" ")[-1]
        return {**row, **node, "demangledName": strings(name), "shortName": strings(short)}
    if op["kind"] == "memcpy":
        kind, src, dst = _COPY_KINDS[str(op["name"]).removeprefix("memcpy ")]
        return {**row, **node, "bytes": op["bytes"], "copyKind": kind, "srcKind": src, "dstKind": dst}
    if op["kind"] == "memset":
        return {**row, **node, "bytes": op["bytes"], "value": 0, "memKind": 2}
    return {**row, "graphId": 5}


def _call(call: Row, strings: _Strings) -> Row:
    return {
        "start": call["start_ns"],
        "end": call["end_ns"],
        "globalTid": _VM | call["pid"] << 24 | call["tid"],
        "correlationId": call["correlation"],
        "nameId": strings(call["raw_name"]),
        "returnValue": 0,
    }


def _range(row: Row, strings: _Strings, *, registered: bool) -> Row:
    text = str(row["name"])
    domain = row.get("domain_id", 0)
    return {
        "start": row["start_ns"],
        "end": row.get("end_ns"),
        "eventType": row["event_type"]
        if isinstance(row["event_type"], int)
        else _EVENT_TYPES[row["event_type"]],
        "text": None if registered else text,
        "textId": strings(text) if registered else None,
        "globalTid": _VM | row["pid"] << 24 | row["tid"],
        "endGlobalTid": None,
        "domainId": domain,
    }


def _frame(rows: Sequence[Row], columns: Sequence[str], rng: np.random.Generator) -> pd.DataFrame:
    """The rows in no particular order."""
    order = rng.permutation(len(rows))
    data: dict[str, Any] = {
        name: pd.Series([rows[i].get(name) for i in order], dtype="str" if name == "text" else "Int64")
        for name in columns
    }
    return pd.DataFrame(data)
