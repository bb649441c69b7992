"""Two capture sets side by side."""

import io
import json
import math
import os
import re
from pathlib import Path
from typing import Any

import pytest

from labcode.analysis.compare.sets import COLUMNS, compare_sets, run
from labcode.errors import InputError, LabError
from tests.support.command import labcode, one_line
from tests.support.sets import MACHINE, make_set


def write_set(
    root: Path, name: str, experiments: dict[str, dict[str, dict[str, Any]]], claims: Any = None
) -> None:
    """A set whose experiments have runs with records; ``clean:`` before a run's name makes a clean record."""
    held: dict[str, dict[str, dict[str, bytes]]] = {}
    for experiment, runs in experiments.items():
        for label, record in runs.items():
            clean, _, run_name = label.rpartition(":")
            content = json.dumps({"program": experiment, "variant": run_name, **record}).encode()
            content = content.replace(b'"DEEP"', b'{"a":' * 5000 + b"1" + b"}" * 5000)
            files = held.setdefault(experiment, {}).setdefault(run_name, {})
            files[f"{run_name}.clean.json" if clean else f"{run_name}.json"] = content
    machine = {**MACHINE, "gpus": [{"name": f"NVIDIA {name.upper()}"}], "cpu": "EPYC"}
    make_set(root / name, held, machine=machine)
    if claims is not None:
        (root / name / "claims.json").write_text(json.dumps({"schema": 1, "set": name, "claims": claims}))


def results(**values: Any) -> dict[str, Any]:
    return {"parameters": {"steps": 5}, "results": values, "checks": {}}


def claim(text: str, value: float | None, holds: bool = True) -> dict[str, Any]:
    return {
        "key": "k",
        "text": text,
        "value": value,
        "shown": str(value),
        "bound": "at least 1",
        "holds": holds,
    }


@pytest.fixture
def sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LABCODE_SETS", str(tmp_path))
    one = {"loop": {"base": results(ms=1.0), "clean:base": results(ms=2.0, each_ms=[1, 9, 4], names=["x"])}}
    write_set(
        tmp_path,
        "a100",
        {**one, "old": {"base": results()}},
        {"p#k": claim("twice", 2.0), "p#l": claim("l", 1)},
    )
    other = {"loop": {"base": results(ms=7.0), "clean:base": results(ms=1.0, each_ms=[2, 2], deep={"us": 3})}}
    write_set(tmp_path, "b200", {**other, "new": {"base": results()}}, {"p#k": claim("twice", 0.5, False)})
    return tmp_path


def test_results_of_the_runs_without_a_profiler_with_ratios(sets: Path) -> None:
    found = compare_sets("a100", "b200")
    assert tuple(found.rows.columns) == COLUMNS
    table = found.rows[found.rows["kind"] == "result"].set_index("name")
    assert table["where"].unique().tolist() == ["loop/base"]
    assert table.loc["ms", ["first", "second", "ratio"]].tolist() == [2.0, 1.0, 0.5]
    assert table.loc["each_ms", ["first", "second", "note"]].tolist() == [4.0, 2.0, "median of 3"]
    assert math.isnan(table.loc["deep.us", "first"]) and table.loc["deep.us", "second"] == 3
    assert set(table.index) == {"ms", "each_ms", "deep.us"}


def test_where_one_set_has_no_run_without_a_profiler_those_under_it_are_compared(sets: Path) -> None:
    write_set(sets, "c300", {"loop": {"base": results(ms=14.0)}})
    for pair in (("a100", "c300"), ("c300", "a100")):
        table = compare_sets(*pair).rows.query("kind == 'result'").set_index("name")
        assert sorted(table.loc["ms", ["first", "second"]]) == [1.0, 14.0] and len(table) == 1


