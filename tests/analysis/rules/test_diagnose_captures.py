"""The rules on the shipped captures: what an expert says of each, and bounds that the improved runs keep."""

from functools import cache

import pytest

from labcode.analysis.rules import Verdict
from labcode.reports.nsys.report import NsysReport, open_report
from labcode.store import SHIPPED_SET, load_set
from labcode.verbs.diagnose.verdicts import diagnose, tables_of

SYMPTOMS = {"idle-gaps": "info", "low-utilization": "info"}
LOOP = {
    "data-loading": "high",
    "sync-in-loop": "high",
    "no-tensor-cores": "high",
    "pageable-copies": "low",
    "host-code": "low",
    **SYMPTOMS,
}
FEW = {"results-copied-back": "high", "copies-not-hidden": "high", "start-up": "info"}
GOOD = {"good": "info"}
FOUND: dict[tuple[str, str], dict[str, str]] = {
    ("timeline_basics", "baseline"): LOOP,
    ("timeline_basics", "nosync"): {
        k: v for k, v in LOOP.items() if k not in ("sync-in-loop", "no-tensor-cores")
    },
    ("timeline_basics", "improved"): {"no-tensor-cores": "high"},
    ("timeline_basics", "exam_baseline"): LOOP,
    ("timeline_basics", "exam_improved"): {"no-tensor-cores": "high"},
    ("kernel_overlap", "stream"): {"small-grids": "high"},
    ("kernel_overlap", "streams"): GOOD,
    # Traced node by node, launching a graph takes longer, and each replay is waited for.
    ("kernel_overlap", "graph"): {
        "sync-in-loop": "high",
        "idle-gaps": "info",
        "uneven-iterations": "info",
    },
    ("kernel_overlap", "graph_default"): {"sync-in-loop": "low", "untraced-graphs": "info"},
    ("kernel_overlap", "tiny_stream"): {
        "launch-bound": "high",
        "tiny-kernels": "info",
        "low-utilization": "info",
    },
    # Here the launch takes longer than running it.
    ("kernel_overlap", "tiny_graph"): {"sync-in-loop": "high", "tiny-kernels": "info", **SYMPTOMS},
    ("kernel_overlap", "exam_streams"): GOOD,
    ("memory_timeline", "pageable"): {
        "pageable-copies": "high",
        "results-copied-back": "high",
        "start-up": "info",
    },
    ("memory_timeline", "pinned"): FEW,
    ("memory_timeline", "exam_pinned"): FEW,
    ("memory_timeline", "pipelined"): {**GOOD, **dict.fromkeys(FEW, "low"), "start-up": "info"},
    ("memory_timeline", "exam_pipelined"): {
        **GOOD,
        **dict.fromkeys(FEW, "low"),
        "start-up": "info",
        "sync-in-loop": "low",
    },
    ("multi_gpu", "baseline"): {"communication-not-hidden": "low"},
    ("multi_gpu", "improved"): GOOD,
    ("multi_gpu", "few_ctas"): GOOD,
    ("multi_gpu", "tuned"): GOOD,
    ("multi_gpu", "exam_improved"): GOOD,
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
        assert verdict.status != "found" or len(verdict.evidence), verdict.rule


@pytest.mark.parametrize(
    ("experiment", "before", "after", "rule"),
    [
        ("timeline_basics", "baseline", "nosync", "sync-in-loop"),
        ("memory_timeline", "pageable", "pinned", "pageable-copies"),
        ("kernel_overlap", "tiny_stream", "tiny_graph", "launch-bound"),
        ("dataloader", "baseline", "improved", "data-loading"),
        ("cpu_sampling", "baseline", "improved", "data-loading"),
        ("multi_gpu", "baseline", "improved", "communication-not-hidden"),
        ("multi_gpu", "baseline", "tuned", "communication-not-hidden"),
    ],
)
def test_what_mending_gained_lies_in_the_predicted_interval(
    experiment: str, before: str, after: str, rule: str
) -> None:
    each = {run: tables_of(report(experiment, run)).ledger.each_ns for run in (before, after)}
    gained = 1 - each[after] / each[before]
    verdict = verdicts(experiment, before)[rule]
    assert verdict.low is not None and verdict.high is not None
    assert gained > 0.05 and verdict.low <= gained <= verdict.high


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
    assert graph["untraced-graphs"].numerator == 9


def test_a_collective_that_waits_shows_as_a_straggler_of_little_weight() -> None:
    verdict = verdicts("multi_gpu", "baseline")["late-rank"]
    assert verdict.status == "not found" and verdict.share is not None and 0 < verdict.share < 0.05
    assert verdict.evidence["collectives"].tolist() == [360] * 4
