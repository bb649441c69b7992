"""Hidden cases of advanced-ex02, part a (a model of the loader): a generator or a capture in, cases out."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from labcode.analysis.timeline import feed
from labcode.analysis.timeline.utilization import device_busy
from labcode.errors import LabError
from labcode.exercises.cases import Case, Mistake, Task, brief
from labcode.grading.exam import open_run
from labcode.store import CaptureSet

Rng = np.random.Generator
EXPERIMENT, RUNS = "dataloader", ("exam_baseline", "exam_disk")
MOST = 8  # workers, and batches ahead, that are tried


def taken(
    costs: Sequence[float],
    step: float,
    workers: int,
    ahead: int,
    *,
    free_worker: bool = False,
    in_order: bool = True,
    unlimited: bool = False,
    in_total: bool = False,
    late_order: bool = False,
    busy: bool = True,
    stepping: bool = True,
    overlap: bool = True,
) -> list[float]:
    """When the loop has each batch in hand; the flags are the typical mistakes."""
    limit = ahead if in_total else workers * ahead
    had: list[float] = []
    free = [0.0] * max(workers, 1)
    ready: list[float] = []
    asks = 0.0

    def has(i: int) -> float:
        nonlocal asks
        done = ready[i] if in_order else sorted(ready)[i]
        had.append(max(asks, done) if overlap else max(asks, done) + step * i)
        asks = had[-1] + (step if stepping else 0.0)
        return had[-1]

    for i, cost in enumerate(costs):
        if not workers:
            had.append(asks + cost)
            asks = had[-1] + (step if stepping else 0.0)
            continue
        order = 0.0
        if i >= limit and not unlimited:
            order = had[i - limit] if len(had) > i - limit else has(i - limit)
            order += step if late_order else 0.0
        worker = free.index(min(free)) if free_worker else i % workers
        free[worker] = max(order, free[worker] if busy else 0.0) + cost
        ready.append(free[worker])
        if in_order:
            has(i)
    while len(had) < len(costs):
        has(len(had))
    return had


def waits(times: Sequence[float], step: float) -> bool:
    """Whether the loop waits after its first batch."""
    return any(later - sooner - step > 1e-9 * later for sooner, later in itertools.pairwise(times))


def fewest_workers(costs: Sequence[float], step: float, ahead: int, most: int) -> int | None:
    """The answer of the second function."""
    tried = (n for n in range(1, most + 1) if not waits(taken(costs, step, n, ahead), step))
    return next(tried, None)


def least_ahead(costs: Sequence[float], step: float, workers: int, most: int) -> int | None:
    """The answer of the third function."""
    tried = (n for n in range(1, most + 1) if not waits(taken(costs, step, workers, n), step))
    return next(tried, None)


def _whole(rng: Rng, low: int, high: int, count: int) -> list[float]:
    return [float(x) for x in rng.integers(low, high, count)]


def _scenes(rng: Rng) -> list[tuple[str, list[float], float, int, int]]:
    hiccup = _whole(rng, 20, 26, 14)
    hiccup[8] = 150.0
    steady = [float(rng.integers(30, 50))] * 9
    return [
        ("one worker, one batch ahead", _whole(rng, 10, 40, 5), 12.0, 1, 1),
        ("the loop makes its batches itself", _whole(rng, 10, 40, 5), 12.0, 0, 2),
        ("equal batches, three workers", steady, 5.0, 3, 2),
        ("the loop is slower than its feed", _whole(rng, 10, 20, 12), 25.0, 2, 2),
        ("batches of very different costs", _whole(rng, 5, 90, 16), 9.0, 3, 2),
        ("one batch takes long", hiccup, 12.0, 2, 1),
        ("one batch takes long, and more are ordered ahead", hiccup, 12.0, 2, 4),
        ("a first batch that takes long", [200.0, *_whole(rng, 5, 15, 9)], 8.0, 4, 1),
        ("more workers than batches", _whole(rng, 20, 60, 4), 15.0, 6, 2),
        ("a loop that needs no time", _whole(rng, 20, 60, 12), 0.0, 3, 1),
        ("no batch at all", [], 5.0, 2, 2),
    ]


def _taken_case(
    name: str, costs: list[float], step: float, workers: int, ahead: int, *, exam: bool = False
) -> Case:
    given = (costs, step, workers, ahead)
    made = feed.delivered(costs, step, workers, ahead)
    expected = [float(at) for at in made["taken_ns"]]
    wrong: tuple[tuple[str, list[float]], ...] = (
        ("batch i belongs to worker i % workers, also when another one is free",
         taken(*given, free_worker=True)),
        ("the loop takes batches in their order, not as they are finished", taken(*given, in_order=False)),
        ("workers do not run on without end: a batch has to be ordered first", taken(*given, unlimited=True)),
        ("`ahead` counts for each worker: workers * ahead batches are ordered at the start",
         taken(*given, in_total=True)),
        ("the next order goes out when the loop takes a batch, not when its step is done",
         taken(*given, late_order=True)),
        ("a worker makes one batch at a time: it begins when it is free", taken(*given, busy=False)),
        ("the loop works for `step` before it asks again", taken(*given, stepping=False)),
        ("workers make batches while the loop works: step and cost do not add up",
         taken(*given, overlap=False)),
        ("workers make batches while the loop works: step and cost do not add up",
         taken(costs, step, 0, ahead)),
        ("these are the times at which batches are finished; asked for is when the loop has them",
         [float(at) for at in made["end_ns"]]),
        ("these are the waits; asked for are times from the start on",
         [float(at) for at in made["waited_ns"]]),
        ("these are the times at which the loop asks again: it has the batch one step before",
         [at + step for at in expected]),
    )  # fmt: skip
    return Case(
        name=name,
        summary=f"costs = {brief(costs)}, step = {brief(step)}, workers = {workers}, ahead = {ahead}",
        function="taken",
        arguments=given,
        expected=expected,
        mistakes=tuple(Mistake(says, gives) for says, gives in wrong),
        exam=exam,
        show=lambda times: brief(times, 240),
    )


def _fewest_case(
    name: str, costs: list[float], step: float, ahead: int, most: int = MOST, *, exam: bool = False
) -> Case:
    expected = fewest_workers(costs, step, ahead, most)
    by_rate = int(np.ceil(np.mean(costs) / step)) if step else most
    return Case(
        name=name,
        summary=f"costs = {brief(costs)}, step = {brief(step)}, ahead = {ahead}, most = {most}",
        function="fewest_workers",
        arguments=(costs, step, ahead, most),
        expected=expected,
        mistakes=(
            Mistake("without workers the loop always waits: begin with 1", 0),
            Mistake(
                "no number up to `most` is enough: None"
                if expected is None
                else "more are not better: the fewest that do",
                most,
            ),
            Mistake("this is mean cost / step; a batch that takes longer makes the loop wait", by_rate),
            Mistake("`most` itself may be the answer", fewest_workers(costs, step, ahead, most - 1)),
            Mistake("the first batch is always waited for: it does not count", None),
        ),
        exam=exam,
    )


def _ahead_case(name: str, costs: list[float], step: float, workers: int, most: int = MOST) -> Case:
    expected = least_ahead(costs, step, workers, most)
    return Case(
        name=name,
        summary=f"costs = {brief(costs)}, step = {brief(step)}, workers = {workers}, most = {most}",
        function="least_ahead",
        arguments=(costs, step, workers, most),
        expected=expected,
        mistakes=(
            Mistake(
                "a feed that is slower on the average is slower however far ahead: None"
                if expected is None
                else "more are not better: the smallest that does",
                most,
            ),
            Mistake("`most` itself may be the answer", least_ahead(costs, step, workers, most - 1)),
            Mistake("the first batch is always waited for: it does not count", None),
        ),
    )


def _cases(rng: Rng) -> list[Case]:
    even = [60.0] * 20
    spiked = [20.0] * 24
    spiked[15] = 50.0 + 2 * float(rng.integers(4))
    late = [20.0] * 30
    late[20] = 82.0 + float(rng.integers(9))
    return [
        *(_taken_case(*scene) for scene in _scenes(rng)),
        _fewest_case("equal batches", even, float(rng.integers(16, 19)), 2),
        _fewest_case("equal batches, as many workers as are allowed", even, 16.0, 2, 4),
        _fewest_case("too few workers are allowed", even, 11.0, 2, 4),
        _fewest_case("a batch that takes long, two ahead", spiked, 12.0, 2),
        _fewest_case("one worker is enough", even, 75.0, 1),
        _ahead_case("one batch ahead is enough", even, 25.0, 3),
        _ahead_case("one batch takes long", spiked, 12.0, 2),
        _ahead_case("one batch takes very long", late, 14.0, 2),
        _ahead_case(
            "one batch takes very long, just enough", late, 14.0, 2, least_ahead(late, 14.0, 2, MOST) or MOST
        ),
        _ahead_case("too few workers", even, 15.0, 3),
        _ahead_case("exactly as fast as the loop", even, 20.0, 3),
    ]


def batch_costs(captures: CaptureSet, run: str) -> tuple[list[float], float, int, int]:
    """Of a run: what its workers needed for each batch that is whole, the GPU's time a step (ms); the
    number of workers, and how many batches each has ordered."""
    record = captures.record(EXPERIMENT, run)
    setup = record["parameters"]
    with open_run(captures, EXPERIMENT, run) as report:
        made = feed.batches(feed.items(report.nvtx()), int(setup["batch"]))
        busy = device_busy(report.gpu_ops(), report.window())["busy_ns"].max()
    costs = [float(ns) / 1e6 for ns in made.loc[made["whole"], "work_ns"]]
    if not costs:
        raise LabError(f"the run {run} of {EXPERIMENT} in the set {captures.name!r} holds no whole batch")
    return (
        costs,
        float(busy) / 1e6 / int(setup["steps"]),
        int(setup["workers"]),
        int(setup["prefetch_factor"]),
    )


def _exam(captures: CaptureSet) -> list[Case]:
    cases = []
    for run in RUNS:
        costs, step, workers, ahead = batch_costs(captures, run)
        name = f"the batches of a capture you have not seen ({EXPERIMENT}, {run}), times in ms"
        cases.append(_taken_case(name, costs, step, workers, ahead, exam=True))
        cases.append(_fewest_case(name, costs, step, ahead, 64, exam=True))
    return cases


def _notes(captures: CaptureSet) -> list[str]:
    """The model beside the measurement."""
    lines = []
    for run in RUNS:
        costs, step, workers, ahead = batch_costs(captures, run)
        model = feed.step_of(feed.delivered(np.resize(costs, 400), step, workers, ahead))
        took = float(captures.record(EXPERIMENT, run)["results"]["per_step_ms"])
        enough = fewest_workers(costs, step, ahead, 64)
        lines.append(
            f"{run}, {workers} workers: your model says {model:.1f} ms a step, the program took {took:.1f}; "
            f"the loop would not wait with {enough}"
        )
    return lines


SCHEDULE = Task(_cases, _exam, _notes)
