"""Large traces are decoded by workers: what comes out is what one process reads, whatever is odd."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labcode.reports.kineto import open as kineto_open
from labcode.reports.kineto import text, workers
from labcode.reports.kineto.events import Columns
from labcode.reports.kineto.schema import HOLDS
from tests.support import traces


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks so small that a small trace has many."""
    monkeypatch.setattr(text, "BLOCK", 1 << 15)


def alike(one: Columns, other: Columns) -> None:
    """The same events, whatever the numbers of their texts."""
    assert one.events == other.events and one.threads == other.threads and one.processes == other.processes
    assert set(one.kinds) == set(other.kinds)
    for kind, columns in one.kinds.items():
        for key, values in columns.items():
            theirs = other.kinds[kind][key]
            if key in ("name", "phase", "category") or HOLDS.get(key) == "text":
                mine, right = (
                    np.array([*c.texts, ""], object)[v] for c, v in ((one, values), (other, theirs))
                )
                assert mine.tolist() == right.tolist(), (kind, key)
            else:
                assert np.array_equal(values, theirs, equal_nan=HOLDS.get(key) == "real"), (kind, key)


def both(path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """The file as workers read it, and as one process does."""
    alone = kineto_open.read_trace(path)
    monkeypatch.setattr(kineto_open, "workers_for", lambda _: 2)
    return kineto_open.read_trace(path), alone


@pytest.mark.parametrize("packed", [False, True])
def test_workers_read_the_same(
    packed: bool, tmp_path: Path, small_blocks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = traces.training(tmp_path, steps=6, layers=8, packed=packed)
    spread, alone = both(path, monkeypatch)
    alike(spread.columns, alone.columns)
    assert spread.metadata == alone.metadata and spread.warnings == alone.warnings == ()


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (b'"dur": 3.000', b'"dur": tomorrow', "events are no valid JSON and were left out"),
        (b'"correlation": 100005', b'"correlation": [1, {"a": 2}, {"b": 3}]', ""),
    ],
)
def test_what_is_odd_is_read_by_one(
    old: bytes, new: bytes, told: str, tmp_path: Path, small_blocks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = traces.training(tmp_path, steps=6, layers=8)
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new, 1))
    spread, alone = both(path, monkeypatch)
    alike(spread.columns, alone.columns)
    assert spread.warnings == alone.warnings and any(told in line for line in (*alone.warnings, ""))


def test_a_cut_off_trace_is_cut_off(
    tmp_path: Path, small_blocks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = traces.training(tmp_path, steps=6, layers=8)
    path.write_bytes(path.read_bytes()[:-40_000])
    spread, alone = both(path, monkeypatch)
    alike(spread.columns, alone.columns)
    assert spread.cut_off and spread.warnings == alone.warnings


def test_workers_that_die_are_done_without(
    tmp_path: Path, small_blocks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = traces.training(tmp_path, steps=6, layers=8)
    monkeypatch.setattr(workers.sys, "executable", "/bin/true")
    spread, alone = both(path, monkeypatch)
    alike(spread.columns, alone.columns)


def test_small_files_and_single_cpus_get_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.trace.json"
    path.write_bytes(b"{}")
    monkeypatch.setattr(workers.os, "sched_getaffinity", lambda _: set(range(32)), raising=False)
    assert workers.workers_for(path) == 0
    monkeypatch.setattr(workers, "LARGE", 2)
    assert workers.workers_for(path) == workers.MOST
    monkeypatch.setattr(workers.os, "sched_getaffinity", lambda _: {0}, raising=False)
    assert workers.workers_for(path) == 0
