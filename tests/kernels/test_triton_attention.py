"""Attention in Triton: what is wrong with tensors is one line."""

from typing import Any

import pytest

from labcode.errors import LabError


@pytest.mark.parametrize(
    ("shape", "dtype", "message"),
    [
        ((2, 8, 80), "bfloat16", r"^attention: takes heads of 64 or 128 dimensions, not 80$"),
        ((2, 0, 64), "bfloat16", r"^attention: shapes \[\(2, 0, 64\)\]; give four tensors"),
        (
            (2, 8, 64),
            "float32",
            r"takes four tensors of one type, bfloat16 or float16, not \['torch.float32'\]$",
        ),
        ((2, 8, 64), "float16", r"^attention: the tensors must lie on one GPU; move them with \.cuda\(\)$"),
    ],
)
def test_what_it_cannot_take(shape: Any, dtype: str, message: str) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("triton")
    from labcode.kernels.triton_attention import attention

    x = torch.empty(shape, dtype=getattr(torch, dtype))
    with pytest.raises(LabError, match=message):
        attention(x, x, x, x)
