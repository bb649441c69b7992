"""Attribution: real kernel names find their bucket, paths their pass and part, times add up to the whole."""

import csv
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from labcode import store
from labcode.analysis.buckets import BUCKETS, RULES, bucket_of, bucket_of_name
from labcode.analysis.lm import attribution, decoder
from labcode.analysis.lm import parts as lm_parts
from labcode.reports.nsys.report import open_report
from tests.support import exports as e
from tests.support.command import printed

NATIVE = "void at::native::"
# as PyTorch 2.11 has them on an H200; in part from other GPUs; triton: as torch.compile names them
NAMES: dict[str, list[str]] = {}
with Path(__file__).with_name("kernels.csv").open(encoding="utf-8", newline="") as table:
    for row in csv.DictReader(table):
        NAMES.setdefault(row["bucket"], []).append(row["name"])


@pytest.mark.parametrize("bucket", NAMES)
def test_real_names_find_their_bucket(bucket: str) -> None:
    assert {name: bucket_of_name(name) for name in NAMES[bucket]} == dict.fromkeys(NAMES[bucket], bucket)


def test_every_bucket_is_described_and_every_rule_names_one() -> None:
    assert {bucket for bucket, _ in RULES} == set(BUCKETS) - {"other"}
    assert set(NAMES) == set(BUCKETS)


def test_the_range_decides_what_arithmetic_is_for() -> None:
    add, product = NATIVE + "vectorized_elementwise_kernel<4, CUDAFunctor_add<float>>()", "sgemm_128x64"
    assert bucket_of(add, "step 0/forward/block 1/add") == "elementwise"
    assert bucket_of(add, "step 0/optimizer") == "optimizer"
    assert bucket_of(add, "ProfilerStep#3/Optimizer.step#AdamW.step") == "optimizer"
    assert bucket_of(product, "optimizer") == "matmul", "an optimizer that multiplies matrices says so"
    assert (
        bucket_of("[CUDA memcpy HtoD]", kind="memcpy") == bucket_of("[CUDA memset]", kind="memset") == "copy"
    )
    assert bucket_of("anything", "optimizer", kind="memset") == "copy"


def frame(*rows: tuple[str, int, str]) -> pd.DataFrame:
    """Operations one after the other: name, duration, path."""
    starts = [sum(row[1] for row in rows[:place]) for place in range(len(rows))]
    return pd.DataFrame(
        {
            "name": [row[0] for row in rows],
            "start_ns": starts,
            "end_ns": [start + row[1] for start, row in zip(starts, rows, strict=True)],
            "device": 0,
            "stream": 7,
            "path": [row[2] for row in rows],
        }
    ).astype({"name": "str", "path": "str"})


GEMM, SOFTMAX, ADD = "sgemm_128", "softmax_warp_forward", "elementwise_kernel<add>"
STEP = "step 0/forward"
MODEL = attribution.attribute(
    frame(
        (GEMM, 30, f"{STEP}/block 0/attention/scores"),
        (SOFTMAX, 40, f"{STEP}/block 0/attention/softmax"),
        (GEMM, 20, f"{STEP}/block 0/attention/values"),
        (GEMM, 50, f"{STEP}/block 1/attention/scores"),
        (GEMM, 100, "step 0/backward"),
        (ADD, 10, "step 0/optimizer"),
        ("mystery", 0, "step 0/optimizer"),
        ("mystery", 50, ""),
    )
)


def test_paths_give_pass_part_and_module() -> None:
    assert MODEL["pass"].tolist() == ["forward"] * 4 + ["backward", "optimizer", "optimizer", ""]
    assert MODEL["part"].tolist()[:4] == [
        f"block/attention/{p}" for p in ("scores", "softmax", "values", "scores")
    ]
    assert MODEL["module"].tolist()[:5] == ["block 0", "block 0", "block 0", "block 1", ""]


def test_buckets_add_up_and_other_is_always_listed() -> None:
    table = attribution.buckets(MODEL).set_index("bucket")
    assert table["time_ns"].to_dict() == {"matmul": 200, "other": 50, "softmax": 40, "optimizer": 10}
    assert table["share"].sum() == pytest.approx(1) and table.loc["matmul", "operations"] == 4
    assert attribution.named_share(MODEL) == pytest.approx(250 / 300)
    by_pass = attribution.buckets(MODEL, by=("pass",)).set_index(["pass", "bucket"])["time_ns"]
    assert by_pass["forward", "matmul"] == 100 and by_pass["forward", "other"] == 0
    assert by_pass["backward", "other"] == 0 and by_pass["", "other"] == 50


