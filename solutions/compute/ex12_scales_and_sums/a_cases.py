"""Hidden cases of part a (scales of blocks): a generator in, matrices with outliers and boundaries out."""

import numpy as np

from labcode.grading.cases import Case

Rng = np.random.Generator
Array = np.ndarray


def cases(rng: Rng) -> list[Case]:
    """Whole blocks, a short last one, one block alone, zeros, negative largest numbers, sums that grow."""
    plain, odd = rng.normal(size=(3, 8)), rng.normal(size=(2, 11))
    signed = -np.abs(rng.normal(size=(2, 8))) - 0.1
    signed[:, ::2] *= -0.25
    zeros = rng.normal(size=(2, 8))
    zeros[0, 4:] = 0
    far = rng.normal(size=(3, 12))
    far[1, 5] = 40000.0
    made = []
    for name, x, block in (
        ("two blocks", plain, 4),
        ("the largest is negative", signed, 4),
        ("a short last block", odd, 4),
        ("one block", plain, 8),
        ("a block of zeros", zeros, 4),
        ("an outlier", far, 4),
    ):
        made += [_scales(name, x, block), _narrowed(name, x, block)]
    made += [
        _product(rng, "one block", 2, 3, 4, 4),
        _product(rng, "three blocks", 2, 3, 12, 4),
        _product(rng, "a short last block", 3, 2, 10, 4),
        _product(rng, "positive numbers, many of them", 2, 2, 96, 16, positive=True),
    ]
    return made


def _scales(name: str, x: Array, block: int) -> Case:
    return Case(f"scales: {name}", f"{len(x)} × {x.shape[1]}, blocks of {block}", "scales", (x, block))


def _narrowed(name: str, x: Array, block: int) -> Case:
    scale = _right(x, block)
    words = f"{len(x)} × {x.shape[1]}, blocks of {block}"
    return Case(f"narrowed: {name}", words, "narrowed", (x, scale, block))


def _right(x: Array, block: int) -> Array:
    largest = [np.abs(x[:, k : k + block]).max(axis=1) for k in range(0, x.shape[1], block)]
    found = np.stack(largest, axis=1) / 448
    found[found == 0] = 1
    return found


def _product(rng: Rng, name: str, m: int, n: int, k: int, block: int, positive: bool = False) -> Case:
    a, b = (rng.integers(-8, 9, size=(rows, k)) * 0.5 for rows in (m, n))
    if positive:  # odd sixteenths: the sums of all k need more than 14 bits, those of a block do too, less so
        a, b = (rng.integers(8, 16, size=(rows, k)) / 16 * 13 for rows in (m, n))
    blocks = -(-k // block)
    scale_a, scale_b = (np.exp2(rng.integers(-3, 4, size=(rows, blocks))) for rows in (m, n))
    scale_a *= rng.uniform(1, 2, size=scale_a.shape)
    return Case(
        f"product: {name}",
        f"{m} × {k} by {n} × {k}, blocks of {block}",
        "product",
        (a, b, scale_a, scale_b, block),
    )
