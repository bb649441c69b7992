"""Every recognizer of a mistake fires, and code with a typical mistake gets a reason its author can read."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest

from labcode.exercises.cases import Case, judge, plain
from tests.exercises.mutations_pytorch import PYTORCH
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
    # ex02a: concurrency
    ("nsys-ex02a", "events = sorted(", "events = sorted(key=lambda e: (e[0], -e[1]), iterable=", ""),
    (
        "nsys-ex02a",
        "sum(exactly.get(j, 0) for j in range(k, most + 1))",
        "exactly.get(k, 0)",
        "this is the time with exactly 1, 2, … kernels",
    ),
    (
        "nsys-ex02a",
        "for k in range(1, most + 1)",
        "for k in range(1, most + 2)",
        "kernels that touch do not overlap",
    ),
    ("nsys-ex02a", "/ times[0]", "/ len(times)", ""),
    (
        "nsys-ex02a",
        "float(durations[device]) / times[0]",
        "float(durations[device]) / float(kernels[kernels.device == device].end_ns.max()"
        " - kernels[kernels.device == device].start_ns.min())",
        "divide by the time with any kernel running",
    ),
    (
        "nsys-ex02a",
        "float(durations[device]) / times[0]",
        "float(len(times))",
        "this is the most kernels at once, not the average",
    ),
    (
        "nsys-ex02a",
        "if stop > start]",
        "if stop >= start]",
        "kernels that only touch|kernels that touch do not overlap",
    ),
    (
        "nsys-ex02a",
        'zip(mine["pid"], mine["stream"], strict=True)',
        'zip(mine["device"], mine["stream"], strict=True)',
        "a stream is a process and a number",
    ),
    ("nsys-ex02a", "= len(involved)", "= len(mine.groupby(['pid', 'stream']))", "these are all streams"),
    # ex02b: what kernels waited for
    (
        "nsys-ex02b",
        'api[["pid", "correlation", "end_ns"]].rename(columns={"end_ns": "launched_ns"})',
        'api[["pid", "correlation", "start_ns"]].rename(columns={"start_ns": "launched_ns"})',
        "compare with when the launching call returned",
    ),
    (
        "nsys-ex02b",
        'mine["end_ns"].cummax().shift(1)',
        'mine["end_ns"].shift(1)',
        "the latest end of ALL kernels before",
    ),
    ("nsys-ex02b", '["pid", "device", "stream"]', '["stream"]', "streams of the same number are mixed up"),
    ("nsys-ex02b", '["pid", "device", "stream"]', '["device"]', "the kernel before on the SAME stream"),
    (
        "nsys-ex02b",
        "max(kernel.launched_ns, freed) + slack_ns",
        "max(kernel.launched_ns, freed)",
        "the slack is forgotten",
    ),
    (
        "nsys-ex02b",
        "    return counts\n",
        "    return {k: v for k, v in counts.items() if v}\n",
        "keys without a kernel are missing",
    ),
    ("nsys-ex02b", "return max(counts", "return min(counts", "the launches come late|wait"),
    # ex03a: transfers
    (
        "nsys-ex03a",
        'copy.src_kind if copy.copy_kind == "H2D" else copy.dst_kind',
        "copy.src_kind",
        "the host's memory is the destination",
    ),
    (
        "nsys-ex03a",
        'copy.src_kind if copy.copy_kind == "H2D" else copy.dst_kind',
        "copy.dst_kind",
        "the host's memory is the source",
    ),
    (
        "nsys-ex03a",
        'if copy.copy_kind not in ("H2D", "D2H"):',
        "if False:",
        "do not touch the host|the keys differ",
    ),
    ("nsys-ex03a", "size / ns for key", "size / 1.024**3 / ns for key", "GiB is 2³⁰"),
    ("nsys-ex03a", "size / ns for key", "size * 1e9 / ns for key", "a factor of 1,000,000,000"),
    ("nsys-ex03a", "size / ns for key", "ns / size for key", "turn the fraction round"),
    (
        "nsys-ex03a",
        "totals.setdefault((copy.copy_kind, host), [0, 0])",
        "totals.setdefault(copy.copy_kind, [0, 0])",
        "keys are pairs",
    ),
    (
        "nsys-ex03a",
        "both / copying",
        "both / sum(end - start for start, end in kernels)",
        "this is the share of kernel time",
    ),
    (
        "nsys-ex03a",
        '_merged(mine[mine["kind"] == "kernel"])',
        '_merged(mine[mine["kind"] != "memcpy"])',
        "a memset is no kernel",
    ),
    (
        "nsys-ex03a",
        '_merged(mine[mine["kind"] == "kernel"])',
        '_merged(ops[ops["kind"] == "kernel"])',
        "a kernel of another device hides nothing",
    ),
    (
        "nsys-ex03a",
        "if merged and start <= merged[-1][1]:",
        "if False:",
        "some time counts twice|a share cannot",
    ),
    (
        "nsys-ex03a",
        "            continue\n        both",
        "            shares[int(device)] = 0.0\n            continue\n        both",
        "leave it out",
    ),
    # ex03b: the pipeline's model
    ("nsys-ex03b", "max(arrived, free) + ns", "arrived + ns", "as if it were alone"),
    ("nsys-ex03b", "max(arrived, free) + ns", "free + ns", "only after it has finished the stage before"),
    ("nsys-ex03b", "done[c - 1][s] if c else 0", "done[c - 1][-1] if c else 0", "nothing overlaps here"),
    (
        "nsys-ex03b",
        "finish_times([per_chunk] * chunks)[-1][-1]",
        "float(sum(whole))",
        "the stages are added up",
    ),
    (
        "nsys-ex03b",
        "finish_times([per_chunk] * chunks)[-1][-1]",
        "float(max(whole))",
        "this is the slowest stage alone",
    ),
    ("nsys-ex03b", "ns / chunks + overhead_ns", "ns / chunks", "the overhead is left out"),
    ("nsys-ex03b", "ns / chunks + overhead_ns", "(ns + overhead_ns) / chunks", "the overhead is divided"),
    ("nsys-ex03b", "[per_chunk] * chunks)", "[per_chunk] * (chunks + 1))", "one chunk too many"),
    (
        "nsys-ex03b",
        "return min(range(1, most + 1)",
        "return max(range(1, most + 1)",
        "this is the slowest choice",
    ),
    (
        "nsys-ex03b",
        "return min(range(1, most + 1), key=",
        "return most or max([1], key=",
        "more chunks are not always better",
    ),
    ("nsys-ex03b", "/ repetitions for stage", "for stage", "divide each stage by their number"),
    # ex04a: communication
    ("nsys-ex04a", "(total, total - hidden)", "(total, hidden)", "the second number is the hidden part"),
    ("nsys-ex04a", "(total, total - hidden)", "(total, total)", "everything is called exposed"),
    (
        "nsys-ex04a",
        'mine["name"].str.contains("nccl", case=False)\n        talk',
        'mine["name"].str.contains("ncclDevKernel")\n        talk',
        "older versions call theirs",
    ),
    (
        "nsys-ex04a",
        'mine["name"].str.contains("nccl", case=False)\n        talk',
        'mine["name"].str.contains("nccl")\n        talk',
        "upper case too",
    ),
    (
        "nsys-ex04a",
        "if merged and start <= merged[-1][1]:",
        "if False:",
        "merge the other kernels first|take their union",
    ),
    (
        "nsys-ex04a",
        "_merged(mine[~collective])",
        "_merged(kernels[~kernels.name.str.contains('nccl', case=False)])",
        "hide nothing",
    ),
    (
        "nsys-ex04a",
        "late[device] += start - min(joined)",
        "late[device] += max(joined) - start",
        "measured back from the last device",
    ),
    (
        "nsys-ex04a",
        'rows["start_ns"].tolist() for device',
        'rows["end_ns"].tolist() for device',
        "collectives end together",
    ),
    (
        "nsys-ex04a",
        "late[device] += start - min(joined)",
        "late[device] = start - min(joined)",
        "only the last collective is compared",
    ),
    (
        "nsys-ex04a",
        "return min(late, key=lambda device: (-late[device], device))",
        "return max(communication(kernels).items(), key=lambda kv: kv[1][0])[0]",
        "it waits, it does not keep others waiting",
    ),
    # ex04b: buckets
    (
        "nsys-ex04b",
        "if filled >= bucket_bytes:",
        "if filled > bucket_bytes:",
        "a bucket that is filled exactly is full",
    ),
    (
        "nsys-ex04b",
        "return [*closed, (now, filled)] if filled else closed",
        "return closed",
        "what is left after the last layer",
    ),
    (
        "nsys-ex04b",
        "closed.append((now, filled))",
        "closed.append((filled, now))",
        "in this order|the right entries",
    ),
    (
        "nsys-ex04b",
        "for backward_ns, gradient_bytes in layers:",
        "for backward_ns, gradient_bytes in reversed(layers):",
        "do not turn them round",
    ),
    (
        "nsys-ex04b",
        "free = max(free, ready) + latency_ns",
        "free = ready + latency_ns",
        "collectives run one at a time|only the last bucket",
    ),
    ("nsys-ex04b", "+ latency_ns + size / bytes_per_ns", "+ size / bytes_per_ns", "the latency is left out"),
    (
        "nsys-ex04b",
        "return free - sum(backward for backward, _ in layers)",
        "return free",
        "subtract the end of the backward pass",
    ),
    (
        "nsys-ex04b",
        "free = max(free, ready) + latency_ns",
        "free = free + latency_ns",
        "a collective begins when its bucket is ready",
    ),
    ("nsys-ex04b", "-size))", "size))", "several are equally good: take the largest"),
    (
        "nsys-ex04b",
        "return min(candidates",
        "return max(candidates",
        "this is the candidate with the most exposed time",
    ),
]
MUTATIONS += [*PYTORCH]


@pytest.mark.parametrize("number", range(len(MUTATIONS)), ids=lambda n: f"{MUTATIONS[n][0]}-{n}")
def test_code_with_a_typical_mistake_is_told_so(number: int) -> None:
    check_told(*MUTATIONS[number], SEEDS)
