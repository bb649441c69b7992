"""Hidden cases of nsys-ex01, part b (what the CPU did in gaps): a generator or captures in, cases out."""

from __future__ import annotations

import numpy as np

from labcode.exercises.cases import Case, Mistake, Task, brief, duration
from labcode.exercises.nsys import expected
from labcode.exercises.nsys.ex01_scenes import Tables, Window, situations
from labcode.grading.exam import open_run
from labcode.store import CaptureSet

Rng = np.random.Generator
EXPERIMENT, RUN = "timeline_basics", "exam_baseline"


def _tables_summary(tables: Tables, window: Window) -> str:
    ops, api, nvtx = tables
    return (
        f"{len(ops)} operations, {len(api)} calls, {len(nvtx)} ranges of {api['pid'].nunique()} "
        f"process(es); window = {window}"
    )


def _blame_cases(name: str, tables: Tables, window: Window, *, exam: bool = False) -> list[Case]:
    ops, api, _ = tables
    scene = expected.scene(*tables)
    every = expected.gaps(ops, window)
    asked = [gap for gap in every if gap[2] != window[1]]
    limit, summary = (60.0 if exam else 10.0), _tables_summary(tables, window)
    cases = []
    unknown = [gap for gap in asked if expected.launcher(scene, gap[0], gap[2]) is None]
    for device, _, end in [*asked[:2], *unknown[:1]]:
        op = ops[(ops["device"] == device) & (ops["start_ns"] == end)].iloc[0]
        calls = api[api["correlation"] == op["correlation"]]
        threads = [(int(p), int(t)) for p, t in zip(calls["pid"], calls["tid"], strict=True)]
        cases.append(
            Case(
                name=name,
                summary=f"{summary}; device = {device}, time_ns = {end}",
                function="launching_thread",
                arguments=(ops, api, device, end),
                expected=expected.launcher(scene, device, end),
                mistakes=tuple(
                    Mistake("the call of another process: match the pid as well as the correlation", thread)
                    for thread in threads
                    if thread[0] != op["pid"]
                ),
                exam=exam,
                limit_s=limit,
            )
        )
    for device, start, end in asked[:3]:
        thread = expected.launcher(scene, device, end)
        if thread is not None:
            cases += _thread_cases(name, tables, thread, (start, end), exam=exam, limit_s=limit)
    return [
        *cases,
        _idle_by_range_case(name, tables, window, exam=exam),
        _diagnose_case(name, tables, window, exam=exam),
    ]


def _thread_cases(
    name: str, tables: Tables, thread: tuple[int, int], gap: Window, *, exam: bool, limit_s: float
) -> list[Case]:
    _, api, nvtx = tables
    scene = expected.scene(*tables)
    pid, tid = thread
    middle = (gap[0] + gap[1]) // 2
    opened = expected.open_ranges(scene, thread, middle)
    elsewhere = nvtx[(nvtx["start_ns"] <= middle) & (nvtx["end_ns"] > middle).fillna(False).astype(bool)]
    spent = expected.activity(api, pid, tid, *gap)
    every_thread = expected.activity(api, None, None, *gap)
    uncut = expected.activity(api, pid, tid, *gap, cut=False)
    return [
        Case(
            name=name,
            summary=f"{len(nvtx)} ranges; pid = {pid}, tid = {tid}, time_ns = {middle}",
            function="range_at",
            arguments=(nvtx, pid, tid, middle),
            expected=expected.range_at(scene, thread, middle),
            mistakes=(
                *(
                    Mistake(
                        "the outermost range is open too, but says less: take the one that began last", outer
                    )
                    for outer in opened[:1]
                ),
                *(
                    Mistake("this range is open on another thread: match pid and tid", other)
                    for other in elsewhere.loc[
                        (elsewhere["pid"] != pid) | (elsewhere["tid"] != tid), "name"
                    ].tolist()
                ),
                *(
                    Mistake(
                        "only push/pop ranges nest on a thread: leave marks and start/end ranges out", other
                    )
                    for other in nvtx.loc[nvtx["event_type"] != "push_pop", "name"].tolist()
                ),
                Mistake("a range that covers the moment is open on this thread", "(no range)"),
            ),
            exam=exam,
            limit_s=limit_s,
        ),
        Case(
            name=name,
            summary=f"{len(api)} calls; pid = {pid}, tid = {tid}, start_ns = {gap[0]}, end_ns = {gap[1]}",
            function="what_it_did",
            arguments=(api, pid, tid, *gap),
            expected=spent,
            mistakes=(
                Mistake("calls of other threads are counted: match pid and tid", every_thread),
                Mistake(
                    "calls are not cut to the stretch: one that began before it counts with the "
                    "part inside only",
                    uncut,
                ),
                *(
                    Mistake("waiting counts as calling too: a call is one or the other", {**spent, **both})
                    for both in _both(spent)
                ),
                Mistake(
                    "'computing' is what is left of the stretch when the calls are taken out",
                    {**spent, "computing": gap[1] - gap[0]},
                ),
            ),
            exam=exam,
            limit_s=limit_s,
        ),
    ]


