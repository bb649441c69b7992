"""The 8-bit matmul, step by step, beside PyTorch's and beside bf16: sizes in, a record out.

``times``: every step, ``torch._scaled_mm`` with each kind of scales, the bf16 kernel of ``cuda/gemm``, in
turns.
``errors``: what each kind of scales and the sums cost, by data. ``check``: sizes that no tile fills, and NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from labcode.errors import LabError
from labcode.experiments.compute.fp8_products import steps as fp8_steps
from labcode.experiments.compute.fp8_products.steps import Quantized
from labcode.experiments.shared import common
from labcode.experiments.shared.common import Check
from labcode.experiments.shared.kernel_times import reader, take_turns
from labcode.kernels.launch import this_gpu
from labcode.kernels.topics import fp8
from labcode.timing import spread

if TYPE_CHECKING:
    import torch

PROGRAM = "fp8_products"
VARIANTS = ("times", "errors", "check")
ALLOWED = 4e-3  # of the norm: rounding C to bf16, and sums of up to 16384 products
ALLOWED_RAW = 2e-2  # … that the tensor cores add up alone
LIBRARY_SLACK = 1.5  # times the library's error
CHECKED_ROWS = 96
SIZES = ((1, 8, 16), (1, 136, 4112), (130, 264, 656), (257, 8, 144), (520, 1032, 1008), (5000, 5000, 208))
OUTLIER_ROWS, OUTLIER_COLUMNS = 64, 1024
OUTLIERS = {"× 100": 1e2, "× 100,000": 1e5}
DATA = ("normal", "positive", *(f"{what} {times}" for what in ("rows", "columns") for times in OUTLIERS))


def command_line() -> Any:
    """The flags."""
    parser = common.parser(PROGRAM, "Times and checks products of 8-bit floats with scales.", VARIANTS)
    for name in ("m", "n", "k"):
        parser.add_argument(f"--{name}", type=common.whole(1, 1 << 16), default=4096)
    parser.add_argument("--steps", type=_steps, default=tuple(fp8.STEPS), help="by commas; default: all")
    parser.add_argument("--repetitions", type=common.whole(1, 1000), default=20)
    parser.add_argument("--seed", type=common.whole(0, 2**31), default=1)
    return parser


def _steps(text: str) -> tuple[str, ...]:
    import argparse

    try:
        return tuple(fp8.rung_of(word).step.variant for word in text.split(","))
    except LabError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def matrices(
    torch: Any, data: str, m: int, n: int, k: int, seed: int, device: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """A (m × k) and B (n × k) in fp32.

    ``normal``; ``positive``: uniform from 0 to 1, so that sums only grow; ``rows × 100``: some rows of A are
    100 times as large; ``columns × 100``: so are some columns of A, and B's so much smaller.
    """
    generator = torch.Generator(device=device).manual_seed(seed)
    draw = torch.rand if data == "positive" else torch.randn
    a, b = (draw(shape, generator=generator, device=device) for shape in ((m, k), (n, k)))
    if data not in DATA:
        raise LabError(f"{data}: there are no such data; take one of {', '.join(DATA)}")
    what, _, larger = data.partition(" ")
    if what == "rows":
        a[::OUTLIER_ROWS] *= OUTLIERS[larger]
    elif what == "columns":
        a[:, ::OUTLIER_COLUMNS] *= OUTLIERS[larger]
        b[:, ::OUTLIER_COLUMNS] /= OUTLIERS[larger]
    return a, b


def some_rows(torch: Any, m: int, device: Any) -> torch.Tensor:
    """The rows that are compared: spread over all tiles, at other places in each."""
    step = max(1, m // CHECKED_ROWS)
    rows = torch.arange(0, m, step, device=device)
    return (rows + rows // step % step).clamp(max=m - 1)


def errors(torch: Any, found: torch.Tensor, wanted: torch.Tensor) -> dict[str, float]:
    """Of the norm; and the median over rows of each row's, which a few large rows do not hide."""
    difference = found.double() - wanted
    by_row = difference.norm(dim=1) / wanted.norm(dim=1).clamp(min=1e-300)
    whole = float(difference.norm() / wanted.norm().clamp(min=1e-300))
    return {"error": whole, "row_error": float(by_row.median())}


