"""What a name tells: of a kernel what it is for, one of a few buckets; of a function of Python whose it is.

The table ``buckets.csv`` is read from the top; the first pattern found in a kernel's name decides. What a GPU
does at all is not in a name alone: an addition of an optimizer's step is elementwise by name. Where the
ranges around the launch are known, they decide that (`bucket_of`).

A function is the user's program's own (`own_file`), or a library's or Python's. Traces name functions
`file(line): function`, with files below a folder of sys.path; nsys names whole paths, or what is left of them
where private folders were taken out.
"""

import csv
import functools
import re
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from labcode.reports.columns import Bools
from labcode.reports.frames import codes_of

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


# packages that programs call; what they call back (``__getitem__`` of a data set) is the program's again
_PACKAGES = frozenset(
    (
        *("torch", "torchvision", "torchaudio", "triton", "numpy", "pandas", "scipy", "PIL", "cv2", "tqdm"),
        *("transformers", "accelerate", "datasets", "deepspeed", "lightning", "pytorch_lightning"),
        *("diffusers", "peft", "timm", "typing_extensions"),
    )
)
_EVERYWHERE = frozenset(("torch", "triton", "numpy"))  # also inside of a path: a checkout of the sources
_LIBRARY = sys.stdlib_module_names - {"test"}  # of Python; a folder of that name is somebody's own
# the lab's own programs are like others; they lay in `workloads` when most captures were made
_INSTALLED = re.compile(
    r"(?:^|/)(?:(?:site|dist)-packages|lib/python\d[^/]*|labcode/(?!(?:experiments|workloads)/).*)(?:/|$)"
)
FRAME = re.compile(r"(?P<file>[^<>]*?)\((?P<line>\d+)\): (?P<function>.*)")


@functools.lru_cache(maxsize=65_536)
def own_file(file: str) -> bool:
    """Whether the functions of a file are the program's own: not of an installed package or of Python's
    library, not built in and not made from a text.
    """
    if not file or file[0] in "<[" or _INSTALLED.search(file):
        return False
    *folders, name = file.lstrip("/").split("/")
    if _EVERYWHERE.intersection(folders):
        return False
    # below a folder of sys.path, or cut down to that: the first part is a package's or a module's name
    first = folders[0] if folders else name.removesuffix(".py")
    return file[0] == "/" or (first not in _PACKAGES and first not in _LIBRARY)


def own_name(name: str) -> bool:
    """Whether a function is the program's own, as traces name it: `train.py(4): load`."""
    found = FRAME.fullmatch(name)
    return found is not None and own_file(found["file"])


def own_names(names: NDArray[np.object_]) -> Bools:
    """Which of some functions are the program's own, as traces name them."""
    codes, distinct = codes_of(names)
    hits = np.array([own_name(str(name)) for name in distinct], np.bool_)
    return np.append(hits, False)[codes]
