"""What kernels are held against: a name, a problem and its torch tensors in; a call to be timed out.

``copy`` is the ceiling of everything bound by memory: as many bytes as the kernel moves, half of them read
and half written, by ``cudaMemcpyAsync`` and by torch's ``copy_``. The rest are the library calls that a
kernel's entry in the catalogue names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from labcode.kernels.catalogue import Call, Kernel, Problem


@dataclass(frozen=True)
class Baseline:
    """A call to time beside a kernel. ``kind``: "ceiling" or "library"."""

    name: str
    kind: str
    call: Call


def copies(torch: Any, cupy: Any, bytes_moved: int) -> tuple[Baseline, ...]:
    """The device copies of as many bytes as a kernel moves, from random words."""
    words = max(1, bytes_moved // 2 // 4)
    source = torch.randint(-(2**31), 2**31 - 1, (words,), dtype=torch.int32, device="cuda")
    target = torch.empty_like(source)
    to_target = (target.data_ptr(), source.data_ptr(), 4 * words, cupy.cuda.runtime.memcpyDeviceToDevice)

    def memcpy() -> None:
        cupy.cuda.runtime.memcpyAsync(*to_target, torch.cuda.current_stream().cuda_stream)

    return (
        Baseline("copy: cudaMemcpyAsync", "ceiling", memcpy),
        Baseline("copy: torch copy_", "ceiling", lambda: target.copy_(source)),
    )


def libraries(
    torch: Any, cupy: Any, kernel: Kernel, problem: Problem, inputs: Sequence[Any], output: Any
) -> tuple[Baseline, ...]:
    """The library calls of a kernel's catalogue entry, on its own arrays."""
    return tuple(
        Baseline(name, "library", make(torch, cupy, inputs, output))
        for name, make in kernel.libraries.items()
    )
