"""Matmul in Triton: A (m × k) and B (k × n) of bf16 or fp16 in, A·B of that type out, sums in fp32.

The tiles, stages and order of ``cuda/gemm``'s last steps, without their copy engine, barriers and registers:
Triton chooses those. Importing this module imports Triton.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from labcode.errors import LabError

TYPES = ("torch.bfloat16", "torch.float16")
TILE_M, TILE_N, TILE_K, BAND = 128, 256, 64, 8
WARPS, STAGES = 8, 3


@triton.jit  # type: ignore[untyped-decorator]
def _tile(  # type: ignore[no-untyped-def]
    a,
    b,
    c,
    m,
    n,
    k,
    lda,
    ldb,
    ldc,
    tile_m: tl.constexpr,
    tile_n: tl.constexpr,
    tile_k: tl.constexpr,
    band: tl.constexpr,
):
    """One tile of C; tiles are taken in bands of rows: those computed together share what L2 holds."""
    tile, down, across = tl.program_id(0), tl.cdiv(m, tile_m), tl.cdiv(n, tile_n)
    first = tile // (band * across) * band
    tall = min(down - first, band)
    within = tile % (band * across)
    rows = (first + within % tall) * tile_m + tl.arange(0, tile_m)
    columns = (within // tall) * tile_n + tl.arange(0, tile_n)
    depth = tl.arange(0, tile_k)
    from_a = a + rows.to(tl.int64)[:, None] * lda + depth[None, :]
    from_b = b + depth.to(tl.int64)[:, None] * ldb + columns[None, :]
    sums = tl.zeros((tile_m, tile_n), dtype=tl.float32)
    for done in range(0, k, tile_k):
        of_a = tl.load(from_a, mask=(rows[:, None] < m) & (depth[None, :] < k - done), other=0.0)
        of_b = tl.load(from_b, mask=(depth[:, None] < k - done) & (columns[None, :] < n), other=0.0)
        sums = tl.dot(of_a, of_b, sums)
        from_a += tile_k
        from_b += tile_k * ldb
    to = c + rows.to(tl.int64)[:, None] * ldc + columns[None, :]
    tl.store(to, sums.to(c.dtype.element_ty), mask=(rows[:, None] < m) & (columns[None, :] < n))


def product(a: Any, b: Any, out: Any) -> None:
    """Fill ``out`` with a·b on the current stream; `LabError` for tensors that do not fit together.

    Rows may lie any distance apart; the elements of a row are neighbors.
    """
    shapes = [tuple(x.shape) for x in (a, b, out)]
    if any(len(shape) != 2 for shape in shapes) or (shapes[0][0], shapes[1][1]) != shapes[2]:
        raise LabError(f"product: shapes {', '.join(map(str, shapes))}; give m × k, k × n and m × n")
    if shapes[0][1] != shapes[1][0] or 0 in shapes[0] + shapes[1]:
        raise LabError(
            f"product: {shapes[0]} times {shapes[1]} is no product of matrices that hold something"
        )
    types = {str(x.dtype) for x in (a, b, out)}
    if len(types) > 1 or not types <= set(TYPES):
        raise LabError(f"product: takes three tensors of one type, bfloat16 or float16, not {sorted(types)}")
    if any(x.stride(1) != 1 and x.shape[1] > 1 for x in (a, b, out)):
        raise LabError("product: the elements of a row must be neighbors; call .contiguous()")
    if not (a.is_cuda and a.device == b.device == out.device):
        raise LabError("product: the tensors must lie on one GPU; move them with .cuda()")
    (m, k), n = shapes[0], shapes[1][1]
    grid = (triton.cdiv(m, TILE_M) * triton.cdiv(n, TILE_N),)
    _tile[grid](
        *(a, b, out, m, n, k, a.stride(0), b.stride(0), out.stride(0)),
        *(TILE_M, TILE_N, TILE_K, BAND),
        num_warps=WARPS,
        num_stages=STAGES,
    )
