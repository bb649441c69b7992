"""Gates: an improvement that moves work passes, a regression fails, and no answer is never a pass."""

import io
import json

import pytest

from labcode.errors import LabError
from labcode.reports.nsys.report import open_report
from labcode.verbs.compare.pairs import compare, judge, run
from tests.support.exports import call, kernel, make_export, memcpy, push_pop

COUNT = 9


def loop(path, period, *, hot=300, cold=200, pid=100, first=0, launch=True, steps=COUNT):
    """Steps that begin every ``period`` ns, each with the kernels hot and cold and a copy."""
    kernels, copies, api, nvtx = [], [], [], []
    for n in range(steps):
        at = 10_000 + n * period + n % 3
        where = {"pid": pid}
        nvtx.append(push_pop(at, at + 50, f"step {n + first}", pid=pid, tid=pid))
        if launch:
            api.append(call(at + 1, at + 10, pid=pid, tid=pid, correlation=n + 1))
        kernels.append(kernel(at + 100, at + 100 + hot + n % 2, "hot(int)", correlation=n + 1, **where))
        kernels.append(kernel(at + 500, at + 500 + cold + n % 2, "cold(int)", correlation=900 + n, **where))
        copies.append(memcpy(at + 20, at + 60, 4096, correlation=800 + n, **where))
    return make_export(path, kernels=kernels, memcpys=copies, api=api, nvtx=nvtx)


@pytest.fixture
def moved(tmp_path):
    """An improvement that moves work: the kernel hot becomes much slower, the step shorter."""
    return loop(tmp_path / "before.sqlite", 2000), loop(tmp_path / "after.sqlite", 1500, hot=380, cold=20)


def text(pair, **options):
    output = io.StringIO()
    code = run(*pair, output=output, **options)
    return code, output.getvalue()


def test_without_gates_an_improvement_that_moves_work_fails(moved):
    assert text(moved, fail_above=10)[0] == 1


@pytest.mark.parametrize(
    ("gate", "code"),
    [
        ("period:step*", 0),
        ("period:*", 0),
        ("period", 0),
        ("kernel:cold*", 0),
        ("kernel:hot(int)", 1),
        ("kernel:h*", 1),
        ("transfer:H2D", 0),
        ("transfer:H2D pinned", 0),
        ("transfer", 0),
        ("range:step #", 0),
        ("total:kernels", 0),
        ("total", 0),
    ],
)
def test_only_what_a_gate_names_can_fail(moved, gate, code):
    found, said = text(moved, fail_above=10, gates=[gate])
    assert found == code
    assert f"({gate}):" in said


def test_gates_add_up(moved):
    assert text(moved, fail_above=10, gates=["period:step*", "kernel:hot*"])[0] == 1
    assert text(moved, fail_above=10, gates=["period:step*", "kernel:cold*"])[0] == 0


def test_a_slower_step_fails_the_gate_and_says_so(moved):
    code, said = text(reversed(moved), fail_above=10, gates=["period:step*"])
    assert code == 1
    assert "gate: 1 of 1 slower by more than 10 %" in said
    assert "  FAIL  period step #: 1.33" in said


def test_the_period_is_from_start_to_start_on_the_gpu(moved):
    found = compare(*(open_report(file) for file in moved)).periods
    (step,) = found[found["name"] == "step #"].to_dict("records")
    assert (step["count_before"], step["median_before_ns"], step["median_after_ns"]) == (
        COUNT - 1,
        2001,
        1501,
    )


def test_the_period_is_that_of_the_cpu_where_one_side_has_no_launches(tmp_path):
    pair = loop(tmp_path / "a.sqlite", 2000), loop(tmp_path / "b.sqlite", 3000, launch=False)
    found = compare(*(open_report(file) for file in pair)).periods
    assert found["median_after_ns"].tolist() == [3001]
    assert found["verdict"].tolist() == ["slower"]


