"""Made-up exports with unified memory, MPI, OpenMP and OpenACC events, full of ties and missing values."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support import exports as e

REPORTS = (
    *("um_sum", "um_total_sum", "um_cpu_page_faults_sum"),
    *("mpi_event_sum", "mpi_event_trace", "openmp_sum", "openacc_sum"),
)
_TEXTS = {900_001: "0x4012ab", 900_002: "main", 900_003: "MPI_Send", 900_004: "MPI_Bcast", 900_005: "a.c"}
_TIMES = "start INTEGER, end INTEGER"
_TABLES = {
    "CUDA_UM_CPU_PAGE_FAULT_EVENTS": "start INTEGER, address INTEGER, CpuInstruction INTEGER, "
    "SourceFile INTEGER, SourceLine INTEGER",
    "CUDA_UM_GPU_PAGE_FAULT_EVENTS": f"{_TIMES}, address INTEGER, numberOfPageFaults INTEGER",
    "MPI_P2P_EVENTS": f"{_TIMES}, globalTid INTEGER, textId INTEGER, size INTEGER, tag INTEGER, "
    "remoteRank INTEGER",
    "MPI_OTHER_EVENTS": f"{_TIMES}, globalTid INTEGER, textId INTEGER",
    "MPI_COLLECTIVES_EVENTS": f"{_TIMES}, globalTid INTEGER, textId INTEGER, size INTEGER, recvSize INTEGER, "
    "rootRank INTEGER",
    "MPI_RANKS": "globalTid INTEGER, rank INTEGER",
    "OPENMP_EVENT_KIND_PARALLEL": f"{_TIMES}, nameId INTEGER",
    "OPENMP_EVENT_KIND_TASK": f"{_TIMES}, nameId INTEGER",
    "CUPTI_ACTIVITY_KIND_OPENACC_LAUNCH": f"{_TIMES}, nameId INTEGER, eventKind INTEGER, lineNo INTEGER, "
    "srcFile INTEGER",
}


def make_programming_models(path: Path, seed: int) -> Path:
    """An export with some rows in each of the tables."""
    draw, lines = random.Random(seed), random.Random(seed)
    pages = [0x7F00_0000_0000 + 0x1_0000 * i for i in range(14)]
    threads = [e.global_tid(100, 101 + i) for i in range(3)]
    texts = [*_TEXTS, 999_999]  # the last has no text

    def span() -> tuple[int, int]:
        start = 10 * draw.randrange(40)
        return start, start + draw.choice([5, 5, 8, 30])

    def maybe(value: int) -> int | None:
        return draw.choice([None, value])

    def number() -> int:
        return draw.randrange(1, 5)

    makers: dict[str, Any] = {
        "CUDA_UM_CPU_PAGE_FAULT_EVENTS": lambda: (
            *(span()[0], draw.choice(pages), draw.choice(texts)),
            *lines.choice([(900_005, 7), (900_005, 12), (None, None)]),
        ),
        "CUDA_UM_GPU_PAGE_FAULT_EVENTS": lambda: (*span(), draw.choice(pages), number()),
        "MPI_P2P_EVENTS": lambda: (
            *(*span(), draw.choice(threads), 900_003),
            *(maybe(800 * number()), maybe(number()), maybe(number())),
        ),
        "MPI_OTHER_EVENTS": lambda: (*span(), draw.choice(threads), draw.choice(texts[:4])),
        "MPI_COLLECTIVES_EVENTS": lambda: (*span(), threads[0], 900_004, 6400, maybe(128_000), maybe(0)),
        "OPENMP_EVENT_KIND_PARALLEL": lambda: (*span(), draw.choice(texts[:3])),
        "OPENMP_EVENT_KIND_TASK": lambda: (*span(), draw.choice(texts[:3])),
        "CUPTI_ACTIVITY_KIND_OPENACC_LAUNCH": lambda: (
            *(*span(), draw.choice(texts[:3]), 1, number(), maybe(900_005)),
        ),
    }
    sql = [f"CREATE TABLE {table} ({columns})" for table, columns in _TABLES.items()]
    sql += [f"INSERT INTO StringIds VALUES ({number}, '{text}')" for number, text in _TEXTS.items()]
    sql += [f"INSERT INTO MPI_RANKS VALUES ({threads[0]}, 3), ({threads[1]}, 0)"]
    for table, make in makers.items():
        sql += [f"INSERT INTO {table} VALUES ({_row(make())})" for _ in range(12)]
    copies = []
    for place in range(12):
        copies.append(
            e.memcpy(100 * place, 100 * place + draw.choice([10, 17, 40]), 4096, draw.choice([11, 12]))
        )
        sql.append(
            f"UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET virtualAddress = {draw.choice(pages)} "
            f"WHERE start = {100 * place}"
        )
    made: Path = e.make_export(
        path,
        kernels=[e.kernel(100, 200, correlation=1)],
        api=[e.call(10, 20, correlation=1)],
        memcpys=copies,
        extra_sql=sql,
    )
    return made


def _row(values: Sequence[int | None]) -> str:
    return ", ".join("NULL" if value is None else str(value) for value in values)
