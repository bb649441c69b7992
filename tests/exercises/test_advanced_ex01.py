"""advanced-ex01: the worked example of part b, and the solution against the book's own analysis."""

import pandas as pd
import pytest

from labcode import store
from labcode.analysis.timeline.launch_sites import launch_sites
from labcode.grading.task import importable
from labcode.reports.nsys.report import open_report
from tests.exercises.support import ROOT, names_of, part, solution

STEP, HEADS = ("step", "train.py", 66), ("heads", "model.py", 57)


def launch_paths(*tables: pd.DataFrame) -> list[list[tuple[str, str, int]] | None]:
    """What the solution of part b says."""
    exercise, _ = part("advanced-ex01b")
    with importable(str(ROOT / "solutions" / exercise.folder)):
        found: list[list[tuple[str, str, int]] | None] = names_of(
            solution("advanced-ex01b"), "advanced-ex01b"
        )["launch_paths"](*tables)
    return found


def test_whose_kernel_it_is() -> None:
    """The drawing in the text of part b."""
    thread, engine = {"pid": 71, "tid": 71}, {"pid": 71, "tid": 82}
    api = pd.DataFrame(
        [
            {"start_ns": 5, "end_ns": 8, "correlation": 1, **thread},
            {"start_ns": 35, "end_ns": 38, "correlation": 2, **thread},
            {"start_ns": 70, "end_ns": 75, "correlation": 3, **engine},
        ]
    )
    ops = pd.DataFrame(
        {"start_ns": [9, 39, 76], "end_ns": [19, 59, 176], "pid": 71, "correlation": [1, 2, 3]}
    )
    backtraces = api.iloc[:2].assign(backtrace=[0, 1], correlation=pd.array([1, 2], "Int64"))
    lines = ((0, 0, *HEADS), (0, 1, *STEP), (1, 0, "heads", "model.py", 58), (1, 1, *STEP))
    frames = pd.DataFrame(lines, columns=["backtrace", "depth", "function", "file", "line"])
    ranges = (
        (0, 10, 71, "aten::mul, seq = 4"),
        (20, 24, 71, "aten::select, seq = 5"),
        (30, 40, 71, "aten::add, seq = 6"),
        (60, 90, 82, "autograd::engine::evaluate_function: SelectBackward0, op_id = 9"),
        (62, 80, 82, "SelectBackward0, seq = 5, op_id = 10"),
    )
    nvtx = pd.DataFrame(ranges, columns=["start_ns", "end_ns", "tid", "name"])
    nvtx = nvtx.assign(pid=71, event_type="push_pop")
    found = launch_paths(ops, api, backtraces, frames, nvtx)
    assert found == [[STEP, HEADS], [STEP, ("heads", "model.py", 58)], [STEP, ("heads", "model.py", 0)]]
    blame = names_of(solution("advanced-ex01b"), "advanced-ex01b")["blame"]
    assert blame(ops, [*found[:2], None]) == {STEP[:2]: 30, HEADS[:2]: 30}


@pytest.mark.parametrize("run", ["baseline", "improved", "exam_baseline"])
def test_the_solution_agrees_with_the_analysis_where_that_one_knows(run: str) -> None:
    report = open_report(store.load_set(store.SHIPPED_SET).path_of("python_backtraces", run))
    tables = report.gpu_ops(), report.api(), report.python_backtraces(), report.python_backtrace_frames()
    found = launch_paths(*tables, report.nvtx())
    sites = launch_sites(*tables, report.nvtx())
    known = 0
    for path, function, line, how in zip(found, sites["function"], sites["line"], sites["how"], strict=True):
        assert path is not None
        if how == "none":
            continue
        known += path[-1][0] == function and path[-1][2] == line
        # what the analysis takes from another operation of the same number is at most one call further in
        assert any(frame[0] == function for frame in path) or how == "forward"
    assert known >= 0.98 * (sites["how"] != "none").sum() > 0
    placed = launch_sites(*tables, report.nvtx(), between=True)
    before = placed["how"] != "between"
    assert placed[before].equals(sites[before]) and (sites.loc[~before, "how"] == "none").all()
    lasts = [path[-1] for path in found if path]
    ours = zip(placed["function"], placed["line"].fillna(0), strict=True)
    assert all(
        (last[0], last[2]) == one for last, one, other in zip(lasts, ours, before, strict=True) if not other
    )
    assert (placed["how"] != "none").all() and (~before).sum() > 100
