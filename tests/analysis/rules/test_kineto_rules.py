"""Rules on traces: a trace with the problem and one without, each number by hand."""

import io
import json
import re
from pathlib import Path

import pytest

from labcode.analysis.rules.finding import Verdict
from labcode.analysis.rules.kineto import SIMT
from labcode.analysis.rules.registry import own_rules
from labcode.analysis.stats import kineto_gpu
from labcode.errors import LabError
from labcode.reports.kineto.report import open_trace
from labcode.verbs.diagnose.verdicts import diagnose, run
from tests.support import traces
from tests.support.traces import ADD, GEMM, NCCL, Trace

SGEMM = "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4_kernel"


def verdicts(trace: Trace, folder: Path) -> dict[str, Verdict]:
    report = open_trace(trace.write(folder / "a.trace.json"))
    return {one.rule: one for one in diagnose(report, window="all")}


def steps(trace: Trace, *lengths: int) -> None:
    at = 0
    for number, length in enumerate(lengths):
        trace.annotation(f"ProfilerStep#{number}", at, at + length)
        at += length


def test_no_rule_fails_on_a_training(tmp_path: Path) -> None:
    traces.training(tmp_path, ranks=2, steps=3, layers=4)
    found = diagnose(open_trace(tmp_path))
    assert {one.status for one in found} <= {"found", "not found", "could not judge"}
    assert {one.id for one in own_rules("kineto")} <= {one.rule for one in found}
    assert not {"dropped-events", "profiler-overhead"} & {one.rule for one in found}


def test_reads_in_loop(tmp_path: Path) -> None:
    trace = Trace()
    outer = trace.python("train.py(7): train", 0, 1_000_000)
    for at in range(0, 1_000_000, 200_000):
        trace.launch(GEMM, (at, at + 5_000), (at + 10_000, at + 100_000))
        trace.python("<built-in method item of Tensor>", at + 15_000, at + 120_000, outer)
        op = trace.op("aten::item", at + 20_000, at + 110_000)
        inner = trace.op("aten::_local_scalar_dense", at + 21_000, at + 109_000)
        trace.call("cudaStreamSynchronize", at + 30_000, at + 105_000, external=inner)
        assert op
        trace.op("aten::item", at + 130_000, at + 140_000)  # of a tensor on the host
    found = verdicts(trace, tmp_path)["reads-in-loop"]
    assert (found.status, found.numerator, found.denominator) == ("found", 5 * 75_000, 940_000)
    (row,) = found.evidence.to_dict("records")
    assert (row["name"], row["python"]) == ("aten::item", "train.py(7): train")
    assert (row["count"], row["total_ns"]) == (5, 375_000)


def update(trace: Trace, at: int, count: int, spent: int) -> None:
    trace.annotation("Optimizer.step#AdamW.step", at, at + count * 10_000)
    for number in range(count):
        begin = at + number * 10_000
        op = trace.op("aten::add_", begin, begin + 8_000)
        trace.launch(ADD, (begin + 1_000, begin + 4_000), (begin + 6_000, begin + 6_000 + spent), external=op)


def test_unfused_optimizer(tmp_path: Path) -> None:
    trace = Trace()
    for at in (0, 1_000_000):
        update(trace, at, 40, 2_000)
    found = verdicts(trace, tmp_path)["unfused-optimizer"]
    assert (found.status, found.numerator) == ("found", 2 * (390_000 + 2_000))
    assert "2 updates run 40 kernels shorter than 10 µs each" in found.message
    fused = Trace()
    update(fused, 0, 3, 90_000)
    assert verdicts(fused, tmp_path)["unfused-optimizer"].status == "not found"
    plain = Trace()
    plain.launch(ADD, (0, 10), (20, 30))
    assert "marks no Optimizer.step" in verdicts(plain, tmp_path)["unfused-optimizer"].message


