"""Call stacks for `make_export`: samples, switches, OS calls and Python stacks in, statements of SQL out.

    make_export(path, nvtx=[...], extra_sql=[*cpu_samples([sample(100, ["leaf", "root"])]), ...])

Stacks are given from the innermost function outwards. The tables are declared as nsys 2025.3 declares them.
"""

import json
from collections.abc import Iterable, Sequence

from tests.support.exports import global_tid

PERIODIC, ON_CUDA = "Python Periodic Sampling", "Python Backtrace on CUDA"
Frame = tuple[str, str, int]  # function, file, line

_CHAIN = (
    "(id INTEGER NOT NULL, symbol INTEGER NOT NULL, module INTEGER NOT NULL, kernelMode INTEGER, "
    "thumbCode INTEGER, unresolved INTEGER, specialEntry INTEGER, originalIP INTEGER, unwindMethod INTEGER, "
    "stackDepth INTEGER NOT NULL, PRIMARY KEY (id, stackDepth))"
)
_SAMPLES = (
    "CREATE TABLE IF NOT EXISTS COMPOSITE_EVENTS (id INTEGER NOT NULL PRIMARY KEY, start INTEGER NOT NULL, "
    "cpu INTEGER, threadState INTEGER, globalTid INTEGER, cpuCycles INTEGER NOT NULL)"
)
_SWITCHES = (
    "CREATE TABLE IF NOT EXISTS SCHED_EVENTS (start INTEGER NOT NULL, cpu INTEGER NOT NULL, "
    "isSchedIn INTEGER NOT NULL, globalTid INTEGER, threadState INTEGER, threadBlock INTEGER)"
)


def text(value: str) -> list[str]:
    """Put a text into StringIds, once."""
    quoted = _quoted(value)
    return [
        f"INSERT INTO StringIds SELECT coalesce(max(id), 0) + 1, {quoted} FROM StringIds "
        f"HAVING NOT EXISTS (SELECT 1 FROM StringIds WHERE value = {quoted})"
    ]


def chain(table: str, number: int, stack: Sequence[str], module: str = "/usr/lib/libwork.so") -> list[str]:
    """A call stack in a table of call stacks; a function may be given as ``module!function``."""
    sql = [f"CREATE TABLE IF NOT EXISTS {table} {_CHAIN}"]
    for depth, name in enumerate(stack):
        where, _, function = name.rpartition("!")
        sql += [*text(function), *text(where or module)]
        values = f"{number}, {_id(function)}, {_id(where or module)}"
        unresolved = int(function.startswith("0x"))
        sql.append(f"INSERT INTO {table} VALUES ({values}, 0, 0, {unresolved}, NULL, 140000000, 7, {depth})")
    return sql


def cpu_samples(
    samples: Iterable[tuple[int, Sequence[str]]], *, pid: int = 100, tid: int = 100, first: int = 1
) -> list[str]:
    """Samples of one thread: (time, stack)."""
    sql = [_SAMPLES]
    for number, (start, stack) in enumerate(samples, first):
        values = f"{number}, {start}, 3, 1, {global_tid(pid, tid)}, 1"
        sql += [f"INSERT INTO COMPOSITE_EVENTS VALUES ({values})"]
        sql += chain("SAMPLING_CALLCHAINS", number, stack)
    return sql


def switches(events: Iterable[tuple[int, bool]], *, pid: int = 100, tid: int = 100) -> list[str]:
    """Context switches of one thread: (time, whether it was switched in)."""
    thread = global_tid(pid, tid)
    values = (f"{at}, 2, {int(is_in)}, {thread}, 0, NULL" for at, is_in in events)
    return [_SWITCHES, *(f"INSERT INTO SCHED_EVENTS VALUES ({row})" for row in values)]


def python_stacks(
    stacks: Iterable[tuple[int, Sequence[Frame]]],
    *,
    kind: str = PERIODIC,
    domain: int = 9,
    pid: int = 100,
    tid: int = 100,
) -> list[str]:
    """Python stacks as marks with a payload: (time, frames). The export must hold NVTX events already."""
    thread = global_tid(pid, tid)
    sql = [
        "INSERT INTO NVTX_EVENTS (start, eventType, text, globalTid, domainId) "
        f"VALUES (0, 75, '{kind}', {thread}, {domain})"
    ]
    for start, frames in stacks:
        parts = []
        for function, file, line in frames:
            sql += [*text(function), *text(file)]
            ids = f"""'{{"Function":' || {_id(function)} || ',"File":' || {_id(file)}"""
            parts.append(ids + f""" || ',"Line":{line}}}'""")
        inside = " || ',' || ".join(parts) or "''"
        head = f'{{"{kind}":{{"Thread state ID":1,"Thread state":"Running",'
        head += f'"Frames count":{len(frames)},"Frames":['
        sql.append(
            "INSERT INTO NVTX_EVENTS (start, eventType, globalTid, domainId, jsonText) "
            f"VALUES ({start}, 34, {thread}, {domain}, '{head}' || {inside} || ']}}}}')"
        )
    return sql


def payload(start: int, content: object, *, pid: int = 100, tid: int = 100) -> list[str]:
    """A mark with any payload."""
    value = content if isinstance(content, str) else json.dumps(content)
    return [
        "INSERT INTO NVTX_EVENTS (start, eventType, globalTid, domainId, jsonText) "
        f"VALUES ({start}, 34, {global_tid(pid, tid)}, 9, {_quoted(value)})"
    ]


def _id(value: str) -> str:
    return f"(SELECT id FROM StringIds WHERE value = {_quoted(value)})"


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
