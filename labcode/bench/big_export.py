"""Writes a large made-up nsys export: a number of GPU operations in, a file like a long run's out.

Several processes drive a GPU each, from two threads, with nested NVTX ranges around the launches; some
kernels come from graph replays and have no launch of their own. The same arguments give the same file. Two
mixes:

- ``training``: 94 % kernels, 4 % copies, 2 % memsets; a range around every 10, 100 and 500 launches; an OS
  runtime call for every fourth launch. As of a training loop whose operators are not annotated.
- ``dense``: 50 % kernels, 30 % copies, 20 % memsets; besides a push/pop range around every launch, as
  PyTorch's autograd annotation makes, a start/end range around every other one, and an OS runtime call for
  each. Every table has about as many rows as there are operations.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labcode.bench.export_tables import ENUMS, columns_of
from labcode.errors import LabError

Ints = NDArray[np.int64]
Rows = Iterable[Sequence[Any]]

MIXES = ("training", "dense")
SCHEMA = (3, 20, 3)
_PRODUCT = "2025.3.1.90-253135822126v0"
_VM = 1 << 48  # nsys writes the number of the (virtual) machine above the pid
_KERNELS = [f"kernel_{i}" for i in range(40)]
_SIGNATURES = [f"void lab::{name}<float, {i}>(float const*, float*, int)" for i, name in enumerate(_KERNELS)]
_MANGLED = [f"_ZN3lab{len(name)}{name}IfLi{i}EEEvPKfPfi" for i, name in enumerate(_KERNELS)]
_CALLS = ("cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020", "cudaMemsetAsync_v3020")
_WAITS = ("read", "poll", "pthread_cond_wait")
_REGISTERED = "register"
_THREADS = ("main", "loader")
_STRINGS = (*_KERNELS, *_SIGNATURES, *_MANGLED, *_CALLS, *_WAITS, _REGISTERED, *_THREADS)
_ID = {text: number for number, text in enumerate(_STRINGS, 1)}
_PER_STEP = 500
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
    start = returned + rng.integers(500, 100_000, count)
    end = start + np.maximum(800, rng.lognormal(8.5, 1.0, count).astype(np.int64))
    kind = np.searchsorted([0.5, 0.8] if dense else [0.94, 0.98], rng.random(count), "right")
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
    at = np.stack([made.start, made.end, made.correlation, made.stream], axis=1)
    own, device = _process_id(made.pid), made.device
    rows = [np.flatnonzero(made.kind == kind) for kind in range(3)]
    names = rng.integers(0, len(_KERNELS), count)
    blocks = rng.choice(np.array([1, 132, 264, 1056]), count)
    replayed = rng.random(count) < 0.01
    ids = [(_ID[_SIGNATURES[i]], _ID[_KERNELS[i]], _ID[_MANGLED[i]]) for i in range(len(_KERNELS))]

    def kernels() -> Iterator[tuple[Any, ...]]:
        parts = (part[rows[0]].tolist() for part in (at, names, blocks, replayed))
        for number, ((start, end, correlation, stream), name, block, node) in enumerate(
            zip(*parts, strict=True)
        ):
            yield (
                *(start, end, device, 1, None, stream, correlation + 10_000_000 * node, own, *ids[name]),
                *(1, None, 32, block, 1, 1, 256, 1, 1, 0, 0, 0, 0, number, 32768, 42 if node else None, 0),
            )

    _insert(db, "CUPTI_ACTIVITY_KIND_KERNEL", kernels())
    _insert(
        db,
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        (
            (s, e, device, 1, None, stream, c, own, 4096 * (1 + i % 1000), (1, 2, 8)[i % 3], None)
            + ((1, 2), (2, i % 2), (2, 2))[i % 3]
            + (None,) * 7
            + (1,)
            for i, (s, e, c, stream) in zip(rows[1].tolist(), at[rows[1]].tolist(), strict=True)
        ),
    )
    _insert(
        db,
        "CUPTI_ACTIVITY_KIND_MEMSET",
        (
            (s, e, device, 1, None, stream, c, own, 0, 1024 * (1 + i % 64), None, 2)
            for i, (s, e, c, stream) in zip(rows[2].tolist(), at[rows[2]].tolist(), strict=True)
        ),
    )
    calls = [_ID[name] for name in _CALLS]
    parts = (part.tolist() for part in (made.called, made.returned, made.thread, made.correlation, made.kind))
    _insert(
        db,
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        ((s, e, 0, thread, c, calls[kind], 0, None) for s, e, thread, c, kind in zip(*parts, strict=True)),
    )
    _insert(db, "NVTX_EVENTS", _ranges(made, dense=dense))
    waits = [_ID[name] for name in _WAITS]
    every = 1 if dense else 4
    system = zip(made.called[::every].tolist(), made.thread[::every].tolist(), strict=True)
    _insert(
        db,
        "OSRT_API",
        ((s, s + 500 + s % 1000, 27, thread, waits[s % 3], 0, 0, 0) for s, thread in system),
    )
    _insert(
        db,
        "ThreadNames",
        ((_ID[name], 10, own | (made.pid + number)) for number, name in enumerate(_THREADS)),
    )
    gpu = {"vmId": _VM, "id": device, "name": "NVIDIA H200", "smCount": 132, "computeMajor": 9}
    columns = [column.split()[0] for column in columns_of("TARGET_INFO_GPU", SCHEMA)]
    _insert(db, "TARGET_INFO_GPU", [tuple(gpu.get(column) for column in columns)])


def _ranges(made: _Launches, *, dense: bool) -> Iterator[tuple[Any, ...]]:
    """Steps of 500 launches hold layers of 100 (registered names of a domain), these operators of 10."""
    main = _process_id(made.pid) | made.pid
    yield _range(0, None, _DOMAIN, main, text="lab", domain=1)
    for width, label in ((_PER_STEP, "step"), (_PER_STEP // 5, None), (_PER_STEP // 50, "operator")):
        margin = width // 10 + 1
        for number, low in enumerate(range(0, len(made.called) - width + 1, width)):
            start, end = int(made.called[low]) - margin, int(made.returned[low + width - 1]) + margin
            thread = int(made.thread[low])
            if label is None:
                yield _range(start, end, _PUSH_POP, thread, registered=_ID[_REGISTERED], domain=1)
            else:
                yield _range(start, end, _PUSH_POP, thread, text=f"{label} {number % 7}")
    if not dense:
        return
    rows = zip(made.called.tolist(), made.returned.tolist(), made.thread.tolist(), strict=True)
    for number, (start, end, thread) in enumerate(rows):
        text = (
            f"autograd::engine::evaluate_function: lab::{_KERNELS[number % 40]}Backward, variant {number % 7}"
        )
        yield _range(start - 1, end + 1, _PUSH_POP, thread, text=text)
        if number % 2:
            yield _range(start - 30, end + 30, _START_END, thread, text=f"request {number % 5}")


def _range(
    start: int,
    end: int | None,
    kind: int,
    thread: int,
    *,
    text: str | None = None,
    registered: int | None = None,
    domain: int = 0,
) -> tuple[Any, ...]:
    """A row of NVTX_EVENTS."""
    return (
        *(start, end, kind, None, None, None, text, thread, None, registered, domain),
        *((None,) * 8),
    )


def _process_id(pid: int) -> int:
    return _VM | pid << 24


def _insert(db: sqlite3.Connection, table: str, rows: Rows) -> None:
    marks = ", ".join("?" * len(columns_of(table, SCHEMA)))
    db.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