def _both(spent: dict[str, int]) -> list[dict[str, int]]:
    """A stretch in which waits count as calls as well, without and with taking them out of the rest."""
    calling, waiting = spent["calling"] + spent["waiting"], spent["waiting"]
    return [{"calling": calling}, {"calling": calling, "computing": spent["computing"] - waiting}]


def _idle_by_range_case(name: str, tables: Tables, window: Window, *, exam: bool) -> Case:
    ops, api, nvtx = tables
    scene = expected.scene(*tables)
    right = expected.idle_by_range(scene, window)
    return Case(
        name=name,
        summary=_tables_summary(tables, window),
        function="idle_by_range",
        arguments=(ops, api, nvtx, list(window)),
        expected=right,
        mistakes=(
            Mistake(
                "gaps whose launch is unknown are left out: put them down to UNATTRIBUTED",
                {key: ns for key, ns in right.items() if key != expected.UNATTRIBUTED},
            ),
            Mistake(
                "the range at the gap's start is taken, not the one in its middle",
                expected.idle_by_range(scene, window, at="start"),
            ),
            Mistake(
                "the range at the gap's end is taken, not the one in its middle",
                expected.idle_by_range(scene, window, at="end"),
            ),
            Mistake(
                "launches are matched without the process: match the pid as well as the correlation",
                expected.idle_by_range(scene, window, process=False),
            ),
            Mistake(
                "the outermost range is taken: the innermost one says what the thread was doing",
                expected.idle_by_range(scene, window, innermost=False),
            ),
        ),
        exam=exam,
        limit_s=120.0 if exam else 10.0,
    )


def _diagnose_case(name: str, tables: Tables, window: Window, *, exam: bool) -> Case:
    ops, api, nvtx = tables
    scene = expected.scene(*tables)
    place, what = expected.diagnosis(scene, api, window)
    others = [a for a in ("waiting", "calling", "computing") if a != what]
    ranked = sorted(expected.idle_by_range(scene, window).items(), key=lambda item: -item[1])
    return Case(
        name=name,
        summary=_tables_summary(tables, window),
        function="diagnose",
        arguments=(ops, api, nvtx, list(window)),
        expected=[place, what],
        mistakes=(
            *(
                Mistake(
                    f"the range is right; the thread spends most of those gaps {what}, not {other}",
                    [place, other],
                )
                for other in others
            ),
            *(
                Mistake(f"{key} has {duration(ns)} of the idle time, {place} has more", [key, activity])
                for key, ns in ranked
                if key not in (place, expected.UNATTRIBUTED, expected.NO_RANGE)
                for activity in ("waiting", "calling", "computing")
            ),
            *(
                Mistake("name a range: time without one cannot be changed", [key, activity])
                for key in (expected.UNATTRIBUTED, expected.NO_RANGE)
                for activity in ("waiting", "calling", "computing")
            ),
        ),
        exam=exam,
        show=brief,
        limit_s=180.0 if exam else 10.0,
    )


def _cause_cases(rng: Rng) -> list[Case]:
    cases = [case for name, tables, window in situations(rng) for case in _blame_cases(name, tables, window)]
    order = ["launching_thread", "range_at", "idle_by_range", "what_it_did", "diagnose"]
    return sorted(cases, key=lambda case: order.index(case.function))


def _exam_tables(captures: CaptureSet) -> tuple[Tables, Window]:
    report = open_run(captures, EXPERIMENT, RUN)
    begin, end = report.window()
    window = begin, begin + (end - begin) // 4  # a quarter holds several steps, and is quick to go through
    kept = [
        frame[frame["start_ns"] < window[1]].reset_index(drop=True)
        for frame in (report.gpu_ops(), report.api(), report.nvtx())
    ]
    return (kept[0], kept[1], kept[2]), window


def _cause_exam(captures: CaptureSet) -> list[Case]:
    tables, window = _exam_tables(captures)
    return _blame_cases(f"a capture you have not seen ({EXPERIMENT})", tables, window, exam=True)


def _notes(captures: CaptureSet) -> list[str]:
    """What the diagnosis of the capture is, with its evidence."""
    tables, window = _exam_tables(captures)
    scene = expected.scene(*tables)
    place, what = expected.diagnosis(scene, tables[1], window)
    idle = expected.idle_by_range(scene, window)
    share = idle[place] / sum(idle.values())
    return [
        f"in the capture you have not seen, {share:.0%} of the idle time falls to «{place}», "
        f"where the thread is {what}"
    ]


CAUSE = Task(_cause_cases, _cause_exam, _notes)