def test_claims_with_what_does_not_hold(sets: Path) -> None:
    table = compare_sets("a100", "b200").rows.query("kind == 'claim'").set_index("name")
    assert table.loc["twice", ["first", "second", "ratio"]].tolist() == [2.0, 0.5, 0.25]
    assert table.loc["twice", "note"] == "does not hold in b200 (at least 1)"
    assert table.loc["l", "note"] == "not in b200"
    assert table.loc["twice", "where"] == "p#k"
    assert table["change"].to_dict() == {"twice": "turns over", "l": "only one"}


def test_what_one_set_lacks_is_named(sets: Path) -> None:
    assert compare_sets("a100", "b200").remarks == (
        "experiment old: only in a100 (`labcode capture old --set b200` adds it)",
        "experiment new: only in b200 (`labcode capture new --set a100` adds it)",
    )


def test_a_set_of_half_the_experiments_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LABCODE_SETS", str(tmp_path))
    write_set(tmp_path, "whole", {name: {"base": results(ms=1)} for name in ("one", "two", "three")})
    write_set(tmp_path, "part", {"two": {"base": results(ms=1)}})
    (said,) = [line for line in compare_sets("part", "whole").remarks if "experiment" in line]
    assert said.startswith("2 experiments: only in whole (`labcode capture --only-missing --set part`")
    assert said.endswith(": one, three")


def test_runs_parameters_and_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABCODE_SETS", str(tmp_path))
    write_set(tmp_path, "a", {"loop": {"base": results(ms=1), "extra": results(ms=1)}})
    other = {
        "parameters": {"steps": 9, "seed": 1},
        "results": {"ms": 0},
        "checks": {"sums": {"passed": False}},
    }
    write_set(tmp_path, "b", {"loop": {"base": other}})
    found = compare_sets("a", "b")
    assert found.remarks[:3] == (
        "loop/base: its check sums failed in b",
        "loop/base: run with other parameters (steps 5 and 9, seed none and 1), so its results say little",
        "run loop/extra: only in a",
    )
    assert found.remarks[3].startswith(
        "claims: none recorded in a; `labcode book --captures a --update-claims`"
    )
    assert found.rows["ratio"].tolist() == [0.0]
    assert compare_sets("b", "a").rows["ratio"].isna().all()


def test_formats(sets: Path) -> None:
    texts = {}
    for fmt in ("table", "csv", "json", "md"):
        output = io.StringIO()
        run("a100", "b200", fmt=fmt, output=output)
        texts[fmt] = output.getvalue()
    assert texts["csv"].splitlines()[0] == ",".join(COLUMNS)
    assert json.loads(texts["json"])["machines"][0] == "1 × NVIDIA A100 (driver 580.1, cuda 13.0, EPYC)"
    assert (
        "Results of the programs" in texts["table"] and "note: experiment old: only in a100" in texts["table"]
    )
    assert "## Claims that turn over (1)\n" in texts["md"] and "| p | twice |" in texts["md"]
    assert texts["csv"].splitlines()[1].startswith("claim,turns over,p#k,twice,2,0.5,0.25,30,")


def of_claims(first: dict[str, Any], second: dict[str, Any]) -> Any:
    """The comparison of sets ``a`` and ``b`` with these claims, and with no results."""
    root = Path(os.environ["LABCODE_SETS"])
    for name, claims in (("a", first), ("b", second)):
        write_set(root, name, {}, {f"p#{key}": {**value, "text": key} for key, value in claims.items()})
    return compare_sets("a", "b").rows.set_index("name")