def test_what_no_rule_knows_is_named() -> None:
    (row,) = attribution.unnamed(MODEL).to_dict("records")
    assert row == {"name": "mystery", "operations": 1, "time_ns": 50, "share": pytest.approx(50 / 300)}


def test_kernels_by_pass_with_calls_of_a_step() -> None:
    table = attribution.kernels(MODEL, steps=2)
    first = table.iloc[0]
    assert (first["pass"], first["name"], first["operations"], first["per_step"]) == ("forward", GEMM, 3, 1.5)
    assert first["time_ns"] == 100 and first["share"] == pytest.approx(100 / 140)
    assert table["pass"].tolist() == ["forward", "forward", "backward", "optimizer", "optimizer", ""]


def test_parts_and_modules() -> None:
    parts = attribution.parts(MODEL)
    assert parts.loc[0, ["pass", "part", "bucket", "time_ns"]].tolist() == [
        *("forward", "block/attention/scores", "matmul"),
        80,
    ]
    assert parts["time_ns"].sum() == 300
    modules = attribution.modules(MODEL)
    assert modules[["module", "time_ns"]].values.tolist() == [["block 0", 90], ["block 1", 50]]
    assert modules["share"].tolist() == pytest.approx([90 / 140, 50 / 140])


def test_attention_has_times_beside_flops() -> None:
    flops = decoder.forward_flops(decoder.SIZES["small"], 4, 512)
    table = attribution.attention(MODEL, flops, steps=2).set_index("part")
    assert table.loc["scores", "time_ns"] == 40 and table.loc["softmax", "time_ratio"] == 0.5
    assert table.loc["softmax", "flop_ratio"] == pytest.approx(1 / 25.6)
    assert table.loc["scores", "tflops"] == pytest.approx(12 * 1_610_612_736 / 40 / 1e3)
    assert math.isnan(table.loc["mask", "tflops"]) and table.loc["mask", "time_ns"] == 0


def test_without_operations_tables_are_empty_and_shares_unknown() -> None:
    nothing = attribution.attribute(frame())
    assert attribution.buckets(nothing)["bucket"].tolist() == ["other"]
    assert math.isnan(attribution.named_share(nothing))
    for table in (attribution.kernels(nothing), attribution.parts(nothing), attribution.modules(nothing)):
        assert len(table) == 0 and "time_ns" in table


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """Forward on thread 100, a backward pass launched by thread 101, an operation without a launch call."""
    return e.make_export(
        tmp_path / "lm.sqlite",
        kernels=[
            e.kernel(100, 130, GEMM, correlation=1),
            e.kernel(130, 170, SOFTMAX, correlation=2),
            e.kernel(300, 400, GEMM, correlation=3),
            e.kernel(500, 510, "unlaunched", correlation=9),
            e.kernel(2_000, 2_400, "after", correlation=4),
        ],
        memcpys=[e.memcpy(410, 430, correlation=5)],
        api=[
            e.call(60, 62, correlation=1),
            e.call(70, 72, correlation=2),
            e.call(210, 212, correlation=3, tid=101),
            e.call(260, 262, correlation=5),
            e.call(1_900, 1_902, correlation=4),
        ],
        nvtx=[
            e.push_pop(0, 1_000, "lab:measured"),
            e.push_pop(10, 900, "step 0"),
            e.push_pop(20, 150, "forward"),
            e.push_pop(55, 65, "scores"),
            e.push_pop(68, 75, "softmax"),
            e.push_pop(200, 250, "backward"),
        ],
    )


def test_operations_of_an_export_have_the_ranges_around_their_launch(export: Path) -> None:
    with open_report(export) as report:
        table = lm_parts.operations(report)
    paths = {(row["name"], row["start_ns"]): row["path"] for row in table.to_dict("records")}
    assert paths[GEMM, 100] == "step 0/forward/scores" and paths[SOFTMAX, 130] == "step 0/forward/softmax"
    assert paths[GEMM, 300] == "step 0/backward", "launched by another thread"
    assert paths["unlaunched", 500] == "" and ("after", 2_000) not in paths
    assert table.loc[table["kind"] == "memcpy", "path"].tolist() == ["step 0"]


def test_reports_of_stats(export: Path) -> None:
    assert printed(export, "lm_parts").splitlines() == [
        "Pass,Part,Bucket,Time (%),Time (ns),Operations",
        "forward,softmax,softmax,57.1,40,1",
        "forward,scores,matmul,42.9,30,1",
        "backward,(none),matmul,100.0,100,1",
        "(none),step,copy,66.7,20,1",
        "(none),(none),other,33.3,10,1",
    ]
    assert printed(export, "lm_buckets").splitlines()[1] == "forward,softmax,57.1,40,1"
    assert printed(export, "lm_kernels").splitlines()[1] == f"forward,softmax,57.1,40,1,40.0,{SOFTMAX}"


