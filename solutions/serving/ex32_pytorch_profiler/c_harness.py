"""Measures serving-ex32c: a learner's decoding in, its time and the slow loop's out, its tokens found right.

python c_harness.py FILE RECORD.json SEED [cuda|cpu]

The slow loop is timed before the learner's file is loaded, and in turn with it: the shorter time counts.
"""

import random
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import torch

from labcode.grading.harness import decoder
from labcode.grading.harness.common import WrongAnswerError, learners, report

TIE = 2e-3  # of the spread of the logits: a token so near to the likeliest may stand in its place
ROUNDS = 5
PROMPT, COUNT = 12, 24
SMALL = (1, 1), (1, 6), (5, 9), *((length, 2) for length in (2, 3, 4, 6, 8, 11))  # prompts, tokens
ON_CPU = decoder.Size(128, 4, 16)  # calls cost more than what they compute, as on a GPU
FLAWS = {
    "later": "each token of the prompt also sees those behind it: mask them",
    "alone": "of the prompt only the last token is seen: keep the keys and values of all",
    "itself": "a token sees those before it, and itself as well",
    "newest": "a token sees those of the prompt and itself, not the tokens written in between",
    "unscaled": "scores are divided by the root of a head's width",
    "one head": "each head has scores of its own",
    "no norm first": "the norm of a layer's input is what query, key and value come from",
    "no norm later": "the norm of what comes from attention is what is widened",
}


def flawed(weights: decoder.Weights, prompt: list[int], count: int, flaw: str) -> list[int]:
    """The tokens that a decoding with one typical flaw writes; all tokens are read anew for each."""
    tokens, known = list(prompt), len(prompt)
    while len(tokens) < known + count:
        x = weights.embedding[torch.tensor(tokens, device=weights.embedding.device)]
        at = torch.arange(len(tokens), device=x.device)
        row, column = at[:, None], at[None, :]
        seen = column <= row
        if flaw == "later":
            seen = seen | (row < known) & (column < known)
        elif flaw == "alone":
            seen = seen & ((column >= known - 1) | (row < known - 1))
        elif flaw == "itself":
            seen = (column < row) | (row == 0) & (column == 0)
        elif flaw == "newest":
            seen = seen & ((column < known) | (column == row))
        heads = 1 if flaw == "one head" else weights.heads
        first, later = (flaw == f"no norm {where}" for where in ("first", "later"))
        for three, out, widen, narrow in weights.layers:
            query, key, value = (
                ((x if first else decoder.norm(x)) @ three).unflatten(1, (3, heads, -1)).permute(1, 2, 0, 3)
            )
            scale = 1.0 if flaw == "unscaled" else query.shape[-1] ** 0.5
            scores = (query @ key.transpose(1, 2) / scale).masked_fill(~seen, float("-inf"))
            x = x + (torch.softmax(scores, dim=-1) @ value).transpose(0, 1).flatten(1) @ out
            x = x + torch.nn.functional.gelu((x if later else decoder.norm(x)) @ widen) @ narrow
        tokens.append(int((decoder.norm(x[-1]) @ weights.embedding.T).argmax()))
    return tokens[known:]


def likely(decode: Callable[..., Any], weights: decoder.Weights, prompts: list[list[int]]) -> str:
    """The one flaw that writes what a wrong decoding does, whatever the prompt; empty for none."""
    given = [decode(weights, list(prompt), 8) for prompt in prompts]
    fits = [f for f in FLAWS if [flawed(weights, prompt, 8, f) for prompt in prompts] == given]
    return f"likely: {FLAWS[fits[0]]}" if len(fits) == 1 else ""


def check(given: Any, weights: decoder.Weights, prompt: list[int], count: int) -> None:
    """Each token is the likeliest one; `WrongAnswerError` says which is not."""
    where = f"{len(prompt)} tokens of prompt" if len(prompt) > 1 else "1 token of prompt"
    if not isinstance(given, list) or not all(type(one) is int for one in given):
        raise WrongAnswerError(f"{where}: return a list of Python numbers (`tensor.tolist()` gives them)")
    if len(given) != count:
        own = ": the prompt is none of them" if given[: len(prompt)] == prompt else ""
        raise WrongAnswerError(f"{where}: {len(given)} tokens, and {count} were asked for{own}")
    caches = decoder.empty(weights)
    for token in prompt:
        logits = decoder.step(weights, token, caches)
    for place, token in enumerate(given):
        if not 0 <= token < decoder.VOCABULARY:
            raise WrongAnswerError(f"{where}: token {place} is {token}, which the vocabulary lacks")
        behind = float(logits.max() - logits[token])
        if not behind <= TIE * float(logits.max() - logits.min()):
            what = f"token {place} is {token}, the likeliest is {int(logits.argmax())}"
            before = "" if place else " (it depends on the prompt alone)"
            raise WrongAnswerError(f"{where}: {what}{before}")
        logits = decoder.step(weights, token, caches)


