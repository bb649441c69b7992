"""A model's parts in a trace: ranges around launches, in the backward pass those of forward operators."""

from pathlib import Path

import pytest

from labcode.analysis.lm import attribution
from labcode.analysis.lm import kineto as lm_kineto
from labcode.analysis.stats import kineto as kineto_stats
from labcode.errors import InputError
from labcode.reports.kineto.report import open_trace
from tests.support.traces import ADD, BACKWARD, GEMM, MAIN, Trace


def arrow(trace: Trace, number: int, fore: tuple[int, int], back: tuple[int, int]) -> None:
    """From a forward operator (thread, start in ns) to its backward one."""
    for phase, (tid, at) in (("s", fore), ("f", back)):
        trace.events.append(
            f'{{"ph": "{phase}", "id": {number}, "pid": {trace.pid}, "tid": {tid}, "ts": {at / 1000}, '
            '"cat": "fwdbwd", "name": "fwdbwd"}'
        )


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A step: a product in a block's scores, its backward one on another thread, an optimizer's addition."""
    made = Trace()
    made.annotation("ProfilerStep#3", 0, 100_000)
    made.annotation("step 0", 1_000, 99_000)
    made.annotation("forward", 2_000, 20_000)
    made.annotation("block 1", 3_000, 19_000)
    made.annotation("scores", 4_000, 10_000)
    product = made.op("aten::mm", 5_000, 9_000, sequence=1)
    made.launch(GEMM, (6_000, 7_000), (30_000, 40_000), external=product)
    made.annotation("backward", 40_000, 60_000)
    engine = "autograd::engine::evaluate_function: MmBackward0"
    made.op(engine, 42_000, 52_000, tid=BACKWARD)
    outer = made.op("MmBackward0", 43_000, 50_000, tid=BACKWARD, sequence=1, fwd=1)
    made.launch(GEMM, (45_000, 46_000), (60_000, 80_000), external=outer, tid=BACKWARD)
    arrow(made, 1, (MAIN, 5_000), (BACKWARD, 43_000))
    alone = made.op("autograd::engine::evaluate_function: AccumulateGrad", 53_000, 56_000, tid=BACKWARD)
    made.launch(ADD, (54_000, 55_000), (80_000, 81_000), external=alone, tid=BACKWARD)
    made.annotation("Optimizer.step#AdamW.step", 70_000, 90_000)
    addition = made.op("aten::_foreach_add_", 71_000, 80_000)
    made.launch(ADD, (72_000, 73_000), (82_000, 85_000), external=addition)
    return made.write(tmp_path / "a.trace.json")


def test_operations_of_both_passes_have_the_ranges_of_the_forward_one(trace: Path) -> None:
    table = lm_kineto.operations(open_trace(trace))
    assert table["path"].tolist() == [
        "step 0/forward/block 1/scores",
        "step 0/backward/block 1/scores",
        "backward",
        "step 0/Optimizer.step#AdamW.step",
    ]


def test_reports_tell_time_by_pass_part_and_bucket(trace: Path) -> None:
    report = open_trace(trace)
    parts = lm_kineto.lm_parts(report)[["pass", "part", "bucket", "time_ns"]].values.tolist()
    assert parts == [
        ["forward", "block/scores", "matmul", 10_000],
        ["backward", "block/scores", "matmul", 20_000],
        ["backward", "", "elementwise", 1_000],
        ["optimizer", "", "optimizer", 3_000],
    ]
    buckets = lm_kineto.lm_buckets(report)
    assert buckets[buckets["time_ns"] > 0]["bucket"].tolist() == [
        "matmul",
        "matmul",
        "elementwise",
        "optimizer",
    ]
    assert lm_kineto.lm_kernels(report)["name"].tolist() == [GEMM, GEMM, ADD, ADD]
    found = attribution.attribute(lm_kineto.operations(report))
    assert attribution.named_share(found) == 1
    modules = attribution.modules(found)[["pass", "module", "time_ns"]].values.tolist()
    assert modules == [["forward", "block 1", 10_000], ["backward", "block 1", 20_000]]


def test_stats_prints_them_and_names_what_is_missing(trace: Path, tmp_path: Path) -> None:
    report = open_trace(trace)
    for name in ("lm_buckets", "lm_parts", "lm_kernels"):
        assert kineto_stats.REPORTS[name](report).equals(getattr(lm_kineto, name)(report))
    made = Trace()
    made.op("aten::mm", 500, 2_500)
    without = open_trace(made.write(tmp_path / "cpu.trace.json"))
    with pytest.raises(InputError, match="the trace holds no GPU operations; record them with activities="):
        kineto_stats.REPORTS["lm_parts"](without)


def test_without_ranges_the_passes_are_unknown(tmp_path: Path) -> None:
    made = Trace()
    made.launch(GEMM, (1_000, 2_000), (3_000, 4_000), external=made.op("aten::mm", 500, 2_500))
    (path,) = lm_kineto.operations(open_trace(made.write(tmp_path / "a.trace.json")))["path"]
    assert path == ""
