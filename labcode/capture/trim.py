"""What of an nsys export is kept: its tables by name, and of their rows those in a window of time."""

import re
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from labcode.reports.common import MEASURED

# Things that happened, with `start` and `end` (or one of the two, or `timestamp`).
EVENT_TABLES = re.compile(
    r"""CUPTI_ACTIVITY_KIND_\w+ | NVTX_EVENTS | OSRT_API | COMPOSITE_EVENTS | SCHED_EVENTS
      | PROFILER_OVERHEAD | CUBLAS_EVENTS | CUDNN_EVENTS | GPU_METRICS | NCCL_\w+
      | MPI_\w+_EVENTS | MPI_(?:P2P|COLLECTIVES|OTHER)\w*
      | CUDA_GPU_MEMORY_(?:USAGE|POOL)_EVENTS | CUDA_UM_[CG]PU_PAGE_FAULT_EVENTS
      | GPU_CONTEXT_SWITCH_EVENTS""",
    re.VERBOSE,
)
# Operations of a GPU: they belong to the API call with the same correlation id in the same process.
GPU_TABLES = re.compile(r"CUPTI_ACTIVITY_KIND_(?!RUNTIME$|DRIVER$|SYNCHRONIZATION$|CUDA_EVENT$)\w+")
CALL_TABLES = re.compile(r"CUPTI_ACTIVITY_KIND_(?:RUNTIME|DRIVER)")
# Call stacks, each with the (table, column) whose values point to its `id`.
STACK_TABLES = {
    "CUDA_CALLCHAINS": ("CUPTI_ACTIVITY_KIND_RUNTIME", "callchainId"),
    "OSRT_CALLCHAINS": ("OSRT_API", "callchainId"),
    "SAMPLING_CALLCHAINS": ("COMPOSITE_EVENTS", "id"),
}
# What the events refer to, and what the profiler said about itself.
OTHER_TABLES = re.compile(
    r"""ENUM_\w+ | TARGET_INFO_(?:GPU|GPU_METRICS|CUDA_\w+|NVTX_CUDA_DEVICE) | CUDA_GRAPH_(?:NODE_)?EVENTS
      | CUDA_GRAPH_EXEC\w* | NVTX_PAYLOAD_\w+ | ThreadNames | PROCESSES | DIAGNOSTIC_EVENT | ANALYSIS_DETAILS
      | META_DATA_EXPORT | EXPORT_META_DATA | StringIds""",
    re.VERBOSE,
)
# Columns that say which machine it was; they are emptied.
PRIVATE_COLUMNS = {
    "TARGET_INFO_GPU": ("uuid", "luid", "busLocation", "ctxswDevPath", "ctrlDevPath"),
    "TARGET_INFO_CUDA_DEVICE": ("uuid", "luid", "busLocation"),
    "TARGET_INFO_CUDA_GPU": ("uuid", "luid", "busLocation"),
    "NVTX_EVENTS": ("binaryData",),
    **dict.fromkeys(STACK_TABLES, ("originalIP",)),  # addresses: different at every run, and bulky
}
# What an export says of itself, as nsys calls it now and until 2023.1.
METADATA = frozenset({"META_DATA_EXPORT", "EXPORT_META_DATA"})
# Its rows that readers need; the others hold the host, the user and paths.
EXPORT_FACTS = re.compile(r"EXPORT_(?:PRODUCT_\w+|SCHEMA_\w+|PLATFORM|ARCH|TIME_UTC)")
# Columns that hold ids of StringIds, where the table's own declaration does not say so.
STRING_COLUMNS = frozenset(
    {
        "nameId",
        "textId",
        "jsonTextId",
        "demangledName",
        "shortName",
        "mangledName",
        "symbol",
        "module",
        "messageId",
    }
)
# Payloads of NVTX events that are kept: Python stacks. Others, such as those of NCCL, are dropped.
KEPT_PAYLOAD = re.compile(r'\s*\{\s*"Python ')
# Events of threads that the operating system or a sampler saw, also of threads nobody asked about.
SCHEDULING_TABLES = ("SCHED_EVENTS", "COMPOSITE_EVENTS")
# Names (SQL patterns) of threads that the profiler itself runs inside of the program.
PROFILER_THREADS = ("[NSys%", "NSys %")
# Range-like NVTX events; the other types (domains, categories, names of threads) give names and always stay.
NVTX_MARK, NVTX_PUSH_POP, NVTX_START_END = 34, 59, 60
_PID = "& 0xFFFFFFFFFF000000"  # globalTid → globalPid


