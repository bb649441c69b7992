"""Hidden cases of part a (waits in gaps), and the machines of both parts: a generator or a capture in, cases
out.
"""

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from labcode.analysis.timeline.os_runtime import call_class, classified
from labcode.analysis.timeline.utilization import idle_gaps
from labcode.grading.cases import Case, brief
from labcode.grading.exam import open_run
from labcode.store import CaptureSet

Rng = np.random.Generator
Window = tuple[int, int]
EXPERIMENT, RUN = "os_runtime", "exam_baseline"
UNSEEN = f"a capture you have not seen ({EXPERIMENT})"
_CALLS = {"start_ns": "int64", "end_ns": "int64", "pid": "int64", "tid": "int64", "name": "str"}
_MAIN = 100
_EVENT = 80_000_000  # ns, much longer than a scene


@dataclass(frozen=True)
class Seen:
    """What a part gets: calls (start_ns, end_ns, pid, tid, name, call_class), gaps, the window."""

    calls: pd.DataFrame
    gaps: pd.DataFrame
    window: Window


@dataclass
class _Machine:
    """Threads whose calls are written down."""

    rng: Rng
    window: Window
    rows: list[tuple[int, int, int, int, str]] = field(default_factory=list)

    def call(self, thread: tuple[int, int], start: float, ns: float, name: str) -> int:
        """One call; gives back its end."""
        begin, end = int(start), int(start + max(ns, 1))
        self.rows.append((begin, end, *thread, name))
        return end

    def about(self, ns: float) -> float:
        """A duration around this one."""
        return float(ns * self.rng.uniform(0.7, 1.3))


def scenes(rng: Rng) -> list[tuple[str, Seen]]:
    """Feeds that stall for different reasons, easy ones first."""
    return [
        ("workers that sleep between two files", _scene(rng, "nanosleep", gpus=1)),
        ("a lock, behind which somebody waits for the disk", _lock(rng, "fsync")),
        ("two GPUs with gaps that overlap", _scene(rng, "clock_nanosleep", gpus=2)),
        ("threads of several processes with the same tid", _scene(rng, "recv", same_tid=True)),
        ("slow reads, with calls inside of calls", _scene(rng, "fread", nested="read")),
        ("a lock, behind which somebody reads", _lock(rng, "pread64", lock="pthread_mutex_lock")),
        ("a short wait for each file, with one long one", _scene(rng, "read", rare="connect")),
        ("a lock whose holder makes no long call", _lock(rng, None)),
        ("times exactly at a limit", _exact(rng)),
        ("times hardly below a limit", _exact(rng, 0.45)),
        ("no gaps at all", _without(_scene(rng, "nanosleep"), gaps=True)),
        ("nobody opens a file", _without(_scene(rng, "nanosleep"), opens=True)),
    ]


def unseen(captures: CaptureSet) -> Seen:
    """The capture that no page shows."""
    with open_run(captures, EXPERIMENT, RUN) as report:
        window = report.window()
        calls = classified(report.osrt())[[*_CALLS, "call_class"]]
        return Seen(calls, idle_gaps(report.gpu_ops(), window, 1_000_000), window)


def _window(rng: Rng) -> Window:
    begin = int(rng.integers(10**9, 2 * 10**9))
    return begin, begin + int(rng.integers(45_000_000, 60_000_000))


def _gaps(rng: Rng, window: Window, gpus: int) -> pd.DataFrame:
    third = (window[1] - window[0]) // 3
    rows = []
    for gpu in range(gpus):
        for number in range(3):
            begin = window[0] + number * third + int(rng.integers(2, 6)) * 500_000 + gpu * 1_500_000
            rows.append((begin, begin + int(rng.uniform(0.55, 0.7) * third), gpu))
    return pd.DataFrame(rows, columns=["start_ns", "end_ns", "device"]).astype("int64")


def _around(machine: _Machine, gaps: pd.DataFrame) -> None:
    """The other threads of such a machine: parked, on call, customers, and one that keeps a log."""
    begin, end = machine.window
    width = end - begin
    machine.call((_MAIN, 108), begin - _EVENT, width + 2 * _EVENT, "pthread_cond_wait")
    machine.call((150, 150), begin + 0.01 * width, width + _EVENT, "read")
    half = machine.call((_MAIN, 109), begin - _EVENT, _EVENT + 0.5 * width, "sem_wait")
    machine.call((_MAIN, 109), half + 1000, 0.7 * width, "sem_wait")
    turn = machine.call((_MAIN, 111), begin - 10_000, 0.6 * width, "accept4")
    machine.call((_MAIN, 111), turn + 2000, 0.5 * width, "accept4")
    for start, stop in zip(gaps["start_ns"].tolist(), gaps["end_ns"].tolist(), strict=True):
        machine.call((_MAIN, _MAIN), start - 20_000, stop - start + 20_000, "sem_clockwait")
    first = gaps.sort_values("start_ns").iloc[0]
    opened = machine.call((_MAIN, 110), begin + 100_000, 50_000, "open64")
    machine.call((_MAIN, 110), opened, float(first["end_ns"] - opened), "fdatasync")


def _seen(machine: _Machine, gaps: pd.DataFrame) -> Seen:
    rows = [machine.rows[i] for i in machine.rng.permutation(len(machine.rows))]
    calls = pd.DataFrame(rows, columns=list(_CALLS)).astype(_CALLS)
    calls["call_class"] = pd.Series([call_class(name) for name in calls["name"]], dtype="str")
    return Seen(calls, gaps, machine.window)


