"""The 8-bit matmul: entries that are in the header, costs by hand, narrowing, what is refused in one line."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from labcode.errors import LabError
from labcode.kernels.catalogue import Gpu, Problem, entry
from labcode.kernels.topics import fp8
from labcode.store import repository_root

torch = pytest.importorskip("torch")
from labcode.experiments.compute.fp8_products import program as fp8_products  # noqa: E402
from labcode.experiments.compute.fp8_products import steps as fp8_steps  # noqa: E402
from labcode.experiments.compute.fp8_products.steps import Quantized  # noqa: E402

H200 = Gpu("NVIDIA H200", 90, 132, 62914560, 232448, 2048)
SMALL = (130, 264, 656)


def small(kind: str, data: str = "normal") -> tuple[Quantized, Quantized, Any]:
    m, n, k = SMALL
    a, b = fp8_products.matrices(torch, data, m, n, k, 1, "cpu")
    out = torch.empty((m, n), dtype=torch.bfloat16)
    return *fp8_products.quantized(torch, kind, a, b), out


@pytest.mark.parametrize("rung", fp8.LADDER, ids=lambda rung: rung.step.variant)
def test_every_step_is_in_the_header_and_fits_the_gpu(rung: fp8.Rung) -> None:
    problem = Problem((5000, 5000, 208), "bfloat16")
    expression = entry(rung.step, problem)
    header = (repository_root() / "cuda" / fp8.HEADER).read_text(encoding="utf-8")
    name = expression.split("<")[0].removeprefix("lab::fp8::")
    assert re.search(rf"__global__[^;{{]*\b{name}\s*\(", header), expression
    for constant in re.findall(r"lab::fp8::(k\w+)", expression):
        assert constant in header
    found = rung.step.launch(problem, H200)
    assert 0 < found.shared_bytes <= H200.shared_bytes
    assert len(rung.step.reason) > 20 and rung.step.predicted


def test_costs() -> None:
    assert fp8.flops(10, 20, 30) == 12000
    assert fp8.bytes_moved(fp8.TENSOR, 10, 20, 30) == 300 + 600 + 400 + 8
    assert fp8.bytes_moved(fp8.SIDES, 10, 20, 30) == 300 + 600 + 400 + 4 * 30
    assert fp8.bytes_moved(fp8.BLOCKS, 256, 256, 256) == 2 * 65536 + 131072 + 4 * (512 + 4)
    assert fp8.stage_cycles() == 1024  # as many as one of bf16 with half the depth
    assert fp8.promotion_cycles() == 256
    assert fp8.product_cycles(8192, 8192, 8192, 256, 66) == 16 * 64 * 1024  # 1024 pairs of tiles
    assert fp8.product_cycles(8192, 8192, 8192, 192, 66) == 21 * 64 * 768  # 32 × 43, the last one not full
    assert fp8.product_cycles(1, 8, 16, 192, 66) == 768


def test_shapes_of_scales_round_up() -> None:
    assert fp8.scale_shapes(fp8.BLOCKS, 130, 264, 656) == ((6, 130), (3, 6))
    assert fp8.scale_shapes(fp8.SIDES, 130, 264, 656) == ((130,), (264,))


@pytest.mark.parametrize("kind", fp8.KINDS)
def test_narrowing_loses_what_three_bits_lose(kind: str) -> None:
    """Rounding to 3 bits behind the first changes a number by 1/16 of it at most; small ones by less than
    the least e4m3.
    """
    m, n, k = SMALL
    for tall, weights in ((m, False), (n, True)):
        x = torch.randn((tall, k), generator=torch.Generator().manual_seed(tall))
        found = fp8_steps.quantize(torch, x, kind, weights)
        shapes = fp8.scale_shapes(kind, m, n, k)
        assert tuple(found.scales.shape) == shapes[weights]
        wide = found.dequantized(kind, weights)
        allowed = x.double().abs() / 16 + float(found.scales.max()) * 2**-9
        assert bool(((wide - x.double()).abs() <= allowed).all())
        assert float(found.elements.float().abs().max()) == fp8_steps.LARGEST


def test_narrowing_zeros_and_nan() -> None:
    x = torch.zeros((4, 256))
    for kind in fp8.KINDS:
        assert not bool(fp8_steps.quantize(torch, x, kind).dequantized(kind, False).any())
    x[1, 3] = float("nan")
    found = fp8_steps.quantize(torch, x, fp8.BLOCKS).dequantized(fp8.BLOCKS, False)
    assert torch.isnan(found).nonzero().tolist() == [[1, 3]]


@pytest.mark.parametrize("kind", [fp8.TENSOR, fp8.SIDES])
def test_the_library_takes_scales_as_they_are(kind: str) -> None:
    a, b, _ = small(kind)
    wanted = a.dequantized(kind, False) @ b.dequantized(kind, True).t()
    made = fp8_steps.library_call(torch, kind, a, b, fast=False)()
    assert fp8_products.errors(torch, made, wanted)["error"] < 2e-3  # of rounding to bf16


def test_rows_that_are_compared_lie_in_the_matrix_and_apart() -> None:
    for m in (1, 95, 130, 4096, 5000):
        rows = fp8_products.some_rows(torch, m, "cpu").tolist()
        assert rows == sorted(set(rows)) and rows[0] >= 0 and rows[-1] < m


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a, b, c: (a, b, c), r"blocks: the arrays lie in host memory; move them to the GPU with"),
        (lambda a, b, c: (a, b, c[:, :100]), r"blocks: shapes 130 × 656, 264 × 656, 130 × 100; give A m × k"),
        (
            lambda a, b, c: (_cut(a, 0, 656), b, c[:0]),
            r"blocks: 0 × 264 × 656 holds nothing to multiply",
        ),
        (
            lambda a, b, c: (_cut(a, 1, 1), _cut(b, 1, 1), c[:1, :1]),
            r"blocks: takes k a multiple of 16 and n of 8, .* not k = 1, n = 1$",
        ),
        (
            lambda a, b, c: (_cut(a, 130, 648), _cut(b, 264, 648), c),
            r"blocks: takes k a multiple of 16 and n of 8, .* not k = 648, n = 264$",
        ),
        (
            lambda a, b, c: (a, b, c.float()),
            r"blocks: takes A, B, C and the scales as float8_e4m3fn, .* bfloat16, .* not .*, float32, ",
        ),
        (
            lambda a, b, c: (replace(a, scales=a.scales.t().contiguous()), b, c),
            r"blocks: A's scales have shape \(130, 6\); blocks of 128 takes \(6, 130\) for 130 × 264 × 656",
        ),
        (
            lambda a, b, c: (a, replace(b, elements=b.elements.t().contiguous().t()), c),
            r"blocks: the elements must lie without gaps; call \.contiguous\(\)",
        ),
        (
            lambda a, b, c: (_shifted(a), b, c),
            r"blocks: takes arrays that start on 16 bytes; copy them with \.clone\(\)",
        ),
        (lambda a, b, c: (a, b, c[0]), r"blocks: give three matrices, A m × k, B n × k and C m × n"),
    ],
)
def test_what_the_steps_cannot_take_is_one_line(change: Callable[..., Any], message: str) -> None:
    with pytest.raises(LabError, match=f"^{message}"):
        fp8_steps.call_of(fp8.rung_of("blocks"), *change(*small(fp8.BLOCKS)))


def _cut(x: Quantized, rows: int, columns: int) -> Quantized:
    return replace(x, elements=x.elements[:rows, :columns])


def _shifted(x: Quantized) -> Quantized:
    storage = torch.empty(x.elements.numel() + 1, dtype=x.elements.dtype)
    return replace(x, elements=storage[1:].view(x.elements.shape))


def test_a_gpu_that_is_not_hoppers_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, out = small(fp8.TENSOR)
    other = replace(H200, compute_capability=89)
    monkeypatch.setattr("labcode.kernels.launch.this_gpu", lambda device: other)

    class OnGpu:
        is_cuda, device, dtype, ndim = True, torch.device("cuda", 0), out.dtype, 2
        shape, is_contiguous, data_ptr = out.shape, out.is_contiguous, out.data_ptr

    with pytest.raises(LabError, match=r"^pipeline: needs compute capability 9\.0, and this GPU has 8\.9$"):
        fp8_steps.call_of(fp8.rung_of("pipeline"), a, b, OnGpu())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--steps", "fast"],
            "fast: no such step; there are simple, pipeline, promoted, narrow, row_column, beside, blocks",
        ),
        (["--m", "0"], "0 is not between 1 and 65536"),
        (["--variant", "speed"], "invalid choice: 'speed'"),
    ],
)
def test_bad_flags(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        fp8_products.main(arguments)
    assert ended.value.code == 2 and message in capsys.readouterr().err


def test_bad_sizes_are_one_line() -> None:
    with pytest.raises(LabError, match=r"^takes k a multiple of 16 and n of 8, .*, not k = 17, n = 4096$"):
        fp8_products.main(["--k", "17"])


@pytest.mark.gpu
def test_right_on_a_gpu() -> None:
    assert fp8_products.main(["--variant", "check"]) == 0