def test_claims_that_turn_over_come_first_then_what_moved_farthest(sets: Path) -> None:
    share = {"shown": "50%", "bound": ""}
    percent = {"shown": "50.0%", "bound": ""}
    first = {
        "alike": claim("", 2.0), "far": claim("", 1.0), "farther": claim("", 1.0), "sign": claim("", -1.0),
        "turned": claim("", 1.0, holds=False), "share": claim("", 0.5) | share, "gone": claim("", 1.0),
        "points": claim("", 0.5) | share, "percent": claim("", 50.0) | percent, "undefined": claim("", None),
        "neither": claim("", 0.1, holds=False), "lost": claim("", 1.0, holds=False),
    }  # fmt: skip
    second = {
        "alike": claim("", 2.19), "far": claim("", 1.2), "farther": claim("", 0.5), "sign": claim("", 1.0),
        "turned": claim("", 1.01), "share": claim("", 0.529) | share, "lost": claim("", None, holds=False),
        "points": claim("", 0.42) | share, "percent": claim("", 56.5) | percent, "undefined": claim("", None),
        "neither": claim("", 0.1, holds=False), "new": claim("", 1.0),
    }  # fmt: skip
    rows = of_claims(first, second)
    moved = {
        "lost": math.inf,
        "sign": math.inf,
        "farther": 10.0,
        "points": 8 / 3,
        "percent": 13 / 6,
        "far": 2.0,
    }
    same = {"alike": 0.95, "neither": 0.0, "share": 29 / 30, "undefined": 0.0}
    groups = {"turns over": ["turned"], "moved": moved, "same": same, "only one": ["gone", "new"]}
    assert list(rows["change"].items()) == [(name, group) for group, of in groups.items() for name in of]
    for name, far in {**moved, **same}.items():
        assert rows.loc[name, "moved"] == pytest.approx(far), name
    assert rows.loc["neither", "note"] == "does not hold in a (at least 1); does not hold in b (at least 1)"


def test_claims_that_depend_on_the_host_move_by_more(sets: Path) -> None:
    host = {"host": True}
    shares = [claim("", value) | {"shown": "50%"} | host for value in (0.5, 0.62, 0.7)]
    first = {"near": shares[0], "far": shares[0], "value": claim("", 1.0) | host}
    rows = of_claims(first, {"near": shares[1], "far": shares[2], "value": claim("", 1.4) | host})
    assert rows["change"].to_dict() == {"far": "moved", "near": "same", "value": "same"}
    assert rows["moved"].tolist() == pytest.approx([4 / 3, 0.8, 0.8])


def test_bounds_that_differ_are_said(sets: Path) -> None:
    rows = of_claims({"c": claim("", 1.0)}, {"c": claim("", 1.0, holds=False) | {"bound": "at least 2"}})
    assert (
        rows.loc["c", "note"] == "does not hold in b (at least 2); bounds differ: at least 1 and at least 2"
    )


def test_results_move_by_what_their_own_repetitions_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LABCODE_SETS", str(tmp_path))
    quiet = {"time_us": 100.0, "time_q1_us": 99.0, "time_q3_us": 101.0, "noisy_ms": [1.0, 2.0, 3.0, 4.0, 5.0]}
    rows = [{"name": "copy", "kind": "a", "time_us": 1.0}, {"name": "sum", "kind": "a", "time_us": 3.0}]
    same = [{"name": "x", "n": 1}, {"name": "x", "n": 2}]
    write_set(tmp_path, "a", {"e": {"r": results(**quiet, plain=1.0, rows=rows, same=same)}})
    later = {"time_us": 109.0, "time_q1_us": 79.0, "time_q3_us": 139.0, "noisy_ms": [2.0, 3.0, 4.0, 5.0, 6.0]}
    write_set(tmp_path, "b", {"e": {"r": results(**later, plain=1.2, rows=rows[::-1], same=same)}})
    table = compare_sets("a", "b").rows.set_index("name")
    assert table["change"].to_dict() == {
        "plain": "moved",
        **dict.fromkeys(
            (
                "time_us",
                "noisy_ms",
                "rows[copy, a].time_us",
                "rows[sum, a].time_us",
                "same[0].n",
                "same[1].n",
            ),
            "same",
        ),
    }
    assert table.loc["time_us", "moved"] == pytest.approx(0.09 / (60 / 109))
    assert table.loc["noisy_ms", "moved"] == pytest.approx((1 / 3) / (2 / 3))
    assert table.loc["plain", "moved"] == pytest.approx(2.0)
    output = io.StringIO()
    run("a", "b", fmt="table", output=output)
    assert "moved by more than two equal runs differ (1)\n" in output.getvalue()
    assert "Results of the programs that stay (6, not listed)\n" in output.getvalue()
    output = io.StringIO()
    run("b", "a", fmt="csv", output=output)
    assert len(output.getvalue().splitlines()) == 8


