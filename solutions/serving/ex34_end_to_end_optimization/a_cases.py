"""Hidden cases of part a (nothing twice): a generator in, prompts and limits out.

The machine that counts stays with the grader: an answer cannot reach its counts.
"""

from typing import Any

import numpy as np

from labcode.analysis.serving.pipeline import END, Cache, Machine, diagnosis, needed
from labcode.grading.cases import Case
from labcode.grading.remote import Counting

Rng = np.random.Generator


def _asked(name: str, prompts: list[str], most: list[int]) -> Case:
    words = (
        f"{len(prompts)} prompts of {', '.join(str(len(p)) for p in prompts) or 'no'} letters, most {most}"
    )

    def told(texts: Any, counts: dict[str, int]) -> dict[str, Any]:
        return {"texts": texts, "slow": diagnosis(counts, needed(prompts, most))}

    return Case(name, words, "serve", (Counting(told), prompts, most))


def _word(rng: Rng, length: int) -> str:
    return "".join(chr(97 + int(code)) for code in rng.integers(0, 26, length))


def _answer(prompt: str, most: int) -> list[int]:
    """What the machine says to a prompt."""
    machine, cache, said = Machine(), Cache(), list[int]()
    new = machine.encode(machine.tokenizer(), prompt)
    weights = machine.weights()
    while len(said) < most and END not in said:
        new = machine.argmax(machine.forward(weights, [new], [cache]))
        said += new
    return said


def _prompt(rng: Rng, most: int, *, ends: bool) -> str:
    """A prompt whose answer ends by itself before ``most`` tokens, or does not."""
    while True:
        prompt = _word(rng, int(rng.integers(3, 9)))
        if (END in _answer(prompt, most)) == ends:
            return prompt


def cases(rng: Rng) -> list[Case]:
    """One request, many of mixed lengths, one token each, none at all."""
    lengths = [int(n) for n in rng.integers(1, 20, 8)]
    return [
        _asked("one request", [_word(rng, 5)], [20]),
        _asked("an answer that runs to its limit", [_prompt(rng, 7, ends=False)], [7]),
        _asked("an answer that ends by itself", [_prompt(rng, 30, ends=True)], [40]),
        _asked("mixed lengths", [_word(rng, n) for n in lengths], [int(n) for n in rng.integers(1, 30, 8)]),
        _asked("one token each", [_word(rng, n) for n in lengths], [1] * 8),
        _asked("long answers", [_word(rng, n) for n in lengths[:4]], [40] * 4),
        _asked("twice the same prompt", [_word(rng, 3)] * 2, [9, 4]),
        _asked("nothing to do", [], []),
    ]
