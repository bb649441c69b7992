import json
from pathlib import Path

import pytest

from labcode import freshness, store
from labcode.book import provenance
from labcode.errors import InputError
from tests.book.sets import write_set

THIN = "\N{NARROW NO-BREAK SPACE}"


@pytest.fixture
def captures(tmp_path, monkeypatch):
    monkeypatch.setenv("LABCODE_HOME", str(tmp_path))
    monkeypatch.delenv("LABCODE_SETS", raising=False)
    return tmp_path / "captures"


def test_a_stamp_says_where_numbers_come_from(captures):
    write_set(captures, "h200", 10.0, warnings=("sampling is off", "sampling is off"))
    stamp = provenance.stamp(store.load_set("h200"), "measuring")
    assert stamp.machine == ("4 × NVIDIA H200", "driver 580.1", "CUDA 13.0")
    assert stamp.how == (f"captured 2026-11-21 in 42{THIN}s",)
    assert stamp.fresh
    assert stamp.warnings == ("sampling is off",)
    assert [file.path.name for file in stamp.files] == ["record.json"]


def test_a_capture_of_other_code_is_stale(captures):
    write_set(captures, "h200", 10.0, fresh=False)
    assert not provenance.stamp(store.load_set("h200"), "measuring").fresh


def test_what_a_manifest_does_not_know_is_left_out():
    assert provenance.machine_facts({}) == ()
    assert provenance.machine_facts({"gpus": [{"name": "NVIDIA L4"}], "driver": None}) == ("1 × NVIDIA L4",)


def test_what_a_set_lacks_is_shown_from_the_shipped_one_and_says_so(captures):
    write_set(captures, "h200", 10.0)
    folder = write_set(captures, "mine", 20.0)
    assert store.holder("mine", "measuring").name == "mine"
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    manifest["experiments"] = {}
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    held = store.holder("mine", "measuring")
    assert held.name == "h200"
    assert provenance.stamp(held, "measuring", "mine").how[0] == "not in set mine: shown from set h200"
    with pytest.raises(InputError, match=r"mine: no experiment 'absent' in this set"):
        store.holder("mine", "absent").experiment("absent")


def test_what_neither_the_set_nor_the_shipped_one_has_is_shown_from_another_by_name(captures):
    for name in ("h200", "mine", "other", "second"):
        folder = write_set(captures, name, 10.0)
        if name in ("h200", "mine"):
            manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
            manifest["experiments"] = {}
            (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    held = store.holder("mine", "measuring")
    assert held.name == "other"
    assert provenance.stamp(held, "measuring", "mine").how[0] == "not in set mine: shown from set other"


def test_a_change_that_leaves_a_capture_standing_is_told(captures, monkeypatch):
    write_set(captures, "h200", 10.0)
    (source, was), *_ = store.load_set("h200").experiment("measuring").sources.items()
    change = freshness.Change(source, was, was, "a fence more")
    monkeypatch.setattr(freshness, "equivalent", lambda root: (change,))
    how = provenance.stamp(store.load_set("h200"), "measuring").how
    assert how[-1] == f"{Path(source).name} has changed since: a fence more"
