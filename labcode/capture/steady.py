"""What of a recording is kept where the program marks nothing: some iterations, and its beginning in outline.

An iteration is told by a kernel that comes at one place of each, once or several times: in the second half of
the run, where no start-up is left, it pauses at regular distances, and no other kernel does at longer ones.
"""

import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path

from labcode.capture.trim import CALL_TABLES, EVENT_TABLES, STACK_TABLES, Beginning, columns, cut, table_names

ITERATIONS = 5
OPERATIONS = 1200  # of a GPU: with more, fewer iterations are kept
LEAST = 150  # operations: with less, more iterations are kept
FEWEST = 2  # iterations
REGULAR = 0.25  # of a distance: what it may differ by, and the share of distances that may differ by more
FIRST = 20  # operations of the beginning
CALL_NS, OS_NS = 1_000_000, 20_000_000
QUICK_NS = 1_000
NAMES = re.compile("ENUM_(?!DIAGNOSTIC_SEVERITY_LEVEL$|SAMPLING_THREAD_STATE$).*")  # that no reader asks for
_KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
_RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
_PID = "& 0xFFFFFFFFFF000000"
_Kernel = tuple[int, int, int]  # launched, ended, name


def trim_program(
    path: Path, *, iterations: int = ITERATIONS, operations: int = OPERATIONS
) -> tuple[int, int] | None:
    """Delete what lies outside of some of the last iterations; the file is changed in place.

    So many ``iterations`` stay, of long ones as many as hold so many ``operations`` of a GPU, but `FEWEST`,
    and of short ones as many as hold `LEAST` operations. Of what lies before and after them the calls of
    `CALL_NS` and more stay, of the operating system those of `OS_NS` and more, and the first `FIRST`
    operations. Calls of less than `QUICK_NS` that nothing refers to go, and so do the names of numbers that
    the lab does not read; equal call stacks become one. Returns the window in ns; None, and nothing is
    changed, where too few kernels ran to tell iterations.
    """
    with closing(sqlite3.connect(path)) as db:
        window = steady_window(db, iterations, operations)
        if window is None:
            return None
        cut(db, window, Beginning(_started(db, FIRST), CALL_NS, OS_NS))
        for table in table_names(db):
            if NAMES.fullmatch(table):
                db.execute(f'DROP TABLE "{table}"')
        _drop_quick_calls(db)
        share_stacks(db)
        db.commit()
        db.execute("VACUUM")
    return window


