"""Hidden cases of part a: a generator in, blocks of keys and whole backward passes, masked or not, out."""

import numpy as np

from labcode.grading.cases import Case

Rng = np.random.Generator
Array = np.ndarray


def cases(rng: Rng) -> list[Case]:
    """Single functions first; then one block, several, a short last one, each with and without a mask."""
    made = [_weights(rng, 5, 0, 5, False), _weights(rng, 6, 2, 3, False)]
    made += [_weights(rng, 5, 0, 5, True), _weights(rng, 7, 3, 2, True), _weights(rng, 6, 4, 2, True)]
    made += [_scores(rng, 4, 3), _scores(rng, 3, 5)]
    for length, block in ((4, 4), (6, 3), (7, 3), (5, 1)):
        made += [_backward(rng, length, block, causal) for causal in (False, True)]
    return made


def _forward(rng: Rng, length: int, dim: int, causal: bool) -> tuple[Array, ...]:
    q, k, v, slope = rng.normal(size=(4, length, dim))
    scores = q @ k.T / np.sqrt(dim)
    if causal:
        scores = np.where(np.tri(length) > 0, scores, -np.inf)
    log_sums = np.log(np.exp(scores).sum(axis=1))
    return q, k, v, np.exp(scores - log_sums[:, None]) @ v, slope, log_sums


def _weights(rng: Rng, length: int, first: int, count: int, causal: bool) -> Case:
    q, k, _, _, _, log_sums = _forward(rng, length, 3, causal)
    words = f"{length} queries, keys {first} to {first + count - 1}{', causal' if causal else ''}"
    some = k[first : first + count]
    return Case(f"weights: {words}", words, "weights", (q, some, log_sums, first, causal))


def _scores(rng: Rng, rows: int, columns: int) -> Case:
    w = rng.uniform(0.1, 0.9, size=(rows, columns))
    of_weights, result, slope = (rng.normal(size=shape) for shape in ((rows, columns), (rows, 3), (rows, 3)))
    words = f"{rows} queries, {columns} keys"
    return Case(f"of_scores: {words}", words, "of_scores", (w, of_weights, result, slope))


def _backward(rng: Rng, length: int, block: int, causal: bool) -> Case:
    q, k, v, result, slope, log_sums = _forward(rng, length, 3, causal)
    words = f"{length} tokens, blocks of {block}{', causal' if causal else ''}"
    return Case(f"backward: {words}", words, "backward", (q, k, v, result, slope, log_sums, block, causal))
