"""Exercise nsys-ex01, part b: the GPU is idle, so what is the CPU doing?

A gap ends when an operation starts. Somebody launched that operation, and while the gap lasted, that thread
was busy with something else. Find the thread, then look at what it was doing: that is the thing to change.

Three tables come in. All times are in ns and on one clock; rows are in no particular order.

    ops    GPU operations:          start_ns, end_ns, pid, device, stream, correlation, kind, name
    api    CUDA calls on the CPU:   start_ns, end_ns, pid, tid, correlation, name
    nvtx   ranges on the CPU:       start_ns, end_ns, pid, tid, name,
                                    event_type ('push_pop', 'start_end' or 'mark')

The call that launched an operation has the same `correlation` **and** the same `pid`: every process counts
its correlations by itself, so the number alone means nothing when several processes were profiled. Push/pop
ranges of one thread nest; the innermost one that is open at a moment says best what the thread is doing. A
range that never ended has no `end_ns` (it is `<NA>`): leave it out.

A worked example. On device 0 one kernel runs from 10 to 40 and another from 90 to 120, both of process 71;
the second has correlation 5.

    api   start_ns  end_ns  pid  tid  correlation  name
                30      45   71   71            4  cudaDeviceSynchronize
                80      88   71   71            5  cudaLaunchKernel

    nvtx  start_ns  end_ns  pid  tid  name          event_type
                 0     200   71   71  step 0        push_pop
                42      78   71   71  load batch    push_pop

    launching_thread(ops, api, device=0, time_ns=90)   ->  (71, 71)
    range_at(nvtx, 71, 71, 65)                         ->  'load batch'
    idle_by_range(ops, api, nvtx, window=(10, 120))    ->  {'load batch': 50}
    what_it_did(api, 71, 71, 40, 90)                   ->  {'waiting': 5, 'calling': 8, 'computing': 37}
    diagnose(ops, api, nvtx, window=(10, 120))         ->  ('load batch', 'computing')

Grade it:         labcode exercises nsys-ex01b        (or: nox -s exercises -- nsys-ex01b)
Get a hint:       labcode exercises nsys-ex01b --hint
Try it yourself:  python exercises/nsys/ex01_timeline_basics/b_cause.py     (runs on a capture of the book)
"""

import pandas as pd

Interval = tuple[int, int]
Thread = tuple[int, int]

UNATTRIBUTED = "(unattributed)"  # the gap lasts until the window's end, or the launch was not recorded
NO_RANGE = "(no range)"  # the thread is known, but no range was open on it


def gaps_of(ops: pd.DataFrame, window: Interval) -> list[tuple[int, int, int]]:
    """The idle gaps of all devices in the window as `(device, start_ns, end_ns)`: part a, given here."""
    gaps = []
    for device, mine in ops.groupby("device"):
        cursor = window[0]
        for start, stop in sorted(zip(mine["start_ns"], mine["end_ns"], strict=True)):
            if start > cursor and cursor < window[1]:
                gaps.append((int(device), cursor, min(int(start), window[1])))
            cursor = max(cursor, int(stop))
        if cursor < window[1]:
            gaps.append((int(device), cursor, window[1]))
    return gaps


def launching_thread(ops: pd.DataFrame, api: pd.DataFrame, device: int, time_ns: int) -> Thread | None:
    """The thread `(pid, tid)` that launched the operation which starts on `device` at `time_ns`; None when it
    is unknown.

    Unknown are: no operation starts there, or no call with its correlation was recorded in its process.
    """
    # [solution]
    devices, starts = ops["device"].to_numpy(), ops["start_ns"].to_numpy()
    started = ((devices == device) & (starts == time_ns)).nonzero()[0]
    if not started.size:
        return None
    pid, number = (ops[key].to_numpy()[started[0]] for key in ("pid", "correlation"))
    pids, tids, numbers = (api[key].to_numpy() for key in ("pid", "tid", "correlation"))
    call = ((pids == pid) & (numbers == number)).nonzero()[0]
    return (int(pids[call[0]]), int(tids[call[0]])) if call.size else None
    # [starter]
    # raise NotImplementedError("find the operation, then the call with its pid and correlation")
    # [end]


