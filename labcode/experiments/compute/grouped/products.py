"""What programs of matmuls in bf16 share: outputs between guards, errors against float64, a record's rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from labcode.experiments.shared.common import Check
from labcode.timing import spread

Call = Callable[[], object]
GUARD = 512  # elements on either side of an output, which keeps the alignment that PyTorch gives its tensors
LIBRARY_TIMES = 1.5  # a step's error may be so many times the library's


def guarded(torch: Any, rows: int, columns: int) -> tuple[Any, Any]:
    """An output of bf16 and the memory around it, whose ends nobody may write."""
    around = torch.empty(rows * columns + 2 * GUARD, dtype=torch.bfloat16, device="cuda")
    return around[GUARD : GUARD + rows * columns].view(rows, columns), around


def error_of(torch: Any, out: Any, around: Any, rows: Any, expected: Any) -> tuple[float, str]:
    """The error of some rows of ``out`` against float64, of the norm; what else is wrong, or nothing.

    Rows with a NaN are all among those that are compared.
    """
    found, finite = out[rows].double(), torch.isfinite(expected)
    unlike = int((~((found == expected) | (found.isnan() & expected.isnan())) & ~finite).sum())
    difference = torch.where(finite, found - expected, 0.0)
    error = float(difference.norm() / torch.where(finite, expected, 0.0).norm().clamp_min(1e-300))
    outside = int((~around[:GUARD].isnan()).sum() + (~around[-GUARD:].isnan()).sum())
    unwritten = int(out.isnan().any(dim=1).sum()) - int(expected.isnan().any(dim=1).sum())
    wrong = {
        "elements written outside": outside,
        "rows with NaN or not written": unwritten,
        "elements are not the NaN or infinity": unlike,
    }
    return error, ", ".join(f"{number} {what}" for what, number in wrong.items() if number)


def checked(
    torch: Any, call: Call, out: Any, around: Any, rows: Any, expected: Any, allowed: float
) -> tuple[float, Check]:
    """The error of a call, and whether it was right twice: what it leaves behind must not change the next."""
    for _ in range(2):
        around.fill_(float("nan"))
        result = call()
        torch.cuda.synchronize()
        error, wrong = error_of(torch, out if result is None else result, around, rows, expected)
        detail = f"error {error:.2e} of the norm (allowed {allowed:.1e}){', ' if wrong else ''}{wrong}"
        if not (error <= allowed and not wrong):
            return error, Check(False, detail)
    return error, Check(True, detail)


def marked(torch: Any, calls: Mapping[str, Call]) -> None:
    """One call of each for ``ncu --profile-from-start off``."""
    for call in calls.values():
        torch.cuda.synchronize()
        torch.cuda.profiler.start()
        call()
        torch.cuda.synchronize()
        torch.cuda.profiler.stop()


def results_of(
    times: Mapping[str, Sequence[float]], errors: Mapping[str, float], flops: int, moved_bytes: int
) -> dict[str, Any]:
    """What a record holds of these timings, "cublas" among them; printed as a table, too.

    What has no error of its own moves data and multiplies nothing, but for "cublas".
    """
    found = {name: spread(mine) for name, mine in times.items()}
    results: dict[str, Any] = {"moved_bytes": moved_bytes}
    print("  a cold cache before each; median us, TFLOP/s, GB/s, of cuBLAS, error")
    for name, one in found.items():
        results |= {f"{name}_us": one.median, f"{name}_q1_us": one.q1, f"{name}_q3_us": one.q3}
        if name not in errors and name != "cublas":
            print(f"  {name:18} {one.median:9.1f} us")
            continue
        rate, ratio = flops / one.median / 1e6, found["cublas"].median / one.median
        error = errors.get(name, float("nan"))
        told = f"{rate:7.1f} {moved_bytes / one.median / 1e3:7.0f} {ratio:7.3f} {error:.2e}"
        print(f"  {name:18} {one.median:9.1f} us {told}", flush=True)
        results |= {f"{name}_tflop_per_s": rate, f"{name}_over_cublas_ratio": ratio, f"{name}_error": error}
    return results
