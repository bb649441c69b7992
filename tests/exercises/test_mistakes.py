"""Every recognizer of a mistake fires, and code with a typical mistake gets a reason its author can read."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest

from labcode.exercises.cases import Case, judge, plain
from tests.exercises.support import NOT_MOVED, cases, check_told, complaints, solution

SEEDS = (0, 1, 2)


def kind_of(words: str) -> str:
    """A reason without the numbers and names in it."""
    return re.sub(
        r"[\d.,]+( [nµm]?s)?|«.*?»|'.*?'|\(no range\)|load batch|read loss|copy to GPU|forward|backward",
        "#",
        words,
    )


@pytest.mark.parametrize("short", NOT_MOVED)
def test_every_recognizer_fires(short: str) -> None:
    fired: dict[tuple[str, str], bool] = {}
    for seed in SEEDS:
        for case in cases(short, seed):
            for mistake in case.mistakes:
                key = case.function, kind_of(mistake.says)
                fired[key] = fired.get(key, False) or f"likely:   {mistake.says}" in judge(
                    case, plain(mistake.gives)
                )
    assert fired
    assert [key for key, seen in fired.items() if not seen] == []


@pytest.mark.parametrize("short", NOT_MOVED)
@pytest.mark.parametrize("seed", SEEDS)
def test_solutions_pass_hidden_cases(short: str, seed: int) -> None:
    assert list(complaints(short, solution(short), seed)) == []


@pytest.mark.parametrize("short", NOT_MOVED)
def test_hidden_inputs_are_drawn_anew_and_can_be_repeated(short: str) -> None:
    def answers(cases: Iterable[Case]) -> list[object]:
        return [plain(case.expected) for case in cases]

    first = answers(cases(short, 0))
    assert first == answers(cases.__wrapped__(short, 0))
    changed = [a != b for a, b in zip(first, answers(cases(short, 2)), strict=True)]
    assert sum(changed) >= len(changed) // 3, "an answer written down by hand must not pass"


# (part, what is replaced in its solution, by what, the reason that must come up)
MUTATIONS = [
    # ex01a: idle share and gaps
    (
        "nsys-ex01a",
        "if merged and start <= merged[-1][1]:",
        "if False:",
        "these are the operations, not their union",
    ),
    (
        "nsys-ex01a",
        "if merged and start <= merged[-1][1]:",
        "if merged and start < merged[-1][1]:",
        "intervals that touch",
    ),
    (
        "nsys-ex01a",
        "max(merged[-1][1], stop))",
        "stop)",
        "keep the largest end seen so far, not the last one",
    ),
    (
        "nsys-ex01a",
        "max(int(start), begin), min(int(stop), end)",
        "int(start), int(stop)",
        "operations are not cut to the window",
    ),
    (
        "nsys-ex01a",
        "busy = sum(stop - start for start, stop in busy_intervals(mine, window))",
        "busy = (mine['end_ns'].clip(*window) - mine['start_ns'].clip(*window)).sum()",
        "durations are added up",
    ),
    (
        "nsys-ex01a",
        "shares[int(device)] = 1 - busy / length",
        "shares[int(device)] = busy / length",
        "1 minus the share that was asked for",
    ),
    (
        "nsys-ex01a",
        "shares[int(device)] = 1 - busy / length",
        "shares[int(device)] = 100 - 100 * busy / length",
        "percent",
    ),
    (
        "nsys-ex01a",
        "shares[int(device)] = 1 - busy / length",
        "shares[int(device)] = length - busy",
        "this is idle time in ns",
    ),
    (
        "nsys-ex01a",
        'for device, mine in ops.groupby("device"):\n        busy',
        'for (device, _), mine in ops.groupby(["device", "pid"]):\n        busy',
        "each process is counted by itself",
    ),
    (
        "nsys-ex01a",
        'for device, mine in ops.groupby("device"):\n        busy',
        'for device, mine in ops[ops["kind"] == "kernel"].groupby("device"):\n        busy',
        "only kernels are counted",
    ),
    (
        "nsys-ex01a",
        "busy = sum(stop - start for start, stop in busy_intervals(mine, window))",
        "busy = sum(b - a for a, b in busy_intervals(mine[mine['kind'] == 'kernel'], window))",
        "only kernels are counted",
    ),
    (
        "nsys-ex01a",
        "busy = sum(stop - start for start, stop in busy_intervals(mine, window))",
        "busy = sum(stop - start for start, stop in busy_intervals(ops, window))",
        "all devices are taken together",
    ),
    (
        "nsys-ex01a",
        "return shares",
        "return {k: v for k, v in shares.items() if k == 0} or shares",
        "the keys differ|only one device",
    ),
    ("nsys-ex01a", "return shares", "return dict(enumerate(shares.values()))", "not counted from 0"),
    ("nsys-ex01a", "return shares", "return None", "the function returned nothing"),
    ("nsys-ex01a", "return gaps[:count]", "return gaps", "all gaps are returned"),
    ("nsys-ex01a", "return gaps[:count]", "return gaps[::-1][:count]", "shortest first"),
    (
        "nsys-ex01a",
        "gaps.sort(key=",
        "sorted(gaps, key=",
        "these are the longest gaps of each device|these are the first gaps",
    ),
    (
        "nsys-ex01a",
        "edges = [window[0], *(t for interval in busy_intervals(mine, window) for t in interval), window[1]]",
        "edges = [t for interval in busy_intervals(mine, window) for t in interval][1:-1]",
        "the gaps before the first operation and after the last one count too",
    ),
    # ex01b: what the CPU did
    (
        "nsys-ex01b",
        '(api["pid"] == op["pid"]) & (api["correlation"] == op["correlation"])',
        'api["correlation"] == op["correlation"]',
        "the call of another process",
    ),
    (
        "nsys-ex01b",
        'open_now["start_ns"].idxmax()',
        'open_now["start_ns"].idxmin()',
        "take the one that began last",
    ),
    (
        "nsys-ex01b",
        '(nvtx["pid"] == pid)\n        & (nvtx["tid"] == tid)\n        & ',
        "",
        "match pid and tid",
    ),
    ("nsys-ex01b", '& (nvtx["event_type"] == "push_pop")', "", "only push/pop ranges nest"),
    (
        "nsys-ex01b",
        "name = UNATTRIBUTED if thread is None else range_at(nvtx, *thread, (start + stop) // 2)",
        "name = UNATTRIBUTED if thread is None else range_at(nvtx, *thread, start)",
        "the range at the gap's start is taken",
    ),
    (
        "nsys-ex01b",
        "name = UNATTRIBUTED if thread is None else range_at(nvtx, *thread, (start + stop) // 2)",
        "name = UNATTRIBUTED if thread is None else range_at(nvtx, *thread, stop - 1)",
        "the range at the gap's end is taken",
    ),
    (
        "nsys-ex01b",
        "idle[name] = idle.get(name, 0) + stop - start",
        "idle[name] = idle.get(name, 0) + (stop - start if thread else 0)\n    idle.pop(UNATTRIBUTED, None)",
        "put them down to UNATTRIBUTED",
    ),
    (
        "nsys-ex01b",
        'mine = api[(api["pid"] == pid) & (api["tid"] == tid)]',
        "mine = api",
        "calls of other threads are counted",
    ),
    (
        "nsys-ex01b",
        'mine["end_ns"].clip(upper=end_ns) - mine["start_ns"].clip(lower=start_ns)',
        '(mine["end_ns"] - mine["start_ns"])'
        '.where((mine["end_ns"] > start_ns) & (mine["start_ns"] < end_ns), 0)',
        "calls are not cut to the stretch",
    ),
    (
        "nsys-ex01b",
        '"computing": end_ns - start_ns - waiting - calling',
        '"computing": end_ns - start_ns',
        "what is left of the stretch",
    ),
    ("nsys-ex01b", "int(inside[~waits].sum())", "int(inside.sum())", "waiting counts as calling too"),
    (
        "nsys-ex01b",
        "return name, max(spent",
        "return name, min(spent",
        "the range is right; the thread spends most",
    ),
]


@pytest.mark.parametrize("number", range(len(MUTATIONS)), ids=lambda n: f"{MUTATIONS[n][0]}-{n}")
def test_code_with_a_typical_mistake_is_told_so(number: int) -> None:
    check_told(*MUTATIONS[number], SEEDS)
