"""Two captures side by side: what is called a change, what is not, and what nsys' own diff loses."""

import io
import json

import numpy as np
import pandas as pd
import pytest

from labcode import store
from labcode.analysis.compare.interval import SAME, UNDECIDED, Interval, Limits, limits_of
from labcode.errors import InputError, LabError
from labcode.reports.nsys.report import open_report
from labcode.verbs.compare.pairs import COLUMNS, ONE_VALUE, TOO_FEW, Comparison, compare, run
from tests.support.exports import call, kernel, make_export, memcpy, push_pop


def shipped(experiment, before, after):
    captures = store.load_set(store.SHIPPED_SET)
    return compare(*(open_report(captures.path_of(experiment, run)) for run in (before, after)))


def kernels(name, durations, *, at=1000, stream=7, **more):
    """Kernels of these durations, one after the other."""
    start, rows = at, []
    for duration in durations:
        rows.append(kernel(start, start + duration, name, stream=stream, **more))
        start += duration + 100
    return rows


@pytest.fixture
def captures(tmp_path):
    """Writes two exports and compares them."""

    def compared(before, after, **options) -> Comparison:
        files = [make_export(tmp_path / f"{n}.sqlite", **rows) for n, rows in enumerate((before, after))]
        return compare(*(open_report(file) for file in files), **options)

    return compared


def row(table, name):
    (found,) = table[table["name"] == name].to_dict("records")
    return found


NOISE = [1000, 1010, 990, 1005, 995, 1000, 1002, 998]


def test_a_slower_kernel_is_called_slower_and_noise_is_not(captures):
    slow = [2 * n for n in NOISE]
    found = captures(
        {"kernels": kernels("a(int)", NOISE) + kernels("b(int)", NOISE, at=10**6)},
        {"kernels": kernels("a(int)", slow) + kernels("b(int)", NOISE[::-1], at=10**6)},
    ).kernels
    slower = row(found, "a(int)")
    assert slower["verdict"] == "slower"
    assert slower["ratio"] == pytest.approx(2)
    assert 1.9 < slower["ratio_low"] <= 2 <= slower["ratio_high"] < 2.1
    assert row(found, "b(int)")["verdict"] == "no change"
    assert row(found, "b(int)")["ratio"] == 1


def test_a_certain_change_below_the_threshold_is_not_called_one(captures):
    before, after = {"kernels": kernels("a", [1000] * 20)}, {"kernels": kernels("a", [1030] * 20)}
    assert row(captures(before, after).kernels, "a")["verdict"] == "no change"
    assert row(captures(before, after, threshold=0.02).kernels, "a")["verdict"] == "slower"


def test_scatter_wider_than_the_change_is_not_a_change(captures):
    before = [500, 2000, 700, 1600, 900, 1300, 1100, 600]
    found = captures(
        {"kernels": kernels("a", before)}, {"kernels": kernels("a", [n + 150 for n in before])}
    ).kernels
    assert row(found, "a")["ratio"] > 1.1
    assert row(found, "a")["ratio_low"] < 1 < row(found, "a")["ratio_high"]
    assert row(found, "a")["verdict"] == UNDECIDED


def test_no_change_is_said_only_where_the_interval_excludes_one():
    """Beyond the threshold and sure: changed; all of the interval close to 1: none; else undecided."""
    cases = {
        (3.0, 0.02, 50.0): UNDECIDED,
        (1.0, 0.97, 1.06): UNDECIDED,
        (1.0, 0.94, 1.02): UNDECIDED,
        (1.04, 1.01, 1.09): UNDECIDED,  # slower, but perhaps not by what matters
        (1.0, 0.97, 1.04): SAME,
        (1.03, 1.02, 1.04): SAME,  # sure, and too little to matter
        (1.07, 1.01, 1.2): "slower",
        (0.9, 0.85, 0.99): "faster",
    }
    assert {case: Limits().verdict(Interval(*case), "slower", "faster") for case in cases} == cases


def test_what_would_fail_is_what_no_change_excludes():
    seven = Interval(1.03, 0.98, 1.07)
    assert limits_of(10).verdict(seven, "slower", "faster") == SAME
    assert limits_of(None).verdict(seven, "slower", "faster") == UNDECIDED
    assert limits_of(10).verdict(Interval(1.07, 1.06, 1.08), "slower", "faster") == "slower"
    assert limits_of(2).verdict(Interval(1.03, 1.025, 1.035), "slower", "faster") == "slower"
    assert limits_of(0).verdict(Interval(1, 1, 1), "slower", "faster") == SAME


