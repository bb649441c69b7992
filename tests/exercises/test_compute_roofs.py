"""compute-ex07: the worked example, and the solution's roofline against that of `labcode.analysis`."""

import dataclasses
from typing import Any

import pandas as pd
import pytest

from labcode import store
from labcode.analysis.kernel import roofline
from labcode.errors import LabError
from labcode.grading.task import beside
from labcode.reports.ncu.report import NcuReport, open_report
from tests.exercises.support import cases, names_of, part, solution

RUNS = (("ncu_memory", "copies"), ("ncu_roofline", "fp32"), ("ncu_roofline", "exam_points"))
CASES = beside(*part("compute-ex07a"), "cases")


def test_worked_example() -> None:
    s = names_of(solution("compute-ex07a"))
    assert (s["SM_CLOCK"], s["LEVELS"]) == (CASES.SM_CLOCK, CASES.LEVELS)
    assert s["PRECISIONS"] == {name: (names[:3], names[3]) for name, names in CASES.PRECISIONS.items()}
    launch = {CASES.SM_CLOCK: 2e9}
    for level, numbers in {
        "L1": (1e12, 1e4, 2e9),
        "L2": (1e12, 1e4, 2e9),
        "DRAM": (2e12, 1500.0, 3e9),
    }.items():
        launch |= dict(zip(CASES.LEVELS[level], numbers, strict=True))
    for precision, numbers in {
        "fp64": (0.0, 0.0, 0.0, 15e3),
        "fp32": (100.0, 0.0, 400.0, 3e4),
        "fp16": (0.0, 0.0, 0.0, 6e4),
    }.items():
        launch |= dict(zip(CASES.PRECISIONS[precision], numbers, strict=True))
    table = CASES.table_of([launch])
    assert s["points"](table) == {0: ("fp32", 1e12, {"L1": 1.0, "L2": 1.0, "DRAM": 0.5})}
    assert s["bounds"](table) == {0: (2.25e12, "DRAM")}
    assert s["verdicts"](table) == {0: "none"}


def _report(experiment: str, run: str) -> NcuReport:
    return open_report(store.load_set(store.SHIPPED_SET).path_of(experiment, run, ".ncu-rep"))


@pytest.mark.parametrize(("experiment", "run"), RUNS)
def test_the_solution_agrees_with_the_analysis(experiment: str, run: str) -> None:
    s, report = names_of(solution("compute-ex07a")), _report(experiment, run)
    points, roofs = s["points"](report.metrics()), s["roofs"](report.metrics())
    table = roofline.roofline(report).set_index(["launch", "level"])
    for one in report.list:
        precision, rate, intensities = points[one.id]
        for level in CASES.LEVELS:
            row = table.loc[(one.id, level)]
            assert (row["precision"], row["flops_per_s"]) == (precision, pytest.approx(rate))
            assert row["intensity"] == pytest.approx(intensities[level])
        for roof in roofline.counter_ceilings(one):
            if roof.of in roofs[one.id]:
                assert roofs[one.id][roof.of] == pytest.approx(roof.value)


def shares(s: dict[str, Any], metrics: pd.DataFrame) -> dict[int, dict[str, float]]:
    """What each launch uses of its roofs."""
    values, peaks = s["_by_launch"](metrics), s["roofs"](metrics)
    return {
        launch: s["_shares"](values[launch], peaks[launch], precision, rate)
        for launch, (precision, rate, _) in s["points"](metrics).items()
    }


@pytest.mark.parametrize("seed", range(3))
def test_the_lowest_roof_is_the_one_used_most(seed: int) -> None:
    s = names_of(solution("compute-ex07a"))
    for case in cases("compute-ex07a", seed):
        if case.function == "bounds":
            (metrics,) = case.arguments
            points, used = s["points"](metrics), shares(s, metrics)
            for launch, (most, roof) in s["bounds"](metrics).items():
                if rate := points[launch][1]:
                    assert rate / most == pytest.approx(used[launch][roof])


def test_the_exam_is_clear() -> None:
    """No launch of the unseen report is near the limit of “none”, nor near two roofs at once."""
    s, metrics = names_of(solution("compute-ex07a")), _report(CASES.EXPERIMENT, CASES.RUN).metrics()
    found = shares(s, metrics)
    assert len(found) > 5
    for used in found.values():
        first, second = sorted(used.values(), reverse=True)[:2]
        assert abs(first - 0.6) > 0.03
        assert first - second > 0.01


def test_a_set_without_the_exam_says_so() -> None:
    captures = dataclasses.replace(store.load_set(store.SHIPPED_SET), experiments={})
    with pytest.raises(LabError, match="has no run exam_points of ncu_roofline"):
        CASES.exam(captures)
