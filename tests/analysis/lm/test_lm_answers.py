"""Answers of the case study on a small made-up run, each number known beforehand."""

import math
from pathlib import Path
from typing import Any

import pytest

from labcode.analysis.lm import answers as lm_answers
from labcode.errors import InputError
from labcode.reports.nsys.report import open_report
from tests.support import exports as e

GEMM, SOFTMAX, ADD, ADAM = (
    "sgemm_128",
    "softmax_warp_forward",
    "elementwise_kernel<add>",
    "FusedAdamMathFunctor",
)
MS = 1_000_000
RECORD: dict[str, Any] = {
    "parameters": {"steps": 3, "window": 1},
    "results": {
        "warmup_forward_host_ms": [90.0, 12.0],
        "forward_host_ms": [10.0, 12.0, 11.0],
        "forward_event_ms": [9.0, 11.0, 10.0],
        "backward_host_ms": [20.0, 21.0, 22.0],
        "flops": {"scores": 4_000, "softmax": 500, "values": 4_000},
    },
}


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """One step: scores, softmax and values in the forward pass, a product backward, the optimizer."""
    return e.make_export(
        tmp_path / "lm.sqlite",
        kernels=[
            e.kernel(2 * MS, 4 * MS, GEMM, correlation=1),
            e.kernel(5 * MS, 8 * MS, SOFTMAX, correlation=2),
            e.kernel(8 * MS, 9 * MS, GEMM, correlation=3),
            e.kernel(20 * MS, 30 * MS, ADD, correlation=4),
            e.kernel(40 * MS, 42 * MS, ADAM, correlation=5),
        ],
        api=[
            e.call(start * MS, start * MS + 10, correlation=n) for n, start in enumerate((2, 3, 4, 13, 36), 1)
        ],
        nvtx=[
            e.push_pop(0, 60 * MS, "lab:measured"),
            e.push_pop(0, 59 * MS, "step 2"),
            e.push_pop(1 * MS, 12 * MS, "forward"),
            e.push_pop(int(1.5 * MS), int(2.5 * MS), "scores"),
            e.push_pop(int(2.6 * MS), int(3.5 * MS), "softmax"),
            e.push_pop(int(3.6 * MS), int(4.5 * MS), "values"),
            e.push_pop(int(12.5 * MS), 34 * MS, "backward"),
            e.push_pop(35 * MS, 45 * MS, "optimizer"),
        ],
    )


def test_fewer_warm_up_steps_are_told_from_the_same_run() -> None:
    table = lm_answers.end_to_end(RECORD, steps=3).set_index(["pass", "warm_up"])
    assert table.loc[("forward", 0), "mean_ms"] == pytest.approx((90 + 12 + 10) / 3)
    assert table.loc[("forward", 1), "mean_ms"] == pytest.approx((12 + 10 + 12) / 3)
    assert table.loc[("forward", 2), ["mean_ms", "std_ms", "steps"]].tolist() == pytest.approx([11, 1, 3])
    assert ("forward", 5) not in table.index and ("backward", 2) not in table.index
    assert table.loc[("backward", 0), ["least_ms", "most_ms"]].tolist() == [20, 22]
    events = lm_answers.end_to_end(RECORD, warm_ups=(0,), steps=1, clock="event")
    assert events["mean_ms"].tolist() == [9] and math.isnan(events["std_ms"].iloc[0])


def test_the_range_is_compared_with_the_clocks_of_its_own_step(export: Path) -> None:
    with open_report(export) as report:
        (row,) = lm_answers.range_against_host(report, RECORD).to_dict("records")
        with pytest.raises(InputError, match="holds 1 ranges 'optimizer' and the record times 0"):
            lm_answers.range_against_host(report, RECORD, "optimizer")
    assert row == {
        "step": 2,
        "range_ms": 11.0,
        "host_ms": 11.0,
        "event_ms": 10.0,
        "difference": 0.0,
        "gpu_span_ms": 7.0,
        "gpu_busy_ms": 6.0,
    }


def test_the_most_expensive_kernel_of_each_pass_and_of_all(export: Path) -> None:
    with open_report(export) as report:
        table = lm_answers.most_expensive(report, 1).set_index("pass")
    assert table["name"].to_dict() == {"all": ADD, "forward": GEMM, "backward": ADD, "optimizer": ADAM}
    assert table.loc["forward", ["operations", "time_ns"]].tolist() == [2, 3 * MS]
    assert table.loc["all", "share"] == pytest.approx(10 / 18)


def test_shares_of_runs_stand_side_by_side(export: Path, tmp_path: Path) -> None:
    inference = e.make_export(
        tmp_path / "i.sqlite", kernels=[e.kernel(0, 10, GEMM)], nvtx=[e.push_pop(0, 20, "lab:measured")]
    )
    with open_report(inference) as one, open_report(export) as two:
        table = lm_answers.shares({"inference": one, "training": two})
    assert table.loc["matmul"].tolist() == pytest.approx([1, 3 / 18])
    assert table.loc["optimizer"].tolist() == pytest.approx([0, 2 / 18])
    assert table.index[0] == "elementwise" and "other" in table.index
    assert lm_answers.shares({}).empty


def test_parts_of_attention_stand_beside_their_flops(export: Path) -> None:
    with open_report(export) as report:
        table = lm_answers.attention_parts(report, RECORD).set_index("part")
    assert table["time_ns"].to_dict() == {"scores": 2 * MS, "mask": 0, "softmax": 3 * MS, "values": 1 * MS}
    assert table.loc["softmax", ["time_ratio", "flop_ratio"]].tolist() == [1.5, 0.125]
