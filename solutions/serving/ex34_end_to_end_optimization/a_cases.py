"""Hidden cases of part a (nothing twice): a generator in, prompts and limits out.

The machine that counts stays with the grader: an answer cannot reach its counts.
"""

from typing import Any

import numpy as np

from labcode.analysis.serving.pipeline import diagnosis, needed
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