def test_ranges_of_two_threads_do_not_make_one_period(tmp_path):
    nvtx = [push_pop(1000 * n + 500 * tid, 1000 * n + 500 * tid + 9, "load", tid=tid + 1)
            for n in range(8) for tid in (0, 1)]  # fmt: skip
    file = make_export(tmp_path / "a.sqlite", nvtx=nvtx)
    found = compare(open_report(file), open_report(file)).periods
    assert found[["count_before", "median_before_ns"]].to_numpy().tolist() == [[14, 1000]]


def test_a_range_that_comes_once_has_no_period(tmp_path):
    file = make_export(tmp_path / "a.sqlite", nvtx=[push_pop(0, 100, "once"), push_pop(10, 20, "step")])
    assert compare(open_report(file), open_report(file)).periods.empty


@pytest.mark.parametrize(
    ("gate", "words"),
    [
        (
            "kernel:gemm*",
            r"--gate kernel:gemm\* matches nothing; of the kind kernel there are: hot\(int\), cold",
        ),
        ("transfer:D2H", "matches nothing; of the kind transfer there are: H2D pinned"),
        (
            "steps:step*",
            r"--gate steps:step\*: write KIND:NAME, with a kind of total, kernel, range, gpu-range",
        ),
        ("period:", "write KIND:NAME"),
        ("total:window", "--gate total:window cannot be judged: window is 'one value each'"),
    ],
)
def test_a_gate_without_an_answer_is_bad_use(moved, gate, words):
    with pytest.raises(LabError, match=words):
        text(moved, fail_above=10, gates=[gate])


def test_a_gate_on_too_few_steps_is_no_pass(tmp_path):
    pair = loop(tmp_path / "a.sqlite", 2000, steps=4), loop(tmp_path / "b.sqlite", 2000, steps=4)
    with pytest.raises(
        LabError, match="cannot be judged: step # is 'too few to judge'; record more instances"
    ):
        text(pair, fail_above=10, gates=["period:step*"])


def test_a_gate_on_a_kernel_that_is_gone_is_no_pass(moved, tmp_path):
    other = make_export(tmp_path / "c.sqlite", kernels=[kernel(1, 90, "new(int)")])
    with pytest.raises(LabError, match=r"cannot be judged: cold\(int\) is 'vanished'"):
        text((moved[0], other), fail_above=10, gates=["kernel:cold*"])


def test_what_a_gate_could_not_judge_is_named(moved, tmp_path):
    code, said = text(moved, fail_above=10, gates=["total"])
    assert "  not judged: total window: one value each" in said
    assert code == 0


def test_a_gate_needs_a_limit(moved):
    with pytest.raises(LabError, match="give the limit, too, such as --fail-above 5"):
        text(moved, fail_above=None, gates=["total"])


def test_only_shows_and_judges_some(moved):
    code, said = text(moved, fail_above=10, only=["transfers"])
    assert code == 0
    assert "Copies" in said and "Kernels" not in said and "kernels" not in said
    assert text(moved, fail_above=10, only=["transfers", "kernels"])[0] == 1
    with pytest.raises(LabError, match="--only ranks: choose one of totals, kernels, ranges, transfers"):
        text(moved, fail_above=None, only=["ranks"])


def test_json_has_what_was_gated(moved):
    output = io.StringIO()
    run(*moved, fail_above=10, fmt="json", gates=["period:step*"], only=["kernels"], output=output)
    found = json.loads(output.getvalue())
    assert [item["name"] for item in found["gated"]] == ["step #"]
    assert (found["gates"], found["regressions"]) == (["period:step*"], [])
    assert {item["kind"] for item in found["rows"]} == {"kernel"}


def test_a_row_that_two_gates_name_is_judged_once(moved):
    comparison = compare(*(open_report(file) for file in moved))
    assert len(judge(comparison, ["period:step*", "period:s*"], 5).gated) == 1
