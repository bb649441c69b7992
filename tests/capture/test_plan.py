"""What is stale by which change, what it costs, and a set that is captured anew in slices."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from labcode import store
from labcode.capture import archive, catalogue, plan, verify
from labcode.capture.catalogue import Experiment, Run
from labcode.capture.runner import Wishes
from labcode.errors import LabError
from tests.capture.conftest import Lab
from tests.support.command import labcode, one_line

FAKE = "Fake GPU"


def experiment(name: str, source: str, gpus: int = 1, **changes: object) -> Experiment:
    plain = Experiment(name, "A measurement", "bench", "program", (Run("record"),), (source,), gpus, 120.0)
    return replace(plain, **changes)  # type: ignore[arg-type]


@pytest.fixture
def three(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """The set ``mine``: one and two of the first source, pair of both and of two GPUs, fine of the third."""
    for name in ("first", "second", "third"):
        (lab.home / f"{name}.py").write_text("x = 1\n")
    both = experiment("pair", "first.py", 2, sources=("first.py", "second.py"))
    known = (
        experiment("one", "first.py"),
        experiment("two", "first.py"),
        both,
        experiment("fine", "third.py"),
    )
    monkeypatch.setattr(catalogue, "EXPERIMENTS", {e.id: e for e in known})
    assert lab.capture() == 0, lab.printed
    took(lab, one=60.0, two=600.0, pair=90.0, fine=1000.0)
    return lab


def took(lab: Lab, **seconds: float) -> None:
    """The set's experiments took so long."""
    edit(lab, lambda experiments: [experiments[name].update(wall_s=s) for name, s in seconds.items()])


def edit(lab: Lab, change) -> None:  # type: ignore[no-untyped-def]
    path = lab.sets / "mine/manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest["experiments"])
    path.write_text(json.dumps(manifest))


def change(lab: Lab, *sources: str) -> None:
    for source in sources:
        (lab.home / f"{source}.py").write_text("x = 2\n")


def test_nothing_is_stale_until_a_source_means_something_else(three: Lab) -> None:
    said = labcode("captures", "plan", "mine").stdout.splitlines()
    assert said[0] == "mine: nothing is stale"
    (three.home / "first.py").write_text("x = 1  # a comment\n")
    assert plan.plan_of(store.load_set("mine")).stale == ()
    change(three, "second")
    assert plan.plan_of(store.load_set("mine")).names == ("pair",)


def test_a_plan_says_by_which_change_and_what_it_costs_on_which_machine(three: Lab) -> None:
    change(three, "first", "second")
    found = plan.plan_of(store.load_set("mine"))
    assert found.names == ("one", "pair", "two")  # of as many pages the shortest first
    assert {name: sorted(names) for name, names in found.changes().items()} == {
        "first.py": ["one", "pair", "two"],
        "second.py": ["pair"],
    }
    assert [(c.gpu, c.gpus, c.experiments, c.seconds) for c in found.costs()] == [
        (FAKE, 1, ("one", "two"), 660.0),
        (FAKE, 2, ("pair",), 90.0),
    ]


def test_a_plan_says_what_the_whole_set_took_on_how_many_days(three: Lab) -> None:
    edit(three, lambda experiments: experiments["two"].update(captured="2026-11-20"))
    assert table(three, 700.0).splitlines() == [
        "mine: nothing is stale",
        "",
        "What the whole set took, captured on 2 days",
        "3 experiments on 1 × Fake GPU: 28 min, in 1 slice of 12 min; longer than a slice: fine",
        "1 experiment on 2 × Fake GPU: 90 s, in 1 slice of 12 min",
    ]
    told = plan.document(plan.plan_of(store.load_set("mine")))
    assert (told["stale"], told["costs"]) == ([], [])
    assert [(cost["gpus"], cost["seconds"]) for cost in told["whole"]] == [(1, 1660.0), (2, 90.0)]  # type: ignore[attr-defined]