def _threads(machine: _Machine, same_tid: bool) -> list[tuple[int, int]]:
    count = int(machine.rng.integers(2, 5))
    pids = [200 + 17 * number for number in range(count)]
    return [(pid, 7 if same_tid else pid) for pid in pids]


def _scene(
    rng: Rng,
    stall: str,
    *,
    gpus: int = 1,
    same_tid: bool = False,
    nested: str | None = None,
    rare: str | None = None,
) -> Seen:
    """Each reader by itself opens a file, reads it, stalls, and computes."""
    machine = _Machine(rng, _window(rng))
    gaps = _gaps(rng, machine.window, gpus)
    _around(machine, gaps)
    for thread in _threads(machine, same_tid):
        now = machine.window[0] - 3_000_000 + rng.uniform(0, 1e6)
        while now < machine.window[1] + 2_000_000:
            now = machine.call(thread, now, machine.about(20_000), "open64")
            for _ in range(3):
                now = machine.call(thread, now + 2000, machine.about(4000), "fstat64")
            length = machine.about(700_000)
            if nested:
                machine.call(thread, now + 0.1 * length, 0.8 * length, nested)
                machine.call(thread, now + 0.2 * length, 0.5 * length, nested)  # of one name, too
            now = machine.call(thread, now, length, stall)
            now = machine.call(thread, now, machine.about(60_000), "close") + machine.about(120_000)
        if rare:
            machine.call(thread, gaps["start_ns"].iloc[1], 2_500_000, rare)
    if same_tid:  # a thread that is parked in another process, with a number that occurs here
        machine.call((_MAIN, 7), machine.window[0] - 5000, 2 * _EVENT, "poll")
    return _seen(machine, gaps)


def _lock(rng: Rng, work: str | None, *, lock: str = "flock") -> Seen:
    """Readers that take turns: who has the lock works, the others wait."""
    machine = _Machine(rng, _window(rng))
    gaps = _gaps(rng, machine.window, 1)
    _around(machine, gaps)
    readers = [*_threads(machine, False), (191, 191), (192, 192)]
    asks = {thread: machine.window[0] - 3_000_000 + rng.uniform(0, 1e6) for thread in readers}
    free = 0.0
    while min(asks.values()) < machine.window[1] + 2_000_000:
        thread = min(asks, key=lambda key: asks[key])
        asked = machine.call(thread, asks[thread], machine.about(15_000), "open64")
        got = float(machine.call(thread, asked, max(free - asked, 1500), lock))
        if work is not None:
            for _ in range(3):
                got = machine.call(thread, got + machine.about(10_000), machine.about(90_000), work)
            got = machine.call(thread, got, machine.about(30_000), "write")
        else:
            got += machine.about(300_000)
        free = got + 8000
        asks[thread] = free + machine.about(150_000)
        machine.call(thread, free + 10_000, machine.about(40_000), "nanosleep")
    return _seen(machine, gaps)


def _exact(rng: Rng, reads: float = 0.5) -> Seen:
    """A call of exactly 95 % of the window, with one inside of it, and one that is shorter by 1 ns; two
    readers of one process that wait for a lock at the same times, and a third one, which reads for exactly a
    tenth of them (or less, with fewer units of ``reads``), and behind them writes for longer.
    """
    unit = 2 * int(rng.integers(10**5, 10**6))
    begin = int(rng.integers(10**9, 2 * 10**9))
    machine = _Machine(rng, (begin, begin + 20 * unit))
    machine.call((300, 310), begin - 5000, 19 * unit + 5000, "sem_wait")
    machine.call((300, 310), begin + 3 * unit, unit, "read")
    machine.call((300, 311), begin + unit + 1, 20 * unit, "sem_wait")
    for tid, name, units in ((301, "flock", 5.0), (302, "flock", 5.0), (303, "pread64", reads)):
        machine.call((300, tid), begin + 2 * unit, unit // 4, "open64")
        machine.call((300, tid), begin + 4 * unit, units * unit, name)
    machine.call((300, 303), begin + 10 * unit, 1.5 * unit, "fsync")
    gaps = pd.DataFrame({"start_ns": [begin + 2 * unit], "end_ns": [begin + 12 * unit], "device": [0]})
    return _seen(machine, gaps)


def _without(seen: Seen, *, gaps: bool = False, opens: bool = False) -> Seen:
    calls = seen.calls[seen.calls["name"] != "open64"].reset_index(drop=True) if opens else seen.calls
    return Seen(calls, seen.gaps.iloc[:0] if gaps else seen.gaps, seen.window)


def case_of(name: str, seen: Seen, function: str) -> Case:
    """A call of either part's function."""
    threads, gpus = len(seen.calls.drop_duplicates(["pid", "tid"])), seen.gaps["device"].nunique()
    summary = (
        f"{len(seen.calls)} calls of {threads} threads, {len(seen.gaps)} gaps of {gpus} GPU(s); "
        f"window = {seen.window}"
    )
    return Case(name, summary, function, (seen.calls, seen.gaps, seen.window), show=_show)


def _show(answer: object) -> str:
    return f"{len(answer)} rows: {brief(answer, 200)}" if isinstance(answer, list) else brief(answer)


def cases(rng: Rng) -> list[Case]:
    """Each machine."""
    return [case_of(name, seen, "waits") for name, seen in scenes(rng)]


def exam(captures: CaptureSet) -> list[Case]:
    """The capture that no page shows."""
    return [case_of(UNSEEN, unseen(captures), "waits")]
