"""Busy and idle GPUs, and what the CPU did in the gaps."""

import math

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from labcode.analysis.timeline import utilization
from labcode.analysis.timeline.joins import named_like
from tests.support.tables import api, call, nvtx, op, ops, span


def test_concurrent_operations_count_once() -> None:
    row = utilization.device_busy(ops(op(0, 60), op(10, 50, stream=8)), (0, 100)).iloc[0]
    assert (row["busy_ns"], row["idle_ns"], row["window_ns"], row["op_count"]) == (60, 40, 100, 2)
    assert (row["busy_share"], row["idle_share"]) == (0.6, 0.4)


def test_another_process_on_the_same_gpu_is_not_idle_time() -> None:
    work = ops(op(0, 40), op(40, 100, pid=200), op(0, 10, device=1))
    busy = utilization.device_busy(work, (0, 100)).set_index("device")["busy_share"]
    assert busy.to_dict() == {0: 1.0, 1: 0.1}
    assert len(utilization.idle_gaps(work[work["device"] == 0], (0, 100))) == 0


def test_a_whole_graph_is_busy_time() -> None:
    work = ops(op(0, 90, "graph 1", kind="graph"))
    assert utilization.device_busy(work, (0, 100))["busy_ns"].tolist() == [90]


def test_work_outside_the_window_does_not_count() -> None:
    row = utilization.device_busy(ops(op(-50, 10), op(90, 500), op(700, 800)), (0, 100)).iloc[0]
    assert (row["busy_ns"], row["op_count"]) == (20, 2)


def test_gpus_that_did_nothing() -> None:
    busy = utilization.device_busy(ops(op(0, 10)), (0, 20), devices=[0, 1]).set_index("device")
    assert busy["idle_ns"].to_dict() == {0: 10, 1: 20}


def test_no_operations_and_an_empty_window() -> None:
    assert len(utilization.device_busy(ops(), (0, 100))) == 0
    assert len(utilization.idle_gaps(ops())) == 0
    row = utilization.device_busy(ops(op(5, 5))).iloc[0]
    assert row["window_ns"] == 0
    assert math.isnan(row["busy_share"])
    assert math.isnan(row["idle_share"])


WORK = st.lists(
    st.tuples(st.integers(-10, 60), st.integers(-3, 30), st.integers(0, 1), st.sampled_from([100, 200])),
    max_size=12,
)


@given(WORK, st.integers(0, 50), st.integers(0, 50))
def test_busy_and_idle_add_up_to_the_window(
    rows: list[tuple[int, int, int, int]], low: int, high: int
) -> None:
    work = ops(*(op(start, start + width, device=device, pid=pid) for start, width, device, pid in rows))
    busy = utilization.device_busy(work, (low, high))
    gaps = utilization.idle_gaps(work, (low, high))
    assert busy["device"].tolist() == sorted({device for _, _, device, _ in rows})
    for row in busy.to_dict("records"):
        mine = [r for r in rows if r[2] == row["device"]]
        covered = {t for start, width, _, _ in mine for t in range(start, start + width)} & set(
            range(low, high)
        )
        assert row["busy_ns"] == len(covered)
        assert row["busy_ns"] + row["idle_ns"] == row["window_ns"] == max(high - low, 0)
        assert gaps.loc[gaps["device"] == row["device"], "duration_ns"].sum() == row["idle_ns"]


def test_short_gaps_are_left_out_on_demand() -> None:
    work = ops(op(0, 10), op(12, 20), op(50, 60))
    gaps = utilization.idle_gaps(work, (0, 100), min_gap_ns=3)
    assert gaps[["start_ns", "end_ns", "duration_ns"]].values.tolist() == [[20, 50, 30], [60, 100, 40]]


def explained(
    work: pd.DataFrame, calls: pd.DataFrame, ranges: pd.DataFrame, window: tuple[int, int]
) -> pd.Series:
    gaps = utilization.idle_gaps(work, window)
    assert len(gaps) == 1
    return utilization.explain_gaps(gaps, calls, ranges, work).iloc[0]


