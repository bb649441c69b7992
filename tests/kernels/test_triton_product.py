"""The product in Triton: what is wrong with tensors is one line; without Triton too; right on a GPU."""

import sys
from typing import Any

import pytest

from labcode.errors import LabError, ToolError
from labcode.experiments.compute.triton_gemm import program as triton_gemm


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.fixture
def product() -> Any:
    pytest.importorskip("triton")
    return triton_gemm.import_product().product


def test_without_triton_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    monkeypatch.delitem(sys.modules, "labcode.kernels.triton_product", raising=False)
    with pytest.raises(ToolError, match=r"^this workload needs Triton, which cannot be imported here \("):
        triton_gemm.import_product()


@pytest.mark.parametrize(
    ("a", "b", "out", "message"),
    [
        (
            (4, 8),
            (8, 6),
            (6, 4),
            r"^product: shapes \(4, 8\), \(8, 6\), \(6, 4\); give m × k, k × n and m × n",
        ),
        ((4, 8, 1), (8, 6), (4, 6), r"^product: shapes \(4, 8, 1\), "),
        ((4, 8), (7, 6), (4, 6), r"^product: \(4, 8\) times \(7, 6\) is no product"),
        ((4, 0), (0, 6), (4, 6), r"^product: \(4, 0\) times \(0, 6\) is no product"),
        ((4, 8), (8, 6), (4, 6), r"^product: the tensors must lie on one GPU; move them with \.cuda\(\)$"),
    ],
)
def test_shapes_that_do_not_fit(torch: Any, product: Any, a: Any, b: Any, out: Any, message: str) -> None:
    with pytest.raises(LabError, match=message):
        product(*(torch.ones(shape, dtype=torch.bfloat16) for shape in (a, b, out)))


def test_types_and_strides_that_do_not_fit(torch: Any, product: Any) -> None:
    x = torch.ones(8, 8, dtype=torch.bfloat16)
    with pytest.raises(
        LabError, match=r"takes three tensors of one type, bfloat16 or float16, not \['torch\.b"
    ):
        product(x, x.half(), x)
    with pytest.raises(LabError, match=r"not \['torch\.float32'\]$"):
        product(x.float(), x.float(), x.float())
    with pytest.raises(LabError, match=r"the elements of a row must be neighbors; call \.contiguous\(\)$"):
        product(x.t(), x, x)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", triton_gemm.VARIANTS)
@pytest.mark.parametrize("shape", ["1 1 1", "33 65 17", "257 130 131", "1000 1100 900"])
def test_right_on_a_gpu(product: Any, kind: str, shape: str) -> None:
    m, n, k = shape.split()
    sizes = ["--m", m, "--n", n, "--k", k]
    assert triton_gemm.main(["--variant", kind, *sizes, "--repetitions", "1"]) == 0


@pytest.mark.gpu
def test_rows_that_lie_apart(torch: Any, product: Any) -> None:
    storage = torch.randn(3, 200, 300, device="cuda").bfloat16()
    a, b, out = storage[0, :100, :70], storage[1, :70, 5:125], storage[2, :100, :120]
    around = storage[2, 100:].clone()
    product(a, b, out)
    expected = a.double() @ b.double()
    assert float((out.double() - expected).norm() / expected.norm()) < 4e-3
    assert torch.equal(around, storage[2, 100:])
