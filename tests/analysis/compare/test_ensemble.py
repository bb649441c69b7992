"""More than two runs: medians, spread, what exceeds it; groups, a parameter, baselines that are kept."""

import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest

from labcode.analysis.compare.ensemble import ensemble, read, spread_ratio
from labcode.errors import InputError, LabError
from labcode.figures.charts.ensemble import over, write_over
from labcode.verbs.compare import baselines
from labcode.verbs.compare.many import Asked, compare, show
from tests.support.exports import kernel, make_export, push_pop


@pytest.fixture
def run(tmp_path: Path):
    """Writes a capture with eight kernels “k” of about some ns, each in a range “step N”."""

    def written(name: str, ns: int, *more: str) -> Path:
        kernels = [kernel(n * 10_000, n * 10_000 + ns + n % 3, "k") for n in range(8)]
        kernels += [kernel(90_000, 90_500, other) for other in more]
        ranges = [push_pop(n * 10_000, n * 10_000 + 2 * ns, f"step {n}") for n in range(8)]
        return make_export(tmp_path / f"{name}.sqlite", kernels=kernels, nvtx=ranges)

    return written


def rows(found, kind: str = "kernel", name: str = "k") -> dict[str, dict[str, object]]:
    table = found.table[(found.table["kind"] == kind) & (found.table["name"] == name)]
    return {row["group"]: row for row in table.fillna(-1.0).to_dict("records")}


def text(found, fmt: str = "table", **options: object) -> tuple[int, str]:
    stream = io.StringIO()
    code = show(found, **{"fail_above": None, "fmt": fmt, "output": stream, **options})
    return code, stream.getvalue()


def test_runs_that_scatter_too_far_are_undecided(run) -> None:
    """Runs of one side from 1 to 1.4 µs, of the other about 1.2 µs: neither a change nor none is shown."""
    groups = {"main": [1000, 1200, 1400], "new": [1180, 1200, 1220], "same": [1000, 1210, 1390]}
    asked = [
        f"{name}={','.join(str(run(f'{name}{ns}', ns)) for ns in all_ns)}" for name, all_ns in groups.items()
    ]
    found = compare(Asked(groups=asked))
    assert [rows(found)[name]["verdict"] for name in ("new", "same")] == ["undecided"] * 2
    code, said = text(found)
    assert code == 0 and re.search(
        r"\nnew: 0 slower and 0 faster than the spread explains, [3-9] undecided", said
    )
    assert "µs ±1.7 %, 1 undecided" in said
    assert text(found, undecided_exit=3)[0] == text(found, fail_above=5, undecided_exit=3)[0] == 3
    assert text(found, fail_above=50, undecided_exit=3)[0] == 0  # 1.4 times is excluded
    assert json.loads(text(found, "json")[1])["undecided"]


def test_groups_have_medians_and_spread_and_what_exceeds_it_is_called(run) -> None:
    main = [run(f"m{n}", 1000 + 10 * n) for n in range(3)]
    slow = [run(f"s{n}", 1200 + 10 * n) for n in range(3)]
    same = [run(f"e{n}", 990 + 10 * n, "odd") for n in range(3)]
    groups = [
        f"{name}={','.join(map(str, files))}" for name, files in zip("abc", (main, slow, same), strict=True)
    ]
    found = compare(Asked(groups=groups))
    of = rows(found)
    assert (
        of["a"]["runs"] == 3 and of["a"]["median"] == 1011 and of["a"]["spread"] == pytest.approx(20 / 1011)
    )
    assert of["b"]["verdict"] == "slower" and of["b"]["ratio"] == pytest.approx(1211 / 1011)
    assert (of["b"]["ratio_low"], of["b"]["ratio_high"]) == (1201 / 1021, 1221 / 1001)
    assert of["c"]["verdict"] == "no change" and of["c"]["ratio_low"] < 1 < of["c"]["ratio_high"]
    assert rows(found, "kernel", "odd")["c"]["verdict"] == "new"
    assert rows(found, "range", "step #")["b"]["verdict"] == "slower"
    code, said = text(found, fail_above=10)
    assert code == 1 and "baseline a: 3 runs" in said
    assert "exceeds the spread by chance in 10% of cases" in said  # 2 of the 20 ways to choose 3 of 6
    assert "1.011 µs ±0.99 %" in said and "1.211 µs ±0.83 %, 1.2 slower" in said
    assert "grew by over 10 %, with the whole interval above it" in said
    assert text(found, fail_above=10, gates=["kernel:odd"])[0] == 0
    with pytest.raises(LabError, match="--gate kernel:none matches nothing; of this kind there are: k, odd"):
        text(found, fail_above=10, gates=["kernel:none"])
    with pytest.raises(LabError, match="--gate says what --fail-above PCT judges"):
        text(found, gates=["total"])
    table = list(csv.DictReader(io.StringIO(text(found, "csv", only=["kernels"])[1])))
    assert {row["kind"] for row in table} == {"kernel"} and len(table) == 6
    document = json.loads(text(found, "json", fail_above=10)[1])
    assert document["groups"]["a"] == [str(path) for path in main]
    assert {row["group"] for row in document["regressions"] if row["kind"] == "kernel"} == {"b"}


