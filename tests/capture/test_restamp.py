"""Restamping names moved sources anew, and leaves what is stale alone."""

import dataclasses

import pytest

from labcode.capture import catalogue, verify
from labcode.freshness import is_fresh
from labcode.store import load_set
from tests.capture.conftest import Lab


def test_a_moved_source_is_named_where_it_lies(captured: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(verify.restamp("mine")) == []
    (captured.home / "labcode").mkdir()
    captured.program.rename(captured.home / "labcode/moved.py")
    moved = {
        name: dataclasses.replace(experiment, sources=("labcode/moved.py",))
        for name, experiment in catalogue.EXPERIMENTS.items()
    }
    monkeypatch.setattr(catalogue, "EXPERIMENTS", moved)
    assert list(verify.restamp("mine")) == ["alpha: named anew", "beta: named anew"]
    record = load_set("mine").experiment("alpha")
    assert list(record.sources) == ["labcode/moved.py"] and is_fresh(record, captured.home)


def test_what_is_stale_stays_as_it_is(captured: Lab) -> None:
    before = captured.tree()
    captured.program.write_text(captured.program.read_text() + "\nchanged = True\n")
    assert list(verify.restamp("mine")) == ["alpha: stale, left as it is", "beta: stale, left as it is"]
    assert captured.tree() == before
