"""Memory that CUDA handed out, in nsys' own table, for made-up exports: events in, a file out."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from tests.support.exports import global_pid

ALLOCATED, FREED = 0, 1
PINNED, DEVICE = 1, 2
DECLARED = (
    "start INTEGER NOT NULL, globalPid INTEGER NOT NULL, deviceId INTEGER NOT NULL, "
    "contextId INTEGER NOT NULL, address INTEGER NOT NULL, pc INTEGER NOT NULL, "
    "bytes INTEGER NOT NULL, memKind INTEGER NOT NULL, "
    "memoryOperationType INTEGER NOT NULL, name TEXT, correlationId INTEGER, streamId INTEGER"
)
Event = tuple[int, int, int, int]


def add_memory_usage(
    path: Path, events: Sequence[Event], *, kind: int = DEVICE, pid: int = 100, device: int = 0
) -> Path:
    """Add (time, allocated or freed, address, bytes) of one kind of memory of a process to an export."""
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"CREATE TABLE IF NOT EXISTS CUDA_GPU_MEMORY_USAGE_EVENTS ({DECLARED})")
        rows = [
            (time, global_pid(pid), device, 1, address, 0, size, kind, operation, None, 1, None)
            for time, operation, address, size in events
        ]
        marks = ", ".join("?" * len(rows[0]))
        db.executemany(f"INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES ({marks})", rows)
        db.commit()
    return path
