"""Builds small nsys SQLite exports: rows as dicts in, a file with nsys' own tables and columns out.

    make_export(
        tmp_path / "a.sqlite",
        kernels=[kernel(100, 200, "scale(float*, int)", correlation=1)],
        api=[call(50, 60, "cudaLaunchKernel_v7000", correlation=1)],
        nvtx=[push_pop(0, 500, "step")],
    )

Tables without rows are left out, as nsys does. ``schema`` chooses the columns of that version (3.7, 3.11,
3.20, 3.25…); ``drop_columns``, ``rename_columns`` and ``extra_sql`` make what no nsys ever wrote.
"""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from labcode.experiments.lab.report_speed.export_tables import ENUMS, columns_of

Row = dict[str, Any]
PUSH_POP, START_END, MARK, DOMAIN_CREATE = 59, 60, 34, 75
_VM = 1 << 48  # nsys writes the number of the (virtual) machine above the pid
_PRODUCTS = {
    7: "2023.4.4.54-234433681190v0",
    11: "2024.2.3.38-242334140272v0",
    20: "2025.3.1.90-253135822126v0",
}


def global_pid(pid: int) -> int:
    """nsys' globalPid of a process."""
    return _VM | pid << 24


def global_tid(pid: int, tid: int) -> int:
    """nsys' globalTid of a thread."""
    return global_pid(pid) | tid


def kernel(
    start: int,
    end: int,
    name: str = "k(int)",
    *,
    short: str | None = None,
    mangled: str | None = None,
    grid: tuple[int, int, int] = (1, 1, 1),
    block: tuple[int, int, int] = (128, 1, 1),
    registers: int = 16,
    static_shared: int = 0,
    dynamic_shared: int = 0,
    local_per_thread: int = 0,
    graph_node: int | None = None,
    **where: Any,
) -> Row:
    """One kernel execution; times in ns; ``where`` is as `_frame` takes it, for all operations."""
    short = short if short is not None else name.split("(")[0].split("<")[0].split("::")[-1]
    return {
        **_frame(start, end, **where),
        "demangledName": _Text(name),
        "shortName": _Text(short),
        "mangledName": _Text(mangled if mangled is not None else "_Z" + short),
        "launchType": 1,
        "registersPerThread": registers,
        **dict(zip(("gridX", "gridY", "gridZ"), grid, strict=True)),
        **dict(zip(("blockX", "blockY", "blockZ"), block, strict=True)),
        "staticSharedMemory": static_shared,
        "dynamicSharedMemory": dynamic_shared,
        "localMemoryPerThread": local_per_thread,
        "localMemoryTotal": 0,
        "gridId": 1,
        "sharedMemoryExecuted": 32768,
        "graphNodeId": graph_node,
        "sharedMemoryLimitConfig": 0,
    }


def memcpy(
    start: int,
    end: int,
    bytes: int = 1024,
    kind: int = 1,
    *,
    src: int = 1,
    dst: int = 2,
    src_device: int | None = None,
    dst_device: int | None = None,
    graph_node: int | None = None,
    **where: Any,
) -> Row:
    """One copy. ``kind``: 1 H2D, 2 D2H, 8 D2D, 9 H2H, 10 P2P, 11-13 managed.

    ``src`` and ``dst``: 0 pageable, 1 pinned, 2 device, 4 managed.
    """
    return {
        **_frame(start, end, **where),
        "bytes": bytes,
        "copyKind": kind,
        "srcKind": src,
        "dstKind": dst,
        "srcDeviceId": src_device,
        "dstDeviceId": dst_device,
        "graphNodeId": graph_node,
        "copyCount": 1,
    }


def memset(
    start: int,
    end: int,
    bytes: int = 1024,
    value: int = 0,
    *,
    mem_kind: int = 2,
    graph_node: int | None = None,
    **where: Any,
) -> Row:
    """One memset."""
    frame = _frame(start, end, **where)
    return {**frame, "value": value, "bytes": bytes, "graphNodeId": graph_node, "memKind": mem_kind}


def graph_launch(start: int, end: int, *, graph: int = 1, graph_exec: int = 2, **where: Any) -> Row:
    """One whole-graph launch, as traced under ``--cuda-graph-trace=graph``."""
    return {**_frame(start, end, **where), "graphId": graph, "graphExecId": graph_exec}


def sync(start: int, end: int, kind: int = 3, **where: Any) -> Row:
    """One synchronization. ``kind``: 1 event, 2 stream waits for event, 3 stream, 4 context."""
    return {**_frame(start, end, **where), "syncType": kind, "eventId": 0}


