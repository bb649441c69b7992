"""Exercise serving-ex35, part a: the parts of a paged cache.

A sequence decodes one token. Its keys and values lie in pages of a pool: `keys` and `values` are arrays of
(pages of the pool, tokens of a page, dimensions). `table` has the pages of the sequence in their order, so
that token t (from 0) lies in page table[t // page], at place t % page, where `page` is the tokens of a page.

Several blocks share the sequence. What a block hands on of its tokens is

    (largest, total, sums)    largest: the largest score, query · key / √dimensions
                              total:   the sum of exp(score - largest)
                              sums:    for each dimension, the sum of exp(score - largest) * value

`part(query, keys, values, table, begin, end)`: that of the tokens from `begin` up to `end`, which is not
included. Without tokens (begin is end) it is (-inf, 0.0, zeros).

`join(parts)`: the result of attention over all tokens: sums over totals, brought to one base; zeros if all
parts are empty. There is at least one part.

A worked example, one dimension, pages of two tokens, of which the sequence has pages 1 and 0:

    keys = [[[2.0], [9.0]], [[0.0], [1.0]]], values = [[[30.0], [99.0]], [[10.0], [20.0]]], table = [1, 0]
    part([1.0], …, 0, 2)  ->  (1.0, 1.3679, [23.6788])
    part([1.0], …, 2, 3)  ->  (2.0, 1.0, [30.0])
    join of both          ->  [25.7521]

Grade it:         labcode exercises serving-ex35a        (or: nox -s exercises -- serving-ex35a)
Get a hint:       labcode exercises serving-ex35a --hint
"""

import math

import numpy as np

Array = np.ndarray
Part = tuple[float, float, list[float]]


def part(query: Array, keys: Array, values: Array, table: Array, begin: int, end: int) -> Part:
    """The largest score of tokens begin to end, the sum of their weights, the weighted sum of values."""
    # [solution]
    if begin == end:
        return -math.inf, 0.0, [0.0] * len(query)
    page = keys.shape[1]
    tokens = np.arange(begin, end)
    where = table[tokens // page], tokens % page
    scores = keys[where] @ query / math.sqrt(len(query))
    largest = scores.max()
    weights = np.exp(scores - largest)
    return largest, weights.sum(), list(weights @ values[where])
    # [starter]
    # raise NotImplementedError("where does token t lie?")
    # [end]


def join(parts: list[Part]) -> list[float]:
    """The result of attention over the tokens of all parts."""
    # [solution]
    base = max(largest for largest, _, _ in parts)
    if base == -math.inf:
        return [0.0 for _ in parts[0][2]]
    shrunk = [math.exp(largest - base) for largest, _, _ in parts]
    total = sum(s * one[1] for s, one in zip(shrunk, parts, strict=True))
    whole = np.sum([s * np.asarray(one[2]) for s, one in zip(shrunk, parts, strict=True)], axis=0)
    return list(whole / total)
    # [starter]
    # raise NotImplementedError("one base for all parts")
    # [end]


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    pool, pairs = rng.normal(size=(2, 6, 4, 8)), [(0, 6), (6, 12), (12, 13)]
    pages, asks = np.array([5, 0, 3, 1]), rng.normal(size=8)
    print("in one: ", np.round(join([part(asks, *pool, pages, 0, 13)]), 3))
    print("in three:", np.round(join([part(asks, *pool, pages, a, b) for a, b in pairs]), 3))