def range_at(nvtx: pd.DataFrame, pid: int, tid: int, time_ns: int) -> str:
    """The name of the innermost push/pop range open on a thread at a moment; NO_RANGE if none is.

    A range is open from its start_ns on, until just before its end_ns. The innermost one began last.
    """
    # [solution]
    columns = (nvtx[key] for key in ("pid", "tid", "event_type", "start_ns", "end_ns", "name"))
    open_now = [
        (start, name)
        for of_pid, of_tid, kind, start, end, name in zip(*columns, strict=True)
        if of_pid == pid and of_tid == tid and kind == "push_pop" and pd.notna(end) and start <= time_ns < end
    ]
    return str(max(open_now)[1]) if open_now else NO_RANGE
    # [starter]
    # raise NotImplementedError("of the ranges open at that moment, the one that began last")
    # [end]


def idle_by_range(
    ops: pd.DataFrame, api: pd.DataFrame, nvtx: pd.DataFrame, window: Interval
) -> dict[str, int]:
    """The idle time of all devices in the window, in ns, by what the CPU was doing.

    A whole gap is put down to the range that is open, in the middle of the gap (`(start + end) // 2`), on the
    thread that launched the operation which ends it; to UNATTRIBUTED when that thread is unknown. Names
    without idle time do not appear.
    """
    # [solution]
    idle: dict[str, int] = {}
    for device, start, stop in gaps_of(ops, window):
        thread = launching_thread(ops, api, device, stop)
        name = UNATTRIBUTED if thread is None else range_at(nvtx, *thread, (start + stop) // 2)
        idle[name] = idle.get(name, 0) + stop - start
    return idle
    # [starter]
    # raise NotImplementedError("for each gap: its thread, the range in its middle, its length")
    # [end]


def what_it_did(api: pd.DataFrame, pid: int, tid: int, start_ns: int, end_ns: int) -> dict[str, int]:
    """How a thread spent a stretch of time, in ns: always the three keys, which add up to the stretch.

    `waiting`: inside of a call whose name contains 'Synchronize'. `calling`: inside of any other CUDA call.
    `computing`: the rest, outside of CUDA. Calls of one thread do not overlap here.
    """
    # [solution]
    mine = api[(api["pid"] == pid) & (api["tid"] == tid)]
    inside = (mine["end_ns"].clip(upper=end_ns) - mine["start_ns"].clip(lower=start_ns)).clip(lower=0)
    waits = mine["name"].str.contains("Synchronize")
    waiting, calling = int(inside[waits].sum()), int(inside[~waits].sum())
    return {"waiting": waiting, "calling": calling, "computing": end_ns - start_ns - waiting - calling}
    # [starter]
    # raise NotImplementedError("cut each call of the thread to the stretch and add up")
    # [end]


def diagnose(ops: pd.DataFrame, api: pd.DataFrame, nvtx: pd.DataFrame, window: Interval) -> tuple[str, str]:
    """What to change first: `(range, activity)`.

    The range is the one with the most idle time among those of `idle_by_range` that name a range (neither
    UNATTRIBUTED nor NO_RANGE). The activity is 'waiting', 'calling' or 'computing': the one that takes the
    most time, all gaps put down to that range taken together.
    """
    # [solution]
    idle = idle_by_range(ops, api, nvtx, window)
    name = max((n for n in idle if n not in (UNATTRIBUTED, NO_RANGE)), key=lambda n: idle[n])
    spent = {"waiting": 0, "calling": 0, "computing": 0}
    for device, start, stop in gaps_of(ops, window):
        thread = launching_thread(ops, api, device, stop)
        if thread is not None and range_at(nvtx, *thread, (start + stop) // 2) == name:
            for activity, ns in what_it_did(api, *thread, start, stop).items():
                spent[activity] += ns
    return name, max(spent, key=lambda activity: spent[activity])
    # [starter]
    # raise NotImplementedError("the largest entry of idle_by_range, then what_it_did in its gaps")
    # [end]


if __name__ == "__main__":
    from labcode.reports.nsys.report import open_report
    from labcode.store import load_set

    report = open_report(load_set().path_of("timeline_basics", "baseline"))
    begin, end = report.window()
    window = begin, begin + (end - begin) // 10  # of the same steps again and again
    tables = report.gpu_ops(), report.api(), report.nvtx()
    for name, ns in sorted(idle_by_range(*tables, window).items(), key=lambda item: -item[1]):
        print(f"{ns / 1e6:10.3f} ms idle while the CPU was in {name}")
    print("change this first:", diagnose(*tables, window))
