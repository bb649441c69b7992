"""Two reports kernel by kernel: what changed, what is new, and the exit code."""

import csv
import io
import json
import math
from pathlib import Path

import pytest

from labcode.analysis.compare import launches
from labcode.analysis.compare.launches import compare
from labcode.errors import LabError
from labcode.reports.ncu.report import NcuReport
from labcode.verbs.compare.pairs import run
from tests.support import ncu


@pytest.fixture(autouse=True)
def shared_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABCODE_CACHE", str(ncu.folder() / "cache"))


def only(kernel: str, name: str = "full") -> NcuReport:
    return ncu.opened(name).select(kernel=kernel)


def text(
    one: str, other: str, fmt: str = "table", fail_above: float | None = None, **options: object
) -> tuple[int, str]:
    output = io.StringIO()
    files = (ncu.path(f"{name}.ncu-rep") for name in (one, other))
    code = run(*files, fail_above=fail_above, fmt=fmt, output=output, **options)  # type: ignore[arg-type]
    return code, output.getvalue()


def test_the_same_report_does_not_change() -> None:
    found = compare(ncu.opened("full"), ncu.opened("full"))
    assert len(found.pairs) == 14 and not found.table["changed"].any()
    assert found.vanished == found.new == found.warnings == ()
    assert found.table["ratio"].eq(1).all()


def test_a_renamed_kernel_shows_what_became_of_it() -> None:
    found = compare(only("copy_scalar"), only("copy_vector"))
    assert [pair.renamed for pair in found.pairs] == [True]
    rows = found.table.set_index("metric")
    assert rows.loc["duration (ns)", "ratio"] < 0.9 and rows.loc["duration (ns)", "changed"]
    assert rows.loc["instructions", "ratio"] < 0.5
    assert (
        abs(rows.loc["DRAM read (bytes)", "ratio"] - 1) < 0.01
        and not rows.loc["DRAM read (bytes)", "changed"]
    )
    assert rows["kernel_before"].eq("copy_scalar").all()


def test_new_and_vanished_kernels_are_named() -> None:
    found = compare(only("copy|doubles"), only("copy|tensor|halves"))
    assert len(found.pairs) == 2
    assert found.vanished == ("doubles(double *, int)",)
    assert found.new == ("halves(__half2 *, int)", "tensor(float *, int)")


def test_two_runs_of_the_same_kernels() -> None:
    found = compare(ncu.opened("full"), ncu.opened("basic"))
    durations = found.table[found.table["metric"] == "duration (ns)"]
    assert len(durations) == 14
    assert durations["ratio"].between(0.8, 1.25).all()
    assert not found.table[found.table["metric"].isin(["registers", "theoretical occupancy (%)"])][
        "changed"
    ].any()


def test_metrics_from_zero() -> None:
    rows = compare(only("fma_chain"), only("conflicts")).table.set_index("metric")
    assert rows.loc["superfluous wavefronts", "before"] == 0
    assert math.isinf(rows.loc["superfluous wavefronts", "ratio"])


def test_text_and_exit_code() -> None:
    code, written = text("full", "basic", fail_above=1000)
    assert code == 0 and "0 of 14 launches slower by more than 1000 %" in written
    assert "\ncopy_scalar: " in written and "times the time" in written
    code, written = text("full", "full", "md", fail_above=0.0)
    assert code == 0 and "## doubles: no change, 1 times the time" in written
    assert "waits mostly for: math pipe throttle" in written


def test_without_intervals_nothing_is_undecided() -> None:
    with pytest.raises(LabError, match="--undecided-exit goes by intervals, and a"):
        text("full", "full", undecided_exit=3)


def test_a_regression_exits_with_1() -> None:
    slow = compare(only("copy_vector"), only("copy_scalar"))
    assert [pair.after.function for pair in slow.slower(5)] == ["copy_scalar"]
    assert slow.slower(50) == []


def test_csv_and_json_hold_every_metric() -> None:
    _, written = text("full", "full", "csv", kernel="doubles")
    rows = list(csv.DictReader(io.StringIO(written)))
    assert len(rows) > 20 and {row["kernel"] for row in rows} == {"doubles"}
    _, written = text("full", "full", "json", kernel="doubles", fail_above=5.0)
    document = json.loads(written)
    assert len(document["rows"]) == len(rows) and document["slower"] == []


def test_refused() -> None:
    with pytest.raises(LabError, match="no kernel matches 'gemm'"):
        text("full", "full", kernel="gemm")


def test_nothing_in_common() -> None:
    found = compare(only("copy"), only("fma"))
    assert found.pairs == () and len(found.vanished) == len(found.new) == 2


def test_reports_without_a_common_kernel_are_told_apart_by_short_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reports = {"one.ncu-rep": only("copy|doubles"), "other.ncu-rep": only("tensor|halves|spills")}
    monkeypatch.setattr(launches, "open_launches", lambda path: reports[path.name])
    files = (Path(name) for name in reports)
    with pytest.raises(LabError) as caught:
        run(*files, fail_above=None, fmt="table", output=io.StringIO())
    said = str(caught.value)
    assert "no kernel in common; one.ncu-rep holds copy_" in said
    assert "doubles, other.ncu-rep " in said and "(" not in said
