"""Hidden cases of part a (parts of a paged cache): a generator in, pools, tables and boundaries out."""

import math
from typing import Any

import numpy as np

from labcode.grading.cases import Case

Rng = np.random.Generator


def cases(rng: Rng) -> list[Case]:
    """Parts that begin and end inside of pages, at their ends, and nowhere; joins of few and of none."""
    made = [
        _part(rng, "one page", 4, 0, 4),
        _part(rng, "from the middle of a page to the middle of another", 4, 3, 13),
        _part(rng, "a token alone", 4, 6, 7),
        _part(rng, "pages of three tokens", 3, 2, 11),
        _part(rng, "large scores", 4, 1, 9, 60.0),
        Case("no tokens", "begin is end", "part", (*_pool(rng, 4), 5, 5), relative=1e-4),
    ]
    far = (-900.0, 2.5, [1.0, -4.0, 2.0])
    near = _joined(rng, 3)
    empty = (-math.inf, 0.0, [0.0, 0.0, 0.0])
    made += [
        _join("one part", near[:1]),
        _join("two parts, the larger first", sorted(near[:2], reverse=True)),
        _join("two parts, the larger second", sorted(near[:2])),
        _join("three parts", near),
        _join("negative scores", [(one[0] - 50.0, *one[1:]) for one in near]),
        _join("scores of 1,000", [(one[0] + 1000.0, *one[1:]) for one in near]),
        _join("one far below the other", [near[0], far]),
        _join("an empty part among others", [empty, *near[:2]]),
        _join("nothing but empty parts", [empty, empty]),
        _join("one part, and it is empty", [empty]),
    ]
    return made


def _pool(rng: Rng, page: int, size: float = 1.0) -> tuple[Any, ...]:
    """Query, keys, values, table of a sequence of five pages in a pool of eight."""
    dims = int(rng.choice([2, 3, 5]))
    query = size * rng.normal(size=dims)
    keys, values = rng.normal(size=(8, page, dims)), rng.normal(size=(8, page, dims))
    table = rng.permutation(np.arange(8))[:5]
    if np.array_equal(table, np.arange(5)):
        table = table[::-1].copy()
    return query, keys, values, table


def _part(rng: Rng, name: str, page: int, begin: int, end: int, size: float = 1.0) -> Case:
    words = f"tokens {begin} to {end}, pages of {page}"
    return Case(name, words, "part", (*_pool(rng, page, size), begin, end), relative=1e-4)


def _joined(rng: Rng, count: int) -> list[tuple[float, float, list[float]]]:
    largest = rng.permutation([-1.5, 0.4, 2.0])[:count] + rng.uniform(0, 0.3)
    return [(float(x), float(rng.uniform(1, 9)), [float(v) for v in rng.normal(size=3)]) for x in largest]


def _join(name: str, parts: list[tuple[float, float, list[float]]]) -> Case:
    return Case(name, f"{len(parts)} part(s): {parts}", "join", (parts,), relative=1e-4)