def steady_window(db: sqlite3.Connection, iterations: int, operations: int) -> tuple[int, int] | None:
    """From the first launch to the last end in some of the last iterations, without the last of all; None
    where no kernel repeats.
    """
    kernels = _busiest(db)
    half = len(kernels) // 2
    marks = _marks([name for _, _, name in kernels[half:]])
    if not marks:
        return None
    gaps = sorted(after - before for before, after in pairwise(marks))
    each = gaps[len(gaps) // 2]
    wanted = max(iterations, LEAST // each)
    count = min(max(FEWEST, min(wanted, operations // each)), len(marks) - 1)
    last = max(len(marks) - 2, count)
    kept = kernels[half + marks[last - count] + 1 : half + marks[last] + 1]
    return min(launched for launched, _, _ in kept), max(ended for _, ended, _ in kept)


def _marks(names: Sequence[int]) -> list[int]:
    """Where an iteration ends: where a kernel ran for the last time before a long pause, counted in kernels.

    Of the kernels whose pauses come at regular distances that one counts which has the longest; of several
    the one that comes last.
    """
    places: dict[int, list[int]] = {}
    for place, name in enumerate(names):
        places.setdefault(name, []).append(place)
    best: list[int] = []
    longest = 0
    for found in places.values():
        pauses = [after - before for before, after in pairwise(found)]
        long = max(pauses, default=0) / 2
        ends = [place for place, pause in zip(found, pauses, strict=False) if pause > long]
        ends += found[-1:]
        if len(ends) <= FEWEST + 1:
            continue
        gaps = sorted(after - before for before, after in pairwise(ends))
        usual = gaps[len(gaps) // 2]
        alike = sum(abs(gap - usual) <= REGULAR * usual for gap in gaps)
        if alike >= (1 - REGULAR) * len(gaps) and (usual, ends[-1]) > (longest, best[-1] if best else -1):
            best, longest = ends, usual
    return best


def share_stacks(db: sqlite3.Connection) -> None:
    """Give events with the same call stack one stack in common, instead of a copy each."""
    for stacks, (table, column) in STACK_TABLES.items():
        have = columns(db, stacks)
        if "id" not in have or column not in columns(db, table) or column == "id":
            continue  # samples and their stacks have one number
        rest = ", ".join(f'"{name}"' for name in have if name != "id")
        found: dict[int, list[tuple[object, ...]]] = {}
        for number, *frame in db.execute(f'SELECT id, {rest} FROM "{stacks}"'):
            found.setdefault(number, []).append(tuple(frame))
        first: dict[tuple[tuple[object, ...], ...], int] = {}
        same = {number: first.setdefault(tuple(frames), number) for number, frames in found.items()}
        again = [(kept, number) for number, kept in same.items() if kept != number]
        db.execute("CREATE TEMP TABLE again (kept INTEGER, number INTEGER PRIMARY KEY)")
        db.executemany("INSERT INTO again VALUES (?, ?)", again)
        db.execute(
            f'UPDATE "{table}" SET "{column}" = (SELECT kept FROM again WHERE number = "{table}"."{column}") '
            f'WHERE "{column}" IN (SELECT number FROM again)'
        )
        db.execute(f'DELETE FROM "{stacks}" WHERE id IN (SELECT number FROM again)')
        db.execute("DROP TABLE again")


def _drop_quick_calls(db: sqlite3.Connection) -> None:
    """Delete calls that asked for a name or a state: they took no time, and nothing came of them."""
    db.execute("CREATE TEMP TABLE followed (correlation INTEGER PRIMARY KEY)")
    calls = [t for t in table_names(db) if CALL_TABLES.fullmatch(t)]
    for table in table_names(db):
        if table not in calls and EVENT_TABLES.fullmatch(table) and "correlationId" in columns(db, table):
            db.execute(f'INSERT OR IGNORE INTO followed SELECT correlationId FROM "{table}"')
    for table in calls:
        db.execute(
            f'DELETE FROM "{table}" WHERE "end" - start < {QUICK_NS} '
            "AND correlationId NOT IN (SELECT correlation FROM followed)"
        )


def _busiest(db: sqlite3.Connection) -> list[_Kernel]:
    """The kernels of the process that ran most of them, in the order of their launches."""
    have = columns(db, _KERNELS)
    if not {"start", "end", "correlationId", "globalPid", "demangledName"} <= set(have):
        return []
    busiest = db.execute(
        f"SELECT globalPid FROM {_KERNELS} GROUP BY globalPid ORDER BY count(*) DESC, globalPid LIMIT 1"
    ).fetchone()
    if busiest is None:
        return []
    calls = [t for t in table_names(db) if CALL_TABLES.fullmatch(t)]
    launched: dict[int, int] = {}
    for table in calls:
        launched |= dict(
            db.execute(
                f'SELECT correlationId, start FROM "{table}" WHERE globalTid {_PID} = ?', busiest
            ).fetchall()
        )
    rows = db.execute(
        f'SELECT correlationId, start, "end", demangledName FROM {_KERNELS} WHERE globalPid = ?', busiest
    )
    found = [(launched.get(call, start), start, end, name) for call, start, end, name in rows]
    return [(launch, end, name) for launch, _, end, name in sorted(found)]


def _started(db: sqlite3.Connection, count: int) -> int:
    """When the first so many kernels had started."""
    rows = db.execute(f"SELECT start FROM {_KERNELS} ORDER BY start LIMIT ?", (count,)).fetchall()
    return int(rows[-1][0])
