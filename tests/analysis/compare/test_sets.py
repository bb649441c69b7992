"""Two capture sets side by side."""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from labcode.analysis.compare.sets import COLUMNS, compare_sets, run
from labcode.errors import InputError, LabError
from tests.support.command import labcode
from tests.test_cli import one_line


def write_set(
    root: Path, name: str, experiments: dict[str, dict[str, dict[str, Any]]], claims: Any = None
) -> None:
    """A set whose experiments have runs with records; ``clean:`` before a run's name makes a clean record."""
    listed = {}
    for experiment, runs in experiments.items():
        folder = root / name / experiment
        folder.mkdir(parents=True)
        entries: dict[str, Any] = {}
        for label, record in runs.items():
            clean, _, run_name = label.rpartition(":")
            file = f"{run_name}.clean.json" if clean else f"{run_name}.json"
            content = json.dumps({"program": experiment, "variant": run_name, **record}).encode()
            content = content.replace(b'"DEEP"', b'{"a":' * 5000 + b"1" + b"}" * 5000)
            (folder / file).write_bytes(content)
            entry = entries.setdefault(run_name, {"argv": [], "tool_args": [], "files": {}, "warnings": []})
            entry["files"][file] = {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
        listed[experiment] = {
            "title": experiment, "tool": "bench", "machine": "m1", "captured": "2026-11-21", "sources": {},
            "wall_s": 1.0, "runs": entries,
        }  # fmt: skip
    machine = {
        "gpus": [{"name": f"NVIDIA {name.upper()}"}],
        "gpu_count": 1,
        "driver": "580.1",
        "cuda": "13.0",
    }
    manifest = {"schema": 1, "set": name, "machines": {"m1": machine}, "experiments": listed}
    (root / name / "manifest.json").write_text(json.dumps(manifest))
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


def test_claims_with_what_does_not_hold(sets: Path) -> None:
    table = compare_sets("a100", "b200").rows.query("kind == 'claim'").set_index("name")
    assert table.loc["twice", ["first", "second", "ratio"]].tolist() == [2.0, 0.5, 0.25]
    assert table.loc["twice", "note"] == "does not hold in b200 (at least 1)"
    assert table.loc["l", "note"] == "not in b200"
    assert table.loc["twice", "where"] == "p"


def test_what_one_set_lacks_is_named(sets: Path) -> None:
    assert compare_sets("a100", "b200").remarks == (
        "experiment old: only in a100 (`labcode capture old --set b200` adds it)",
        "experiment new: only in b200 (`labcode capture new --set a100` adds it)",
    )


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
    assert json.loads(texts["json"])["machines"][0] == "1 × NVIDIA A100 (driver 580.1, cuda 13.0)"
    assert (
        "Results of the programs" in texts["table"] and "note: experiment old: only in a100" in texts["table"]
    )
    assert "## Claims of the book" in texts["md"]


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
