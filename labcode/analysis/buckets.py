"""What a kernel is for, by its name: a name (and the ranges it was launched in) in, one of a few buckets out.

The table ``buckets.csv`` is read from the top; the first pattern found in a name decides. What a GPU does at
all is not in a name alone: an addition of an optimizer's step is elementwise by name. Where the ranges around
the launch are known, they decide that (`bucket_of`).
"""

import csv
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

BUCKETS = {
    "matmul": "products of matrices, and what adds up their parts",
    "convolution": "convolutions, however computed",
    "attention": "fused attention: scores, softmax and weighted values in one kernel",
    "softmax": "softmax and its logarithm, forward and backward",
    "normalization": "layer, batch and other normalizations, forward and backward",
    "elementwise": "arithmetic on single elements",
    "reduction": "sums, means, norms, scans, losses",
    "indexing": "picking, placing and sorting elements; embeddings",
    "optimizer": "the optimizer's step",
    "copy": "copies, fills, changes of dtype or layout",
    "communication": "between GPUs",
    "other": "nothing the table knows",
}


def _rules() -> Iterator[tuple[str, re.Pattern[str]]]:
    with Path(__file__).with_name("buckets.csv").open(encoding="utf-8", newline="") as table:
        for row in csv.DictReader(table):
            yield row["bucket"], re.compile(row["patterns"].replace(" ", "|"))


RULES = tuple(_rules())
COMMUNICATION = next(pattern for bucket, pattern in RULES if bucket == "communication")
_OF_A_STEP = frozenset({"elementwise", "reduction", "indexing", "copy", "other"})
_COPIES = {"memcpy": "copy", "memset": "copy"}


@lru_cache(maxsize=65536)
def bucket_of_name(name: str) -> str:
    """The bucket of a kernel by its name alone; ``other`` for one that no rule knows."""
    for bucket, pattern in RULES:
        if pattern.search(name):
            return bucket
    return "other"


def bucket_of(name: str, path: str = "", kind: str = "kernel") -> str:
    """The bucket of a GPU operation.

    ``path`` are the names of the ranges around its launch, outermost first, joined by slashes; inside of a
    range called ``optimizer`` (or an optimizer's own, ``Optimizer.step#…``) plain arithmetic is the
    optimizer's. ``kind`` is ``kernel``, ``memcpy`` or ``memset``; the latter two are copies.
    """
    bucket = _COPIES.get(kind) or bucket_of_name(name)
    if bucket in _OF_A_STEP and kind == "kernel" and any(in_optimizer(part) for part in path.split("/")):
        return "optimizer"
    return bucket


def in_optimizer(name: str) -> bool:
    """Whether a range of this name is an optimizer's: ``optimizer``, or the one that PyTorch opens itself."""
    return name == "optimizer" or name.startswith("Optimizer.step")