@pytest.fixture
def scattered(tmp_path):
    """Two exports whose kernel a scatters far more than it changes, and whose kernel b stays."""
    wild = [500, 2000, 700, 1600, 900, 1300, 1100, 600]
    return [
        make_export(
            tmp_path / f"{n}.sqlite",
            kernels=kernels("a", [t + more for t in wild]) + kernels("b", NOISE, at=10**6),
        )
        for n, more in enumerate((0, 150))
    ]


def said(files, **options):
    output = io.StringIO()
    options = {"fail_above": None, **options}
    return run(*files, output=output, **options), output.getvalue()


def test_undecided_has_an_exit_code_on_request(scattered):
    assert said(scattered)[0] == said(scattered, fail_above=10)[0] == 0
    for limit in (None, 10):
        assert said(scattered, fail_above=limit, undecided_exit=3)[0] == 3
        assert said(scattered, fail_above=limit, undecided_exit=3, only=["ranges"])[0] == 0
    assert said(scattered, fail_above=10, gates=["kernel:b"], undecided_exit=3)[0] == 0
    assert said(scattered, fail_above=10, gates=["kernel:a"], undecided_exit=3)[0] == 3
    assert said(scattered, fail_above=10_000, undecided_exit=3)[0] == 0  # so much is excluded
    with pytest.raises(LabError, match="--undecided-exit 0: give an exit code from 1 to 255, such as 3"):
        said(scattered, undecided_exit=0)


def test_a_failure_comes_before_what_is_undecided(tmp_path):
    wild = [500, 2000, 700, 1600, 900, 1300, 1100, 600]
    files = [
        make_export(
            tmp_path / f"{n}.sqlite",
            kernels=kernels("a", wild) + kernels("b", [times * t for t in NOISE], at=10**6),
        )
        for n, times in enumerate((1, 2))
    ]
    assert said(files, fail_above=10, undecided_exit=3)[0] == 1


def test_undecided_is_shown_in_every_format(scattered):
    for fmt in ("table", "md"):
        _, text = said(scattered, fmt=fmt)
        assert "0 slower, 0 faster, 1 undecided of 2 kernels" in text
        assert "none where the whole interval is within 5 %, and the rest is undecided" in text
    _, text = said(scattered, fail_above=10)
    assert "undecided: the interval reaches above 10 %:\n" in text and "  kernel a: 1.15 (" in text
    _, text = said(scattered, fail_above=10, gates=["kernel:*"])
    assert "  undecided  kernel a: 1.15 (" in text and "  ok  kernel b: 1 (" in text
    _, text = said(scattered, fmt="csv")
    assert "kernel,a,,undecided," in text
    document = json.loads(said(scattered, fmt="json", fail_above=10, gates=["kernel:*"])[1])
    assert [one["name"] for one in document["undecided"]] == ["a"] and document["tolerance"] == 0.1
    assert {one["name"]: one["verdict"] for one in document["rows"]}["b"] == SAME


@pytest.mark.parametrize(("count", "verdict"), [(5, TOO_FEW), (6, "slower")])
def test_fewer_than_six_instances_are_not_judged(captures, count, verdict):
    found = captures({"kernels": kernels("a", [1000] * count)}, {"kernels": kernels("a", [3000] * 9)})
    assert row(found.kernels, "a")["verdict"] == verdict
    assert row(found.kernels, "a")["ratio"] == 3
    assert np.isnan(row(found.kernels, "a")["ratio_low"]) == (verdict == TOO_FEW)


def test_a_new_kernel_is_named_with_its_time(captures):
    """nsys' diff recipe joins on the first report's kernels and so drops those of the second alone."""
    comparison = captures(
        {"kernels": kernels("a", NOISE) + kernels("gone(float*)", [700] * 3, at=10**6)},
        {"kernels": kernels("a", NOISE) + kernels("entirely_new<int>(int)", [5000] * 7, at=10**6)},
    )
    new = row(comparison.kernels, "entirely_new<int>(int)")
    assert (new["verdict"], new["count_before"], new["count_after"]) == ("new", 0, 7)
    assert new["total_after_ns"] == 35_000
    gone = row(comparison.kernels, "gone(float*)")
    assert (gone["verdict"], gone["total_before_ns"], gone["total_after_ns"]) == ("vanished", 2100, 0)
    assert "1 new (35 µs); 1 vanished (2.1 µs)" in comparison.summary[0]
    assert row(comparison.totals, "kernels")["total_after_ns"] == sum(NOISE) + 35_000


