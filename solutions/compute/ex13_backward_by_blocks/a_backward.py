"""Exercise compute-ex13, part a: weights, scores, gradients.

The forward pass of attention, `result = softmax(q · kᵀ / √dim) · v`, kept no score, only `log_sums`: for each
query the logarithm of the sum of exp(score) over the keys that it sees. With `slope`, the gradient of the
result, the backward pass computes everything else again, a block of keys at a time.

`weights(q, k, log_sums, first, causal)`: the softmax's weights (queries × keys of the block), from the scores
of the block's keys `k`, the first of which is key number `first`. With `causal` a query sees the keys up to
its own number; what it does not see weighs 0.

`of_scores(w, of_weights, result, slope)`: the gradient of the scores, from the weights, their gradient, and
the rows of the result and of its gradient.

`backward(q, k, v, result, slope, log_sums, block, causal)`: the gradients of q, k, and v, stacked, by blocks
of `block` keys; the last block may be shorter. There are as many queries as keys.

A worked example, one query and one key: its weight is 1 whatever the score, so

    backward([[2.0]], [[3.0]], [[5.0]], [[5.0]], [[7.0]], [6.0], 1, False)  ->  [[[0.0]], [[0.0]], [[7.0]]]

Grade it:         labcode exercises compute-ex13a        (or: nox -s exercises -- compute-ex13a)
Get a hint:       labcode exercises compute-ex13a --hint
"""

import numpy as np

Array = np.ndarray


def weights(q: Array, k: Array, log_sums: Array, first: int, causal: bool) -> Array:
    """The weights of a block of keys in the softmax of each query."""
    # [solution]
    found = np.exp(q @ k.T / np.sqrt(q.shape[1]) - log_sums[:, None])
    hidden = first + np.arange(len(k))[None, :] > np.arange(len(q))[:, None]
    return np.where(hidden, 0.0, found) if causal else found
    # [starter]
    # raise NotImplementedError("scores again, and one number per row that makes weights of them")
    # [end]


def of_scores(w: Array, of_weights: Array, result: Array, slope: Array) -> Array:
    """The gradient of the scores."""
    # [solution]
    return w * (of_weights - (result * slope).sum(axis=1)[:, None])
    # [starter]
    # raise NotImplementedError("a softmax passes on what exceeds the row's average")
    # [end]


def backward(
    q: Array, k: Array, v: Array, result: Array, slope: Array, log_sums: Array, block: int, causal: bool
) -> Array:
    """The gradients of queries, keys, and values."""
    # [solution]
    of_q, of_k, of_v = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
    for first in range(0, len(k), block):
        some = slice(first, first + block)
        w = weights(q, k[some], log_sums, first, causal)
        s = of_scores(w, slope @ v[some].T, result, slope) / np.sqrt(q.shape[1])
        of_v[some] = w.T @ slope
        of_k[some] = s.T @ q
        of_q += s @ k[some]
    return np.stack([of_q, of_k, of_v])
    # [starter]
    # raise NotImplementedError("five products a block; which of the three results do all blocks add to?")
    # [end]


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    queries, keys, values, gradient = rng.normal(size=(4, 6, 4))
    exponentials = np.exp(queries @ keys.T / 2)
    sums = exponentials.sum(axis=1)
    out = exponentials / sums[:, None] @ values
    for size in (6, 4):
        found = backward(queries, keys, values, out, gradient, np.log(sums), size, False)
        print(f"blocks of {size}: norms", *(f"{np.linalg.norm(one):.4f}" for one in found))
