"""Matmul by Triton beside cuBLAS: sizes in, a table and a JSON record with the ratio out.

python -m labcode.workloads.triton_gemm --n 8192
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from labcode.errors import ToolError
from labcode.experiments.shared import common
from labcode.experiments.shared.kernel_times import FLUSH_FACTOR, take_turns
from labcode.timing import spread

PROGRAM = "triton_gemm"
VARIANTS = ("bfloat16", "float16")
ALLOWED = {"bfloat16": 4e-3, "float16": 1e-3}


def import_product() -> Any:
    """The Triton kernel's module, or a `ToolError` where Triton is missing."""
    try:
        from labcode.kernels import triton_product
    except ImportError as error:
        raise ToolError(
            f"this workload needs Triton, which cannot be imported here ({error}); PyTorch for CUDA brings it"
        ) from None
    return triton_product


def main(arguments: Sequence[str]) -> int:
    """Check and time both on the same random matrices; 0 when Triton's matmul was right."""
    parser = common.parser(PROGRAM, "Times a matrix product in Triton beside cuBLAS, in turns.", VARIANTS)
    for name in ("m", "n", "k"):
        parser.add_argument(f"--{name}", type=common.whole(1, 1 << 17), default=4096)
    parser.add_argument("--repetitions", type=common.whole(1, 1000), default=20)
    given = parser.parse_args(arguments)
    torch = common.import_torch()
    common.require_gpus(torch)
    needed = 2 * (given.m * given.k + given.k * given.n + 2 * given.m * given.n) + 8 * given.m * given.n
    common.require_memory(torch, needed + (1 << 29), "choose smaller --m, --n, --k")
    product, kind = import_product().product, getattr(torch, given.variant)
    generator = torch.Generator(device="cuda").manual_seed(1)
    a, b = (
        torch.randn(shape, generator=generator, device="cuda").to(kind)
        for shape in ((given.m, given.k), (given.k, given.n))
    )
    out = torch.full((given.m, given.n), float("nan"), dtype=kind, device="cuda")
    library = torch.empty_like(out)
    product(a, b, out)
    torch.matmul(a, b, out=library)
    rows = torch.arange(0, given.m, -(-given.m // 128), device="cuda")
    expected = a[rows].double() @ b.double()
    error, library_error = (
        float((found[rows].double() - expected).norm() / expected.norm()) for found in (out, library)
    )
    unwritten = int(torch.isnan(out).sum())
    allowed = ALLOWED[given.variant]
    detail = f"error {error:.1e} of the norm (allowed {allowed:.0e}), {unwritten} elements not written"
    flush = torch.ones(FLUSH_FACTOR * torch.cuda.get_device_properties(0).L2_cache_size // 4, device="cuda")
    calls = {
        "cublas": lambda: torch.matmul(a, b, out=library),
        "triton": lambda: product(a, b, out),
    }
    times = take_turns(torch, list(calls.values()), lambda: torch.sum(flush), given.repetitions)
    found = {name: spread(mine) for name, mine in zip(calls, times, strict=True)}
    operations = 2 * given.m * given.n * given.k
    results: dict[str, Any] = {"triton_error": error, "cublas_error": library_error}
    for name, one in found.items():
        rate, ratio = operations / one.median / 1e6, found["cublas"].median / one.median
        print(f"  {name:8} {one.median:10.1f} us {rate:8.1f} TFLOP/s {ratio:8.4f} of cuBLAS")
        results |= {f"{name}_us": one.median, f"{name}_q1_us": one.q1, f"{name}_q3_us": one.q3}
        results |= {f"{name}_tflop_per_s": rate, f"{name}_over_cublas_ratio": ratio}
    record = common.Record(
        PROGRAM,
        given.variant,
        common.parameters_of(given),
        results,
        {"triton": common.Check(error <= allowed and unwritten == 0, detail)},
        common.gpu_info(torch, torch.device("cuda", torch.cuda.current_device())),
    )
    return common.finish(record, given.json)


if __name__ == "__main__":
    common.run(PROGRAM, main)