def test_a_renamed_kernel_is_matched_by_its_name_and_launch(captures):
    grid = {"grid": (64, 2, 1), "block": (256, 1, 1)}
    comparison = captures(
        {"kernels": kernels("void lab::scale<float, 4>(float*, int)", NOISE, **grid)},
        {"kernels": kernels("void lab::scale<float, 8>(float*, int)", [2 * n for n in NOISE], **grid)},
    )
    (found,) = comparison.kernels.to_dict("records")
    assert found["name"] == "void lab::scale<float, 8>(float*, int)"
    assert found["name_before"] == "void lab::scale<float, 4>(float*, int)"
    assert found["verdict"] == "slower"
    assert "1 perhaps renamed" in comparison.summary[0]


def test_numbered_ranges_are_one(captures):
    def steps(scale):
        return [push_pop(i * 10_000, i * 10_000 + scale * 1000, f"step {i}") for i in range(8)]

    found = captures({"nvtx": steps(1)}, {"nvtx": [*steps(4), push_pop(0, 90_000, "epoch 1")]}).ranges
    assert row(found, "step #")["count_after"] == 8
    assert row(found, "step #")["ratio"] == 4
    assert row(found, "epoch 1")["verdict"] == "new"


def test_numbers_of_autograd_are_no_names(captures):
    def backward(first):
        names = [f"AddmmBackward0, seq = {first + i}, op_id = {2 * i}, sizes = [[8]]" for i in range(7)]
        return [push_pop(i * 10_000, i * 10_000 + 1000, name) for i, name in enumerate(names)]

    once = push_pop(90_000, 90_100, "aten::sum, seq = 4"), push_pop(90_000, 90_100, "aten::sum, seq = 700")
    found = captures({"nvtx": [*backward(3), once[0]]}, {"nvtx": [*backward(500), once[1]]}).ranges
    assert found["name"].tolist() == ["AddmmBackward0, sizes = [[8]]", "aten::sum"]
    assert found["count_after"].tolist() == [7, 1]


def test_ranges_on_the_gpu_have_a_table_of_their_own(captures):
    def capture(length):
        rows = {"nvtx": [], "api": [], "kernels": []}
        for i in range(7):
            at = i * 10_000
            rows["nvtx"].append(push_pop(at, at + 900, "step"))
            rows["api"].append(call(at + 100, at + 200, correlation=i + 1))
            rows["kernels"].append(kernel(at + 1000, at + 1000 + length, "k", correlation=i + 1))
        return rows

    comparison = captures(capture(500), capture(1500))
    assert row(comparison.ranges, "step")["verdict"] == "no change"
    assert row(comparison.projected, "step")["verdict"] == "slower"
    assert row(comparison.projected, "step")["ratio"] == 3


def test_copies_are_compared_by_the_time_per_byte(captures):
    def copies(count, size, time, **kind):
        return {"memcpys": [memcpy(i * 10**6, i * 10**6 + time, size, **kind) for i in range(count)]}

    found = captures(copies(8, 4096, 4000), copies(16, 2048, 2000)).transfers
    assert row(found, "H2D pinned")["ratio"] == 1
    assert row(found, "H2D pinned")["bytes_before"] == row(found, "H2D pinned")["bytes_after"] == 32768
    moved = captures(copies(8, 4096, 4000, src=0), copies(8, 4096, 1000, src=1)).transfers
    assert row(moved, "H2D pinned")["name_before"] == "H2D pageable"
    assert row(moved, "H2D pinned")["verdict"] == "faster"


def test_copies_without_bytes_have_no_ratio(captures):
    one = {"memcpys": [memcpy(i * 100, i * 100 + 10, 0) for i in range(8)]}
    assert row(captures(one, one).transfers, "H2D pinned")["verdict"] == TOO_FEW


def test_kernels_without_duration_have_no_ratio(captures):
    one = {"kernels": kernels("a", [0] * 8)}
    assert np.isnan(row(captures(one, one).kernels, "a")["ratio"])