def quantized(torch: Any, kind: str, a: torch.Tensor, b: torch.Tensor) -> tuple[Quantized, Quantized]:
    """Both operands with scales of a kind."""
    return fp8_steps.quantize(torch, a, kind), fp8_steps.quantize(torch, b, kind, weights=True)


def poisoned(torch: Any, m: int, n: int, device: Any) -> torch.Tensor:
    """An output full of NaN."""
    return torch.full((m, n), float("nan"), dtype=torch.bfloat16, device=device)


# ---- times ------------------------------------------------------------------------------------------------


def times(torch: Any, given: Any) -> tuple[dict[str, Any], dict[str, Check]]:
    """A row for each candidate; whether what the steps computed was right and as good as the library's."""
    m, n, k = given.m, given.n, given.k
    device = torch.device("cuda", torch.cuda.current_device())
    gpu = this_gpu(device.index)
    rungs = [fp8.rung_of(name) for name in given.steps]
    fp8_steps.compile_all(rungs, gpu, bf16=True)
    a, b = matrices(torch, "normal", m, n, k, given.seed, "cuda")
    rows = some_rows(torch, m, device)
    operands = {kind: quantized(torch, kind, a, b) for kind in fp8.KINDS}
    del a, b
    wanted = {
        kind: of_a.dequantized(kind, False)[rows] @ of_b.dequantized(kind, True).t()
        for kind, (of_a, of_b) in operands.items()
    }
    found: list[dict[str, Any]] = []
    calls: list[Callable[[], object]] = []
    for kind in fp8.KINDS:
        for fast in (True, False):
            row = {"name": "library", "kind": "library", "scales": kind, "promoted": not fast}
            call = fp8_steps.library_call(torch, kind, *operands[kind], fast)
            if _try(torch, row, call, found, calls):
                row |= errors(torch, call()[rows], wanted[kind])
    row = {"name": "bf16, this book's", "kind": "bf16", "scales": "none", "promoted": False}
    _try(torch, row, fp8_steps.bf16_call(torch, m, n, k), found, calls)
    left, right = (torch.randn(shape, device="cuda").bfloat16() for shape in ((m, k), (n, k)))
    row = {"name": "bf16, library", "kind": "bf16", "scales": "none", "promoted": False}
    _try(torch, row, lambda: left @ right.t(), found, calls)
    checks = {}
    for rung in rungs:
        kind, out = rung.scales, poisoned(torch, m, n, device)
        row = {"name": rung.step.name, "kind": "step", "scales": kind, "promoted": rung.promoted}
        call = fp8_steps.call_of(rung, *operands[kind], out)
        call()
        row |= errors(torch, out[rows], wanted[kind])
        unwritten = int(torch.isnan(out).sum())
        checks[rung.step.variant] = _judged(row, unwritten, _library_error(found, kind, rung.promoted))
        found.append(row)
        calls.append(call)
    print(f"{gpu.name}: {m} × {n} × {k}, medians of {given.repetitions}, a cold cache before each")
    flops = fp8.flops(m, n, k)
    timed = take_turns(torch, calls, reader(torch, gpu), given.repetitions)
    for row, us in zip((row for row in found if "left_out" not in row), timed, strict=True):
        middle = spread(us)
        row |= {"time_us": middle.median, "q1_us": middle.q1, "q3_us": middle.q3}
        row |= {"tflop_per_s": flops / middle.median / 1e6, "all_us": common.rounded(us)}
        print(
            f"  {row['name']:20} {row['scales']:16} {'promoted' if row['promoted'] else '':9}"
            f"{row['time_us']:10.1f} us {row['tflop_per_s']:8.1f} TFLOP/s  error {row.get('error', 0):.2e}",
            flush=True,
        )
    return {"rows": found}, checks