def test_nearly_all_time_of_the_shipped_captures_of_pytorch_is_named() -> None:
    captures = store.load_set(store.SHIPPED_SET)
    seen = 0
    for name in ("timeline_basics", "python_backtraces", "multi_gpu"):
        for run in captures.experiment(name).runs:
            with open_report(captures.path_of(name, run)) as report:
                found: Any = attribution.attribute(lm_parts.operations(report))
            assert attribution.named_share(found) >= 0.99, (name, run, attribution.unnamed(found))
            seen += 1
    assert seen >= 10


def test_the_captures_of_the_language_model_are_small_and_their_time_is_named() -> None:
    captures = store.load_set(store.SHIPPED_SET)
    names = [name for name in captures.experiments if name.startswith("lm_")]
    files = [file for name in names for run in captures.experiment(name).runs.values() for file in run.files]
    assert sum(file.size_bytes for file in files) <= 8 * 2**20
    seen = set()
    for name in names:
        for run, record in captures.experiment(name).runs.items():
            if not any(file.name.endswith(".nsys.xz") for file in record.files):
                continue
            with open_report(captures.path_of(name, run)) as report:
                found: Any = attribution.attribute(lm_parts.operations(report))
            assert attribution.named_share(found) >= 0.95, (name, run, attribution.unnamed(found))
            assert set(found["pass"]) <= set(attribution.PASSES), (name, run)
            seen.add(name)
    assert seen == {"lm_small", "lm_medium", "lm_large", "lm_xl", "lm_2_7b", "lm_ladder", "lm_bf16"}


MATMUL, SOFT = "sm90_xmma_gemm_f32f32_tf32f32", "void at::native::softmax_warp_forward<float, float>"
LAYER_NORM, CONVOLUTION = (
    "void at::native::vectorized_layer_norm_kernel<float>",
    "sm90_xmma_fprop_implicit_gemm_f32",
)
FUSED, SUM = "void pytorch_flash::flash_fwd_kernel<int>", "void at::native::vectorized_elementwise_kernel<4>"


def launched(*names: str, path: str = "") -> pd.DataFrame:
    rows = [
        {"name": name, "start_ns": 10 * at, "end_ns": 10 * at + 10, "device": 0, "stream": 7, "path": path}
        for at, name in enumerate(names)
    ]
    return attribution.attribute(pd.DataFrame(rows))


@pytest.mark.parametrize(
    ("names", "is_one"),
    [
        ((MATMUL, FUSED), True),
        ((MATMUL, LAYER_NORM, SOFT, MATMUL, LAYER_NORM), True),
        ((LAYER_NORM, SOFT, SUM), False),  # no matmul
        ((MATMUL, LAYER_NORM, MATMUL, SUM), False),  # no softmax
        ((CONVOLUTION, MATMUL, LAYER_NORM, SOFT), False),
        ((*[MATMUL, LAYER_NORM] * 12, SOFT), False),  # a classifier: the softmax of its loss
        ((MATMUL, LAYER_NORM, *[SOFT] * 9), False),
    ],
)
def test_a_transformer_is_known_by_its_kernels(names: tuple[str, ...], is_one: bool) -> None:
    assert attribution.is_model(launched(*names)) is is_one


def test_matmuls_attention_and_the_rest_of_each_pass_and_of_all() -> None:
    table = pd.concat(
        [
            launched(MATMUL, MATMUL, SOFT, LAYER_NORM, path="step 0/forward/block 1"),
            launched(MATMUL, FUSED, path="step 0/backward"),
            launched(SUM, SUM, path="step 0/optimizer"),
            launched(SUM),
        ],
        ignore_index=True,
    )
    found = attribution.breakdown(table)
    assert found["pass"].tolist() == ["(none)", "forward", "backward", "optimizer", "all"]
    assert found["time_ns"].tolist() == [10, 40, 20, 20, 90]
    assert found["matmul_share"].tolist() == [0, 0.5, 0.5, 0, 3 / 9]
    assert found["attention_share"].tolist() == [0, 0.25, 0.5, 0, 2 / 9]
    assert found["other_share"].tolist() == [1, 0.25, 0, 1, 4 / 9]


def test_without_passes_there_is_one_row_of_all() -> None:
    assert attribution.breakdown(launched(MATMUL, FUSED))["pass"].tolist() == ["all"]