def test_the_same_capture_shows_no_change_or_says_that_it_cannot():
    comparison = shipped("timeline_basics", "baseline", "baseline")
    verdicts = pd.concat(comparison.tables.values())["verdict"]
    assert set(verdicts) <= {SAME, UNDECIDED, TOO_FEW, ONE_VALUE}
    assert SAME in set(verdicts)
    assert len(comparison.regressions(0)) == 0


def test_the_training_loop_became_faster():
    comparison = shipped("timeline_basics", "baseline", "improved")
    assert row(comparison.projected, "step #")["verdict"] == "faster"
    assert row(comparison.ranges, "step #")["verdict"] == "faster"
    assert "new" in set(comparison.ranges["verdict"])
    assert row(comparison.totals, "window")["ratio"] < 0.7


def test_pinned_copies_are_the_pageable_ones_renamed():
    found = shipped("memory_timeline", "pageable", "pinned").transfers
    assert set(found["name_before"]) == {"H2D pageable", "D2H pageable"}
    assert (found["ratio"] < 0.8).all()
    assert set(found["verdict"]) == {TOO_FEW}, "three copies each way"


def test_untraced_graphs_are_noted():
    comparison = shipped("kernel_overlap", "stream", "graph_default")
    assert any("--cuda-graph-trace=node" in warning for warning in comparison.warnings)
    assert shipped("kernel_overlap", "stream", "graph").warnings == ()


def test_the_same_files_give_the_same_answer():
    one, other = (shipped("kernel_overlap", "stream", "graph") for _ in range(2))
    pd.testing.assert_frame_equal(one.kernels, other.kernels)


# ---- the command


@pytest.fixture
def pair(tmp_path):
    before = make_export(tmp_path / "before.sqlite", kernels=kernels("a<1>(int)", NOISE))
    after = make_export(tmp_path / "after.sqlite", kernels=kernels("a<1>(int)", [n * 3 // 2 for n in NOISE]))
    return before, after


@pytest.mark.parametrize(("limit", "code"), [(None, 0), (10, 1), (50, 0), (200, 0)])
def test_the_exit_code_follows_the_limit(pair, limit, code):
    assert run(*pair, fail_above=limit, fmt="table", output=io.StringIO()) == code


def test_a_faster_program_passes(pair):
    assert run(*reversed(pair), fail_above=0, fmt="table", output=io.StringIO()) == 0


def test_the_table_names_what_failed(pair):
    output = io.StringIO()
    run(*pair, fail_above=10, fmt="table", output=output)
    text = output.getvalue()
    assert "slower by more than 10 %, with the whole interval above it:\n" in text
    assert "  kernel a<1>(int): 1.5 (" in text


def test_csv_has_a_row_for_each_item(pair):
    output = io.StringIO()
    run(*pair, fail_above=None, fmt="csv", output=output)
    table = pd.read_csv(io.StringIO(output.getvalue()))
    assert list(table.columns) == ["kind", *COLUMNS]
    assert set(table["kind"]) == {"total", "kernel"}


def test_json_can_be_read_again(pair):
    output = io.StringIO()
    run(*pair, fail_above=10, fmt="json", output=output)
    found = json.loads(output.getvalue())
    assert {item["name"] for item in found["regressions"]} == {"a<1>(int)", "kernels"}
    assert next(item for item in found["rows"] if item["kind"] == "kernel")["verdict"] == "slower"


def test_markdown_keeps_bars_in_names(tmp_path):
    file = make_export(tmp_path / "a.sqlite", kernels=kernels("f<a|b>(int)", NOISE))
    output = io.StringIO()
    run(file, file, fail_above=None, fmt="md", output=output)
    assert "f&lt;a\\|b&gt;(int)" in output.getvalue()


def test_bad_input_is_one_line(pair, tmp_path):
    with pytest.raises(LabError, match="'xml' is not a format; choose one of table, csv, json, md"):
        run(*pair, fail_above=None, fmt="xml", output=io.StringIO())
    for limit in (-1.0, float("nan")):
        with pytest.raises(LabError, match="give a percentage of 0 or more"):
            run(*pair, fail_above=limit, fmt="table", output=io.StringIO())
    with pytest.raises(InputError, match=r"missing\.sqlite"):
        run(pair[0], tmp_path / "missing.sqlite", fail_above=None, fmt="table", output=io.StringIO())
    empty = make_export(tmp_path / "empty.sqlite")
    with pytest.raises(LabError, match=r"empty\.sqlite: no events to compare"):
        run(pair[0], empty, fail_above=None, fmt="table", output=io.StringIO())