def _try(
    torch: Any,
    row: dict[str, Any],
    call: Callable[[], Any],
    found: list[dict[str, Any]],
    calls: list[Callable[[], object]],
) -> bool:
    """Keep a candidate that can run; of one that cannot, its row says why."""
    found.append(row)
    try:
        call()
        torch.cuda.synchronize()
    except (LabError, RuntimeError, ValueError) as error:
        row["left_out"] = str(error).splitlines()[0][:200]
        print(f"  {row['name']}, {row['scales']}: left out: {row['left_out']}", flush=True)
        return False
    calls.append(call)
    return True


def _library_error(found: Sequence[dict[str, Any]], kind: str, promoted: bool) -> float | None:
    """Of the library with the same scales, and sums of the same kind where it has both."""
    same = [row for row in found if row["name"] == "library" and row["scales"] == kind and "error" in row]
    exact = [row for row in same if row["promoted"] == promoted] or same
    return float(exact[0]["error"]) if exact else None


def _judged(row: dict[str, Any], unwritten: int, library: float | None) -> Check:
    allowed = ALLOWED if row["promoted"] else ALLOWED_RAW
    bound = allowed if library is None else min(allowed, LIBRARY_SLACK * library)
    detail = f"error {row['error']:.2e} of the norm, allowed {bound:.2e}; {unwritten} elements not written"
    return Check(row["error"] <= bound and unwritten == 0, detail)


# ---- errors -----------------------------------------------------------------------------------------------


def by_data(torch: Any, given: Any) -> tuple[dict[str, Any], dict[str, Check]]:
    """A row for each kind of data, scales and sums, by the steps and by the library.

    The error against what the elements stand for; and against the matrices before they were narrowed.
    """
    m, n, k = given.m, given.n, given.k
    device = torch.device("cuda", torch.cuda.current_device())
    rows = some_rows(torch, m, device)
    variants = variants_of_sums()
    fp8_steps.compile_all(variants, this_gpu(device.index))
    found, checks = [], {}
    for data in DATA:
        a, b = matrices(torch, data, m, n, k, given.seed, "cuda")
        exact = a[rows].double() @ b.double().t()
        bf16 = errors(torch, (a.bfloat16() @ b.bfloat16().t())[rows], exact)
        found.append(_error_row(data, "bf16", "library", True, bf16, bf16))
        for kind in fp8.KINDS:
            of_a, of_b = quantized(torch, kind, a, b)
            wanted = of_a.dequantized(kind, False)[rows] @ of_b.dequantized(kind, True).t()
            library = None
            for fast in (True, False):
                try:
                    made = fp8_steps.library_call(torch, kind, of_a, of_b, fast)()[rows]
                except (RuntimeError, ValueError):
                    continue
                library = errors(torch, made, wanted)
                found.append(_error_row(data, kind, "library", not fast, library, errors(torch, made, exact)))
            for rung in variants:
                if rung.scales != kind:
                    continue
                out = poisoned(torch, m, n, device)
                fp8_steps.call_of(rung, of_a, of_b, out)()
                row = _error_row(
                    *(data, kind, "step", rung.promoted),
                    *(errors(torch, out[rows], wanted), errors(torch, out[rows], exact)),
                )
                found.append(row)
                if rung.promoted:
                    held = _library_error(
                        [one | {"name": one["by"]} for one in found if one["data"] == data], kind, True
                    )
                    checks[f"{data}, {kind}"] = _judged(row, int(torch.isnan(out).sum()), held)
    for row in found:
        print(
            f"  {row['data']:16} {row['scales']:16} {row['by']:8} {'promoted' if row['promoted'] else '':9}"
            f" sums {row['error']:.2e} (rows {row['row_error']:.2e})"
            f"  whole {row['whole_error']:.2e} (rows {row['whole_row_error']:.2e})",
            flush=True,
        )
    return {"rows": found}, checks


