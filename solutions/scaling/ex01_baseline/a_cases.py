"""Hidden cases of part a (the baseline): a generator in, runs and pairs of runs out."""

from typing import Any

import numpy as np

from labcode.grading.cases import Case

Rng = np.random.Generator


def _runs(rng: Rng) -> dict[str, tuple[list[float], float]]:
    """Steps in whole ms, tolerances that are sums of halves: what is just inside is so exactly."""
    base = 16.0 * int(rng.integers(1, 6))
    noise = [base + float(step) for step in rng.integers(-1, 2, 9)]
    return {
        "steady from the start": ([base] * 6, 0.25),
        "a little uneven, and steady": ([base + 1, base - 1, base, base, base, base], 0.25),
        "two slow steps, then steady": ([4 * base, 2 * base, *[base] * 6], 0.25),
        "a slow step in the middle": ([3 * base, base, base, 2 * base, base, base, base, base], 0.25),
        "a slow step near the end": ([*[base] * 5, 5 * base, base, base], 0.25),
        "an odd number of steps, the last but one slow": ([*[base] * 3, 4 * base, base], 0.25),
        "a fast step first": ([base / 2, *[base] * 5], 0.25),
        "just within the tolerance, above and below": (
            [1.25 * base, 0.75 * base, base, base, base, base],
            0.25,
        ),
        "just beyond it": ([1.25 * base + 0.5, base, base, base, base], 0.25),
        "the last step differs": ([base] * 5 + [2 * base], 0.25),
        "an odd number of steps": ([8 * base, 4 * base, base, 2 * base, base], 0.5),
        "a single step": ([base], 0.25),
        "noise": ([3 * base, 2 * base, *noise], 0.25),
        "steady, but not even": ([base, base, base, base, 1.25 * base], 0.25),
        "one of the last half far off": ([base] * 5 + [base, 4 * base, base, base, base], 0.25),
        "an even number of steps, two in the middle": (
            [*[1.25 * base] * 4, base, 1.5 * base, base, 1.5 * base],
            0.25,
        ),
        "no tolerance": ([base + 1, base, base, base], 0.0),
    }


def _pairs(rng: Rng) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    batch = 8 * int(rng.integers(1, 5))
    one = {"gpus": 1, "batch": batch, "precision": "bf16", "context": 512}
    return {
        "the whole batch shared": (one, one | {"gpus": 2, "batch": batch // 2}),
        "a batch for each": (one, one | {"gpus": 4}),
        "fewer GPUs": (one | {"gpus": 4}, one | {"gpus": 2, "batch": 2 * batch}),
        "as many GPUs": (one | {"gpus": 2}, one | {"gpus": 2}),
        "another precision": (one | {"precision": "fp32"}, one | {"gpus": 2, "batch": batch // 2}),
        "two things at once": (one, one | {"gpus": 2, "precision": "fp32", "context": 256}),
        "a parameter that only one has": (one, one | {"gpus": 2, "compiled": True}),
        "a parameter that only the first has": (one | {"seed": 1}, one | {"gpus": 2}),
        "a parameter that is None, or not there": (one | {"seed": None}, one | {"gpus": 2}),
        "from two GPUs to four": (one | {"gpus": 2}, one | {"gpus": 4, "batch": batch // 2}),
    }


def cases(rng: Rng) -> list[Case]:
    """Each function in turn."""
    made = []
    runs = _runs(rng)
    for name, (times, tolerance) in runs.items():
        summary = f"{', '.join(f'{time:g}' for time in times)} ms; tolerance {tolerance:g}"
        made.append(Case(name, summary, "first_steady", (times, tolerance)))
    tokens, flops = 1024 * int(rng.integers(1, 20)), 1e12 * int(rng.integers(1, 30))
    for name, (times, tolerance) in runs.items():
        summary = f"{', '.join(f'{time:g}' for time in times)} ms; {tokens} tokens, {flops:.3g} FLOP a step"
        made.append(Case(name, summary, "baseline", (times, tolerance, tokens, flops, 989e12)))
    for kind in ("strong", "weak"):
        for name, (one, many) in _pairs(rng).items():
            made.append(Case(f"{name}, {kind}", f"{one} and {many}", "unfair", (one, many, kind)))
    return made
