"""Exercise compute-ex12, part a: scales of blocks, and sums that are promoted.

A matrix in eight bits (e4m3) has elements up to 448. What was larger or smaller is brought there by scales:
element = number / scale. Here each row has a scale for each block of `block` elements along k; the last block
of a row may be shorter.

`scales(x, block)`: of a matrix, for each row the scales of its blocks: a block's largest absolute value over
448; 1 for a block of zeros.

`narrowed(x, scale, block)`: the elements, each number over the scale of its block, rounded by `e4m3`, which
is given.

`product(a, b, scale_a, scale_b, block)`: A · Bᵀ from the elements of A (m × k) and of B (n × k) and their
scales: a partial sum for each block of k, brought back by the scales of A's and of B's row, and added to
those before. `partial` is given: it stands for the tensor cores, and loses what is added to a large sum. Give
it the elements of one block of k at a time.

A worked example, blocks of 2:

    scales([[448.0, -896.0, 0.0]], 2)                                ->  [[2.0, 1.0]]
    narrowed([[448.0, -896.0, 0.0]], [[2.0, 1.0]], 2)                ->  [[224.0, -448.0, 0.0]]
    product([[1.0, 2.0, 3.0]], [[1.0, 1.0, 1.0]], [[2.0, 10.0]], [[1.0, 0.5]], 2)  ->  [[21.0]]

Grade it:         labcode exercises compute-ex12a        (or: nox -s exercises -- compute-ex12a)
Get a hint:       labcode exercises compute-ex12a --hint
"""

import numpy as np

Array = np.ndarray
LARGEST = 448.0


def e4m3(x: Array) -> Array:
    """Rounded to the nearest e4m3; what is larger becomes the largest."""
    spacing = 2.0 ** (np.floor(np.log2(np.maximum(np.abs(x), 2.0**-6))) - 3)
    return np.clip(np.round(x / spacing) * spacing, -LARGEST, LARGEST)


def partial(a: Array, b: Array) -> Array:
    """A · Bᵀ as the tensor cores add it up: a sum keeps 14 bits, and what is below them is cut off."""
    total = np.zeros((len(a), len(b)))
    for one, other in zip(a.T, b.T, strict=True):
        exact = total + np.outer(one, other)
        spacing = 2.0 ** (np.floor(np.log2(np.maximum(np.abs(exact), 2.0**-40))) - 13)
        total = np.trunc(exact / spacing) * spacing
    return total


def scales(x: Array, block: int) -> Array:
    """A scale for each row and block of k."""
    # [solution]
    starts = range(0, x.shape[1], block)
    largest = np.stack([np.abs(x[:, k : k + block]).max(axis=1) for k in starts], axis=1)
    return np.where(largest == 0, 1.0, largest / LARGEST)
    # [starter]
    # raise NotImplementedError("where does the largest number of a block go?")
    # [end]


def narrowed(x: Array, scale: Array, block: int) -> Array:
    """The elements in eight bits."""
    # [solution]
    return e4m3(x / np.repeat(scale, block, axis=1)[:, : x.shape[1]])
    # [starter]
    # raise NotImplementedError("each number over the scale of its block")
    # [end]


def product(a: Array, b: Array, scale_a: Array, scale_b: Array, block: int) -> Array:
    """The product of two matrices in eight bits, with their scales."""
    # [solution]
    total = np.zeros((len(a), len(b)))
    for i, k in enumerate(range(0, a.shape[1], block)):
        some = partial(a[:, k : k + block], b[:, k : k + block])
        total += some * np.outer(scale_a[:, i], scale_b[:, i])
    return total
    # [starter]
    # raise NotImplementedError("one block of k after the other, each with its scales")
    # [end]


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    left, right = np.abs(rng.normal(size=(2, 4, 1024)))
    for size in (1024, 128):
        by_row, by_column = scales(left, size), scales(right, size)
        got = product(narrowed(left, by_row, size), narrowed(right, by_column, size), by_row, by_column, size)
        error = np.linalg.norm(got - left @ right.T) / np.linalg.norm(left @ right.T)
        print(f"blocks of {size}: loses {error:.2%}")