def call(
    start: int,
    end: int,
    name: str = "cudaLaunchKernel_v7000",
    *,
    pid: int = 100,
    tid: int = 100,
    correlation: int | None = 0,
    driver: bool = False,
    returned: int = 0,
) -> Row:
    """One CUDA runtime (or driver) API call."""
    return {
        "start": start,
        "end": end,
        "eventClass": int(driver),
        "globalTid": global_tid(pid, tid),
        "correlationId": correlation,
        "nameId": _Text(name),
        "returnValue": returned,
        "callchainId": None,
    }


def push_pop(
    start: int,
    end: int | None,
    text: str | None = "range",
    *,
    pid: int = 100,
    tid: int = 100,
    domain: int = 0,
    registered: bool = False,
    color: int | None = None,
) -> Row:
    """One NVTX push/pop range; ``registered`` puts its text into StringIds; ``end=None`` is one left open."""
    return {**_nvtx(PUSH_POP, start, end, text, pid, tid, domain, registered), "color": color}


def start_end(
    start: int,
    end: int | None,
    text: str | None = "range",
    *,
    pid: int = 100,
    tid: int = 100,
    end_tid: int | None = None,
    domain: int = 0,
    registered: bool = False,
    range_id: int = 1,
) -> Row:
    """One NVTX start/end range; ``end_tid`` is the thread that ends it, where it is another."""
    ended_by = None if end_tid is None else global_tid(pid, end_tid)
    row = _nvtx(START_END, start, end, text, pid, tid, domain, registered)
    return {**row, "endGlobalTid": ended_by, "rangeId": range_id}


def mark(at: int, text: str = "mark", *, pid: int = 100, tid: int = 100, domain: int = 0) -> Row:
    """One NVTX mark."""
    return _nvtx(MARK, at, None, text, pid, tid, domain)


def domain(number: int, name: str, *, pid: int = 100, tid: int = 100) -> Row:
    """The creation of an NVTX domain, which gives its number a name within the process."""
    return _nvtx(DOMAIN_CREATE, 0, None, name, pid, tid, number)


def osrt(
    start: int,
    end: int,
    name: str = "read",
    *,
    pid: int = 100,
    tid: int = 100,
    nesting: int = 0,
    returned: int = 0,
) -> Row:
    """One OS runtime call."""
    return {
        "start": start,
        "end": end,
        "eventClass": 27,
        "globalTid": global_tid(pid, tid),
        "correlationId": None,
        "nameId": _Text(name),
        "returnValue": returned,
        "nestingLevel": nesting,
        "callchainId": 0,
    }


def gpu(id: int = 0, name: str = "NVIDIA H200", **columns: Any) -> Row:
    """One row of TARGET_INFO_GPU; other columns by their own names."""
    return {
        "vmId": _VM,
        "id": id,
        "name": name,
        "busLocation": f"0000:{id + 1:02x}:00.0",
        "isDiscrete": 1,
        "l2CacheSize": 62914560,
        "totalMemory": 150039945216,
        "memoryBandwidth": 4812800000000,
        "clockRate": 1980000000,
        "smCount": 132,
        "pwGpuId": id,
        "uuid": f"GPU-00000000-0000-0000-0000-00000000000{id}",
        "chipName": "GH100",
        "cuDevice": id,
        "threadsPerWarp": 32,
        "maxWarpsPerSm": 64,
        "asyncEngines": 3,
        "computeMajor": 9,
        "computeMinor": 0,
        "smMajor": 9,
        "smMinor": 0,
        **columns,
    }


def thread(pid: int, tid: int, name: str) -> Row:
    """One row of ThreadNames."""
    return {"nameId": _Text(name), "priority": 10, "globalTid": global_tid(pid, tid)}


def process(pid: int, name: str) -> Row:
    """One row of PROCESSES."""
    return {"globalPid": global_pid(pid), "pid": pid, "name": name}


def diagnostic(text: str, *, at: int = 0, severity: int = 2, pid: int = 100) -> Row:
    """One row of DIAGNOSTIC_EVENT (severity 1 info, 2 warning, 3 error)."""
    return {
        "timestamp": at,
        "timestampType": 1,
        "source": 1,
        "severity": severity,
        "text": text,
        "globalPid": global_pid(pid),
    }


def overhead(start: int, end: int, name: str = "Buffer flush", *, pid: int = 100, tid: int = 100) -> Row:
    """One row of PROFILER_OVERHEAD."""
    return {
        "start": start,
        "end": end,
        "globalTid": global_tid(pid, tid),
        "correlationId": None,
        "nameId": _Text(name),
        "returnValue": 0,
        "overheadType": 0,
    }


