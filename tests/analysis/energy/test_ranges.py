"""Joules of NVTX ranges: loads that are known, joined with captures of the same time."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labcode.analysis.energy.ranges import NO_RANGE, clocks, per_range, stretches, whole
from labcode.analysis.energy.sensor import Load, Sensor
from labcode.errors import InputError
from labcode.reports.kineto.report import open_trace
from labcode.reports.nsys.report import NsysReport, open_report
from labcode.reports.power.log import log_of
from tests.support import power, traces
from tests.support.exports import call, gpu, kernel, make_export, mark, push_pop

S = power.S
AHEAD = 500 * S  # by which the log's clock is ahead of the capture's


def capture(
    path: Path, spans: Sequence[tuple[str, float, float]], *, marks: Sequence[Any] = (), **more: Any
) -> NsysReport:
    """A capture in which each span, in seconds, is a range with one kernel that fills it."""
    rows: dict[str, list[Any]] = {"kernels": [], "api": [], "nvtx": []}
    for place, (name, begin, end) in enumerate(spans, 1):
        low, high = round(begin * S), round(end * S)
        if name:
            rows["nvtx"].append(push_pop(low, high, name))
        rows["api"].append(call(low + 10, low + 20, correlation=place))
        rows["kernels"].append(kernel(low, high, "k()", correlation=place))
    ends = [round(s * S) for s in (min(s[1] for s in spans), max(s[2] for s in spans))]
    rows["nvtx"] += marks or [mark(t, f"lab:clock {t + AHEAD}") for t in ends]
    rows["nvtx"].append(push_pop(ends[0], ends[1], "lab:measured"))
    make_export(path, **{"gpus": [gpu(0, "NVIDIA H100")], **rows, **more})
    return open_report(path)


def logged(load: Load, **more: Any) -> Any:
    return power.log(power.device(load, begin_s=AHEAD / S, **more))


def test_long_ranges_are_measured_by_the_counter_and_sum_to_the_whole(tmp_path: Path) -> None:
    load = Load(np.array([0, 1, 5, 9, 12]) * float(S), np.array([80.0, 600.0, 300.0, 80.0]))
    report = capture(tmp_path / "a.sqlite", [("gemm 1", 1, 5), ("copy", 5, 9), ("", 9.5, 11)])
    log = logged(load)
    table = per_range(log, report).set_index("range")
    assert table.index.to_list() == ["gemm", "copy", NO_RANGE]
    for name, joules in (("gemm", 2400), ("copy", 1200), (NO_RANGE, 160)):
        assert abs(table.loc[name, "energy_j"] - joules) <= table.loc[name, "error_j"]
    assert table["how"].to_list()[:2] == ["counter", "counter"]
    assert table["share"].sum() == pytest.approx(1)
    (total,) = whole(log, report)["energy_j"]
    assert table["energy_j"].sum() == pytest.approx(total, rel=1e-9)
    assert total == pytest.approx(3760, rel=0.01)
    assert table["low_j"].sum() < total < table["high_j"].sum()


def test_short_ranges_in_changing_proportions_are_fitted(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    spans, edges, watts, now = [], [0.5], [], 0.5
    while now < 11.0:
        for name, low, high, draws in (("forward", 0.01, 0.09, 650.0), ("backward", 0.01, 0.09, 350.0)):
            length = float(rng.uniform(low, high))
            spans.append((f"{name} {len(spans)}", now, now + length))
            now += length
            edges.append(now)
            watts.append(draws)
    load = Load(np.array([0.0, *edges, 12.5]) * S, np.array([80.0, *watts, 80.0]))
    log = logged(load, period_s=0.01, seconds=12.4)
    table = per_range(log, capture(tmp_path / "a.sqlite", spans)).set_index("range")
    assert table["how"].to_dict() == {"forward": "fit", "backward": "fit"}
    assert table.loc["forward", "mean_w"] == pytest.approx(650, rel=0.05)
    assert table.loc["backward", "mean_w"] == pytest.approx(350, rel=0.05)
    for name, true_w in (("forward", 650), ("backward", 350)):
        joules = true_w * table.loc[name, "seconds"]
        assert abs(table.loc[name, "energy_j"] - joules) <= 2 * table.loc[name, "error_j"] + 0.01 * joules
    (total,) = whole(log, capture(tmp_path / "b.sqlite", spans))["energy_j"]
    assert table["energy_j"].sum() == pytest.approx(total, abs=float(table["error_j"].sum()))


def test_short_ranges_in_the_same_proportions_are_declined(tmp_path: Path) -> None:
    starts = np.arange(0.5, 10.5, 0.02)
    spans = [
        span
        for t in starts
        for span in (("a", float(t), float(t) + 0.01), ("b", float(t) + 0.01, float(t) + 0.02))
    ]
    load = Load.square(600, 200, 0.02, 12.0)
    table = per_range(logged(load), capture(tmp_path / "a.sqlite", spans))
    assert set(table["how"]) == {"declined"}
    assert table["energy_j"].isna().all() and table["error_j"].isna().all()
    assert table["stretches"].to_list() == [500, 500]
    assert (table["low_j"] <= 2000).all() and (table["high_j"] >= 4000).all()


def test_names_choose_the_ranges(tmp_path: Path) -> None:
    report = capture(
        tmp_path / "a.sqlite",
        [("gemm", 1, 5), ("copy", 5, 9)],
        nvtx=[
            *(mark(t * S, f"lab:clock {t * S + AHEAD}") for t in (1, 9)),
            *(push_pop(1 * S, 9 * S, "step 1"), push_pop(1 * S, 5 * S, "gemm")),
        ],
    )
    log = logged(power.steady(400))
    assert per_range(log, report, names=["step"])["range"].to_list() == ["step"]
    assert set(per_range(log, report)["range"]) == {"gemm", "step"}


def test_drift_between_marks_is_followed(tmp_path: Path) -> None:
    marks = [mark(t * S, f"lab:clock {t * S + AHEAD + t * 10_000}") for t in (1, 5, 9)]
    report = capture(tmp_path / "a.sqlite", [("a", 1, 9)], marks=marks)
    found = clocks(report, logged(power.steady())).to_log(np.array([1.0, 3.0, 9.0, 11.0]) * S)
    assert found.tolist() == [
        t * S + AHEAD + d for t, d in ((1, 10_000), (3, 30_000), (9, 90_000), (11, 90_000))
    ]


def rows(*spans: tuple[int, int, str]) -> pd.DataFrame:
    return pd.DataFrame(spans, columns=["start_ns", "end_ns", "range"])


def parted(running: pd.DataFrame, waiting: pd.DataFrame) -> list[tuple[str, float]]:
    edges, names = stretches(running, waiting, (0, 100), short_ns=0)
    return list(zip(names, np.diff(edges), strict=True))


def test_time_is_parted_by_what_runs_and_else_by_the_open_range() -> None:
    ran = rows((10, 20, "a"), (30, 40, "a"), (60, 70, "b"), (80, 90, "b"))
    assert parted(ran, rows()) == [(NO_RANGE, 10), ("a", 30), (NO_RANGE, 20), ("b", 30), (NO_RANGE, 10)]
    asked = rows((0, 25, "a"), (45, 55, "load"), (72, 78, "load"))
    assert parted(ran, asked) == [
        *(("a", 40), (NO_RANGE, 5), ("load", 10), (NO_RANGE, 5), ("b", 10), (NO_RANGE, 2), ("load", 6)),
        *((NO_RANGE, 2), ("b", 10), (NO_RANGE, 10)),
    ]


def test_short_gaps_inside_a_range_are_its_own() -> None:
    ran = rows((10, 20, "a"), (30, 40, "a"), (60, 70, "b"))
    asked = rows((0, 100, "b"))
    edges, names = stretches(ran, asked, (0, 100), short_ns=10)
    assert (names, edges.tolist()) == (["b", "a", "b"], [0, 10, 40, 100])
    assert parted(ran, asked) == [("b", 10), ("a", 10), ("b", 10), ("a", 10), ("b", 60)]


def test_overlapping_operations_are_parted_once() -> None:
    assert parted(rows((0, 100, "a"), (20, 40, "b")), rows()) == [("a", 20), ("b", 20), ("a", 60)]


@given(
    st.lists(st.tuples(st.integers(-5, 105), st.integers(0, 40), st.sampled_from("abc")), max_size=12),
    st.lists(st.tuples(st.integers(-5, 105), st.integers(0, 40), st.sampled_from("bcd")), max_size=12),
)
def test_parts_fill_the_window_and_no_more(
    running: list[tuple[int, int, str]], waiting: list[tuple[int, int, str]]
) -> None:
    tables = [rows(*((at, at + length, name) for at, length, name in spans)) for spans in (running, waiting)]
    edges, names = stretches(*tables, (0, 100), short_ns=0)
    assert edges[0] == 0 and edges[-1] == 100 and (np.diff(edges) > 0).all()
    assert all(one != other for one, other in pairwise(names))
    for moment in np.arange(0.5, 100):
        name = names[int(np.searchsorted(edges, moment)) - 1]
        runs, waits = (
            {name for at, length, name in spans if at < moment < at + length} for spans in (running, waiting)
        )
        assert name in (runs or waits or {*"abcd", NO_RANGE})


def test_a_range_without_work_on_the_gpu_has_its_joules(tmp_path: Path) -> None:
    load = Load(np.array([0, 1, 5, 9, 12]) * float(S), np.array([80.0, 600.0, 120.0, 80.0]))
    report = capture(
        tmp_path / "a.sqlite",
        [("gemm", 1, 5), ("", 9, 9.1)],
        marks=[
            *(mark(t * S, f"lab:clock {t * S + AHEAD}") for t in (1, 9)),
            push_pop(5 * S, 9 * S, "load 0"),
        ],
    )
    table = per_range(logged(load), report).set_index("range")
    assert table.loc["load", "energy_j"] == pytest.approx(480, rel=0.02)
    assert table.loc["load", "how"] == "counter"


def test_files_that_do_not_belong_together(tmp_path: Path) -> None:
    spans = [("a", 1, 9)]
    log = logged(power.steady())
    report = capture(tmp_path / "a.sqlite", spans)
    late = power.log(power.device(power.steady(), begin_s=900))
    with pytest.raises(InputError, match=r"was recorded 391\.0 s outside of .*: they are of different runs"):
        per_range(late, report)
    other = power.log(power.device(power.steady(), begin_s=AHEAD / S, name="NVIDIA H200"))
    with pytest.raises(InputError, match=r"ran on NVIDIA H100, but .* is of NVIDIA H200: they are of diff"):
        per_range(other, report)
    second = power.log(power.device(power.steady(), begin_s=AHEAD / S, number=1))
    with pytest.raises(InputError, match=r"GPU 0, on which .* ran, was not metered; record both with the"):
        per_range(second, report)
    part = power.log(power.device(power.steady(), begin_s=AHEAD / S, seconds=4.0))
    with pytest.raises(InputError, match=r"covers only 37% of what .* measured; start the meter before"):
        per_range(part, report)
    with pytest.raises(InputError, match="no samples, so there is nothing to join with"):
        per_range(power.log(), report)
    unmarked = capture(tmp_path / "b.sqlite", spans, marks=[mark(5 * S, "lab:clock soon")])
    with pytest.raises(InputError, match=r"no clock marks, so it cannot be joined with a power log; let the"):
        per_range(log, unmarked)
    twisted = [mark(1 * S, f"lab:clock {AHEAD}"), mark(9 * S, f"lab:clock {2 * AHEAD}")]
    with pytest.raises(InputError, match="its clock marks contradict each other by 492000 ms"):
        per_range(log, capture(tmp_path / "c.sqlite", spans, marks=twisted))
    empty = capture(tmp_path / "d.sqlite", spans, kernels=[])
    with pytest.raises(InputError, match="no GPU operations in the measured part"):
        per_range(log, empty)


def session(utc_ns: int) -> dict[str, Any]:
    """What an nsys export says of when it began, until it is scrubbed."""
    table = "TARGET_INFO_SESSION_START_TIME"
    return {
        "extra_sql": [
            f"CREATE TABLE {table} (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT)",
            f"INSERT INTO {table} VALUES ({utc_ns}, '', '')",
        ]
    }


def test_without_marks_utc_joins(tmp_path: Path) -> None:
    load = Load(np.array([0, 1, 5, 9, 12]) * float(S), np.array([80.0, 600.0, 300.0, 80.0]))
    made = power.document(power.device(load, begin_s=AHEAD / S))
    utc = 1_790_000_000 * S
    made.clock.realtime_ns = [(AHEAD, utc), (AHEAD + 12 * S, utc + 12 * S + 1000)]
    log = log_of(made, Path("run.power.json"))
    spans = [("gemm", 1, 5), ("copy", 5, 9)]
    assert open_report(capture(tmp_path / "none.sqlite", spans).path).utc_origin_ns() is None
    none = [mark(S, "no clock")]
    report = capture(tmp_path / "a.sqlite", spans, marks=none, **session(utc))
    table = per_range(log, report).set_index("range")
    assert table.loc["gemm", "energy_j"] == pytest.approx(2400, rel=0.01)
    made.clock.realtime_ns.append((AHEAD + 13 * S, utc + 20 * S))
    with pytest.raises(InputError, match=r"clock was set by 7000 ms while it was recorded"):
        per_range(log_of(made, Path("run.power.json")), report)
    other = capture(tmp_path / "b.sqlite", spans, marks=none, **session(utc + 3600 * S))
    with pytest.raises(InputError, match=r"was recorded 3,589\.0 s outside of run\.power\.json"):
        per_range(log, other)


def test_a_trace_of_torch_is_joined_by_the_same_marks(tmp_path: Path) -> None:
    trace = traces.Trace()
    for at in (1, 9):
        trace.annotation(f"lab:clock {at * S + AHEAD}", at * S, at * S + 1000)
    for name, begin, end in (("gemm", 1, 5), ("copy", 5, 9)):
        trace.annotation(name, begin * S + 2000, end * S)
        number = trace.call("cudaLaunchKernel", begin * S + 3000, begin * S + 4000)
        trace.kernel("k()", begin * S + 5000, end * S - 1000, number)
    path = trace.write(tmp_path / "a.trace.json")
    load = Load(np.array([0, 1, 5, 9, 12]) * float(S), np.array([80.0, 600.0, 300.0, 80.0]))
    table = per_range(logged(load, name="NVIDIA H200"), open_trace(path)).set_index("range")
    assert table.loc["gemm", "energy_j"] == pytest.approx(2400, rel=0.02)
    assert table.loc["copy", "energy_j"] == pytest.approx(1200, rel=0.02)


def test_gpus_are_matched_as_the_machine_numbers_them(tmp_path: Path) -> None:
    """A program that sees GPU 3 alone calls it 0, as its meter does; nsys calls it 3."""
    spans = [("a", 1, 9)]
    report = capture(
        *(tmp_path / "a.sqlite", spans),
        kernels=[kernel(S, 9 * S, "k()", correlation=1, device=3)],
        gpus=[gpu(0, "NVIDIA H200"), gpu(3, "NVIDIA H100")],
    )
    table = per_range(logged(power.steady(), nvml_index=3), report)
    assert table[["device", "range"]].to_numpy().tolist() == [[0, "a"]]
    with pytest.raises(InputError, match="GPU 3, on which"):
        per_range(logged(power.steady()), report)


def test_a_sensor_with_a_phase_does_not_shift_ranges(tmp_path: Path) -> None:
    load = Load(np.array([0, 1, 5, 9, 12]) * float(S), np.array([80.0, 600.0, 300.0, 80.0]))
    report = capture(tmp_path / "a.sqlite", [("gemm", 1, 5), ("copy", 5, 9)])
    for phase_s in (0.0, 0.03, 0.07):
        table = per_range(logged(load, sensor=Sensor(phase_s=phase_s)), report).set_index("range")
        assert table.loc["gemm", "energy_j"] == pytest.approx(2400, rel=0.01)