def test_the_cpu_waits_then_prepares() -> None:
    work = ops(op(0, 100, correlation=1), op(200, 300, correlation=2))
    calls = api(call(-20, -10, 1), call(-10, 120, 9, "cudaDeviceSynchronize"), call(190, 198, 2))
    ranges = nvtx(span(-50, 310, "step"), span(130, 188, "load batch"))
    row = explained(work, calls, ranges, (0, 300))
    assert (row["start_ns"], row["end_ns"]) == (100, 200)
    assert (row["pid"], row["tid"]) == (100, 100)
    assert (row["range"], row["range_share"]) == ("load batch", 0.58)
    assert (row["call"], row["call_share"]) == ("cudaDeviceSynchronize", 0.2)
    assert (row["api_share"], row["sync_share"]) == (0.28, 0.2)
    assert row["none_share"] == 0.72


def test_the_thread_that_launched_what_ends_the_gap() -> None:
    work = ops(op(0, 100, correlation=1), op(200, 300, correlation=2))
    calls = api(call(-5, -1, 1), call(190, 195, 2, tid=107), call(196, 199, 3, pid=300, tid=300))
    ranges = nvtx(span(100, 200, "main"), span(100, 200, "loader", tid=107))
    row = explained(work, calls, ranges, (0, 300))
    assert (row["tid"], row["range"]) == (107, "loader")
    guessed = utilization.explain_gaps(utilization.idle_gaps(work, (0, 300)), calls, ranges).iloc[0]
    assert guessed["tid"] == 300  # without the operations: the last to launch anything


def test_the_innermost_call_counts_once() -> None:
    work = ops(op(0, 100, correlation=1), op(200, 300, correlation=2))
    calls = api(call(-5, -1, 1), call(100, 200, 2, "cudaMemcpy"), call(110, 150, 2, "cuMemcpyHtoD_v2"))
    row = explained(work, calls, nvtx(), (0, 300))
    assert (row["call"], row["call_share"]) == ("cudaMemcpy", 0.6)
    assert (row["range"], row["range_share"]) == ("", 0)
    assert row["api_share"] == 1


def test_nobody_launched_anything() -> None:
    row = explained(ops(op(50, 100)), api(), nvtx(span(0, 60)), (0, 100))
    assert pd.isna(row["pid"])
    assert pd.isna(row["tid"])
    assert (row["range"], row["call"], row["api_share"]) == ("", "", 0)


def test_no_gaps() -> None:
    gaps = utilization.idle_gaps(ops(op(0, 10)), (0, 10))
    table = utilization.explain_gaps(gaps, api(call(0, 1)), nvtx(span(0, 9)))
    assert len(table) == 0
    assert {"range", "call", "sync_share", "none_share"} <= set(table.columns)


def test_synchronizing_calls_by_name() -> None:
    names = pd.Series(
        ["cudaDeviceSynchronize", "cudaMemcpy", "cudaMemcpyAsync", "cuMemcpyDtoH_v2", "cudaFree"]
    )
    names = pd.concat(
        [names, pd.Series(["cudaLaunchKernel", "cudaMemcpy2D", "cudaMemcpy2DAsync", "cuMemFree_v2"])]
    )
    found = names.str.contains(utilization.SYNCHRONIZING, regex=True).tolist()
    assert found == [True, True, False, True, True, False, True, False, True]


def test_names_are_looked_at_once_each_and_found_everywhere() -> None:
    names = pd.Series(["cudaMemcpy", "cudaMemcpyAsync", "cudaFree", "cudaMemcpy", "cudaLaunchKernel"])
    assert named_like(names, utilization.SYNCHRONIZING).tolist() == [True, False, True, True, False]
    assert named_like(names[:0], utilization.SYNCHRONIZING).tolist() == []
