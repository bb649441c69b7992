"""The exercise on diagnosis: its unseen reports, what the set must hold."""

from dataclasses import replace

import pytest

from labcode import store
from labcode.errors import LabError
from labcode.grading.task import beside
from labcode.reports.ncu.report import open_report
from tests.exercises.support import names_of, part, solution

CASES = beside(*part("compute-ex06a"), "cases")

CAUSES = {  # from the last launch to the first
    "exam_1": ["issue", "issue", "wait", "wait"],
    "exam_2": ["issue", "mio_throttle", "bank conflicts"],
    "exam_3": ["idle lanes", "long_scoreboard", "contention", "contention"],
    "exam_4": ["long_scoreboard", "spills", "spills"],
}


@pytest.mark.parametrize("run", CAUSES)
def test_the_causes_of_the_unseen_reports_are_clear(run: str) -> None:
    s = names_of(solution("compute-ex06a"))
    table = CASES.launch_table(CASES.open_ncu(store.load_set(store.SHIPPED_SET), CASES.EXPERIMENT, run))
    found = s["diagnosis"](table)
    assert [cause for cause, _ in found.values()] == CAUSES[run]
    assert list(found) == [f"K{number}" for number in range(1, len(found) + 1)]
    for row in table.to_dict("records"):
        waste = s["evidence"](row)
        assert all(abs(share - s["ENOUGH"]) > 0.02 for share in waste.values()), "at the edge of an answer"
        assert max(waste.values()) > s["ENOUGH"] or abs(row["issued"] - s["BUSY"]) > 0.02


def test_the_table_has_the_states_whole() -> None:
    report = open_report(store.load_set(store.SHIPPED_SET).path_of("ncu_compute", "exam_1", ".ncu-rep"))
    table = CASES.launch_table(report)
    latency = [
        one.metric("smsp__average_warp_latency_per_inst_issued.ratio") for one in reversed(report.list)
    ]
    assert table[list(CASES.STATES)].sum(axis=1).tolist() == pytest.approx(latency, rel=0.05)


def test_a_set_without_the_reports() -> None:
    captures = replace(store.load_set(store.SHIPPED_SET), experiments={})
    with pytest.raises(LabError, match="has no run exam_1 of ncu_compute"):
        CASES.exam(captures)
