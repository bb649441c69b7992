"""Attribution: real kernel names find their bucket, paths their pass and part, times add up to the whole."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from labcode import store
from labcode.analysis.kernel.buckets import BUCKETS, RULES, bucket_of, bucket_of_name
from labcode.analysis.lm import attribution, decoder
from labcode.analysis.lm import parts as lm_parts
from labcode.reports.nsys.report import open_report
from tests.support import exports as e
from tests.support.command import printed

NATIVE = "void at::native::"
NAMES = {  # as PyTorch 2.11 has them on an H200; in part from other GPUs; triton: as torch.compile names them
    "matmul": (
        "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4_execute_kernel__5x_cublas",
        "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_bias_TNT",
        "void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nt_align1>(T1::Params)",
        "void cublasLt::splitKreduce_kernel<(int)32, (int)16, int, float, float, float, float>()",
        "void sgemm_largek_lds64<(bool)1, (bool)0, (int)5, (int)5, (int)4, (int)4>(float *)",
        "ampere_bf16_s16816gemm_bf16_256x128_ldg8_f2f_stages_32x3_nn",
        "void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false>()",
        "triton_tem_fused_mm_3",
    ),
    "convolution": (
        "sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nchwkcrs_nchw_tilesize256x64x8_stage3",
        "void cudnn::winograd_nonfused::winogradWgradData4x4<float, float>()",
        "void implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1, false, false, true>(int)",
        "void fft2d_r2c_32x32<float, (bool)0, (unsigned int)1, (bool)0>(float2 *)",
        "void cudnn::cnn::wgrad_alg1_engine<float, float, (int)128, (int)5>()",
    ),
    "copy": (
        "void cudnn::engines_precompiled::nchwToNhwcKernel<float, float, float, (bool)0>()",
        NATIVE + "unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda()>()",
        NATIVE + "vectorized_elementwise_kernel<(int)8, at::native::bfloat16_copy_kernel_cuda()>()",
        NATIVE + "vectorized_elementwise_kernel<(int)4, at::native::FillFunctor<float>>()",
        NATIVE + "<unnamed>::CatArrayBatchedCopy_vectorized<at::native::<unnamed>::OpaqueType<2>>()",
        "triton_poi_fused__to_copy_7",
        "triton_poi_fused_clone_2",
        "triton_poi_fused__unsafe_view_clone_permute_select_transpose_view_6",
    ),
    "attention": (
        "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4>>()",
        "void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<>(pytorch_flash::Flash_bwd_params)",
        "fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel::Params)",
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1",
        "void cudnn::fusion::compute_dot_do_o_specialized<true, 64>(void const*)",
        "void cudnn::fusion::convert_dq_to_16bits<true>(void const*)",
    ),
    "softmax": (
        "void <unnamed>::softmax_warp_forward<float, float, float, (int)9, (bool)0, (bool)0>()",
        NATIVE + "<unnamed>::cunn_SoftMaxForwardSmem<4, float, float, float>()",
        NATIVE + "<unnamed>::cunn_SoftMaxBackward<4, float, float, float, LogSoftMaxBackwardEpilogue>()",
        "triton_red_fused__log_softmax_nll_loss_forward_9",
        "triton_per_fused__softmax_div_masked_fill_5",
    ),
    "normalization": (
        NATIVE + "<unnamed>::vectorized_layer_norm_kernel<float, float, (bool)0>()",
        NATIVE + "<unnamed>::GammaBetaBackwardCUDAKernelTemplate<float, float>()",
        NATIVE + "<unnamed>::layer_norm_grad_input_kernel_vectorized<float, float, (bool)0>()",
        "void cudnn::bn_fw_tr_1C11_singleread<float, (int)512, (bool)1, (int)1>()",
        "triton_per_fused_add_native_layer_norm_4",
    ),
    "elementwise": (
        NATIVE + "vectorized_elementwise_kernel<(int)4, at::native::CUDAFunctor_add<float>>()",
        NATIVE + "vectorized_elementwise_kernel<(int)4, at::native::GeluCUDAKernelImpl()>()",
        "void <unnamed>::elementwise_kernel_with_index<int, at::native::arange_cuda_out()>()",
        NATIVE + "vectorized_elementwise_kernel<4, at::native::<unnamed>::masked_scale_kernel<bool>>()",
        NATIVE + "<unnamed>::fused_dropout_kernel_vec<float, float, unsigned int>()",
        NATIVE + "triu_tril_kernel<bool, int, true, 1, false>()",
        "triton_poi_fused_gelu_3",
        "triton_poi_fused__to_copy_gelu_2",
        "triton_poi_fused_add_clone_permute_select_backward_transpose_view_7",
    ),
    "reduction": (
        NATIVE + "reduce_kernel<(int)512, (int)1, at::native::ReduceOp<float, at::native::MeanOps<>>>()",
        NATIVE + "<unnamed>::nll_loss_forward_reduce_cuda_kernel_2d<float, float, long>()",
        NATIVE + "<unnamed>::multi_tensor_apply_kernel<at::native::LpNormFunctor<float>>()",
        "void at_cuda_detail::cub::detail::scan::DeviceScanKernel<at_cuda_detail::cub::detail::scan>()",
        "triton_red_fused_sum_12",
    ),
    "optimizer": (
        NATIVE + "<unnamed>::multi_tensor_apply_kernel<BinaryOpListAlphaFunctor<float>, std::plus<float>>()",
        NATIVE + "<unnamed>::multi_tensor_apply_kernel<at::native::FusedAdamMathFunctor<float, 4>>()",
        "triton_for_fused_0",
    ),
    "indexing": (
        "void <unnamed>::indexing_backward_kernel<float, (int)4>(const long *)",
        NATIVE + "vectorized_gather_kernel<(int)16, long>(char *)",
        NATIVE + "<unnamed>::embedding_backward_feature_kernel<float, float, long>()",
        "void at_cuda_detail::cub::detail::radix_sort::DeviceRadixSortOnesweepKernel<>()",
        NATIVE + "index_elementwise_kernel<(int)128, (int)4, void at::native::gpu_index_kernel<>>()",
        "triton_poi_fused_add_embedding_0",
    ),
    "communication": (
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)",
    ),
    "other": ("my_own_kernel(float *, int)",),
}


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
            if not any(file.name.endswith(".sqlite.xz") for file in record.files):
                continue
            with open_report(captures.path_of(name, run)) as report:
                found: Any = attribution.attribute(lm_parts.operations(report))
            assert attribution.named_share(found) >= 0.95, (name, run, attribution.unnamed(found))
            assert set(found["pass"]) <= set(attribution.PASSES), (name, run)
            seen.add(name)
    assert seen == {"lm_small", "lm_medium", "lm_large", "lm_xl", "lm_2_7b", "lm_ladder", "lm_bf16"}