def test_the_interval_is_of_runs_where_there_are_six_and_of_instances_where_there_is_one() -> None:
    def values(*medians: float):
        return [np.array([median]) for median in medians]

    few = spread_ratio(values(1.0, 1.2), values(2.0))
    assert (few.ratio, few.low, few.high) == (pytest.approx(2 / 1.1), 2.0 / 1.2, 2.0)
    many = spread_ratio(values(*range(10, 16)), values(*range(20, 26)))
    assert 20 / 15 < many.low < many.ratio < many.high < 2.5  # narrower than from one end to the other
    alone = spread_ratio([np.arange(10.0, 20)], [np.arange(20.0, 30)])
    assert alone.low > 1 and np.isnan(spread_ratio(values(1.0), values(2.0)).low)
    assert np.isnan(spread_ratio([], values(1.0)).ratio) and np.isnan(
        spread_ratio(values(0.0, 1), values(1)).low
    )


def test_files_alone_are_compared_with_the_first_or_the_one_named(run) -> None:
    files = [run("a", 1000), run("b", 2000), run("c", 500)]
    found = compare(Asked(files))
    assert [row["verdict"] for row in rows(found).values()] == ["", "slower", "faster"]
    assert "one run against one: what differs from run to run is not seen" in text(found, "md")[1]
    for name in (str(files[1]), "b.sqlite"):
        assert rows(compare(Asked(files, baseline=name)))["a.sqlite"]["verdict"] == "faster"


def test_a_column_over_a_parameter_and_its_picture(run, tmp_path: Path) -> None:
    found = compare(Asked([run(f"b{n}", 1000 * n) for n in (1, 2, 4)], column="batch=1,2,16"))
    assert found.table[found.table["name"] == "k"]["batch"].to_list() == [1, 2, 16]
    assert "batch=16" in text(found)[1]
    axes = over(found).axes[0]
    assert axes.get_xlabel() == "batch" and axes.get_xscale() == "log" and "period" in axes.get_ylabel()
    assert list(axes.lines[0].get_ydata()) == [0.01] * 3  # from step to step
    assert over(found, ["kernel"]).axes[0].lines[0].get_ydata()[2] == pytest.approx(4.0e-3, rel=0.01)
    picture = write_over(found, tmp_path / "a.svg")
    assert "batch" in picture.read_text(encoding="utf-8")
    with pytest.raises(LabError, match=r"a\.txt: the plot is a picture; name a file that ends in \.svg"):
        write_over(found, tmp_path / "a.txt")
    with pytest.raises(LabError, match="nothing to draw: no times of these kinds"):
        over(found, ["copy"])
    with pytest.raises(LabError, match="nothing to draw over: give each group its value"):
        over(compare(Asked([run("x", 1), run("y", 1), run("z", 1)])))


