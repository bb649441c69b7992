"""The rules on the shipped captures: what an expert says of each, and bounds that the improved runs keep."""

from functools import cache

import pytest

from labcode.analysis.rules import Verdict
from labcode.analysis.rules.driver import diagnose
from labcode.reports.nsys.report import NsysReport, open_report
from labcode.store import SHIPPED_SET, load_set

LOOP = {"idle-gaps": "high", "sync-in-loop": "high", "low-utilization": "high", "pageable-copies": "low"}
FOUND: dict[tuple[str, str], dict[str, str]] = {
    ("timeline_basics", "baseline"): LOOP,
    ("timeline_basics", "nosync"): {k: v for k, v in LOOP.items() if k != "sync-in-loop"},
    ("timeline_basics", "improved"): {},
    ("timeline_basics", "exam_baseline"): LOOP,
    ("timeline_basics", "exam_improved"): {},
    ("kernel_overlap", "stream"): {},
    ("kernel_overlap", "streams"): {},
    # Traced node by node, launching a graph takes longer, and each replay is waited for.
    ("kernel_overlap", "graph"): {"idle-gaps": "medium", "sync-in-loop": "medium"},
    ("kernel_overlap", "graph_default"): {"untraced-graphs": "info"},
    ("kernel_overlap", "tiny_stream"): {
        "tiny-kernels": "high",
        "launch-bound": "high",
        "low-utilization": "high",
    },
    # Here the launch takes longer than running it.
    ("kernel_overlap", "tiny_graph"): {
        "tiny-kernels": "high",
        "sync-in-loop": "high",
        "idle-gaps": "high",
        "low-utilization": "high",
    },
    ("kernel_overlap", "exam_streams"): {},
    ("memory_timeline", "pageable"): {"pageable-copies": "high", "repeated-copies": "high"},
    ("memory_timeline", "pinned"): {"repeated-copies": "medium"},
    ("memory_timeline", "exam_pinned"): {"repeated-copies": "medium"},
    ("memory_timeline", "pipelined"): {},
    ("memory_timeline", "exam_pipelined"): {},
    ("multi_gpu", "baseline"): {"exposed-communication": "medium"},
    ("multi_gpu", "improved"): {},
    ("multi_gpu", "few_ctas"): {},
    ("multi_gpu", "tuned"): {},
    ("multi_gpu", "exam_improved"): {},
}


def report(experiment: str, run: str) -> NsysReport:
    return open_report(load_set(SHIPPED_SET).path_of(experiment, run))


@cache
def verdicts(experiment: str, run: str) -> dict[str, Verdict]:
    return {verdict.rule: verdict for verdict in diagnose(report(experiment, run))}


def test_every_capture_of_the_four_programs_is_judged_here() -> None:
    shipped = load_set(SHIPPED_SET)
    programs = {experiment for experiment, _ in FOUND}
    assert {(e, run) for e in programs for run in shipped.experiment(e).runs} == set(FOUND)


@pytest.mark.parametrize(("experiment", "run"), list(FOUND))
def test_what_an_expert_says(experiment: str, run: str) -> None:
    all_of_them = verdicts(experiment, run)
    found = {rule: v.severity for rule, v in all_of_them.items() if v.status == "found"}
    assert found == FOUND[experiment, run]
    assert not [v.message for v in all_of_them.values() if v.status == "failed"]


@pytest.mark.parametrize(("experiment", "run"), list(FOUND))
def test_every_number_is_sound(experiment: str, run: str) -> None:
    for verdict in verdicts(experiment, run).values():
        if verdict.status == "could not judge":
            assert "record with" in verdict.message
            continue
        assert verdict.numerator is not None and verdict.denominator is not None
        assert 0 <= verdict.numerator <= max(verdict.denominator, 0)
        assert verdict.gain is None or 0 <= verdict.gain <= 1
        assert verdict.numerator_name and verdict.denominator_name
        assert verdict.status != "found" or len(verdict.evidence)


@pytest.mark.parametrize(
    ("experiment", "before", "after", "rule"),
    [
        ("timeline_basics", "baseline", "nosync", "sync-in-loop"),
        ("memory_timeline", "pageable", "pinned", "pageable-copies"),
        ("memory_timeline", "pageable", "pipelined", "pageable-copies"),
        ("kernel_overlap", "tiny_stream", "tiny_graph", "launch-bound"),
        ("kernel_overlap", "tiny_stream", "tiny_graph", "tiny-kernels"),
        ("multi_gpu", "baseline", "improved", "exposed-communication"),
        ("multi_gpu", "baseline", "tuned", "exposed-communication"),
    ],
)
def test_mending_gained_something_and_no_more_than_the_bound(
    experiment: str, before: str, after: str, rule: str
) -> None:
    width = {run: (w := report(experiment, run).window())[1] - w[0] for run in (before, after)}
    gained = 1 - width[after] / width[before]
    bound = verdicts(experiment, before)[rule].gain
    assert bound is not None and 0.05 < gained <= bound


def test_the_cause_of_the_idle_time_is_named() -> None:
    verdict = verdicts("timeline_basics", "baseline")["idle-gaps"]
    assert "“load batch”, in its own code" in verdict.message
    assert verdict.evidence["range"].iloc[0] == "load batch"
    assert verdict.evidence["none_share"].iloc[0] > 0.9


def test_idle_time_behind_launches_traced_node_by_node_is_told_apart() -> None:
    assert "compare with the default trace" in verdicts("kernel_overlap", "tiny_graph")["idle-gaps"].message
    assert "default trace" not in verdicts("timeline_basics", "baseline")["idle-gaps"].message


def test_kernels_inside_graphs_cannot_be_judged_and_are_not_idle_time() -> None:
    graph = verdicts("kernel_overlap", "graph_default")
    assert graph["tiny-kernels"].status == "could not judge"
    assert "--cuda-graph-trace=node" in graph["tiny-kernels"].message
    assert graph["idle-gaps"].status == "not found"
    assert graph["untraced-graphs"].numerator == graph["untraced-graphs"].denominator == 10


def test_a_collective_that_waits_shows_as_a_straggler_of_little_weight() -> None:
    verdict = verdicts("multi_gpu", "baseline")["stragglers"]
    assert verdict.status == "not found" and verdict.share is not None and 0 < verdict.share < 0.05
    assert verdict.evidence["collectives"].tolist() == [432] * 4
