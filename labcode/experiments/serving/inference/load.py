"""Open-loop load: rates and a seed in; requests at random times, and what serving them took, out.

Clients do not wait for each other: requests arrive as a Poisson process, however long the answers take. A
closed loop would slow down with the server and hide its queue.

Every load is served in several parts, one in each round. A round begins with requests that are all there from
the start: they are what a prediction of the round's other parts may know of the speed of the server.
"""

from __future__ import annotations

import gc
import itertools
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

from labcode.errors import LabError
from labcode.experiments.serving.inference.engine import Clock, Engine, Runner, Served, Way
from labcode.experiments.serving.inference.requests import Request

if TYPE_CHECKING:
    from labcode.experiments.serving.inference.runners import Slots

PROMPTS = (32, 192)  # tokens, all lengths alike
SHORT, LONG, LONG_SHARE = (4, 12), (40, 56), 0.2  # tokens to say: most answers are short, some are long
BASELINE_LOADS = (0.5, 0.7)  # of what it served just before, when all waited
LOADS = (0.3, 0.5, 0.7, 0.9)
STATIC_LOAD = LOADS[0]  # of what continuous batching serves
ASLEEP = BASELINE_LOADS[0]  # served a second time, asleep between requests


def requests(count: int, rate_per_s: float, seed: int, vocabulary: int) -> list[Request]:
    """So many requests of mixed lengths at a rate; all at once where the rate is 0."""
    if rate_per_s < 0:
        raise LabError(f"{rate_per_s} requests a second; give 0 (all at once) or more")
    drawn, now, made = random.Random(seed), 0.0, []
    for number in range(count):
        now += drawn.expovariate(rate_per_s) if rate_per_s else 0.0
        prompt = tuple(drawn.randrange(vocabulary) for _ in range(drawn.randint(*PROMPTS)))
        span = LONG if drawn.random() < LONG_SHARE else SHORT
        made.append(Request(number, prompt, drawn.randint(*span), now))
    return made


def even(count: int, seed: int, vocabulary: int) -> list[Request]:
    """So many requests at once whose lengths are spread evenly, in the shares of `requests`, and shuffled."""
    drawn = random.Random(seed)
    long = round(LONG_SHARE * count)
    most = [*_spaced(count - long, *SHORT), *_spaced(long, *LONG)]
    prompts = _spaced(count, *PROMPTS)
    drawn.shuffle(most)
    drawn.shuffle(prompts)
    return [
        Request(number, tuple(drawn.randrange(vocabulary) for _ in range(prompt)), tokens)
        for number, (prompt, tokens) in enumerate(zip(prompts, most, strict=True))
    ]


def _spaced(count: int, low: int, high: int) -> list[int]:
    return [low + int((place + 0.5) * (high - low + 1) / count) for place in range(count)]