def test_a_baseline_is_kept_and_compared_with_when_its_files_are_gone(run, tmp_path: Path) -> None:
    kept_in, files = tmp_path / "kept.json", [run(f"m{n}", 1000 + n) for n in range(3)]
    first = compare(Asked(files, keep="main", kept_in=kept_in))
    compare(Asked([files[0]], keep="other", kept_in=kept_in))
    new = [run("n0", 1500), run("n1", 1502)]
    live = compare(Asked(new, groups=[f"main={','.join(map(str, files))}"], baseline="main"))
    for file in files:
        file.unlink()
    found = compare(Asked(new, baseline="main", kept_in=kept_in))
    mine = rows(found)
    assert mine["main"] == rows(first)["main"] == rows(live)["main"]
    assert mine["n0.sqlite"] == rows(live)["n0.sqlite"] and mine["n0.sqlite"]["verdict"] == "slower"
    again = compare(Asked([new[0], run("m1", 1001)], baseline="main", kept_in=kept_in))
    assert "m1.sqlite: holds a run that the baseline main holds, too" in again.notes
    with_column = compare(Asked(new, baseline="main", kept_in=kept_in, column="batch=1,2"))
    assert with_column.table["batch"].isna().sum() == len(with_column.table) / 3
    with pytest.raises(LabError, match="keeps no baseline 'none'; there are: main, other"):
        compare(Asked(new, baseline="none", kept_in=kept_in))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"format": "labcode base', "truncated, or no JSON at all"),
        ("[" * 100_000, "no file of baselines"),
        ('{"traceEvents": []}', "no file of baselines; make one with `labcode compare FILES --keep NAME`"),
        ('{"format": "labcode baselines", "schema": 2}', "schema 2, this labcode reads 1; use a newer one"),
        ('{"format": "labcode baselines", "schema": 1}', "a baseline in it lacks what belongs there"),
        (
            '{"format": "labcode baselines", "schema": 1, "baselines": {"a": {"what": "timeline", "runs": '
            '[{"file": "a", "sha256": [], "rows": [["kernel", "k", NaN, 1]]}]}}}',
            "no JSON at all",
        ),
        (
            '{"format": "labcode baselines", "schema": 1, "baselines": {"a": {"what": "timeline", "runs": '
            f'[{{"file": "a", "sha256": [], "rows": [["kernel", "k", 1, 1{"0" * 400}]]}}]}}}}}}',
            "a baseline in it lacks what belongs there",
        ),
    ],
)
def test_files_of_baselines_that_are_none(tmp_path: Path, run, content: str, message: str) -> None:
    file = tmp_path / "b.json"
    file.write_text(content)
    with pytest.raises(InputError, match=message):
        baselines.kept(file, "a")
    with pytest.raises(InputError, match=message):
        compare(Asked([run("a", 1000)], keep="a", kept_in=file))
    assert file.read_text() == content


def test_what_does_not_fit_together_is_told_in_one_line(run, tmp_path: Path) -> None:
    one, other = run("a", 1000), run("b", 1000)
    for asked, message in (
        (Asked(), "compare: name the runs to compare: two files, or several, or --group NAME=FILE"),
        (Asked([one]), r"a\.sqlite: one run to compare with nothing; name others, or --baseline NAME"),
        (Asked([one, other, one]), r"a\.sqlite: named twice; name each run once"),
        (Asked(groups=["a"]), "--group a: write NAME=FILE,FILE, each name once"),
        (Asked(groups=[f"a={one}", f"a={other}"]), "--group a=.*: write NAME=FILE,FILE, each name once"),
        (
            Asked([one, other], column="batch=1"),
            "--column batch=1: 1 numbers for 2 files and groups: a.sqlite",
        ),
        (Asked([one, other], column="batch=1,x"), "--column batch=1,x: write KEY=NUMBER,NUMBER"),
        (Asked([one, other], column="batch=1,1e308"), "--column batch=1,1e308: write KEY=NUMBER,NUMBER"),
        (
            Asked([one, other], column="batch=1,1"),
            "--column batch=1,1: a number stands twice; put runs of the same batch into one --group",
        ),
        (
            Asked([one], baseline="main", kept_in=tmp_path / "no"),
            "--baseline main: none of a.sqlite, and there is",
        ),
        (Asked([one], keep="a,b"), "--keep a,b: a name without '=' and ','"),
        (Asked([one], keep="a", column="b=1"), "--keep takes the runs of one baseline"),
        (Asked([one], keep="a", kept_in=one), r"a\.sqlite"),
        (
            Asked([one, other, tmp_path / "a.ncu-rep"]),
            r"a report of Nsight Compute; `labcode compare \(of more",
        ),
    ):
        with pytest.raises(LabError, match=message):
            compare(asked)
    empty = make_export(tmp_path / "empty.sqlite")
    with pytest.raises(LabError, match=r"empty\.sqlite: no events to compare"):
        compare(Asked([one, other, empty]))


def test_runs_of_several_kinds_are_not_compared(run) -> None:
    (one,) = read([run("a", 1000)])
    with pytest.raises(
        LabError, match=r"of the kind power, but .* of the kind timeline; compare runs of one kind"
    ):
        ensemble({"a": [one], "b": [type(one)("b", "power", (), {}, {})]}, "a")
