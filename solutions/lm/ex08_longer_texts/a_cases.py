"""Hidden cases of part a (attention on longer sequences): a generator or a measured sweep in, cases out."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from labcode.grading.cases import Case
from labcode.store import CaptureSet

Rng = np.random.Generator
Row = dict[str, Any]
EXPERIMENT = "lm_attention"
ITEM = {"naive": 4, "compiled": 4}  # bytes of a number; two in all other runs
GROWTH_EXAMS = (("naive", 128), ("naive_bf16", 32), ("flash", 128))
WORTH_EXAMS = (
    ("naive", "naive_bf16", 128, 1.5),
    ("naive_bf16", "flash", 32, 5.0),
    ("compiled_bf16", "flash", 64, 3.0),
)


def _fitting(cases: Sequence[Row], d_head: int) -> list[int]:
    return sorted(case["length"] for case in cases if case["fits"] and case["d_head"] == d_head)


def _grown(name: str, given: tuple[Any, ...]) -> Case:
    cases, batch, d_head, item, gpu_bytes = given
    lengths = ", ".join(map(str, _fitting(cases, d_head)))
    summary = (
        f"{len(cases)} cases; of width {d_head} fit the lengths {lengths}; batch {batch}, item {item}, "
        f"gpu_bytes {gpu_bytes:.4g}"
    )
    return Case(name, summary, "growth", given)


def _compared(name: str, given: tuple[Any, ...]) -> Case:
    slow, fast, d_head, worth = given
    counts = f"{len(_fitting(slow, d_head))} and {len(_fitting(fast, d_head))}"
    return Case(name, f"width {d_head}; {counts} lengths fit; worth {worth:g}", "worth_it", given)


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
    exact: bool = False,
) -> list[Row]:
    """A sweep in which the forward pass takes about a third of the time ``ms`` of each length.

    ``exact``: a quarter, and repetitions are alike, so that times are exactly ``ms``.
    """
    rows: list[Row] = []
    for d_head in (width, *others):
        scale = 1.0 if d_head == width else float(rng.uniform(1.3, 2.5))
        for length, whole in zip(lengths, ms, strict=True):
            forward = scale * whole * (0.25 if exact else float(rng.uniform(0.25, 0.4)))
            rows.append(
                {
                    "d_head": d_head,
                    "length": int(length),
                    "fits": True,
                    "forward_ms": _repeated(rng, forward, exact),
                    "backward_ms": _repeated(rng, scale * whole - forward, exact),
                    "before_backward_bytes": int(3e4 * scale * float(length / 100) ** held_power),
                    "peak_bytes": int(9e4 * scale * float(length / 100) ** peak_power),
                }
            )
        rows += [{"d_head": d_head, "length": int(n), "fits": False} for n in unfit]
    return [rows[int(i)] for i in rng.permutation(len(rows))]


def _repeated(rng: Rng, ms: float, exact: bool) -> list[float]:
    """Times around one, the first and another much longer."""
    times = ms * (1 + (0 if exact else 0.004) * rng.standard_normal(9))
    times[[0, int(rng.integers(1, 9))]] *= (2.5, 1.7)
    return [round(float(t), 6) for t in times]


def cases(rng: Rng) -> list[Case]:
    """Sweeps that follow the work at different lengths, then two runs side by side."""

    def gpu() -> int:
        return int(rng.uniform(2e10, 9e10))

    doubled, wide = [256, 512, 1024, 2048, 4096], [100, 300, 1200, 2400, 9600]
    slow = _sweep(rng, doubled, [1.0, 1.1, 2.6, 9.5, 37.0], others=(32,))
    longer = _sweep(rng, [*doubled[1:], 8192], [0.6, 0.7, 1.3, 4.0, 15.0], held_power=1.0, peak_power=1.0)
    bump = _sweep(rng, doubled, [1.0, 0.4, 1.5, 4.0, 9.0], others=())
    flat = _sweep(rng, doubled, [0.5, 0.5, 0.5, 0.5, 0.52], others=())
    pause = _sweep(rng, doubled, [1.0, 3.0, 8.0, 12.0, 40.0])
    unit = int(rng.integers(1, 9))
    base, more = ([n * unit for n in factors] for factors in ([1, 1, 2, 4, 8], [2, 5, 6, 20, 40]))
    # as many ms as tokens: however the power is computed, it is 1 to the last digit
    linear = _sweep(rng, doubled, [400.0, 512.0, 1024.0, 3000.0, 9000.0], exact=True)
    rising = _sweep(rng, doubled, [1.0, 3.0, 8.0, 25.0, 90.0])
    most = _sweep(rng, doubled, [2.0, 9.0, 40.0, 100.0, 180.0])
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
        _grown("a step over which time grows exactly as the length", (linear, 4, 64, 2, gpu())),
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
        _compared(
            "exactly as much as is worth it",
            (*(_sweep(rng, doubled, ms, exact=True) for ms in (more, base)), 64, 3.0),
        ),
        _compared("worth most before the longest", (most, rising, 64, 1.5)),
        _compared("worth it everywhere", (slow, flat, 64, 1.2)),
    ]


def exam(captures: CaptureSet) -> list[Case]:
    """Widths and pairs of runs that no page shows."""
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
        found.append(_grown(f"{run}, heads {width} wide", given))
    for slow, fast, width, worth in WORTH_EXAMS:
        both = [records[run]["results"]["cases"] for run in (slow, fast)]
        found.append(_compared(f"{slow} against {fast}, heads {width} wide", (*both, width, worth)))
    return found


def notes(captures: CaptureSet, answered: list[tuple[Case, Any]]) -> list[str]:
    """What the answers say about the captures."""
    return [
        f"{case.name}: " + ", ".join(f"{key} {value:.4g}" for key, value in right.items())
        for case, right in answered
    ]