@contextmanager
def uncollected() -> Iterator[None]:
    """No garbage collection inside; what is there already is not looked at any more."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


@dataclass
class Run:
    """Parts served one after another in the same way, and the rate at which the requests of each came."""

    batch: int
    way: Way
    parts: list[Served] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)


class Load:
    """Serves requests by the clock: ``runs`` by name, and ``lost``, what was not answered."""

    def __init__(self, seed: int, say: Callable[[str], None]) -> None:
        self.seed, self.say, self.drawn = seed, say, 0
        self.runs: dict[str, Run] = {}
        self.lost: list[str] = []

    def serve(
        self,
        name: str,
        runner: Runner,
        asked: Sequence[Request],
        *,
        batch: int = 0,
        rate: float = 0.0,
        way: Way = "continuous",
        asleep: bool = False,
    ) -> float:
        """Serve a part of a run, ``batch`` together or as many as there are slots; the requests a second."""
        run = self.runs.setdefault(name, Run(batch or runner.slots, way))
        served = Engine(runner, Clock(asleep=asleep), batch=run.batch, way=way).serve(asked)
        run.parts.append(served)
        run.rates.append(rate)
        done = sum(answer.state == "done" for answer in served.answers)
        if done != len(asked):
            self.lost.append(f"{name}: {done} of {len(asked)}")
        self.say(f"{name}: {done / served.span_s:.1f} requests a second")
        return done / served.span_s

    def drawn_at(self, rate: float, count: int, runner: Runner) -> list[Request]:
        """Requests that no run has had."""
        self.drawn += 1
        return requests(count, rate, self.seed + self.drawn, runner.vocabulary)

    def part(self, name: str, runner: Runner, rate: float, seconds: float, most: int, **how: Any) -> None:
        """Serve the requests of so many seconds at a rate, ``most`` of them at most."""
        count = min(most, max(4, round(rate * seconds)))
        self.serve(name, runner, self.drawn_at(rate, count, runner), rate=rate, **how)

    def record(self) -> dict[str, dict[str, Any]]:
        """What `record_of` tells of each run, and how it was served."""
        return {
            name: record_of(run.parts)
            | {"rate_per_s": sum(run.rates) / len(run.rates), "batch": run.batch, "way": run.way}
            for name, run in self.runs.items()
        }


def measure(
    alone: Runner,
    slots: Slots,
    small: Runner,
    seconds: float,
    most: int,
    seed: int,
    rounds: int,
    say: Callable[[str], None],
) -> tuple[dict[str, Any], list[str]]:
    """Both pipelines when all wait, ``small`` with its small cache as well; then at rates, in rounds.

    The record, and what was not answered. ``seconds``: of a rate in all rounds together, thrice as many of
    the plain pipeline, which serves few a second.
    """
    load, few = Load(seed, say), max(4, most // 60)
    calibrate(slots)
    asked = load.drawn_at(0.0, 16 * few, slots)  # the same for both ways to batch
    load.serve("graph all", slots, asked[: 4 * few], batch=1)
    load.serve("static all", slots, asked, way="static")
    load.serve("continuous all", slots, asked)
    load.serve("cache full", small, asked[: 4 * few])
    calibration = []
    sample = even(max(5, 4 * few // 15), seed, alone.vocabulary)
    larger = even(6 * few, seed, slots.vocabulary)
    for _ in range(rounds):
        load.serve("warm", alone, load.drawn_at(0.0, 2, alone))
        best = load.serve("alone all", alone, sample)
        for share in BASELINE_LOADS:
            load.part(f"alone {share}", alone, share * best, 3 * seconds / rounds, most)
        load.part(f"asleep {ASLEEP}", alone, ASLEEP * best, 2 * seconds / rounds, most, asleep=True)
        calibration.append(calibrate(slots))
        best = load.serve("continuous before", slots, larger)
        for share in LOADS:
            load.part(f"continuous {share}", slots, share * best, seconds / rounds, most)
    load.part("static", slots, STATIC_LOAD * best, seconds / 2, most, way="static")
    del load.runs["warm"]
    return {"runs": load.record(), "calibration": calibration}, load.lost


def calibrate(slots: Slots) -> dict[str, dict[str, float]]:
    """Microseconds of a step of each number of rows and of a prompt of each length, as the engine sees."""
    from labcode.experiments.serving.inference.runners import LEAST_PROMPT, steps_up

    found: dict[str, dict[str, float]] = {"step_us": {}, "prompt_us": {}}

    def timed(call: Callable[[], object], times: int) -> float:
        taken = []
        for _ in range(times):
            began = time.perf_counter()
            call()
            taken.append(1e6 * (time.perf_counter() - began))
        return median(taken)

    for count in [n for n in steps_up(LEAST_PROMPT, slots.context) if n <= 2 * PROMPTS[1]]:
        prompt = [place % slots.vocabulary for place in range(min(count, slots.context - 1))]

        def admitted(prompt: list[int] = prompt) -> None:
            slots.admit(0, len(prompt))
            slots.first(0, prompt)
            slots.release(0)

        admitted()
        found["prompt_us"][str(count)] = timed(admitted, 9)
    long = min(sum(PROMPTS) // 2, slots.context // 2)
    for rows in steps_up(1, slots.slots):
        mine = list(range(rows))
        for slot in mine:
            slots.admit(slot, long + 40)
            slots.first(slot, [1] * long)
        found["step_us"][str(rows)] = timed(lambda: slots.next(mine, [1] * rows), 25)  # noqa: B023
        for slot in mine:
            slots.release(slot)
    return found


def record_of(parts: Sequence[Served]) -> dict[str, Any]:
    """Columns over requests (``*_us``, counts), part behind part on one time line, and what the engine saw.

    ``parts``: how many requests of each are done, and what the engine saw of it.
    """
    told = [_seen(part) for part in parts]
    starts = [0.0, *itertools.accumulate(part.span_s for part in parts)]
    done = [
        (at, a) for at, part in zip(starts, parts, strict=False) for a in part.answers if a.state == "done"
    ]
    gaps = sorted(later - one for _, a in done for one, later in itertools.pairwise(a.times_s))
    batches = sorted({batch for part in parts for batch in part.steps})
    return {
        "requests": sum(len(part.answers) for part in parts),
        "arrives_us": [_us(at + a.request.arrives_s) for at, a in done],
        "started_us": [_us(at + (a.started_s or 0.0)) for at, a in done],
        "first_us": [_us(at + a.times_s[0]) for at, a in done],
        "last_us": [_us(at + a.times_s[-1]) for at, a in done],
        "prompt_tokens": [len(a.request.prompt) for _, a in done],
        "tokens": [len(a.tokens) for _, a in done],
        **{name: sum(one[name] for one in told) for name in ("done", "span_us", "step_s", "prefill_s")},
        "held_mean": sum(part.held_s for part in parts) / max(starts[-1], 1e-9),
        "gap_us": [_us(gaps[round(k / 200 * (len(gaps) - 1))]) for k in range(201)] if gaps else [],
        "steps": {str(batch): sum(one["steps"].get(str(batch), 0) for one in told) for batch in batches},
        "log": [line for part in parts for line in part.log],
        "parts": told,
    }


def _seen(part: Served) -> dict[str, Any]:
    return {
        "done": sum(a.state == "done" for a in part.answers),
        "span_us": _us(part.span_s),
        "step_s": sum(sum(found) for found in part.steps.values()),
        "prefill_s": sum(seconds for _, seconds in part.prefill_s),
        "steps": {str(batch): len(found) for batch, found in sorted(part.steps.items())},
    }


def _us(seconds: float) -> int:
    return round(1e6 * seconds)
