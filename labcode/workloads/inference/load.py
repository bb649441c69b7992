"""Open-loop load: a rate and a seed in; requests at random times, and what serving them took, out.

Clients do not wait for each other: requests arrive as a Poisson process, however long the answers take. A
closed loop would slow down with the server and hide its queue.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Sequence
from typing import Any

from labcode.errors import LabError
from labcode.workloads.inference.engine import Clock, Engine, Runner, Served, Way
from labcode.workloads.inference.requests import Request

PROMPTS = (32, 192)  # tokens, all lengths alike
SHORT, LONG, LONG_SHARE = (4, 12), (40, 56), 0.2  # tokens to say: most answers are short, some are long


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


def serve(runner: Runner, asked: Sequence[Request], batch: int, way: Way = "continuous") -> dict[str, Any]:
    """Serve requests by the clock; the record of it, in microseconds since the start."""
    gc.collect()
    gc.disable()
    try:
        served = Engine(runner, Clock(), batch=batch, way=way).serve(asked)
    finally:
        gc.enable()
    return record_of(served)


def record_of(served: Served) -> dict[str, Any]:
    """Columns over requests (``*_us``, counts), and what the engine saw."""
    done = [a for a in served.answers if a.state == "done"]
    gaps = sorted(b - a for one in done for a, b in zip(one.times_s, one.times_s[1:], strict=False))

    def us(seconds: float) -> int:
        return round(1e6 * seconds)

    return {
        "requests": len(served.answers),
        "done": len(done),
        "arrives_us": [us(a.request.arrives_s) for a in done],
        "started_us": [us(a.started_s or 0.0) for a in done],
        "first_us": [us(a.times_s[0]) for a in done],
        "last_us": [us(a.times_s[-1]) for a in done],
        "prompt_tokens": [len(a.request.prompt) for a in done],
        "tokens": [len(a.tokens) for a in done],
        "span_us": us(served.span_s),
        "held_mean": served.held_s / served.span_s if served.span_s else 0.0,
        "gap_us": [us(gaps[round(k / 200 * (len(gaps) - 1))]) for k in range(201)] if gaps else [],
        "steps": {str(batch): len(found) for batch, found in sorted(served.steps.items())},
        "step_s": sum(sum(found) for found in served.steps.values()),
        "prefill_s": sum(seconds for _, seconds in served.prefill_s),
        "log": served.log,
    }