def test_a_table_lists_what_moved_farthest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABCODE_SETS", str(tmp_path))
    monkeypatch.setattr("labcode.analysis.compare.sets._FARTHEST", 1)
    write_set(tmp_path, "a", {"e": {"r": results(near=1.0, far=1.0)}})
    write_set(tmp_path, "b", {"e": {"r": results(near=1.3, far=5.0)}})
    output = io.StringIO()
    run("a", "b", fmt="md", output=output)
    assert "differ (2, the farthest 1 listed)\n" in output.getvalue()
    assert "far" in output.getvalue() and "near" not in output.getvalue()


def test_thin_sets_can_be_compared(sets: Path) -> None:
    manifest = json.loads((sets / "a100/manifest.json").read_text())
    entry = manifest["experiments"]["loop"]
    entry["thin"] = True
    entry["runs"]["base"]["files"]["base.sqlite.xz"] = {"sha256": "0" * 64, "bytes": 9}
    before = compare_sets("a100", "b200").rows
    (sets / "a100/manifest.json").write_text(json.dumps(manifest))
    assert compare_sets("a100", "b200").rows.equals(before)


def test_bad_use(sets: Path) -> None:
    with pytest.raises(LabError, match="a100 twice; name two sets"):
        compare_sets("a100", "a100")
    with pytest.raises(InputError, match="h900"):
        compare_sets("a100", "h900")
    with pytest.raises(LabError, match="'xml' is not a format"):
        run("a100", "b200", fmt="xml", output=io.StringIO())
    (sets / "b200" / "loop" / "base.clean.json").write_text("{}")
    with pytest.raises(InputError, match=r"base\.clean\.json: changed since it was captured"):
        compare_sets("a100", "b200")
    (sets / "a100" / "claims.json").write_text("[")
    with pytest.raises(InputError):
        compare_sets("a100", "b200")


@pytest.mark.parametrize(
    ("record", "claims", "message"),
    [
        ({"parameters": [1]}, None, r"one\.json: not a run's record; capture it again"),
        ({"checks": {"a": 1}}, None, r"one\.json: not a run's record; capture it again"),
        ({"checks": 1}, None, r"one\.json: not a run's record; capture it again"),
        ({"results": "DEEP"}, None, "nested too deep|not valid JSON"),
        ({}, {"p#k": claim("a", None) | {"text": 7}}, r"claims\.json: damaged; write it again"),
        ({}, {"p#k": claim("a", None) | {"value": "x"}}, r"claims\.json: damaged; write it again"),
        ({}, {"p#k": claim("a", None) | {"value": 10**400}}, r"claims\.json: damaged; write it again"),
    ],
)
def test_records_and_claims_of_other_types_are_one_line(
    tmp_path: Path, record: dict[str, Any], claims: Any, message: str
) -> None:
    for name in ("mine", "yours"):
        write_set(tmp_path, name, {"exp": {"one": record}}, claims)
    env = {"LABCODE_SETS": str(tmp_path), "LABCODE_CACHE": str(tmp_path / "cache")}
    assert re.search(message, one_line(labcode("captures", "compare", "mine", "yours", env=env)))


def test_numbers_of_any_size_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABCODE_SETS", str(tmp_path))
    for name in ("mine", "yours"):
        write_set(tmp_path, name, {"exp": {"one": results(huge=10**400, time_ms=1.0)}})
    assert list(compare_sets("mine", "yours").rows["name"]) == ["time_ms"]
