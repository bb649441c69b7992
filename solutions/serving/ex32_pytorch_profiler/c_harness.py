"""Measures serving-ex32c: a learner's decoding in, its time and the slow loop's out, its tokens found right.

python c_harness.py FILE RECORD.json SEED [cuda|cpu]
"""

import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from labcode.grading.harness import decoder
from labcode.grading.harness.common import WrongAnswerError, alternate, learners, report

TIE = 2e-3  # of the spread of the logits: a token so near to the likeliest may stand in its place
ROUNDS, PROMPT, COUNT = 5, 12, 24


def check(decode: Callable[..., Any], weights: decoder.Weights, prompt: list[int], count: int) -> None:
    """Each token is the likeliest one; `WrongAnswerError` says which is not."""
    given = decode(weights, list(prompt), count)
    where = f"{len(prompt)} tokens of prompt"
    if not isinstance(given, list) or not all(type(one) is int for one in given):
        raise WrongAnswerError(f"{where}: return a list of Python numbers (`tensor.tolist()` gives them)")
    if len(given) != count:
        raise WrongAnswerError(f"{where}: {len(given)} tokens, and {count} were asked for")
    caches = decoder.empty(weights)
    for token in prompt:
        logits = decoder.step(weights, token, caches)
    for place, token in enumerate(given):
        if not 0 <= token < decoder.VOCABULARY:
            raise WrongAnswerError(f"{where}: token {place} is {token}, which the vocabulary lacks")
        behind = float(logits.max() - logits[token])
        if behind > TIE * float(logits.max() - logits.min()):
            likeliest = int(logits.argmax())
            advice = "is the prompt read in order?" if place == 0 else "does it see all tokens before it?"
            what = f"token {place} is {token}, the likeliest is {likeliest}"
            raise WrongAnswerError(f"{where}: {what}: {advice}")
        logits = decoder.step(weights, token, caches)


def measure(file: Path, seed: int, device: torch.device) -> dict[str, Any]:
    """The record: milliseconds of both, and of reading the weights once a token at the memory's rate."""
    torch.set_grad_enabled(False)
    torch.backends.cuda.matmul.allow_tf32 = False
    decode, drawn = learners(file, "decode"), random.Random(seed)
    small = decoder.make(decoder.TINY, seed, device)
    for length, count in ((1, 1), (1, 6), (5, 9)):
        check(decode, small, [drawn.randrange(decoder.VOCABULARY) for _ in range(length)], count)
    if device.type != "cuda":
        return {"checked_only": True}
    weights = decoder.make(decoder.MEASURED, seed, device)
    before = [float(one.double().sum()) for layer in weights.layers for one in layer]
    prompt = [drawn.randrange(decoder.VOCABULARY) for _ in range(PROMPT)]
    check(decode, weights, prompt, COUNT)

    def timed(function: Callable[..., Any]) -> Callable[[], None]:
        def once() -> None:
            function(weights, list(prompt), COUNT)
            torch.cuda.synchronize()

        return once

    slow_ms, learner_ms = alternate(timed(decoder.decode), timed(decode), ROUNDS)
    check(decode, weights, prompt, COUNT)
    if before != [float(one.double().sum()) for layer in weights.layers for one in layer]:
        raise WrongAnswerError("the weights were changed: they stay as they are")
    record = {"baseline_ms": slow_ms, "learner_ms": learner_ms}
    found = torch.cuda.get_device_properties(device)
    rate = 2e3 * getattr(found, "memory_clock_rate", 0) * getattr(found, "memory_bus_width", 0) / 8
    if rate:
        matrices = [weights.embedding, *(one for layer in weights.layers for one in layer)]
        record["roof_ms"] = 1e3 * COUNT * sum(4 * one.numel() for one in matrices) / rate
    return record


def main(argv: list[str]) -> int:
    """Measure and write the record."""
    file, record, seed = Path(argv[0]), Path(argv[1]), int(argv[2])
    device = torch.device(argv[3] if len(argv) > 3 else "cuda")
    report(record, file, lambda: measure(file, seed, device))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
