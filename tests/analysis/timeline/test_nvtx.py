"""Ranges on the CPU and their projection to the GPU, on the smallest cases that show the point."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labcode.analysis.timeline import intervals
from labcode.analysis.timeline import nvtx as ranges
from tests.support.tables import api, call, copy, nvtx, op, ops, span


def projected(events: list[dict], calls: list[dict], work: list[dict]) -> dict[str, dict]:
    table = ranges.project(nvtx(*events), api(*calls), ops(*work))
    return {row["label"]: row for row in table.to_dict("records")}


def test_nesting_depth_and_own_time() -> None:
    table = ranges.cpu_ranges(
        nvtx(span(0, 100, "a"), span(10, 40, "b"), span(15, 20, "c"), span(50, 90, "d"))
    )
    assert table["label"].tolist() == ["a", "b", "c", "d"]
    assert table["depth"].tolist() == [0, 1, 2, 1]
    assert table["parent"].fillna(-1).tolist() == [-1, 0, 1, 0]
    assert table["child_count"].tolist() == [2, 1, 0, 0]
    assert table["self_ns"].tolist() == [30, 25, 5, 40]


def test_ranges_of_threads_and_start_end_ranges_do_not_nest() -> None:
    table = ranges.cpu_ranges(
        nvtx(
            span(0, 100, "a"),
            span(10, 20, "b", tid=101),
            span(10, 20, "c", pid=200),
            span(5, 8, "d", event_type="start_end"),
        )
    )
    assert table["depth"].tolist() == [0, 0, 0, 0]


def test_marks_and_open_ranges() -> None:
    events = nvtx(
        span(5, None, "open"), span(7, None, "mark", event_type="mark"), span(0, 9, "x", domain="D")
    )
    assert ranges.cpu_ranges(events)["label"].tolist() == ["D:x"]
    closed = ranges.cpu_ranges(events, open_until=50)
    assert closed[["label", "end_ns"]].values.tolist() == [["D:x", 9], ["open", 50]]


def test_span_and_busy_time_of_a_projection() -> None:
    calls = [call(10, 12, 1), call(20, 22, 2), call(30, 32, 3)]
    work = [op(100, 130, correlation=1), op(120, 140, correlation=2, stream=8), op(200, 210, correlation=3)]
    row = projected([span(0, 50, "step")], calls, work)["step"]
    assert (row["gpu_start_ns"], row["gpu_end_ns"], row["span_ns"]) == (100, 210, 110)
    assert (row["busy_ns"], row["op_time_ns"], row["op_count"]) == (50, 60, 3)


def test_a_range_covers_a_call_only_if_the_whole_call_lies_inside() -> None:
    events = [span(10, 20, "same"), span(11, 20, "late"), span(10, 19, "early"), span(5, 25, "around")]
    rows = projected(events, [call(10, 20, 1)], [op(30, 40, correlation=1)])
    assert set(rows) == {"same", "around"}


def test_calls_of_another_thread_do_not_count() -> None:
    work = [op(30, 40, correlation=1)]
    assert projected([span(0, 50)], [call(10, 20, 1, tid=101)], work) == {}
    assert projected([span(0, 50)], [call(10, 20, 1, pid=200)], work) == {}


def test_correlation_ids_repeat_across_processes() -> None:
    calls = [call(10, 12, 1), call(10, 12, 1, pid=200, tid=200)]
    work = [op(100, 110, correlation=1), op(300, 390, correlation=1, pid=200, device=1)]
    rows = projected([span(0, 50, "a"), span(0, 50, "b", pid=200, tid=200)], calls, work)
    assert (rows["a"]["op_count"], rows["a"]["gpu_end_ns"]) == (1, 110)
    assert (rows["b"]["op_count"], rows["b"]["gpu_start_ns"]) == (1, 300)


def test_all_nodes_of_a_graph_belong_to_its_launch() -> None:
    work = [op(100 + 10 * i, 105 + 10 * i, correlation=9, graph_node=i) for i in range(4)]
    row = projected([span(0, 50)], [call(10, 20, 9, "cudaGraphLaunch")], work)["range"]
    assert (row["op_count"], row["busy_ns"], row["span_ns"]) == (4, 20, 35)


def test_a_driver_call_inside_a_runtime_call_does_not_count_twice() -> None:
    calls = [call(10, 20, 1), call(12, 18, 1, "cuLaunchKernel", event_class="driver")]
    row = projected([span(0, 50)], calls, [op(30, 40, correlation=1)])["range"]
    assert (row["op_count"], row["op_time_ns"]) == (1, 10)


def test_a_range_ended_on_another_thread_is_not_projected() -> None:
    events = [
        span(0, 50, "here", event_type="start_end"),
        span(0, 50, "there", event_type="start_end", end_tid=101),
    ]
    assert set(projected(events, [call(10, 20, 1)], [op(30, 40, correlation=1)])) == {"here"}


def test_projection_in_pieces_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    events = [span(i, 200 - i, f"r{i}") for i in range(20)]
    calls = [call(30 + i, 31 + i, i + 1) for i in range(50)]
    work = [op(300 + 7 * i, 310 + 7 * i, correlation=i + 1) for i in range(50)]
    whole = projected(events, calls, work)
    monkeypatch.setattr(ranges, "_MOST_PAIRS", 60)
    assert projected(events, calls, work) == whole
    assert len(whole) == 20


def test_busy_time_with_times_far_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intervals, "_APART", 0)  # what happens when one integer cannot hold range and time
    rows = projected(
        [span(0, 50, "a"), span(12, 50, "b")],
        [call(10, 11, 1), call(20, 21, 2)],
        [op(100, 130, correlation=1), op(110, 120, correlation=2)],
    )
    assert (rows["a"]["busy_ns"], rows["b"]["busy_ns"]) == (30, 10)


LAUNCHES = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 6), st.integers(0, 50), st.integers(0, 10)), max_size=8
)
SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 20)), min_size=1, max_size=5)


@given(SPANS, LAUNCHES)
def test_projection_against_a_slow_reference(
    spans: list[tuple[int, int]], launches: list[tuple[int, int, int, int]]
) -> None:
    events = [span(start, start + width, f"r{i}") for i, (start, width) in enumerate(spans)]
    calls = [call(start, start + width, i + 1) for i, (start, width, _, _) in enumerate(launches)]
    work = [op(40 + at, 40 + at + width, correlation=i + 1) for i, (_, _, at, width) in enumerate(launches)]
    rows = projected(events, calls, work)
    for i, (low, width) in enumerate(spans):
        mine = [
            w for c, w in zip(calls, work, strict=True) if low <= c["start_ns"] and c["end_ns"] <= low + width
        ]
        if not mine:
            assert f"r{i}" not in rows
            continue
        row = rows[f"r{i}"]
        busy = {t for w in mine for t in range(w["start_ns"], w["end_ns"])}
        assert row["op_count"] == len(mine)
        assert row["busy_ns"] == len(busy)
        assert row["gpu_start_ns"] == min(w["start_ns"] for w in mine)
        assert row["gpu_end_ns"] == max(w["end_ns"] for w in mine)
        assert row["op_time_ns"] == sum(w["end_ns"] - w["start_ns"] for w in mine)


def test_summary_of_a_projection() -> None:
    calls = [call(10, 12, 1), call(110, 112, 2)]
    work = [op(20, 30, correlation=1), op(120, 160, correlation=2)]
    table = ranges.project(nvtx(span(0, 50, "s"), span(100, 150, "s")), api(*calls), ops(*work))
    row = ranges.projection_summary(table).iloc[0]
    assert (row["instances"], row["span_ns"], row["busy_ns"], row["cpu_ns"], row["op_count"]) == (
        2,
        50,
        50,
        100,
        2,
    )
    assert row["mean_span_ns"] == 25
    assert row["busy_share"] == 1


def test_unattributed_share_is_always_reported() -> None:
    work = ops(op(0, 30, correlation=1), op(30, 40, correlation=2), op(40, 50), copy(0, 5, correlation=3))
    table = ranges.unattributed(work, api(call(0, 1, 1), call(0, 1, 2, pid=200), call(0, 1, 0))).set_index(
        "kind"
    )
    assert table["op_count"].to_dict() == {"kernel": 3, "memcpy": 1, "all": 4}
    assert table["unattributed_count"].to_dict() == {"kernel": 2, "memcpy": 1, "all": 3}
    assert table.loc["kernel", "share"] == 0.4
    assert table.loc["all", "unattributed_ns"] == 25


def test_nothing_at_all() -> None:
    assert len(ranges.project(nvtx(), api(), ops())) == 0
    assert len(ranges.projection_summary(ranges.project(nvtx(), api(), ops()))) == 0
    row = ranges.unattributed(ops(), api()).iloc[0]
    assert row["op_count"] == 0
    assert math.isnan(row["share"])
