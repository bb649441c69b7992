"""Writes a large made-up nsys export: a number of GPU operations in, a file like a long run's out.

    python -m tests.support.big_export big.sqlite --ops 1000000

Several processes drive a GPU each, from two threads, with nested NVTX ranges around the launches; some
operations come from graph replays and have no launch of their own. The same arguments give the same file.
"""

from __future__ import annotations

import argparse
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.support import exports

_KERNELS = 40
_PER_STEP = 500


def make_big_export(path: Path, ops: int = 1_000_000, *, processes: int = 4, seed: int = 0) -> Path:
    """Write an export with ``ops`` GPU operations: 94 % kernels, 4 % copies, 2 % memsets."""
    rng = np.random.default_rng(seed)
    names = [f"void lab::kernel_{i}<float, {i}>(float const*, float*, int)" for i in range(_KERNELS)]
    first = [
        exports.kernel(0, 1, name, pid=1000 + i % processes, device=i % processes, correlation=None)
        for i, name in enumerate(names)
    ]
    pids = [1000 + i for i in range(processes)]
    exports.make_export(
        path,
        kernels=first,
        memcpys=[exports.memcpy(0, 1, pid=1000, correlation=None)],
        memsets=[exports.memset(0, 1, pid=1000, correlation=None)],
        api=[
            exports.call(0, 1, name, pid=1000, tid=1000, correlation=None)
            for name in ("cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020", "cudaMemsetAsync_v3020")
        ],
        nvtx=[exports.domain(1, "lab", pid=pid, tid=pid) for pid in pids]
        + [exports.push_pop(0, 1, "register", registered=True, pid=1000)],
        osrt=[exports.osrt(0, 1, name) for name in ("read", "poll", "pthread_cond_wait")],
        gpus=[exports.gpu(i) for i in range(processes)],
        threads=[exports.thread(pid, pid + i, ("main", "loader")[i]) for pid in pids for i in range(2)],
    )
    with sqlite3.connect(path) as db:
        ids = {text: number for number, text in db.execute("SELECT id, value FROM StringIds")}
        for process in range(processes):
            _process(db, process, ops // processes, rng, ids, names)
    db.close()
    return path


def _process(
    db: sqlite3.Connection,
    process: int,
    count: int,
    rng: np.random.Generator,
    ids: dict[str, int],
    names: list[str],
) -> None:
    """One process: launches on two threads, steps of 500 launches, each with nested ranges."""
    pid = 1000 + process
    gap = rng.integers(2_000, 6_000, count)
    called = 1_000_000 + np.cumsum(gap)
    returned = called + rng.integers(800, 1_900, count)
    start = returned + rng.integers(500, 100_000, count)
    end = start + np.maximum(800, (rng.lognormal(8.5, 1.0, count)).astype(np.int64))
    which = rng.random(count)
    kind = np.where(which < 0.94, 0, np.where(which < 0.98, 1, 2))
    thread = (np.arange(count) // _PER_STEP) % 2
    tids = np.where(thread == 0, exports.global_tid(pid, pid), exports.global_tid(pid, pid + 1))
    correlation = np.arange(count) + 1000
    stream = 7 + rng.integers(0, 4, count)
    replayed = (rng.random(count) < 0.01) & (kind == 0)
    name = rng.integers(0, _KERNELS, count)
    blocks = rng.choice(np.array([1, 132, 264, 1056]), count)
    frame = np.stack([start, end, correlation, stream], axis=1)
    at = frame.tolist()
    own = exports.global_pid(pid)

    def kernels() -> Iterator[tuple[Any, ...]]:
        for i, b in zip(np.flatnonzero(kind == 0).tolist(), blocks[kind == 0].tolist(), strict=True):
            s, e, c, st = at[i]
            number = name[i]
            node = 42 if replayed[i] else None
            yield (
                *(s, e, process, 1, None, st, c if node is None else c + 10_000_000, own),
                *(ids[names[number]], ids[f"kernel_{number}"], ids[f"_Zkernel_{number}"], 1, None, 32),
                *(b, 1, 1, 256, 1, 1, 0, 0, 0, 0, i, 32768, node, 0),
            )

    _insert(db, "CUPTI_ACTIVITY_KIND_KERNEL", kernels())
    copies = [
        (
            *(s, e, process, 1, None, st, c, own, 4096 * (1 + i % 1000), (1, 2, 8)[i % 3], None),
            *(((1, 2), (2, i % 2), (2, 2))[i % 3]),
            *(None, None, None, None, None, None, None, 1),
        )
        for i in np.flatnonzero(kind == 1).tolist()
        for s, e, c, st in (at[i],)
    ]
    _insert(db, "CUPTI_ACTIVITY_KIND_MEMCPY", copies)
    sets = [
        (s, e, process, 1, None, st, c, own, 0, 1024 * (1 + i % 64), None, 2)
        for i in np.flatnonzero(kind == 2).tolist()
        for s, e, c, st in (at[i],)
    ]
    _insert(db, "CUPTI_ACTIVITY_KIND_MEMSET", sets)
    calls = [ids["cudaLaunchKernel_v7000"], ids["cudaMemcpyAsync_v3020"], ids["cudaMemsetAsync_v3020"]]
    rows = zip(
        called.tolist(), returned.tolist(), tids.tolist(), correlation.tolist(), kind.tolist(), strict=True
    )
    _insert(db, "CUPTI_ACTIVITY_KIND_RUNTIME", ((s, e, 0, t, c, calls[k], 0, None) for s, e, t, c, k in rows))
    _insert(db, "NVTX_EVENTS", _ranges(called, returned, tids, ids["register"]))
    waits = (ids["read"], ids["poll"], ids["pthread_cond_wait"])
    system = zip(called[::4].tolist(), tids[::4].tolist(), strict=True)
    _insert(db, "OSRT_API", ((s, s + 500 + s % 1000, 27, t, waits[s % 3], 0, 0, 0) for s, t in system))


def _ranges(
    called: NDArray[np.int64], returned: NDArray[np.int64], tids: NDArray[np.int64], registered: int
) -> Iterator[tuple[Any, ...]]:
    """Steps of 500 launches hold layers of 100 (registered strings of a domain), these operators of 10."""
    for width, label, domain in (
        (_PER_STEP, "step", 0),
        (_PER_STEP // 5, None, 1),
        (_PER_STEP // 50, "operator", 0),
    ):
        margin = width // 10 + 1
        for number, low in enumerate(range(0, len(called) - width + 1, width)):
            high = low + width - 1
            text = None if label is None else f"{label} {number % 7}"
            yield (
                *(
                    int(called[low]) - margin,
                    int(returned[high]) + margin,
                    exports.PUSH_POP,
                    None,
                    None,
                    None,
                    text,
                ),
                *(int(tids[low]), None, registered if label is None else None, domain),
                *((None,) * 8),
            )


def _insert(db: sqlite3.Connection, table: str, rows: Any) -> None:
    width = len(db.execute(f"PRAGMA table_info({table})").fetchall())
    db.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * width)})", rows)


def main() -> None:
    """Write the file named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--ops", type=int, default=1_000_000)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    make_big_export(arguments.path, arguments.ops, processes=arguments.processes, seed=arguments.seed)


if __name__ == "__main__":
    main()
