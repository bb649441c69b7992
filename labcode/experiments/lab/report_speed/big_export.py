"""Writes a large made-up nsys export: a number of GPU operations in, a file like a long run's out.

Several processes drive a GPU each, from two threads, with nested NVTX ranges around the launches; some
kernels come from graph replays and have no launch of their own. The same arguments give the same file. Two
mixes:

- ``training``: 94 % kernels, 4 % copies, 2 % memsets; a range around every 10, 100 and 500 launches; an OS
  runtime call for every fourth launch. As of a training loop whose operators are not annotated.
- ``dense``: 50 % kernels, 30 % copies, 20 % memsets; besides, a push/pop range around the launch of every
  kernel, as PyTorch's autograd annotation makes, a start/end range around that of every copy and memset, and
  an OS runtime call for every other operation. Of two million operations every report has a million rows or
  more to read: kernels, copies and memsets, calls of CUDA and of the OS runtime, ranges of both kinds.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, repeat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labcode.errors import LabError
from labcode.experiments.lab.report_speed.export_tables import ENUMS, columns_of

Ints = NDArray[np.int64]
_Columns = dict[str, Any]  # arrays, or one value for all rows

MIXES = ("training", "dense")
SCHEMA = (3, 20, 3)
_PRODUCT = "2025.3.1.90-253135822126v0"
_VM = 1 << 48  # nsys writes the number of the (virtual) machine above the pid
_STEMS = ("elementwise", "reduce", "gemm_tiled", "layer_norm", "softmax_warp_forward", "gather_rows")
_KERNELS = [f"{_STEMS[i % len(_STEMS)]}_kernel_{i}" for i in range(60)]
_SIGNATURES = [
    f"void lab::{name}<{'half' if i % 2 else 'float'}, {2 << i % 5}, lab::Policy<{i}, (bool)1>>"
    f"({'half' if i % 2 else 'float'} const*, float*, lab::Shape<3>, int)"
    for i, name in enumerate(_KERNELS)
]
_MANGLED = [f"_ZN3lab{len(name)}{name}IfLi{i}EEEvPKfPfi" for i, name in enumerate(_KERNELS)]
_CALLS = ("cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020", "cudaMemsetAsync_v3020")
_WAITS = ("read", "poll", "pthread_cond_wait")
_REGISTERED = "register"
_THREADS = ("main", "loader")
_BACKWARD = [
    f"autograd::engine::evaluate_function: {stem.title().replace('_', '')}Backward{i}"
    for stem in _STEMS
    for i in range(29)
]
_TRANSFERS = [f"{what} of micro-batch {i}" for what in ("upload", "download", "reset") for i in range(41)]
_STRINGS = (*_KERNELS, *_SIGNATURES, *_MANGLED, *_CALLS, *_WAITS, _REGISTERED, *_THREADS)
_ID = {text: number for number, text in enumerate(_STRINGS, 1)}
_NAMES = {
    column: np.array([_ID[text] for text in texts])
    for column, texts in (("demangledName", _SIGNATURES), ("shortName", _KERNELS), ("mangledName", _MANGLED))
}
_ROWS = 1 << 15  # written at once
_PER_STEP = 500
_TICK = 32  # ns; a GPU's clock, so that times are alike now and then
_PUSH_POP, _START_END, _DOMAIN = 59, 60, 75
_TABLES = (
    *(f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("KERNEL", "MEMCPY", "MEMSET", "RUNTIME")),
    *("NVTX_EVENTS", "OSRT_API", "TARGET_INFO_GPU", "ThreadNames", "META_DATA_EXPORT"),
)


@dataclass(frozen=True)
class _Launches:
    """The launches of a process, one for each operation, by time."""

    pid: int
    device: int
    called: Ints
    returned: Ints
    start: Ints
    end: Ints
    kind: Ints  # 0 kernel, 1 copy, 2 memset
    thread: Ints  # nsys' globalTid
    stream: Ints
    correlation: Ints


def make_big_export(
    path: Path, ops: int = 1_000_000, *, processes: int = 4, seed: int = 0, mix: str = "training"
) -> Path:
    """Write an export of about ``ops`` GPU operations, replacing a file of that name; its path."""
    if mix not in MIXES:
        raise LabError(f"{mix!r} is not a mix of operations; choose one of {', '.join(MIXES)}")
    rng = np.random.default_rng(seed)
    path.unlink(missing_ok=True)
    db = sqlite3.connect(path)
    db.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")
    try:
        with db:
            _tables(db)
            for process in range(processes):
                launches = _launches(process, ops // processes, rng, dense=mix == "dense")
                _fill(db, launches, rng, dense=mix == "dense")
    finally:
        db.close()
    return path


def _tables(db: sqlite3.Connection) -> None:
    for name, rows in ENUMS.items():
        db.execute(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, name TEXT, label TEXT)")
        db.executemany(f"INSERT INTO {name} VALUES (?, ?, ?)", rows)
    for table in _TABLES:
        db.execute(f"CREATE TABLE {table} ({', '.join(columns_of(table, SCHEMA))})")
    db.execute("CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)")
    db.executemany("INSERT INTO StringIds VALUES (?, ?)", enumerate(_STRINGS, 1))
    about = {
        "EXPORT_PRODUCT_NAME": "NVIDIA Nsight Systems",
        "EXPORT_PRODUCT_VERSION": _PRODUCT,
        "EXPORT_SCHEMA_VERSION": ".".join(map(str, SCHEMA)),
        **{
            f"EXPORT_SCHEMA_VERSION_{part}": str(number)
            for part, number in zip(("MAJOR", "MINOR", "MICRO"), SCHEMA, strict=True)
        },
        "EXPORT_FORMAT": "sqlite",
    }
    db.executemany("INSERT INTO META_DATA_EXPORT VALUES (?, ?)", about.items())


def _launches(process: int, count: int, rng: np.random.Generator, *, dense: bool) -> _Launches:
    pid = 1000 + process
    called = 1_000_000 + np.cumsum(rng.integers(2_000, 6_000, count))
    returned = called + rng.integers(800, 1_900, count)
    start = (returned + rng.integers(500, 100_000, count)) // _TICK * _TICK
    end = start + np.maximum(800, rng.lognormal(8.5, 1.0, count).astype(np.int64)) // _TICK * _TICK
    bounds = np.array([0.5, 0.8] if dense else [0.94, 0.98]) * count
    kind = np.searchsorted(bounds, rng.permutation(count), "right")
    thread = (np.arange(count) // _PER_STEP) % len(_THREADS)
    return _Launches(
        pid=pid,
        device=process,
        called=called,
        returned=returned,
        start=start,
        end=end,
        kind=kind,
        thread=_process_id(pid) | (pid + thread),
        stream=7 + rng.integers(0, 4, count),
        correlation=np.arange(count) + 1000,
    )


def _fill(db: sqlite3.Connection, made: _Launches, rng: np.random.Generator, *, dense: bool) -> None:
    count = len(made.start)
    names = rng.integers(0, len(_KERNELS), count)
    blocks = rng.choice(np.array([1, 132, 264, 1056]), count)
    replayed = rng.random(count) < 0.01
    own = _process_id(made.pid)
    kernels, copies, sets = (np.flatnonzero(made.kind == kind) for kind in range(3))

    def operations(rows: Ints) -> _Columns:
        return {
            "start": made.start[rows],
            "end": made.end[rows],
            "deviceId": made.device,
            "contextId": 1,
            "streamId": made.stream[rows],
            "correlationId": made.correlation[rows],
            "globalPid": own,
        }

    operation = operations(kernels)
    operation["correlationId"] = made.correlation[kernels] + 10_000_000 * replayed[kernels]
    nodes = np.array([None, 42], object)[replayed[kernels].astype(np.int64)]
    number = np.arange(len(kernels))
    _insert(
        db,
        "CUPTI_ACTIVITY_KIND_KERNEL",
        operation
        | {name: np.take(ids, names[kernels]) for name, ids in _NAMES.items()}
        | {"launchType": 1, "registersPerThread": 32, "gridX": blocks[kernels], "gridY": 1, "gridZ": 1}
        | {"blockX": 256, "blockY": 1, "blockZ": 1, "staticSharedMemory": 0, "dynamicSharedMemory": 0}
        | {"localMemoryPerThread": 0, "localMemoryTotal": 0, "gridId": number, "sharedMemoryExecuted": 32768}
        | {"graphNodeId": nodes, "sharedMemoryLimitConfig": 0},
    )
    to, back = np.array([1, 2, 2]), np.array([2, 1, 2])  # kinds of memory: pinned, device
    _insert(
        db,
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        operations(copies)
        | {"bytes": 4096 * (1 + copies % 1000), "copyKind": np.array([1, 2, 8])[copies % 3]}
        | {"srcKind": to[copies % 3], "dstKind": np.where(copies % 6 == 1, 0, back[copies % 3])}
        | {"copyCount": 1},
    )
    more: _Columns = {"value": 0, "bytes": 1024 * (1 + sets % 64), "memKind": 2}
    _insert(db, "CUPTI_ACTIVITY_KIND_MEMSET", operations(sets) | more)
    _insert(
        db,
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        {"start": made.called, "end": made.returned, "eventClass": 0, "globalTid": made.thread}
        | {"correlationId": made.correlation, "nameId": np.array([_ID[c] for c in _CALLS])[made.kind]}
        | {"returnValue": 0},
    )
    for ranges in _ranges(made, dense=dense):
        _insert(db, "NVTX_EVENTS", {"domainId": 0} | ranges)
    some = slice(None, None, 2 if dense else 4)
    began = made.called[some]
    _insert(
        db,
        "OSRT_API",
        {"start": began, "end": began + 500 + began % 1000, "eventClass": 27, "globalTid": made.thread[some]}
        | {"nameId": np.array([_ID[name] for name in _WAITS])[began % 3], "returnValue": 0}
        | {"nestingLevel": 0, "callchainId": 0},
    )
    threads = own | (made.pid + np.arange(len(_THREADS)))
    ids = np.array([_ID[name] for name in _THREADS])
    _insert(db, "ThreadNames", {"nameId": ids, "priority": 10, "globalTid": threads})
    gpu: _Columns = {"vmId": _VM, "id": np.array([made.device]), "name": "NVIDIA H200"}
    _insert(db, "TARGET_INFO_GPU", gpu | {"smCount": 132, "computeMajor": 9})


def _ranges(made: _Launches, *, dense: bool) -> Iterator[_Columns]:
    """Steps of 500 launches hold layers of 100 (registered names of a domain), these operators of 10."""
    main = _process_id(made.pid) | made.pid
    yield {"start": np.array([0]), "eventType": _DOMAIN, "globalTid": main, "text": "lab", "domainId": 1}
    for width, label in ((_PER_STEP, "step"), (_PER_STEP // 5, None), (_PER_STEP // 50, "operator")):
        margin = width // 10 + 1
        low = np.arange(0, len(made.called) - width + 1, width)
        around = _around(made, low, low + width - 1, margin) | {"eventType": _PUSH_POP}
        if label is None:
            yield around | {"textId": _ID[_REGISTERED], "domainId": 1}
        else:
            texts = np.array([f"{label} {number}" for number in range(7)], object)
            yield around | {"text": texts[np.arange(len(low)) % 7]}
    if dense:
        rows = np.flatnonzero(made.kind == 0)
        texts = np.array(_BACKWARD, object)[rows % len(_BACKWARD)]
        yield _around(made, rows, rows, 1) | {"eventType": _PUSH_POP, "text": texts}
        rows = np.flatnonzero(made.kind != 0)
        texts = np.array(_TRANSFERS, object)[rows % len(_TRANSFERS)]
        yield _around(made, rows, rows, 30) | {"eventType": _START_END, "text": texts}


def _around(made: _Launches, first: Ints, last: Ints, margin: int) -> _Columns:
    start, end = made.called[first] - margin, made.returned[last] + margin
    return {"start": start, "end": end, "globalTid": made.thread[first]}


def _process_id(pid: int) -> int:
    return _VM | pid << 24


def _insert(db: sqlite3.Connection, table: str, columns: _Columns) -> None:
    """Rows from columns by name; other columns are empty."""
    names = [declared.split()[0] for declared in columns_of(table, SCHEMA)]
    count = max(len(values) for values in columns.values() if isinstance(values, np.ndarray))
    query = f"INSERT INTO {table} VALUES ({', '.join('?' * len(names))})"
    for low in range(0, count, _ROWS):
        part = [
            values[low : low + _ROWS].tolist() if isinstance(values, np.ndarray) else repeat(values)
            for values in map(columns.get, names)
        ]
        db.executemany(query, islice(zip(*part, strict=False), count - low))
