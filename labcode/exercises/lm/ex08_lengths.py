"""Hidden cases of lm-ex08 (attention on longer texts): a generator or a measured sweep in, cases out."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from labcode.exercises.cases import Case, Mistake, Task
from labcode.exercises.lm.scenes import FORBIDDEN
from labcode.store import CaptureSet

Rng = np.random.Generator
Row = dict[str, Any]
Middle = Callable[[Sequence[float]], float]
EXPERIMENT = "lm_attention"
ITEM = {"naive": 4, "compiled": 4}  # bytes of a number; two in all other runs
GROWTH_EXAMS = (("naive", 128), ("naive_bf16", 32), ("flash", 128))
WORTH_EXAMS = (
    ("naive", "naive_bf16", 128, 1.5),
    ("naive_bf16", "flash", 32, 5.0),
    ("compiled_bf16", "flash", 64, 3.0),
)


def _time(case: Row, middle: Middle = statistics.median, backward: bool = True) -> float:
    return float(middle(case["forward_ms"])) + (float(middle(case["backward_ms"])) if backward else 0.0)


def _mine(cases: Sequence[Row], d_head: int, *, ordered: bool = True, own_width: bool = True) -> list[Row]:
    found = [case for case in cases if case["fits"] and (case["d_head"] == d_head or not own_width)]
    if not own_width:  # one of each length, the last
        found = list({case["length"]: case for case in found}.values())
    return sorted(found, key=lambda case: int(case["length"])) if ordered else found


def growth(
    cases: Sequence[Row],
    batch: int,
    d_head: int,
    item: int,
    gpu_bytes: int,
    *,
    middle: Middle = statistics.median,
    backward: bool = True,
    ordered: bool = True,
    own_width: bool = True,
    ratios: bool = False,
    doubled: bool = False,
    whole_range: bool = False,
    first_step: bool = False,
    one_later: bool = False,
    itemsize: bool = True,
    of_batch: bool = True,
    of_peak: bool = False,
    peak_power: float = 0.0,
) -> dict[str, float]:
    """The answer; the flags are the typical mistakes."""
    mine = _mine(cases, d_head, ordered=ordered, own_width=own_width)
    lengths = [int(case["length"]) for case in mine]

    def power(values: Sequence[float], first: int, last: int) -> float:
        ratio = values[last] / values[first]
        if ratios:
            return ratio
        return math.log(ratio) / math.log(2 if doubled else lengths[last] / lengths[first])

    times = [_time(case, middle, backward) for case in mine]
    held = [float(case["peak_bytes" if of_peak else "before_backward_bytes"]) for case in mine]
    peaks = [float(case["peak_bytes"]) for case in mine]
    steps = [math.log(b / a) / math.log(n / m) >= 1 for a, b, m, n in _pairs(times, lengths)]
    follows = len(steps)
    if first_step:
        follows = steps.index(True) if True in steps else follows
    else:
        while follows > 0 and steps[follows - 1]:
            follows -= 1
    earlier = 0 if whole_range else len(mine) - 2
    count = (batch if of_batch else 1) * (item if itemsize else 4)
    grows = peak_power or power(peaks, earlier, -1)
    return {
        "follows_from": lengths[min(follows + one_later, len(steps))],
        "time": power(times, earlier, -1),
        "held": power(held, earlier, -1),
        "held_scores": held[-1] / (count * lengths[-1] ** 2),
        "held_inputs": held[-1] / (count * lengths[-1] * d_head),
        "longest": int(lengths[-1] * (gpu_bytes / peaks[-1]) ** (1 / grows)),
    }


def _pairs(values: Sequence[float], lengths: Sequence[int]) -> list[tuple[float, float, int, int]]:
    return list(zip(values, values[1:], lengths, lengths[1:], strict=False))


_WRONG: dict[str, dict[str, Any]] = {
    "of repetitions take the median: a single slow one moves the mean": {"middle": statistics.fmean},
    "of repetitions take the median, not the quickest": {"middle": min},
    "of repetitions take the median, not the first": {"middle": lambda values: values[0]},
    "the time is that of forward and backward pass together": {"backward": False},
    "the cases come in no particular order: sort them by length": {"ordered": False},
    "the cases of other widths are among these: keep those of d_head": {"own_width": False},
    "these are ratios; asked for are powers: log(ratio) over the log of the ratio of lengths": {
        "ratios": True
    },
    "the next length need not be twice as long: divide by the log of the ratio of lengths": {"doubled": True},
    "powers are those over the last step, not from the first length to the last": {"whole_range": True},
    "follows_from: time must follow the work from there on, over every step to the longest": {
        "first_step": True
    },
    "follows_from is the length at which the first of these steps begins, not where it ends": {
        "one_later": True
    },
    "a number has item bytes, not always four": {"itemsize": False},
    "a tensor has a part for each text of the batch": {"of_batch": False},
    "held is what is there before the backward pass, not the peak": {"of_peak": True},
    "longest: the peak does not grow in proportion to the length here; take its power": {"peak_power": 1.0},
    "longest: the peak does not grow with the square of the length here; take its power": {"peak_power": 2.0},
}


def worth_it(
    slow: Sequence[Row],
    fast: Sequence[Row],
    d_head: int,
    worth: float,
    *,
    middle: Middle = statistics.median,
    backward: bool = True,
    by_place: bool = False,
    first_one: bool = False,
    swapped: bool = False,
    nothing: int = 0,
) -> dict[str, float]:
    """The answer; the flags are the typical mistakes."""
    tables = [
        {int(case["length"]): _time(case, middle, backward) for case in _mine(cases, d_head)}
        for cases in (slow, fast)
    ]
    if by_place:
        tables[1] = dict(zip(tables[0], tables[1].values(), strict=False))
    common = sorted(set(tables[0]) & set(tables[1]))
    gains = [tables[0][n] / tables[1][n] for n in common]
    gains = [1 / gain for gain in gains] if swapped else gains
    enough = [gain >= worth for gain in gains]
    first = len(enough)
    if first_one:
        first = enough.index(True) if True in enough else first
    else:
        while first > 0 and enough[first - 1]:
            first -= 1
    return {"gain": gains[-1], "worth_from": common[first] if first < len(common) else nothing or 0}


_WRONG_WORTH: dict[str, dict[str, Any]] = {
    "of repetitions take the median: a single slow one moves the mean": {"middle": statistics.fmean},
    "of repetitions take the median, not the quickest": {"middle": min},
    "the time is that of forward and backward pass together": {"backward": False},
    "the runs have different lengths: match them by length, not by place": {"by_place": True},
    "the gain must be enough from there on, at every length to the longest": {"first_one": True},
    "gain is the slow time over the fast one": {"swapped": True},
}


def _grown(name: str, given: tuple[Any, ...], *, exam: bool = False) -> Case:
    cases, batch, d_head, item, gpu_bytes = given
    mine = _mine(cases, d_head)
    lengths = ", ".join(str(case["length"]) for case in mine)
    right = growth(*given)
    wrong = [Mistake(says, growth(*given, **flags)) for says, flags in _WRONG.items()]
    return Case(
        name,
        f"{len(cases)} cases; of width {d_head} fit the lengths {lengths}; batch {batch}, item {item}, "
        f"gpu_bytes {gpu_bytes:.4g}",
        "growth",
        given,
        right,
        tuple(wrong),
        exam=exam,
    )


def _compared(name: str, given: tuple[Any, ...], *, exam: bool = False) -> Case:
    slow, fast, d_head, worth = given
    right = worth_it(*given)
    wrong = [Mistake(says, worth_it(*given, **flags)) for says, flags in _WRONG_WORTH.items()]
    if right["worth_from"] == 0:
        last = max(case["length"] for case in _mine(slow, d_head))
        wrong.append(Mistake("where it is never worth it, worth_from is 0", worth_it(*given, nothing=last)))
    return Case(
        name,
        f"width {d_head}; {len(_mine(slow, d_head))} and {len(_mine(fast, d_head))} lengths fit; "
        f"worth {worth:g}",
        "worth_it",
        given,
        right,
        tuple(wrong),
        exam=exam,
    )


def _sweep(
    rng: Rng,
    lengths: Sequence[int],
    ms: Sequence[float],
    *,
    held_power: float = 2.0,
    peak_power: float = 1.8,
    unfit: Sequence[int] = (),
    width: int = 64,
    others: Sequence[int] = (32, 128),
) -> list[Row]:
    """A sweep in which the forward pass takes about a third of the time ``ms`` of each length."""
    rows: list[Row] = []
    for d_head in (width, *others):
        scale = 1.0 if d_head == width else float(rng.uniform(1.3, 2.5))
        for length, whole in zip(lengths, ms, strict=True):
            forward = scale * whole * float(rng.uniform(0.25, 0.4))
            rows.append(
                {
                    "d_head": d_head,
                    "length": int(length),
                    "fits": True,
                    "forward_ms": _repeated(rng, forward),
                    "backward_ms": _repeated(rng, scale * whole - forward),
                    "before_backward_bytes": int(3e4 * scale * float(length / 100) ** held_power),
                    "peak_bytes": int(9e4 * scale * float(length / 100) ** peak_power),
                }
            )
        rows += [{"d_head": d_head, "length": int(n), "fits": False} for n in unfit]
    return [rows[int(i)] for i in rng.permutation(len(rows))]


def _repeated(rng: Rng, ms: float) -> list[float]:
    """Times around one, the first and another much longer."""
    times = ms * (1 + 0.004 * rng.standard_normal(9))
    times[[0, int(rng.integers(1, 9))]] *= (2.5, 1.7)
    return [round(float(t), 6) for t in times]


def _cases(rng: Rng) -> list[Case]:
    def gpu() -> int:
        return int(rng.uniform(2e10, 9e10))

    doubled, wide = [256, 512, 1024, 2048, 4096], [100, 300, 1200, 2400, 9600]
    slow = _sweep(rng, doubled, [1.0, 1.1, 2.6, 9.5, 37.0], others=(32,))
    longer = _sweep(rng, [*doubled[1:], 8192], [0.6, 0.7, 1.3, 4.0, 15.0], held_power=1.0, peak_power=1.0)
    bump = _sweep(rng, doubled, [1.0, 0.4, 1.5, 4.0, 9.0], others=())
    flat = _sweep(rng, doubled, [0.5, 0.5, 0.5, 0.5, 0.52], others=())
    pause = _sweep(rng, doubled, [1.0, 3.0, 8.0, 12.0, 40.0])
    rising = _sweep(rng, doubled, [1.0, 3.0, 8.0, 25.0, 90.0])
    return [
        _grown("lengths that double, one width", (bump, 4, 64, 4, gpu())),
        _grown("several widths, two bytes a number", (slow, 8, 64, 2, gpu())),
        _grown(
            "lengths that do not double",
            (_sweep(rng, wide, [1.0, 2.0, 2.4, 7.0, 90.0]), 3, 64, 2, gpu()),
        ),
        _grown(
            "the longest do not fit",
            (_sweep(rng, wide, [1.0, 5.0, 9.0, 30.0, 200.0], unfit=(19200, 38400)), 2, 64, 4, gpu()),
        ),
        _grown("time that never follows the work", (flat, 4, 64, 2, gpu())),
        _grown("time that follows the work, then does not, then does again", (pause, 4, 64, 2, gpu())),
        _grown("time that follows the work from the first length on", (rising, 4, 64, 2, gpu())),
        _grown(
            "memory that grows with the length itself",
            (
                _sweep(rng, doubled, [1.0, 1.0, 2.4, 6.0, 20.0], held_power=1.0, peak_power=1.0),
                8,
                64,
                2,
                gpu(),
            ),
        ),
        _compared("runs of different lengths", (slow, longer, 64, 3.0)),
        _compared("worth it, then not, then again", (slow, bump, 64, 2.5)),
        _compared("never worth it", (slow, longer, 64, 50.0)),
        _compared("worth it everywhere", (slow, flat, 64, 1.2)),
    ]


def _exam(captures: CaptureSet) -> list[Case]:
    records = {
        run: captures.record(EXPERIMENT, run) for run in ("naive", "naive_bf16", "compiled_bf16", "flash")
    }
    found = []
    for run, width in GROWTH_EXAMS:
        record = records[run]
        given = (
            record["results"]["cases"],
            record["parameters"]["batch"],
            width,
            ITEM.get(run, 2),
            record["gpu"]["memory_bytes"],
        )
        found.append(_grown(f"{run}, heads {width} wide", given, exam=True))
    for slow, fast, width, worth in WORTH_EXAMS:
        both = [records[run]["results"]["cases"] for run in (slow, fast)]
        found.append(
            _compared(f"{slow} against {fast}, heads {width} wide", (*both, width, worth), exam=True)
        )
    return found


def notes(captures: CaptureSet) -> list[str]:
    """What the answers say about the captures."""
    return [
        f"{case.name}: " + ", ".join(f"{key} {value:.4g}" for key, value in case.expected.items())
        for case in _exam(captures)
    ]


LENGTHS = Task(_cases, _exam, notes=notes, forbidden=FORBIDDEN)
