"""Joules of NVTX ranges: loads that are known, joined with captures of the same time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labcode.analysis.energy.ranges import NO_RANGE, clocks, per_range, stretches, whole
from labcode.analysis.energy.sensor import Load, Sensor
from labcode.errors import InputError
from labcode.reports.nsys.report import NsysReport, open_report
from tests.support import power
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
    make_export(path, gpus=[gpu(0, "NVIDIA H100")], **{**rows, **more})
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
    found = clocks(report).to_log(np.array([1.0, 3.0, 9.0, 11.0]) * S)
    assert found.tolist() == [
        t * S + AHEAD + d for t, d in ((1, 10_000), (3, 30_000), (9, 90_000), (11, 90_000))
    ]


def test_gaps_inside_a_range_count_for_it() -> None:
    starts, ends = np.array([10, 30, 60, 80]), np.array([20, 40, 70, 90])
    edges, names = stretches(starts, ends, ["a", "a", "b", "b"], (0, 100))
    assert list(zip(names, np.diff(edges), strict=True)) == [
        *((NO_RANGE, 10), ("a", 30), (NO_RANGE, 20), ("b", 30), (NO_RANGE, 10)),
    ]


def test_overlapping_operations_are_parted_once() -> None:
    edges, names = stretches(np.array([0, 20]), np.array([100, 40]), ["a", "b"], (0, 100))
    assert list(zip(names, np.diff(edges), strict=True)) == [("a", 20), ("b", 20), ("a", 60)]


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


def test_a_sensor_with_a_phase_does_not_shift_ranges(tmp_path: Path) -> None:
    load = Load(np.array([0, 1, 5, 9, 12]) * float(S), np.array([80.0, 600.0, 300.0, 80.0]))
    report = capture(tmp_path / "a.sqlite", [("gemm", 1, 5), ("copy", 5, 9)])
    for phase_s in (0.0, 0.03, 0.07):
        table = per_range(logged(load, sensor=Sensor(phase_s=phase_s)), report).set_index("range")
        assert table.loc["gemm", "energy_j"] == pytest.approx(2400, rel=0.01)
