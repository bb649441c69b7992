"""Hidden cases of part a (nothing twice): a generator in, prompts and limits out."""

import numpy as np

from labcode.grading.cases import Case

Rng = np.random.Generator


def _asked(name: str, prompts: list[str], most: list[int]) -> Case:
    words = (
        f"{len(prompts)} prompts of {', '.join(str(len(p)) for p in prompts) or 'no'} letters, most {most}"
    )
    return Case(name, words, "measured", (prompts, most))


def _word(rng: Rng, length: int) -> str:
    return "".join(chr(97 + int(code)) for code in rng.integers(0, 26, length))


def cases(rng: Rng) -> list[Case]:
    """One request, many of mixed lengths, one token each, none at all."""
    lengths = [int(n) for n in rng.integers(1, 20, 8)]
    return [
        _asked("one request", [_word(rng, 5)], [20]),
        _asked("mixed lengths", [_word(rng, n) for n in lengths], [int(n) for n in rng.integers(1, 30, 8)]),
        _asked("one token each", [_word(rng, n) for n in lengths], [1] * 8),
        _asked("long answers", [_word(rng, n) for n in lengths[:4]], [40] * 4),
        _asked("twice the same prompt", [_word(rng, 3)] * 2, [9, 4]),
        _asked("nothing to do", [], []),
    ]
