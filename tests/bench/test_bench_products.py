"""The products' bench: tables and marks from a program's record, bad sizes and missing parts in one line."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from labcode import store
from labcode.analysis.kernel.products import LIBRARY, ladder
from labcode.bench import products
from labcode.errors import LabError, ToolError
from labcode.kernels.topics import gemm


def record(**us: float) -> dict[str, Any]:
    """A program's record in which each rung took so long, against the first one; 2e6 operations."""
    library, results = us.get("cublas"), dict[str, float]()
    for name, time in us.items():
        results |= {f"{name}_error": 1e-7, f"{name}_us": time, f"{name}_q1_us": time, f"{name}_q3_us": time}
        results[f"{name}_tflop_per_s"] = 2.0 / time
        if library:
            results[f"{name}_over_cublas_ratio"] = library / time
    return {"program": "gemm", "results": results, "checks": {name: {"passed": True} for name in us}}


def shown(
    records: dict[str, Any], monkeypatch: pytest.MonkeyPatch, path: Path | None = None
) -> tuple[int, str]:
    def run(words: list[str]) -> dict[str, Any]:
        found = records[words[3] if words[0] == "cuda" else "triton"]
        if isinstance(found, Exception):
            raise found
        return dict(found)

    monkeypatch.setattr(products, "_run", run)
    out = StringIO()
    code = products.main([64], 3, path, Console(file=out, width=160))
    return code, out.getvalue()


def test_a_ladder_is_a_row_a_rung() -> None:
    found = ladder(record(cublas=10, naive=100, coalesced=40))
    assert found.index.tolist() == ["cublas", "naive", "coalesced"]
    assert found["ratio"].tolist() == pytest.approx([1.0, 0.1, 0.25])
    assert found.loc["coalesced", "gain"] == pytest.approx(2.5)
    assert found["gain"].isna().tolist() == [True, True, False]
    assert ladder(record(naive=100))["ratio"].isna().all()
    with pytest.raises(LabError, match="this record has no rates"):
        ladder({"results": {"naive_us": 3.0}})


def test_tables_marks_and_what_was_wrong(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wrong = record(cublas=10, mma_sync=20, store=10.4)
    wrong["checks"]["store"] = {"passed": False}
    triton = {"results": {"triton_over_cublas_ratio": 0.91}, "checks": {"triton": {"passed": True}}}
    records = {
        "fp32": record(cublas=10, naive=100, warp_tiles=12, autotuned=10.5),
        "bf16": wrong,
        "triton": triton,
    }
    code, text = shown(records, monkeypatch, tmp_path / "r.json")
    assert code == 1
    assert "warp tiles (did not help)" in text and "0.952" in text
    assert "holds: 0.952 × cuBLAS (mark 0.92, stretch 1.00)" in text
    assert "falls short: 0.962 × cuBLAS (mark 0.97, stretch 1.02)" in text
    assert "Triton, bf16, 64: 0.910 × cuBLAS beside it" in text
    assert "WRONG: gemm_bf16, 64: store" in text
    assert list(json.loads((tmp_path / "r.json").read_text())["runs"]) == [
        "gemm_fp32, 64",
        "gemm_bf16, 64",
        "triton, 64",
    ]


def test_without_cublas_or_triton_the_ladders_stand_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = ToolError("needs Triton")
    records = {"fp32": record(naive=100), "bf16": record(mma_sync=20), "triton": missing}
    code, text = shown(records, monkeypatch)
    assert code == 0
    assert "Triton: needs Triton" in text and "mark" not in text


@pytest.mark.parametrize(("sizes", "repetitions"), [([0], 3), ([32769], 3), ([64], 0)])
def test_bad_numbers_are_one_line(sizes: list[int], repetitions: int) -> None:
    with pytest.raises(
        LabError, match=r"^bench products: sizes are whole numbers from 1 to 32768, repetitions"
    ):
        products.main(sizes, repetitions, None, Console())


@pytest.mark.parametrize(("kernel", "run"), [(kernel, kernel.name[5:]) for kernel in gemm.KERNELS])
@pytest.mark.parametrize("n", products.SIZES)
def test_shipped_ladders_are_right_and_meet_their_marks(kernel: Any, run: str, n: int) -> None:
    found = ladder(store.load_set(store.SHIPPED_SET).record("gemm_bench", f"{run}_{n}"))
    names = [step.variant for step in kernel.steps]
    assert found.index.tolist() == [LIBRARY, *names]
    assert float(found["ratio"].max()) >= products.MARKS[kernel.name][0]
    last = float(found["error"].iloc[-1])
    assert last <= 1.5 * float(found["error"].iloc[0])
    gains = {step.name: float(found["gain"][step.variant]) for step in kernel.steps[1:]}
    assert [step.name for step in kernel.steps[1:] if step.helped != (gains[step.name] > 1.003)] == []
