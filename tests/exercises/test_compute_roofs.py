"""compute-ex07: the worked example, and the grader's roofline against that of `labcode.analysis`."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from labcode import store
from labcode.analysis.kernel import roofline
from labcode.exercises.compute import ex07_roofs
from labcode.reports.ncu.report import NcuReport, open_report
from tests.exercises.support import names_of, solution

RUNS = (("ncu_memory", "copies"), ("ncu_roofline", "fp32"), ("ncu_roofline", "exam_points"))


def test_worked_example() -> None:
    s = names_of(solution("compute-ex07a"))
    scene = ex07_roofs.Scene(
        {"SM": 2e9, "L1": 2e9, "L2": 2e9, "DRAM": 3e9},
        {"L1": 1e4, "L2": 1e4, "DRAM": 1500.0, "fp64": 15e3, "fp32": 3e4, "fp16": 6e4},
        {"L1": 1e12, "L2": 1e12, "DRAM": 2e12},
        {"fp32": 100.0},
        {"fp32": 400.0},
    )
    table = ex07_roofs.table_of([scene])
    assert s["points"](table) == {0: ("fp32", 1e12, {"L1": 1.0, "L2": 1.0, "DRAM": 0.5})}
    assert s["bounds"](table) == {0: (2.25e12, "DRAM")}
    assert s["verdicts"](table) == {0: "none"}


def _report(experiment: str, run: str) -> NcuReport:
    if store.SHIPPED_SET not in store.list_sets():
        pytest.skip("the shipped captures are not here")
    captures = store.load_set(store.SHIPPED_SET)
    if experiment not in captures.experiments:
        pytest.skip(f"the shipped set has no {experiment}")
    return open_report(captures.path_of(experiment, run, ".ncu-rep"))


@pytest.mark.parametrize(("experiment", "run"), RUNS)
def test_the_grader_agrees_with_the_analysis(experiment: str, run: str) -> None:
    report = _report(experiment, run)
    scenes = ex07_roofs.scenes_of(report)
    table = roofline.roofline(report).set_index(["launch", "level"])
    for one, scene in zip(report.list, scenes, strict=True):
        precision, rate, intensities = ex07_roofs.point_of(scene)
        peaks = ex07_roofs.roofs_of(scene)
        for level in ex07_roofs.LEVELS:
            row = table.loc[(one.id, level)]
            assert (row["precision"], row["flops_per_s"]) == (precision, pytest.approx(rate))
            assert row["intensity"] == pytest.approx(intensities[level])
        for roof in roofline.counter_ceilings(one):
            if roof.of in peaks:
                assert peaks[roof.of] == pytest.approx(roof.value)


@pytest.mark.parametrize("seed", range(3))
def test_the_lowest_roof_is_the_one_used_most(seed: int) -> None:
    for scenes in ex07_roofs._scenes(np.random.default_rng(seed)).values():
        for scene in scenes:
            most, roof = ex07_roofs.bound_of(scene)
            _, rate, _ = ex07_roofs.point_of(scene)
            if rate:
                assert rate / most == pytest.approx(ex07_roofs.shares_of(scene)[roof])


def test_the_exam_is_clear() -> None:
    """No launch of the unseen report is near the limit of «none», nor near two roofs at once."""
    scenes = ex07_roofs.scenes_of(_report(*ex07_roofs.EXAM))
    assert len(scenes) > 5
    for scene in scenes:
        first, second = sorted(ex07_roofs.shares_of(scene).values(), reverse=True)[:2]
        assert abs(first - ex07_roofs.NONE_BELOW) > 0.03
        assert first - second > 0.01


def test_a_set_without_the_exam_says_so() -> None:
    if store.SHIPPED_SET not in store.list_sets():
        pytest.skip("the shipped captures are not here")
    captures = dataclasses.replace(store.load_set(store.SHIPPED_SET), experiments={})
    with pytest.raises(ex07_roofs.LabError, match="has no run exam_points of ncu_roofline"):
        ex07_roofs._exam(captures)