def make_export(
    path: Path,
    *,
    schema: tuple[int, int, int] = (3, 20, 3),
    product: str | None = None,
    kernels: Iterable[Row] = (),
    memcpys: Iterable[Row] = (),
    memsets: Iterable[Row] = (),
    graphs: Iterable[Row] = (),
    syncs: Iterable[Row] = (),
    api: Iterable[Row] = (),
    nvtx: Iterable[Row] = (),
    osrt: Iterable[Row] = (),
    gpus: Iterable[Row] | None = None,
    threads: Iterable[Row] = (),
    processes: Iterable[Row] = (),
    diagnostics: Iterable[Row] = (),
    overheads: Iterable[Row] = (),
    drop_columns: Mapping[str, Sequence[str]] | None = None,
    rename_columns: Mapping[str, Mapping[str, str]] | None = None,
    extra_sql: Sequence[str] = (),
) -> Path:
    """Write an export, replacing a file of that name, and return its path; rows come from functions above."""
    tables = {
        "CUPTI_ACTIVITY_KIND_KERNEL": kernels,
        "CUPTI_ACTIVITY_KIND_MEMCPY": memcpys,
        "CUPTI_ACTIVITY_KIND_MEMSET": memsets,
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": graphs,
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": syncs,
        "CUPTI_ACTIVITY_KIND_RUNTIME": api,
        "NVTX_EVENTS": nvtx,
        "OSRT_API": osrt,
        "TARGET_INFO_GPU": [gpu()] if gpus is None else gpus,
        "ThreadNames": threads,
        "PROCESSES": processes,
        "DIAGNOSTIC_EVENT": diagnostics,
        "PROFILER_OVERHEAD": overheads,
        "META_DATA_EXPORT": _metadata(schema, product),
    }
    path.unlink(missing_ok=True)
    strings: dict[str, int] = {}
    with sqlite3.connect(path) as db:
        db.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN")
        for name, rows in ENUMS.items():
            db.execute(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, name TEXT, label TEXT)")
            db.executemany(f"INSERT INTO {name} VALUES (?, ?, ?)", rows)
        for table, entries in tables.items():
            _fill(db, table, list(entries), schema, strings, drop_columns or {}, rename_columns or {})
        db.execute("CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)")
        texts = ((number, text) for text, number in strings.items())
        db.executemany("INSERT INTO StringIds VALUES (?, ?)", texts)
        for statement in extra_sql:
            db.execute(statement)
    db.close()
    return path


class _Text(str):
    """A text that the export keeps in StringIds."""


def _fill(
    db: sqlite3.Connection,
    table: str,
    rows: list[Row],
    schema: tuple[int, int, int],
    strings: dict[str, int],
    drop: Mapping[str, Sequence[str]],
    rename: Mapping[str, Mapping[str, str]],
) -> None:
    if not rows:
        return
    columns = [c for c in columns_of(table, schema) if c.split()[0] not in drop.get(table, ())]
    renamed = rename.get(table, {})
    declared = [" ".join([f'"{renamed.get(c.split()[0], c.split()[0])}"', *c.split()[1:]]) for c in columns]
    db.execute(f"CREATE TABLE {table} ({', '.join(declared)})")
    names = [c.split()[0] for c in columns]
    values = [[_value(row.get(name), strings) for name in names] for row in rows]
    db.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(names))})", values)


def _value(value: Any, strings: dict[str, int]) -> Any:
    if isinstance(value, _Text):
        return strings.setdefault(str(value), len(strings) + 1)
    return value


def _metadata(schema: tuple[int, int, int], product: str | None) -> list[Row]:
    known = {
        "EXPORT_PRODUCT_NAME": "NVIDIA Nsight Systems",
        "EXPORT_PRODUCT_VERSION": product or _PRODUCTS.get(schema[1], "2026.1.1.1-0v0"),
        "EXPORT_SCHEMA_VERSION": ".".join(map(str, schema)),
        "EXPORT_SCHEMA_VERSION_MAJOR": str(schema[0]),
        "EXPORT_SCHEMA_VERSION_MINOR": str(schema[1]),
        "EXPORT_SCHEMA_VERSION_MICRO": str(schema[2]),
        "EXPORT_FORMAT": "sqlite",
    }
    return [{"name": name, "value": value} for name, value in known.items()]


def _frame(
    start: int,
    end: int,
    *,
    pid: int = 100,
    device: int = 0,
    context: int = 1,
    stream: int = 7,
    correlation: int | None = 0,
) -> Row:
    return {
        "start": start,
        "end": end,
        "deviceId": device,
        "contextId": context,
        "greenContextId": 0,
        "streamId": stream,
        "correlationId": correlation,
        "globalPid": global_pid(pid),
    }


def _nvtx(
    kind: int,
    start: int,
    end: int | None,
    text: str | None,
    pid: int,
    tid: int,
    domain: int,
    registered: bool = False,
) -> Row:
    return {
        "start": start,
        "end": end,
        "eventType": kind,
        "text": None if registered else text,
        "textId": _Text(text) if registered and text is not None else None,
        "globalTid": global_tid(pid, tid),
        "domainId": domain,
    }