@dataclass(frozen=True)
class Beginning:
    """What stays of a program's beginning, and of its end: what a GPU did until ``until`` (ns), the CUDA
    calls of ``call_ns`` and more, and of the operating system those of ``os_ns`` and more."""

    until: int
    call_ns: int
    os_ns: int


def is_kept(table: str) -> bool:
    """Whether a table may stay in a published export."""
    return table in STACK_TABLES or bool(EVENT_TABLES.fullmatch(table) or OTHER_TABLES.fullmatch(table))


def columns(db: sqlite3.Connection, table: str) -> list[str]:
    """The names of a table's columns; empty when there is no such table."""
    return [name for (name,) in db.execute("SELECT name FROM pragma_table_info(?)", (table,))]


def table_names(db: sqlite3.Connection) -> list[str]:
    """The tables of a database, SQLite's own left out."""
    rows = db.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY rootpage"
    )
    return [row[0] for row in rows]


def measured_window(db: sqlite3.Connection, name: str = MEASURED) -> tuple[int, int] | None:
    """First start and last end (ns) of the NVTX ranges of this name over all processes, or None."""
    have = columns(db, "NVTX_EVENTS")
    if not have:
        return None
    texts = ["e.text = :name"] if "text" in have else []
    if "textId" in have:
        texts.append("e.textId IN (SELECT id FROM StringIds WHERE value = :name)")
    row = db.execute(
        "SELECT min(e.start), max(e.end) FROM NVTX_EVENTS e "
        f"WHERE e.end IS NOT NULL AND ({' OR '.join(texts)})",
        {"name": name},
    ).fetchone()
    return None if row[0] is None else (int(row[0]), int(row[1]))


def trim_export(path: Path, name: str = MEASURED) -> tuple[int, int] | None:
    """Delete events outside the window of the NVTX ranges called ``name``; the file is changed in place.

    Events that overlap the window stay, whole, and so does the API call of every GPU operation that stays.
    Of the context switches also each thread's last one before the window stays and its first one after it:
    they tell its state at the edges. Samples and switches of the profiler's own threads, and of processes
    that do not belong to the run, go. Tables of names, contexts, streams, graphs and devices are untouched.
    Returns the window in ns, or None (and changes nothing) when no such range was recorded.
    """
    with closing(sqlite3.connect(path)) as db:
        window = measured_window(db, name)
        if window is not None:
            cut(db, window)
        return window


def cut(db: sqlite3.Connection, window: tuple[int, int], beginning: Beginning | None = None) -> None:
    """Delete events outside a window as `trim_export` does; of what lies before and after it what tells of
    the ``beginning`` stays, too.
    """
    db.execute("PRAGMA journal_mode = OFF")
    db.execute("PRAGMA synchronous = OFF")
    events = [t for t in table_names(db) if EVENT_TABLES.fullmatch(t)]
    _drop_strangers(db, events)
    later = [t for t in events if CALL_TABLES.fullmatch(t)]
    linked = [t for t in events if t not in later and not _timed(columns(db, t))]
    for table in events:
        if table not in later and table not in linked:
            _delete_outside(db, table, window, beginning=beginning)
    _correlations(db, "kept_operations", [t for t in events if GPU_TABLES.fullmatch(t) and t not in linked])
    for table in later:
        _delete_outside(db, table, window, unless="kept_operations", beginning=beginning)
    _correlations(db, "kept_calls", later)
    for table in linked:
        if {"correlationId", "globalPid"} <= set(columns(db, table)):
            db.execute(
                f'DELETE FROM "{table}" WHERE NOT EXISTS (SELECT 1 FROM kept_calls k '
                f'WHERE k.correlation = "{table}".correlationId AND k.pid = "{table}".globalPid)'
            )
    for stacks, (table, column) in STACK_TABLES.items():
        if columns(db, stacks) and column in columns(db, table):
            db.execute(
                f'DELETE FROM "{stacks}" WHERE id NOT IN '
                f'(SELECT "{column}" FROM "{table}" WHERE "{column}" IS NOT NULL)'
            )
    db.commit()


