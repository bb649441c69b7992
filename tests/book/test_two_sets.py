"""Two small sets side by side, as the page that compares them reads them."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from matplotlib.text import Text

from labcode import store
from labcode.book import claims, two_sets
from labcode.figures.charts.sets import claims_on_two, shares_on_two
from labcode.store import Claim
from tests.book.sets import write_set


def rows(copy_gb_per_s: float, **shares: float) -> dict[str, Any]:
    """What the bench of the kernels records: a copy, and kernels by their share of it."""
    found = [("copy", "ceiling", 1.0), *((name, "step", share) for name, share in shares.items())]
    return {
        "rows": [
            {
                "kernel": "sum",
                "problem": "8 float32",
                "name": name,
                "kind": kind,
                "time_us": 1e3 / (share * copy_gb_per_s),
                "throughput_gb_per_s": share * copy_gb_per_s,
                "ratio_to_copy": share,
            }
            for name, kind, share in found
        ]
    }


def add(
    root: Path,
    name: str,
    copy_gb_per_s: float,
    values: dict[str, float],
    *,
    ceilings: bool = True,
    more: Mapping[str, dict[str, Any]] = MappingProxyType({}),
    **shares: float,
) -> None:
    results = {"kernel_bench": rows(copy_gb_per_s, **shares), **more}
    results |= {"ceilings": {"ceilings": {}}} if ceilings else {}
    write_set(root, name, 1.0, results=results)
    found: dict[str, Claim] = {
        key: claims.check(key, value, at_least=1.0, unit="×") for key, value in values.items()
    }
    claims.write_claims(store.claims_path(name), name, found)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    sets = tmp_path / "sets"
    monkeypatch.setenv("LABCODE_SETS", str(sets))
    monkeypatch.setenv("LABCODE_CAPTURES", "h200")
    values = {"nsys/a#x": 2.0, "lm/b#y": 4.0, "nsys/a#z": 1.0, "reference/two-gpus#own": 1.0}
    add(sets, "h200", 4000.0, values, slow=0.5, quick=1.0, only_here=0.1)
    return sets


@pytest.mark.parametrize("current", ["h200", "h100"])
def test_the_faster_memory_comes_first_whichever_set_is_built(
    root: Path, current: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(root, "h100", 2000.0, {"nsys/a#x": 0.5, "lm/b#y": 8.0, "nsys/a#z": 1.02}, slow=0.75, quick=1.0)
    monkeypatch.setenv("LABCODE_CAPTURES", current)
    pair = two_sets.pair()
    assert (pair.names, pair.labels, pair.scale, pair.alone) == (
        ("h200", "h100"),
        ("H200", "H100"),
        2.0,
        False,
    )
    kernels = two_sets.kernels(pair).set_index("name")
    assert kernels[["first", "second", "time_ratio"]].to_dict("index") == {
        "slow": {"first": 0.5, "second": 0.75, "time_ratio": pytest.approx(4 / 3)},
        "quick": {"first": 1.0, "second": 1.0, "time_ratio": 2.0},
    }
    found = two_sets.claims(pair)
    assert list(found.index) == ["nsys/a#x", "lm/b#y", "nsys/a#z"]  # none of the page that compares
    assert list(found["change"]) == ["turns over", "moved", "same"]
    assert list(found["first"]) == ["✓ 2.00×", "✓ 4.00×", "✓ 1.00×"]
    assert list(found["second"]) == ["✗ 0.50×", "✓ 8.00×", "✓ 1.02×"]
    assert list(found["part"]) == ["Nsight Systems", "A language model", "Nsight Systems"]


def test_a_set_alone_stands_on_both_sides(root: Path) -> None:
    add(root, "bare", 1000.0, {}, quick=1.0)  # without claims it cannot be compared
    add(root, "older", 1000.0, {"nsys/a#x": 1.0}, ceilings=False, quick=1.0)
    pair = two_sets.pair()
    assert (pair.names, pair.scale, pair.alone) == (("h200", "h200"), 1.0, True)
    assert set(two_sets.claims(pair)["change"]) == {"same"}
    assert set(two_sets.kernels(pair)["time_ratio"]) == {1.0}


def computed(by: float) -> dict[str, dict[str, Any]]:
    """Records of products, attention and decoding on a GPU so many times as fast."""
    one = {"dtype": "float32", "dim": 64, "mask": "none", "kind": "step", "time_us": 400.0 / by}
    attention = [
        {**one, "implementation": "one_pass", "length": 4096, "tflop_per_s": 20.0 * by},
        {**one, "implementation": "one_pass", "length": 512, "tflop_per_s": 9.0},  # short
        {**one, "implementation": "too_long", "length": 8192, "tflop_per_s": None},
    ]
    product = {"cublas_us": 200.0 / by, "cublas_tflop_per_s": 50.0 * by}
    quick = {"vectorized_us": 50.0, "vectorized_tflop_per_s": 30.0}
    ways = {"graph": {"token_ms": [5.0, 4.0 / by, 1.0], "read_bytes": 6_000_000}}
    return {
        "gemm_bench": {**product, **quick},
        "attention_bench": {"rows": attention},
        "inference_ladder": {"rungs": ways, "read_gb_per_s": 3.0 * by},
    }


def test_products_attention_and_decoding_are_compared_where_both_sets_have_them(root: Path) -> None:
    values = {"nsys/a#x": 1.0}
    add(root, "h100", 2000.0, values, quick=1.0, more=computed(0.8))
    lacking = two_sets.pair()  # the H200 has none
    assert two_sets.computing(lacking).empty and two_sets.decoding(lacking).empty
    add(root, "h200", 4000.0, values, quick=1.0, more=computed(1.0))
    pair = two_sets.pair()
    assert two_sets.computing(pair)[["group", "name", "library", "first", "ratio"]].to_numpy().tolist() == [
        ["record matmuls", "cublas", True, 50.0, pytest.approx(0.8)],
        ["attention, fp32", "one pass", False, 20.0, pytest.approx(0.8)],
    ]
    assert two_sets.decoding(pair).to_dict("records") == [
        {
            "way": "the same in one graph",
            "first": 4.0,
            "second": 5.0,
            "ratio": 1.25,
            "of_roof_1": pytest.approx(2.0),
            "of_roof_2": pytest.approx(2.0),
        }
    ]
    strips = claims_on_two(
        {"products": two_sets.computing(pair).assign(turns_over=True)},
        names=pair.labels,
        told=("ours", "theirs"),
    )
    assert {"ours", "theirs"} <= {text.get_text() for text in strips.findobj(Text)}


def test_the_figures_draw_every_kernel_and_mark_what_turns_over(root: Path) -> None:
    add(root, "h100", 2000.0, {"nsys/a#x": 0.01, "lm/b#y": 8.0, "nsys/a#z": 1.0}, slow=0.75, quick=1.0)
    pair = two_sets.pair()
    scatter = shares_on_two(
        two_sets.kernels(pair).assign(group="sums"), names=pair.labels, scale=pair.scale
    ).axes[0]
    dots = [line for line in scatter.lines if line.get_marker() == "o"]
    assert [list(zip(*dot.get_data(), strict=True)) for dot in dots] == [[(50.0, 75.0), (100.0, 100.0)]]
    assert scatter.get_xlabel() == "share of the copy on the H200 (%)"

    found = two_sets.claims(pair)
    found["turns_over"] = found["change"] == "turns over"
    strips = claims_on_two(dict(iter(found.groupby("part"))), names=pair.labels).axes[0]
    turned = [line.get_xdata() for line in strips.lines if line.get_marker() == "D" and len(line.get_xdata())]
    assert [list(x) for x in turned] == [[pytest.approx(1 / 30)]]  # 0.005, at the edge
    assert [label.get_text() for label in strips.get_yticklabels()] == ["A language model", "Nsight Systems"]
