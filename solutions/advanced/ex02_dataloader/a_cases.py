"""Hidden cases of part a (a model of the loader): a generator or a capture in, cases out."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from labcode.analysis.timeline import feed
from labcode.analysis.timeline.utilization import device_busy
from labcode.errors import LabError
from labcode.grading.cases import Case, brief
from labcode.grading.exam import open_run
from labcode.store import CaptureSet

Rng = np.random.Generator
EXPERIMENT, RUNS = "dataloader", ("exam_baseline", "exam_disk")
MOST = 8  # workers, and batches ahead, that are tried


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


def _taken_case(name: str, costs: list[float], step: float, workers: int, ahead: int) -> Case:
    return Case(
        name=name,
        summary=f"costs = {brief(costs)}, step = {brief(step)}, workers = {workers}, ahead = {ahead}",
        function="taken",
        arguments=(costs, step, workers, ahead),
        show=lambda times: brief(times, 240),
    )


def _fewest_case(name: str, costs: list[float], step: float, ahead: int, most: int = MOST) -> Case:
    summary = f"costs = {brief(costs)}, step = {brief(step)}, ahead = {ahead}, most = {most}"
    return Case(name, summary, "fewest_workers", (costs, step, ahead, most))


def _ahead_case(name: str, costs: list[float], step: float, workers: int, most: int = MOST) -> Case:
    summary = f"costs = {brief(costs)}, step = {brief(step)}, workers = {workers}, most = {most}"
    return Case(name, summary, "least_ahead", (costs, step, workers, most))


def _enough_ahead(costs: list[float], step: float, workers: int) -> int:
    """The fewest batches ahead with which the loop waits for the first alone."""
    made = (feed.delivered(np.array(costs), step, workers, ahead) for ahead in range(1, MOST + 1))
    waited = (one["waited_ns"].iloc[1:].max() > 1e-6 for one in made)
    return [*waited].index(False) + 1


def cases(rng: Rng) -> list[Case]:
    """Each function in turn, easy cases first."""
    even = [60.0] * 20
    spiked = [20.0] * 24
    spiked[15] = 50.0 + 2 * float(rng.integers(4))
    late = [20.0] * 30
    late[20] = 82.0 + float(rng.integers(9))
    enough = _enough_ahead(late, 14.0, 2)
    return [
        *(_taken_case(*scene) for scene in _scenes(rng)),
        _fewest_case("equal batches", even, float(rng.integers(16, 19)), 2),
        _fewest_case("equal batches, as many workers as are allowed", even, 16.0, 2, 4),
        _fewest_case("one worker fewer is allowed than is needed", even, 11.0, 2, 5),
        _fewest_case("a batch that takes long, two ahead", spiked, 12.0, 2),
        _fewest_case("one worker is enough", even, 75.0, 1),
        _fewest_case("the second batch takes long", [10.0, 30.0, *_whole(rng, 3, 9, 8)], 20.0, 1),
        _fewest_case("nothing takes any time", [0.0] * int(rng.integers(3, 9)), 0.0, 2),
        _ahead_case("one batch ahead is enough", even, 25.0, 3),
        _ahead_case("one batch takes long", spiked, 12.0, 2),
        _ahead_case("one batch takes very long", late, 14.0, 2),
        _ahead_case("one batch takes very long, just enough", late, 14.0, 2, enough),
        _ahead_case("one batch takes very long, not enough", late, 14.0, 2, enough - 1),
        _ahead_case("too few workers", even, 15.0, 3),
        _ahead_case("exactly as fast as the loop", even, 20.0, 3),
    ]


def _batch_costs(captures: CaptureSet, run: str) -> tuple[list[float], float, int, int]:
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


def exam(captures: CaptureSet) -> list[Case]:
    """The batches of captures, and how many workers they would have needed."""
    made = []
    for run in RUNS:
        costs, step, workers, ahead = _batch_costs(captures, run)
        name = f"the batches of a capture you have not seen ({EXPERIMENT}, {run}), times in ms"
        made.append(_taken_case(name, costs, step, workers, ahead))
        made.append(_fewest_case(name, costs, step, ahead, 64))
    return made


def notes(captures: CaptureSet, answered: Sequence[tuple[Case, Any]]) -> list[str]:
    """The model beside the measurement."""
    lines = []
    for run, (case, _), (_, enough) in zip(RUNS, answered[::2], answered[1::2], strict=True):
        costs, step, workers, ahead = case.arguments
        model = feed.step_of(feed.delivered(np.resize(costs, 400), step, workers, ahead))
        took = float(captures.record(EXPERIMENT, run)["results"]["per_step_ms"])
        lines.append(
            f"{run}, {workers} workers: your model says {model:.1f} ms a step, the program took {took:.1f}; "
            f"the loop would not wait with {enough}"
        )
    return lines


def _taken(costs: list[float], step: float, workers: int, ahead: int) -> list[float]:
    return [float(at) for at in feed.delivered(costs, step, workers, ahead)["taken_ns"]]


AGREES_WITH = {"taken": _taken}
