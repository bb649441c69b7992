"""Names for parts of a program that profilers show: a kind in, a function that opens named ranges out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

KINDS = ("nvtx", "record", "none")
Mark = Callable[[str], AbstractContextManager[object]]


def no_mark(name: str) -> AbstractContextManager[object]:
    """A mark that no profiler sees."""
    return nullcontext()


def marks(kind: str, device: torch.device) -> Mark:
    """How to open a range by name.

    ``nvtx`` is for nsys and ncu (nothing on the CPU), ``record`` (`torch.profiler.record_function`) for
    torch.profiler and costs several times more, ``none`` opens none.
    """
    import torch

    if kind == "record":
        return torch.profiler.record_function  # type: ignore[no-any-return]
    if kind == "nvtx" and device.type == "cuda":
        return _nvtx
    return no_mark


@contextmanager
def _nvtx(name: str) -> Iterator[None]:
    import torch

    torch.cuda.nvtx.range_push(name)
    try:
        yield
    finally:
        torch.cuda.nvtx.range_pop()
