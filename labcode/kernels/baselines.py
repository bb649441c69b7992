"""What kernels are held against: a name, a problem and its torch tensors in; a call to be timed out.

``copy`` is the ceiling of everything bound by memory: as many bytes as the kernel moves, half of them read
and half written, by ``cudaMemcpyAsync`` and by torch's ``copy_``. The rest are library calls that compute
what the kernel computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from labcode.errors import LabError
from labcode.kernels.catalogue import Kernel, Problem

Call = Callable[[], object]
_ADVICE = "; name one of labcode.kernels.baselines.LIBRARIES"


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


def _cub_sum(torch: Any, cupy: Any, inputs: Sequence[Any], output: Any) -> Call:
    """CUB's DeviceReduce as CuPy ships it, on torch's stream."""
    from cupy.cuda import cub

    array = cupy.from_dlpack(inputs[0])

    def call() -> None:
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            cub.device_reduce(array, cub.CUPY_CUB_SUM, (0,), ())

    return call


LIBRARIES: Mapping[str, Callable[[Any, Any, Sequence[Any], Any], Call]] = {
    "torch copy_ of x.t()": lambda torch, cupy, x, out: lambda: out.copy_(x[0].t()),
    "torch.sum": lambda torch, cupy, x, out: lambda: torch.sum(x[0]),
    "CUB DeviceReduce": _cub_sum,
    "torch.add": lambda torch, cupy, x, out: lambda: torch.add(x[0], x[1], alpha=3.0, out=out),
    "torch.index_select": lambda torch, cupy, x, out: lambda: torch.index_select(x[0], 0, x[1], out=out),
    "torch.softmax": lambda torch, cupy, x, out: lambda: torch.softmax(x[0], -1),
    "torch rms_norm": lambda torch, cupy, x, out: (
        lambda: torch.nn.functional.rms_norm(x[0], x[0].shape[-1:], x[1], 1e-6)
    ),
}


def libraries(
    torch: Any, cupy: Any, kernel: Kernel, problem: Problem, inputs: Sequence[Any], output: Any
) -> tuple[Baseline, ...]:
    """The library calls of a kernel's catalogue entry, on its own arrays."""
    found = []
    for name in kernel.libraries:
        if name not in LIBRARIES:
            raise LabError(f"{kernel.name}: there is no library call {name}{_ADVICE}")
        found.append(Baseline(name, "library", LIBRARIES[name](torch, cupy, inputs, output)))
    return tuple(found)