def test_a_plan_in_words_and_for_programs(three: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    change(three, "first")
    lines = table(three, 300.0).splitlines()
    assert lines[0] == "mine: 3 experiments stale"
    assert lines[3].split() == ["first.py", "3", "one,", "pair,", "two"]
    assert lines[6:9] == [
        "2 experiments on 1 × Fake GPU: 11 min, in 1 slice of 5 min; longer than a slice: two",
        "1 experiment on 2 × Fake GPU: 90 s, in 1 slice of 5 min",
        "`labcode capture --stale --set mine --budget 5min` captures them",
    ]
    assert "--set mine --budget 200s` captures them" in table(three, 200.0)
    told = plan.document(plan.plan_of(store.load_set("mine")), 700.0)
    assert told["schema"] == 1 and told["changes"] == {"first.py": ["one", "pair", "two"]}
    assert told["costs"][0] == {  # type: ignore[index]
        "gpu": FAKE,
        "gpus": 1,
        "seconds": 660.0,
        "experiments": ("one", "two"),
        "slices": 1,
        "too_long": (),
    }
    assert "slices" not in plan.document(plan.plan_of(store.load_set("mine")))["costs"][0]  # type: ignore[index]


def table(lab: Lab, slice_s: float | None = None) -> str:
    import io

    stream = io.StringIO()
    plan.run("mine", slice_s, fmt="table", output=stream)
    return stream.getvalue()


def test_slices_are_filled_as_a_capture_fills_them() -> None:
    assert plan._slices([], 10.0) == 0
    assert plan._slices([6.0, 6.0, 4.0, 4.0], 10.0) == 2
    assert plan._slices([6.0, 6.0, 6.0, 4.0], 10.0) == 3


def test_a_change_of_the_catalogue_and_a_lost_experiment_are_said(
    three: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(catalogue.EXPERIMENTS, "fine")
    another = replace(catalogue.EXPERIMENTS["one"], runs=(Run("record"), Run("more")))
    monkeypatch.setitem(catalogue.EXPERIMENTS, "one", another)
    monkeypatch.setitem(catalogue.EXPERIMENTS, "new", experiment("new", "first.py"))
    found = plan.plan_of(store.load_set("mine"))
    assert found.changes() == {"it lacks the run more": ["one"]}
    assert (found.missing, found.gone) == (("new",), ("fine",))
    said = table(three)
    assert "not captured in this set: new; --only-missing captures these, too\n" in said
    assert "`labcode captures prune` drops them: fine\n" in said


def test_exactly_what_is_stale_is_captured(three: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(catalogue.EXPERIMENTS, "new", experiment("new", "first.py"))
    change(three, "second")
    before = three.tree()
    assert three.capture(stale=True) == 0
    after = store.load_set("mine")
    assert "1 to capture" in three.printed and "pair: filed" in three.printed
    assert set(after.experiments) == {"one", "two", "pair", "fine"}  # not `new`, which --only-missing takes
    kept = {name: data for name, data in before.items() if not name.startswith(("mine/pair/", "mine/man"))}
    assert kept.items() <= three.tree().items()
    assert three.capture(stale=True) == 0
    assert three.printed == "mine: nothing that was asked for is stale\n"
    change(three, "first")
    assert three.capture("two", "fine", stale=True) == 0
    assert set(plan.plan_of(store.load_set("mine")).names) == {"one", "pair"}


def test_slices_of_several_days_and_machines_are_one_set(three: Lab, tmp_path: Path) -> None:
    change(three, "first", "second")
    days: list[Path] = []

    def slice_(budget_s: float, driver: str, code: int = 0) -> None:
        days.append(tmp_path / f"day-{len(days)}.tar")
        here = {"gpus": [{"name": FAKE}], "gpu_count": 2, "driver": driver}
        done = three.capture(
            stale=True, wishes=Wishes(budget_s=budget_s), archive=days[-1], machine=lambda: here
        )
        assert done == code, three.printed

    start = tmp_path / "start"
    archive.add([packed(three, tmp_path)], start)
    slice_(120.0, "1.2")
    assert (
        "left out, for they take longer than all of --budget (2 min): two (about 10 min); give more"
        in three.printed
    )
    assert plan.plan_of(store.load_set("mine")).names == ("two",)
    slice_(30.0, "1.2", code=1)  # too short for anything: nothing is lost, nothing is made, and a loop ends
    assert plan.plan_of(store.load_set("mine")).names == ("two",) and not days.pop().exists()
    slice_(700.0, "1.3")
    captures = store.load_set("mine")
    assert plan.plan_of(captures).stale == () and verify.verify("mine") == []
    assert {machine["driver"] for machine in captures.machines.values()} == {"1.2", "1.3"}
    assert captures.machine_of("two")["driver"] == "1.3" and captures.machine_of("one")["driver"] == "1.2"
    archive.add(days, start)  # the slices' archives, brought home, make the same set
    home = json.loads((start / "mine/manifest.json").read_text())
    assert home["experiments"].keys() == captures.experiments.keys()
    for name, record in captures.experiments.items():
        assert home["experiments"][name]["sources"] == dict(record.sources)


def packed(lab: Lab, tmp_path: Path) -> Path:
    captures = store.load_set("mine")
    (path,) = archive.write(tmp_path / "whole.tar", captures.path, captures.experiments)
    return path


def test_a_slice_on_another_gpu_is_refused(three: Lab) -> None:
    change(three, "first")
    before = three.tree()
    with pytest.raises(LabError, match="mine: captured on Fake GPU, and this machine has Other"):
        three.capture(stale=True, machine=lambda: {"gpus": [{"name": "Other"}], "gpu_count": 2})
    assert three.tree() == before


def test_what_cannot_be_asked_for_is_one_line(lab: Lab) -> None:
    with pytest.raises(LabError, match="mine: no set to capture anew; without --stale one is made"):
        lab.capture(stale=True)
    assert not (lab.sets / "mine").exists()
    two = one_line(labcode("capture", "--set", "mine", "--stale", "--only-missing"))
    assert "--stale and --only-missing are two different wishes; give one" in two
    assert "no capture set of this name" in one_line(labcode("captures", "plan", "mine"))
    assert "'csv' is not a format" in one_line(labcode("captures", "plan", "-f", "csv"))
    assert "--budget soon: give a time with its unit" in one_line(
        labcode("captures", "plan", "--budget", "soon")
    )