def test_fp32_products(tmp_path: Path) -> None:
    trace = Trace()
    op = trace.op("aten::mm", 0, 10_000)
    trace.launch(SGEMM, (1_000, 5_000), (10_000, 60_000), external=op)
    trace.launch(GEMM, (6_000, 9_000), (60_000, 90_000), external=op)
    hidden = "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>(Params)"
    trace.launch(hidden, (9_100, 9_200), (90_000, 100_000), external=op)
    found = verdicts(trace, tmp_path)["no-tensor-cores"]
    assert (found.status, found.numerator, found.denominator) == ("found", 60_000, 99_000 + 1_000)
    assert found.evidence["total_ns"].tolist() == [50_000, 10_000]


@pytest.mark.parametrize(
    ("name", "simt"),
    [
        (SGEMM, True),
        ("ampere_sgemm_128x64_nn", True),
        ("volta_scudnn_128x64_relu_interior_nn_v1", True),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>(Params)", True),
        ("void implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1>(int)", True),
        (GEMM, False),
        ("sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x16_stage4_tensor16x8x8", False),
        ("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4>(Params)", False),
        ("ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn", False),
        (ADD, False),
        ("void gemv2T_kernel_val<int, int, float, float, float, float, 128>", False),
    ],
)
def test_names_of_fp32_products(name: str, simt: bool) -> None:
    assert bool(re.search(SIMT, name)) is simt


def test_contiguous_copies(tmp_path: Path) -> None:
    trace = Trace()
    for at in range(0, 1_200_000, 100_000):
        outer = trace.op("aten::contiguous", at, at + 20_000)
        inner = trace.op("aten::copy_", at + 2_000, at + 15_000)
        trace.launch(
            "direct_copy_kernel", (at + 3_000, at + 6_000), (at + 8_000, at + 28_000), external=inner
        )
        trace.launch(GEMM, (at + 30_000, at + 35_000), (at + 36_000, at + 90_000))
        assert outer < inner
    found = verdicts(trace, tmp_path)["layout-conversions"]
    assert (found.status, found.numerator) == ("found", 11 * 20_000)  # of eleven whole iterations
    assert found.evidence["name"].tolist() == ["direct_copy_kernel"]


def test_slow_first_step(tmp_path: Path) -> None:
    trace = Trace()
    steps(trace, 900_000, 100_000, 110_000, 100_000)
    trace.call("cuModuleLoadData", 1_000, 301_000)
    trace.python("torch/_compile.py(42): inner", 400_000, 800_000)  # compiles nothing
    found = verdicts(trace, tmp_path)["slow-first-step"]
    assert (found.status, found.severity, found.numerator) == ("found", "info", 800_000)
    assert "takes 9 × the median of the others" in found.message and "300 µs of the time" in found.message
    even = Trace()
    steps(even, 100_000, 100_000, 110_000)
    assert verdicts(even, tmp_path)["slow-first-step"].status == "not found"
    two = Trace()
    steps(two, 900_000, 100_000)
    assert "fewer than three profiler steps" in verdicts(two, tmp_path)["slow-first-step"].message


def test_no_steps(tmp_path: Path) -> None:
    trace = Trace()
    trace.op("aten::add", 0, 10)
    assert verdicts(trace, tmp_path)["no-steps"].status == "found"
    steps(trace, 10, 10)
    assert verdicts(trace, tmp_path)["no-steps"].status == "not found"


def test_cut_off_and_missing(tmp_path: Path) -> None:
    first, *_ = traces.training(tmp_path, ranks=3, steps=1, layers=1)
    (tmp_path / "run.rank2.trace.json").unlink()
    first.write_bytes(first.read_bytes()[:-500])
    found = {one.rule: one for one in diagnose(open_trace(tmp_path))}["cut-off-trace"]
    assert (found.status, found.numerator, found.denominator) == ("found", 2, 3)
    assert found.message == "1 of 2 traces are cut off; 1 ranks are missing"


def test_stragglers_of_ranks(tmp_path: Path) -> None:
    for rank, late in ((0, 0), (1, 60_000)):
        trace = Trace(rank=rank, world=2, pid=10 + rank, device=rank)
        for at in range(0, 1_000_000, 200_000):
            trace.launch(GEMM, (at, at + 3_000), (at + 5_000, at + 70_000 + late))
            trace.launch(NCCL, (at + 4_000, at + 7_000), (at + 71_000 + late, at + 150_000), stream=20)
        trace.write(tmp_path / f"x.rank{rank}.trace.json")
    found = {one.rule: one for one in diagnose(open_trace(tmp_path), window="all")}["late-rank"]
    assert found.status == "found" and found.numerator == 5 * 60_000


