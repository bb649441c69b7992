"""Sets as wholes: merged with conflicts named, pruned with nothing lost, exported with hashes."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from labcode.capture import archive, catalogue, verify, whole_sets
from labcode.errors import InputError, LabError
from labcode.store import load_set
from tests.capture.conftest import Lab
from tests.support.command import labcode, one_line

CLAIM = {"key": "k", "text": "t", "value": 1.0, "shown": "1", "bound": "≥ 0", "holds": True, "host": False}


def edit(folder: Path, change) -> None:  # type: ignore[no-untyped-def]
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


def another(lab: Lab, name: str, *without: str) -> Path:
    """A copy of the set ``mine`` without some of its experiments."""
    folder = lab.sets / name
    shutil.copytree(lab.sets / "mine", folder)
    edit(folder, lambda manifest: manifest.update(set=name))
    for experiment in without:
        edit(folder, lambda manifest, one=experiment: manifest["experiments"].pop(one))
        shutil.rmtree(folder / experiment)
    return folder


def recaptured(lab: Lab, folder: Path) -> None:
    """Beta of a set measured something else."""
    file = folder / "beta/record.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "results": {"other": 1}}))
    (about,) = verify_record(file).items()
    edit(folder, lambda m: m["experiments"]["beta"]["runs"]["record"]["files"].update([about]))
    edit(folder, lambda m: m["experiments"]["beta"].update(captured="2026-01-02"))


def verify_record(file: Path) -> dict[str, object]:
    from labcode.capture.filing import files_record

    return dict(files_record(file.parent, [file.name]))


def test_two_halves_become_one_set(captured: Lab) -> None:
    whole = captured.tree()
    another(captured, "left", "beta")
    another(captured, "right", "alpha")
    assert labcode("captures", "merge", "left", "right").stdout == "left/beta: added from right\n"
    for name, data in whole.items():
        if not name.endswith("manifest.json"):
            assert (captured.sets / name.replace("mine/", "left/")).read_bytes() == data
    assert verify.verify("left") == [] and set(load_set("right").experiments) == {"beta"}
    assert len(load_set("left").machines) == 1
    assert whole_sets.merge("left", ["right"]) == ["left: holds all of right already"]


def test_conflicts_are_named_and_nothing_is_merged_until_one_counts(captured: Lab) -> None:
    recaptured(captured, another(captured, "left"))
    today = load_set("mine").experiment("beta").captured
    before = captured.tree()
    said = one_line(labcode("captures", "merge", "mine", "left"))
    assert "mine: captured differently in several sets, name the one that counts with --prefer SET" in said
    assert said.rstrip().endswith(f"beta (mine: {today}, fresh, left: 2026-01-02, fresh)")
    assert captured.tree() == before
    with pytest.raises(LabError, match="--prefer yours: none of the sets that are merged"):
        whole_sets.merge("mine", ["left"], prefer="yours")
    assert whole_sets.merge("mine", ["left"], prefer="mine") == ["mine: holds all of left already"]
    assert whole_sets.merge("mine", ["left"], prefer="left") == ["mine/beta: replaced from left"]
    assert load_set("mine").experiment("beta").captured == "2026-01-02" and verify.verify("mine") == []


def test_sets_of_different_gpus_and_damaged_ones_are_refused(captured: Lab) -> None:
    folder = another(captured, "left")
    (folder / "beta/record.json").write_text("{}")
    shutil.rmtree(captured.sets / "mine/beta")
    edit(captured.sets / "mine", lambda manifest: manifest["experiments"].pop("beta"))
    before = captured.tree()
    with pytest.raises(InputError, match=r"record\.json: changed since it was captured"):
        whole_sets.merge("mine", ["left"])
    edit(folder, lambda manifest: manifest["machines"]["m1"].update(gpus=[{"name": "Other GPU"}]))
    message = "sets of different GPUs stay apart: mine on Fake GPU; left on Other GPU"
    with pytest.raises(LabError, match=message):
        whole_sets.merge("mine", ["left"])
    with pytest.raises(LabError, match="mine: name another set to merge into it"):
        whole_sets.merge("mine", ["mine"])
    after = captured.tree()
    assert {k: v for k, v in after.items() if k.startswith("mine/")} == {
        k: v for k, v in before.items() if k.startswith("mine/")
    }


def test_a_thin_experiment_is_whole_again_from_a_set_that_has_its_traces(
    captured: Lab, tmp_path: Path
) -> None:
    another(captured, "left")
    archive.thin("mine", [], [tmp_path / "traces.tar"])
    assert load_set("mine").absent("alpha")
    assert whole_sets.merge("mine", ["left"]) == ["mine/alpha: replaced from left"]
    assert not load_set("mine").absent("alpha") and verify.verify("mine") == []


def test_what_the_catalogue_lost_goes_into_an_archive_or_is_dropped_knowingly(
    captured: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert whole_sets.prune("mine") == ["mine: the catalogue has all of its experiments"]
    edit(captured.sets / "mine", lambda manifest: manifest.update(skipped={"gamma": "needs 3 gpus"}))
    for name in ("beta", "gamma"):
        monkeypatch.delitem(catalogue.EXPERIMENTS, name)
    before = captured.tree()
    with pytest.raises(LabError, match=r"mine: beta \(.*\) would be lost; name an archive to write with"):
        whole_sets.prune("mine")
    assert captured.tree() == before
    out = tmp_path / "old.tar"
    said = whole_sets.prune("mine", archive=out)
    assert said[1:] == ["mine/beta: taken out", "mine/gamma: no longer noted as skipped"]
    assert set(load_set("mine").experiments) == {"alpha"} and verify.verify("mine") == []
    assert not (captured.sets / "mine/beta").exists() and not [*(captured.sets / "mine").glob(".*")]
    assert archive.add([out], tmp_path / "elsewhere")[0].startswith("mine/beta: added")
    archive.add([captured.archive])
    with pytest.raises(LabError, match=r"old\.tar: there already; choose another name"):
        whole_sets.prune("mine", archive=out)
    assert whole_sets.prune("mine", drop=True) == ["mine/beta: taken out"]


def test_a_set_is_exported_whole_twice_the_same_and_arrives_with_its_claims(
    captured: Lab, tmp_path: Path
) -> None:
    claims = captured.sets / "mine/claims.json"
    claims.write_text(json.dumps({"schema": 1, "set": "mine", "claims": {"page#k": CLAIM}}))
    out = tmp_path / "mine.tar"
    said = labcode("captures", "export", "mine", "--archive", out).stdout.splitlines()
    assert said[0].startswith(f"{out}: 2 experiments, ") and said[1] == f"{out}.sha256: its SHA-256"
    subprocess.run(["sha256sum", "--check", "--strict", f"{out.name}.sha256"], cwd=tmp_path, check=True)
    first = out.read_bytes()
    whole_sets.export("mine", out)
    assert out.read_bytes() == first
    home = tmp_path / "home"
    archive.add([out], home)
    for name, data in captured.tree().items():
        if not name.endswith("manifest.json"):
            assert (home / name).read_bytes() == data, name
    (home / "mine/claims.json").write_text('{"claims": {}}')
    archive.add([out], home)
    assert (home / "mine/claims.json").read_text() == '{"claims": {}}'  # its own stay


def test_what_is_not_whole_is_not_exported(captured: Lab, tmp_path: Path) -> None:
    out = tmp_path / "x.tar"
    claims = captured.sets / "mine/claims.json"
    claims.write_text("{}")
    whole_sets.export("mine", out)
    with pytest.raises(InputError, match=r"x\.tar: claims\.json is damaged; fetch it again"):
        archive.add([out], tmp_path / "elsewhere")
    assert not (tmp_path / "elsewhere/mine").exists()
    (captured.sets / "mine/beta/record.json").write_text("{}")
    with pytest.raises(InputError, match=r"record\.json: changed since it was captured"):
        whole_sets.export("mine", out)
    archive.add([captured.archive])
    archive.thin("mine", [], [tmp_path / "traces.tar"])
    with pytest.raises(LabError, match="mine/alpha: its trace is not in this thin set"):
        whole_sets.export("mine", out)