def variants_of_sums() -> tuple[fp8.Rung, ...]:
    """The first pipeline with each kind of scales: promoted sums and, where there is such a step, others."""
    from dataclasses import replace

    first = {(one.scales, one.promoted): one for one in reversed(fp8.LADDER) if one.step.name != "simple"}
    pipelines = [rung for rung in fp8.LADDER if rung in first.values()]
    sides = next(rung for rung in pipelines if rung.scales == fp8.SIDES)
    raw = fp8.Rung(replace(sides.step, entry=fp8.entry(fp8.SIDES, False)), fp8.SIDES, False)
    return (*pipelines, raw)


def _error_row(
    data: str, scales: str, by: str, promoted: bool, sums: dict[str, float], whole: dict[str, float]
) -> dict[str, Any]:
    facts = {"data": data, "scales": scales, "by": by, "promoted": promoted}
    return facts | sums | {f"whole_{name}": value for name, value in whole.items()}


# ---- check ------------------------------------------------------------------------------------------------


def check(torch: Any, given: Any) -> tuple[dict[str, Any], dict[str, Check]]:
    """Every step on sizes that no tile fills, with a NaN in each matrix or none."""
    device = torch.device("cuda", torch.cuda.current_device())
    rungs = [fp8.rung_of(name) for name in given.steps]
    fp8_steps.compile_all(rungs, this_gpu(device.index))
    checks = {}
    for number, (m, n, k) in enumerate(SIZES):
        for nan in (False, True):
            a, b = matrices(torch, "normal", m, n, k, given.seed + number, "cuda")
            if nan:
                a[m // 2, k // 3], b[n // 3, k - 1] = float("nan"), float("nan")
            for rung in rungs:
                of_a, of_b = quantized(torch, rung.scales, a, b)
                out = poisoned(torch, m, n, device)
                fp8_steps.call_of(rung, of_a, of_b, out)()
                wanted = of_a.dequantized(rung.scales, False) @ of_b.dequantized(rung.scales, True).t()
                unlike = int((torch.isnan(out) != torch.isnan(wanted)).sum())
                numbers = ~torch.isnan(wanted)
                found = errors(
                    torch,
                    torch.where(numbers, out.double(), 0.0),
                    torch.where(numbers, wanted, 0.0),
                )
                allowed = ALLOWED if rung.promoted else ALLOWED_RAW
                name = f"{rung.step.variant}, {m} × {n} × {k}{', NaN' if nan else ''}"
                detail = f"error {found['error']:.2e}, allowed {allowed:.0e}; {unlike} NaN in wrong places"
                checks[name] = Check(found["error"] <= allowed and unlike == 0, detail)
    print(f"{len(checks)} checks, {sum(not one.passed for one in checks.values())} failed")
    return {"sizes": [list(size) for size in SIZES]}, checks


def main(arguments: Sequence[str]) -> int:
    """Run a variant; 0 when every result was right."""
    given = command_line().parse_args(arguments)
    refused = fp8.unfit(_problem(given))
    if refused:
        raise LabError(refused)
    torch = common.import_torch()
    common.require_gpus(torch)
    needed = 20 * (given.m * given.k + given.n * given.k) + 24 * given.m * given.n
    common.require_memory(torch, needed + (1 << 29), "choose smaller --m, --n, --k")
    torch.backends.cuda.matmul.allow_tf32 = False
    results, checks = {"times": times, "errors": by_data, "check": check}[given.variant](torch, given)
    device = torch.device("cuda", torch.cuda.current_device())
    record = common.Record(
        PROGRAM,
        given.variant,
        common.parameters_of(given),
        results,
        checks,
        common.gpu_info(torch, device),
    )
    return common.finish(record, given.json)


def _problem(given: Any) -> Any:
    from labcode.kernels.catalogue import Problem

    return Problem((given.m, given.n, given.k), "bfloat16")


if __name__ == "__main__":
    common.run(PROGRAM, main)
