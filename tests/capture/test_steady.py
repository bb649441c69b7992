"""What is kept of the recording of a program that marks nothing."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from labcode.capture.steady import FEWEST, LEAST, share_stacks, trim_program
from labcode.reports.nsys.report import open_report
from tests.support import exports as e

MS = 1_000_000
START_UP = 5_000 * MS
STEP = 20 * MS


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute(query).fetchall()


def training(
    path: Path, *, steps: int = 20, each: int = 6, pid: int = 100, more: Sequence[e.Row] = ()
) -> Path:
    """A long start-up with a slow call and 30 kernels, then steps of some products and one optimizer."""
    kernels, api, correlation = [], [e.call(10, 10 + 900 * MS, "cudaFree_v3020", pid=pid, correlation=1)], 2
    launches = [(4_000 * MS + i * 1000, "init") for i in range(30)]
    for step in range(steps):
        at = START_UP + step * STEP
        launches += [(at + i * 1000, "product") for i in range(each - 1)]
        launches.append((at + each * 1000, "optimizer"))
    for at, name in launches:
        api.append(e.call(at, at + 500, "cudaLaunchKernel_v7000", pid=pid, correlation=correlation))
        kernels.append(e.kernel(at + 5_000, at + 5_900, name, pid=pid, correlation=correlation))
        correlation += 1
    end = START_UP + steps * STEP
    api.append(e.call(end, end + 3 * MS, "cudaDeviceSynchronize_v3020", pid=pid, correlation=correlation))
    api.append(e.call(end + 4 * MS, end + 4 * MS + 9_000, "cudaEventDestroy_v3020", pid=pid))
    api += more
    osrt = [e.osrt(0, 400 * MS, "read", pid=pid), e.osrt(5, 9, "read", pid=pid)]
    return e.make_export(path, kernels=kernels, api=api, osrt=osrt)


def test_some_of_the_last_iterations_stay_whole(tmp_path: Path) -> None:
    path = training(tmp_path / "a.sqlite", each=60)
    window = trim_program(path, iterations=8)
    assert window is not None
    first, last = window
    assert (first - START_UP) % STEP == 0
    inside = f"WHERE start BETWEEN {first} AND {last}"
    assert rows(path, f"SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL {inside}") == [(8 * 60,)]
    assert rows(path, f"SELECT count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME {inside}") == [(8 * 60,)]
    assert last < START_UP + 19 * STEP  # the last iteration of all is left out


def test_names_of_numbers_go_but_those_that_are_read(tmp_path: Path) -> None:
    path = training(tmp_path / "a.sqlite", steps=100, each=15)
    with closing(sqlite3.connect(path)) as db:
        for name in ("ENUM_NSYS_EVENT_TYPE", "ENUM_SAMPLING_THREAD_STATE"):
            db.execute(f"CREATE TABLE IF NOT EXISTS {name} (id INTEGER, name TEXT)")
    trim_program(path)
    left = rows(path, "SELECT name FROM sqlite_master WHERE name LIKE 'ENUM%'")
    assert ("ENUM_SAMPLING_THREAD_STATE",) in left and ("ENUM_NSYS_EVENT_TYPE",) not in left
    with open_report(path) as report:
        assert len(report.kernels()) == LEAST + 20


def test_of_short_iterations_more_stay(tmp_path: Path) -> None:
    path = training(tmp_path / "a.sqlite", steps=100, each=15)
    window = trim_program(path, iterations=8)
    assert window is not None
    inside = f"WHERE start BETWEEN {window[0]} AND {window[1]}"
    assert rows(path, f"SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL {inside}") == [(LEAST,)]


def test_an_iteration_is_more_than_its_equal_parts(tmp_path: Path) -> None:
    """Five equal passes, then an optimizer of three kernels: the passes alone are no iterations."""
    kernels = []
    for step in range(20):
        names = [*["forward", "backward"] * 5, *["update"] * 3, "zero"]
        kernels += [
            e.kernel(step * STEP + i * MS, step * STEP + i * MS + 5, name) for i, name in enumerate(names)
        ]
    path = e.make_export(tmp_path / "a.sqlite", kernels=kernels)
    window = trim_program(path, operations=5 * 14)
    assert window == (14 * STEP, 18 * STEP + 13 * MS + 5)


def test_the_beginning_stays_in_outline(tmp_path: Path) -> None:
    path = training(tmp_path / "a.sqlite")
    window = trim_program(path)
    assert window is not None
    early = f"WHERE start < {window[0]}"
    assert rows(path, f"SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL {early}") == [(20,)]
    calls = f'SELECT count(*), max("end" - start) FROM CUPTI_ACTIVITY_KIND_RUNTIME {early}'
    assert rows(path, calls) == [(1 + 20, 900 * MS)]
    assert rows(path, 'SELECT "end" - start FROM OSRT_API') == [(400 * MS,)]
    late = f'SELECT "end" - start FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE start > {window[1]}'
    assert rows(path, late) == [(3 * MS,)]


def test_calls_that_took_no_time_and_started_nothing_go(tmp_path: Path) -> None:
    at = START_UP + 15 * STEP
    more = [e.call(at + 9_000 + i, at + 9_000 + i + length, name) for i, (length, name) in enumerate(QUICK)]
    path = training(tmp_path / "a.sqlite", more=more)
    trim_program(path)
    names = rows(
        path, "SELECT DISTINCT value FROM StringIds s JOIN CUPTI_ACTIVITY_KIND_RUNTIME ON nameId = s.id"
    )
    assert {"cuKernelGetName", "cudaEventQuery"} & {str(name) for (name,) in names} == {"cudaEventQuery"}


QUICK = ((200, "cuKernelGetName"), (1_500, "cudaEventQuery"))


def test_of_long_iterations_fewer_stay(tmp_path: Path) -> None:
    path = training(tmp_path / "a.sqlite", each=50)
    window = trim_program(path, operations=200)
    assert window is not None
    inside = f"WHERE start BETWEEN {window[0]} AND {window[1]}"
    assert rows(path, f"SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL {inside}") == [(4 * 50,)]
    path = training(tmp_path / "b.sqlite", each=50)
    window = trim_program(path, operations=10)
    assert window is not None
    inside = f"WHERE start BETWEEN {window[0]} AND {window[1]}"
    assert rows(path, f"SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL {inside}") == [(FEWEST * 50,)]


def test_a_program_that_repeats_nothing_is_left_as_it_is(tmp_path: Path) -> None:
    kernels = [e.kernel(10 * i, 10 * i + 5, f"kernel{i}") for i in range(30)]
    path = e.make_export(tmp_path / "a.sqlite", kernels=kernels)
    assert trim_program(path) is None
    assert rows(path, "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL") == [(30,)]
    assert trim_program(e.make_export(tmp_path / "b.sqlite", osrt=[e.osrt(0, 5, "read")])) is None


def test_equal_stacks_become_one(tmp_path: Path) -> None:
    path = training(tmp_path / "a.sqlite")
    stacks = {1: [5, 6], 2: [5, 6], 3: [5, 7], 4: [5]}
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE CUDA_CALLCHAINS (id INTEGER, symbol INTEGER, stackDepth INTEGER)")
        frames = [(key, symbol, d) for key, symbols in stacks.items() for d, symbol in enumerate(symbols)]
        db.executemany("INSERT INTO CUDA_CALLCHAINS VALUES (?, ?, ?)", frames)
        db.execute("UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET callchainId = 1 + correlationId % 4")
        wanted = [(call, stacks[chain]) for call, chain in db.execute(_CHAINS)]
        share_stacks(db)
        db.commit()
        kept: dict[int, list[int]] = {}
        for key, symbol in db.execute("SELECT id, symbol FROM CUDA_CALLCHAINS ORDER BY id, stackDepth"):
            kept.setdefault(key, []).append(symbol)
        assert [(call, kept[chain]) for call, chain in db.execute(_CHAINS)] == wanted
    assert sorted(kept) == [1, 3, 4]


_CHAINS = "SELECT correlationId, callchainId FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE callchainId IS NOT NULL"