def sums(weights: decoder.Weights) -> list[float]:
    """What changes where a weight does."""
    matrices = [weights.embedding, *(one for layer in weights.layers for one in layer)]
    return [float(one.double().sum()) for one in matrices]


def timed(
    decode: Callable[..., Any], weights: decoder.Weights, prompt: list[int], count: int
) -> tuple[float, Any]:
    """The time of one call in ms, and what it gave; on a CPU its own time, whatever else runs there."""
    on_gpu = weights.embedding.is_cuda
    if not on_gpu:
        torch.set_num_threads(1)
    now = perf_counter if on_gpu else process_time
    begin = now()
    found = decode(weights, list(prompt), count)
    if on_gpu:
        torch.cuda.synchronize()
    return 1e3 * (now() - begin), found


def measure(file: Path, seed: int, device: torch.device) -> dict[str, Any]:
    """The record: milliseconds of both, and of reading the weights once a token at the memory's rate."""
    torch.set_grad_enabled(False)
    torch.backends.cuda.matmul.allow_tf32 = False
    drawn, slow = random.Random(seed), decoder.decode

    def prompts(length: int, number: int) -> list[list[int]]:
        return [[drawn.randrange(decoder.VOCABULARY) for _ in range(length)] for _ in range(number)]

    weights = decoder.make(decoder.MEASURED if device.type == "cuda" else ON_CPU, seed, device)
    before = sums(weights)
    first = [timed(slow, weights, prompt, COUNT)[0] for prompt in prompts(PROMPT, ROUNDS + 1)][1:]

    decode = learners(file, "decode")
    small = decoder.make(decoder.TINY, seed, device)
    kept = sums(small)
    for length, count in SMALL:
        (prompt,) = prompts(length, 1)
        given = decode(small, list(prompt), count)
        try:
            check(given, small, prompt, count)
        except WrongAnswerError as wrong:
            if not isinstance(given, list) or len(given) != count:
                raise
            reason = likely(decode, small, [one for long in (1, 2, 4, 6) for one in prompts(long, 2)])
            raise WrongAnswerError(*wrong.args, *filter(None, [reason])) from None
    taken: list[tuple[float, float]] = []
    for number, prompt in enumerate(prompts(PROMPT, ROUNDS + 1)):
        slow_ms = timed(slow, weights, prompt, COUNT)[0]
        learner_ms, given = timed(decode, weights, prompt, COUNT)
        check(given, weights, prompt, COUNT)
        taken += [(slow_ms, learner_ms)] if number else []
    if before != sums(weights) or kept != sums(small):
        raise WrongAnswerError("the weights were changed: they stay as they are")
    record: dict[str, Any] = {
        "device": device.type,
        "name": torch.cuda.get_device_name(device) if device.type == "cuda" else "on the CPU",
        "baseline_ms": min(median(first), median(one for one, _ in taken)),
        "learner_ms": median(one for _, one in taken),
    }
    if device.type == "cuda":
        found = torch.cuda.get_device_properties(device)
        rate = 2e3 * getattr(found, "memory_clock_rate", 0) * getattr(found, "memory_bus_width", 0) / 8
        matrices = [weights.embedding, *(one for layer in weights.layers for one in layer)]
        if rate:
            record["roof_ms"] = 1e3 * COUNT * sum(4 * one.numel() for one in matrices) / rate
    return record


def main(argv: list[str]) -> int:
    """Measure and write the record."""
    file, record, seed = Path(argv[0]), Path(argv[1]), int(argv[2])
    name = argv[3] if len(argv) > 3 else "cuda" if torch.cuda.is_available() else "cpu"
    report(record, file, lambda: measure(file, seed, torch.device(name)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