def _drop_strangers(db: sqlite3.Connection, events: list[str]) -> None:
    """Delete samples and context switches of the profiler's threads and of processes outside of the run.

    A process belongs to the run when it has other events too, or when it has the same program's name as one
    that has, or none (a forked worker is not in the list of processes).
    """
    scheduling = [t for t in SCHEDULING_TABLES if "globalTid" in columns(db, t)]
    if {"globalTid", "nameId"} <= set(columns(db, "ThreadNames")):
        alike = " OR ".join("s.value LIKE ?" for _ in PROFILER_THREADS)
        for table in scheduling:
            db.execute(
                f'DELETE FROM "{table}" WHERE globalTid IN (SELECT t.globalTid FROM ThreadNames t '
                f"JOIN StringIds s ON s.id = t.nameId WHERE {alike})",
                PROFILER_THREADS,
            )
    if not {"globalPid", "name"} <= set(columns(db, "PROCESSES")):
        return
    db.execute("CREATE TEMP TABLE of_the_run (pid INTEGER PRIMARY KEY)")
    for table in events:
        owner = next((c for c in ("globalTid", "globalPid") if c in columns(db, table)), None)
        if owner and table not in (*SCHEDULING_TABLES, "PROFILER_OVERHEAD"):
            db.execute(
                f'INSERT OR IGNORE INTO of_the_run SELECT DISTINCT "{owner}" {_PID} FROM "{table}" '
                f'WHERE "{owner}" IS NOT NULL'
            )
    for table in scheduling:
        db.execute(
            f'DELETE FROM "{table}" WHERE globalTid {_PID} IN (SELECT globalPid FROM PROCESSES '
            "WHERE globalPid NOT IN (SELECT pid FROM of_the_run) AND name NOT IN "
            "(SELECT name FROM PROCESSES WHERE globalPid IN (SELECT pid FROM of_the_run)))"
        )


def _timed(have: list[str]) -> bool:
    return "start" in have or "timestamp" in have


def _delete_outside(
    db: sqlite3.Connection,
    table: str,
    window: tuple[int, int],
    unless: str = "",
    beginning: Beginning | None = None,
) -> None:
    have = columns(db, table)
    begin = "start" if "start" in have else "timestamp"
    inside = f'"{begin}" BETWEEN :first AND :last'
    if table == "NVTX_EVENTS":
        inside = (
            f"eventType NOT IN ({NVTX_MARK}, {NVTX_PUSH_POP}, {NVTX_START_END}) "
            f"OR eventType = {NVTX_MARK} AND {inside} "
            f'OR eventType <> {NVTX_MARK} AND start <= :last AND ("end" IS NULL OR "end" >= :first)'
        )
    elif table == "SCHED_EVENTS" and "globalTid" in have:
        db.execute(
            "CREATE TEMP TABLE edges AS SELECT globalTid AS thread, max(start) AS start FROM SCHED_EVENTS "
            "WHERE start < :first GROUP BY globalTid UNION ALL SELECT globalTid, min(start) FROM "
            "SCHED_EVENTS WHERE start > :last GROUP BY globalTid",
            {"first": window[0], "last": window[1]},
        )
        inside += " OR (globalTid, start) IN (SELECT thread, start FROM edges)"
    elif table.startswith("CUDA_GPU_MEMORY_"):
        inside = (
            f'"{begin}" <= :last'  # the memory in use at the window's start is the sum of what came before
        )
    elif "end" in have:
        inside = 'start <= :last AND "end" >= :first'
    if beginning is not None:
        if GPU_TABLES.fullmatch(table):
            inside += f" OR start <= {beginning.until:d}"
        elif CALL_TABLES.fullmatch(table) or table == "OSRT_API":
            least = beginning.os_ns if table == "OSRT_API" else beginning.call_ns
            inside += f' OR "end" - start >= {least:d}'
    if unless:
        pid = f"globalTid {_PID}" if "globalTid" in have else "globalPid"
        inside += (
            f" OR EXISTS (SELECT 1 FROM {unless} k WHERE k.correlation = correlationId AND k.pid = ({pid}))"
        )
    db.execute(f'DELETE FROM "{table}" WHERE NOT ({inside})', {"first": window[0], "last": window[1]})


def _correlations(db: sqlite3.Connection, name: str, sources: list[str]) -> None:
    db.execute(
        f"CREATE TEMP TABLE {name} "
        "(correlation INTEGER, pid INTEGER, PRIMARY KEY (correlation, pid)) WITHOUT ROWID"
    )
    for table in sources:
        have = columns(db, table)
        pid = f"globalTid {_PID}" if "globalTid" in have else "globalPid"
        if "correlationId" in have and ("globalTid" in have or "globalPid" in have):
            db.execute(
                f'INSERT OR IGNORE INTO {name} SELECT correlationId, {pid} FROM "{table}" '
                f"WHERE correlationId IS NOT NULL AND ({pid}) IS NOT NULL"
            )
