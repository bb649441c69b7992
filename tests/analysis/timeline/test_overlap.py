"""What ran at the same time: copies and kernels, streams, communication and computing."""

import math

import pandas as pd
import pytest

from labcode.analysis.timeline import overlap
from tests.support.tables import copy, op, ops


def test_copies_behind_kernels() -> None:
    work = ops(copy(0, 40), copy(30, 60, "D2H", stream=9), op(20, 50, stream=8), op(40, 70, stream=10))
    row = overlap.copy_compute_overlap(work, (0, 100)).iloc[0]
    assert (row["copy_ns"], row["compute_ns"], row["overlap_ns"], row["busy_ns"]) == (60, 50, 40, 70)
    assert (row["h2d_ns"], row["d2h_ns"], row["window_ns"]) == (40, 30, 100)
    assert row["hidden_share"] == 40 / 60


def test_overlap_is_per_gpu() -> None:
    work = ops(copy(0, 40), op(0, 40, device=1))
    table = overlap.copy_compute_overlap(work).set_index("device")
    assert table["overlap_ns"].to_dict() == {0: 0, 1: 0}
    assert math.isnan(table.loc[1, "hidden_share"])


def test_overlap_within_a_window() -> None:
    row = overlap.copy_compute_overlap(ops(copy(0, 100), op(0, 100, stream=8)), (90, 300)).iloc[0]
    assert (row["copy_ns"], row["overlap_ns"], row["hidden_share"]) == (10, 10, 1)


def test_a_graph_counts_as_compute() -> None:
    work = ops(copy(0, 10), op(0, 30, "graph 1", kind="graph", stream=8))
    assert overlap.copy_compute_overlap(work)["overlap_ns"].tolist() == [10]


def levels(work: object, window: tuple[int, int] | None = None) -> dict[int, int]:
    table = overlap.stream_concurrency(work, window)  # type: ignore[arg-type]
    return table.set_index("streams")["time_ns"].to_dict()


def test_streams_active_at_once() -> None:
    work = ops(op(0, 40), op(10, 30, stream=8), op(60, 80, stream=8))
    assert levels(work, (0, 100)) == {0: 40, 1: 40, 2: 20}


def test_operations_of_one_stream_are_one_stream() -> None:
    assert levels(ops(op(0, 40), op(10, 30)), (0, 40)) == {0: 0, 1: 40}


def test_equal_numbers_of_other_processes_and_contexts_are_other_streams() -> None:
    assert levels(ops(op(0, 40), op(0, 40, pid=200), op(0, 40, context=2))) == {0: 0, 1: 0, 2: 0, 3: 40}


def test_stream_shares_add_up() -> None:
    work = ops(op(0, 40), op(10, 30, stream=8), op(0, 10, device=1))
    shares = overlap.stream_concurrency(work).groupby("device")["share"].sum()
    assert shares.to_dict() == {0: 1.0, 1: 1.0}


def test_no_operations() -> None:
    assert len(overlap.copy_compute_overlap(ops())) == 0
    assert len(overlap.stream_concurrency(ops())) == 0
    assert len(overlap.communication_overlap(ops())) == 0


NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096>)"


def test_communication_behind_computing() -> None:
    work = ops(
        op(0, 100), op(80, 140, NCCL, stream=20), op(150, 170, NCCL, stream=20), copy(100, 140, stream=21)
    )
    row = overlap.communication_overlap(work, (0, 200)).iloc[0]
    assert (row["comm_ns"], row["compute_ns"], row["hidden_ns"], row["exposed_ns"]) == (80, 100, 20, 60)
    assert (row["hidden_share"], row["comm_count"], row["window_ns"]) == (0.25, 2, 200)


def test_computing_of_another_gpu_hides_nothing() -> None:
    work = ops(op(0, 50, NCCL), op(0, 50, device=1))
    table = overlap.communication_overlap(work).set_index("device")
    assert table["hidden_ns"].to_dict() == {0: 0, 1: 0}
    assert math.isnan(table.loc[1, "hidden_share"])


def test_a_table_of_kernels_alone_will_do() -> None:
    kernels = ops(op(0, 100), op(80, 140, NCCL)).drop(columns=["kind", "bytes"])
    assert overlap.communication_overlap(kernels)["hidden_ns"].tolist() == [20]


def test_names_of_communication_kernels() -> None:
    names = [NCCL, "ncclKernel_AllReduce_RING_LL_Sum_float", "my_nccl_free_kernel(int)", "reduce_kernel"]
    assert overlap.is_communication(ops(*(op(0, 1, n) for n in names))).tolist() == [
        True,
        True,
        False,
        False,
    ]


def test_kernels_are_compared_with_themselves_beside_others() -> None:
    def named(start: int, end: int, name: str, **more: int) -> dict[str, object]:
        return {"short_name": name, "start_ns": start, "end_ns": end, "device": 0} | more

    grid = {"grid_x": 4, "grid_y": 33, "grid_z": 1}
    kernels = pd.DataFrame(
        [
            named(0, 100, "gemm", **grid),
            named(100, 300, "gemm", **grid),
            named(300, 500, "gemm", **grid),
            named(500, 600, "gemm", **grid | {"device": 1}),  # another GPU: alone
            named(600, 900, "gemm", **grid | {"grid_x": 8}),  # another grid: never alone
            named(990, 1000, "add", **grid),  # never beside
        ]
    )
    others = pd.DataFrame([named(150, 320, "nccl"), named(300, 400, "nccl"), named(600, 700, "nccl")])
    found = overlap.slowed_beside(kernels, others)
    assert found.to_dict("records") == [
        {
            "short_name": "gemm",
            "blocks": 132,
            "alone_ns": 100.0,
            "beside_ns": 200.0,
            "alone_count": 2.0,
            "beside_count": 2.0,
            "ratio": 2.0,
            "alone_spread": 1.0,
            "spent_ns": 400.0,
        }
    ]
    more = pd.DataFrame([named(1000, 1300, "gemm", **grid)])  # the same grid, more work
    sizes = pd.concat([kernels, more], ignore_index=True)
    assert overlap.slowed_beside(sizes, others)["alone_spread"].item() == pytest.approx(260 / 100)
    assert overlap.slowed_beside(kernels[:0], others).empty
    assert overlap.slowed_beside(kernels, others[:0]).empty