def test_stragglers_of_a_recording_that_begins_in_the_middle_of_a_step(tmp_path: Path) -> None:
    """GPUs are then still at what was launched before, one of them further than the other."""
    for rank, late in ((0, 0), (1, 60_000)):
        trace = Trace(rank=rank, world=2, pid=10 + rank, device=rank)
        for number in range(1 + 2 * rank):
            trace.kernel(NCCL, 1_000 + 5_000 * number, 5_000 + 5_000 * number, 0, stream=20)
        for at in range(100_000, 1_000_000, 200_000):
            trace.launch(NCCL, (at, at + 7_000), (at + 8_000 + late, at + 150_000), stream=20)
        trace.write(tmp_path / f"x.rank{rank}.trace.json")
    report = open_trace(tmp_path)
    found = {one.rule: one for one in diagnose(report, window="all")}["late-rank"]
    assert found.status == "found" and found.numerator == 5 * 60_000
    assert "GPU 1 is last in 5 of 5 collectives" in found.message
    assert kineto_gpu.arrivals(report).groupby("rank")["late_ns"].sum().to_dict() == {0: 0, 1: 5 * 60_000}


def test_output_and_refusals(tmp_path: Path) -> None:
    trace = Trace()
    trace.op("aten::add", 0, 1_000_000)
    path = trace.write(tmp_path / "a.trace.json")
    output, notes = io.StringIO(), io.StringIO()
    run(path, fmt="json", only=["no-steps", "idle-gaps"], output=output, notes=notes)
    told = json.loads(output.getvalue())
    assert [(one["rule"], one["status"]) for one in told["verdicts"]] == [
        *[("no-steps", "found"), ("idle-gaps", "could not judge")]
    ]
    assert "(record with ProfilerActivity.CUDA)" in told["verdicts"][1]["message"]
    assert notes.getvalue().startswith("note: ") and "no GPU operations" in notes.getvalue()
    with pytest.raises(LabError, match="did you mean no-steps"):
        run(path, fmt="table", only=["no-step"], output=output, notes=notes)
    with pytest.raises(LabError, match="'xml' is not a format"):
        run(path, fmt="xml", only=[], output=output, notes=notes)


@pytest.mark.parametrize(("mark", "found"), [("CheckpointFunctionBackward", True), ("AddmmBackward0", False)])
def test_a_trace_tells_what_the_backward_pass_computes_again(tmp_path: Path, mark: str, found: bool) -> None:
    """Four kernels of 100 µs forward, the same four again on autograd's thread, four of the backward pass.

    Of 1.2 ms a step 0.4 are gone without them; 1 of the GPU's 150 GB is held, so that there is plenty.
    """
    trace, at = Trace(), 0
    for number in range(12):
        begin, free = at, at + 20_000
        for tid, names in (
            (traces.MAIN, (GEMM, ADD) * 2),
            (2, (GEMM, ADD) * 2),
            (2, (GEMM + "_t", "sum") * 2),
        ):
            for name in names:
                trace.launch(name, (at, at + 5_000), (free, free + 100_000), tid=tid)
                at, free = at + 10_000, free + 100_000
        trace.op(mark, begin + 40_000, begin + 120_000, tid=2)
        trace.memory(begin + 1_000, 1 << 20, 1 << 29)
        trace.call("cudaDeviceSynchronize", at, free + 1_000)
        at = free + 2_000
        trace.annotation(f"ProfilerStep#{number}", begin, at)
    one = verdicts(trace, tmp_path)["recomputation"]
    assert (one.status == "found") is found
    if found:
        assert "4 kernels of the forward pass" in one.message and "1.07 of" in one.message
        assert one.severity == "high"
        assert one.gain == pytest.approx(400 / 1220, abs=0.02)
