"""Pickled snapshots of the allocator: made histories of, with nothing in them run; others told in a line."""

import pickle
from pathlib import Path
from typing import Any

import pytest

from labcode.capture.torch_profile import scrub_file
from labcode.errors import InputError
from labcode.reports.memory.history import open_history


def entry(time_us: int, action: str, addr: int, size: int) -> dict[str, Any]:
    frames = [{"filename": "/home/ann/train.py", "line": 4, "name": "step"}]
    return {"time_us": time_us, "action": action, "addr": addr, "size": size, "stream": 0, "frames": frames}


def block(address: int, size: int, state: str) -> dict[str, Any]:
    return {"address": address, "size": size, "requested_size": size, "state": state, "frames": []}


def snapshot() -> dict[str, Any]:
    """100 bytes were there before and are freed, 30 before and stay, 7 come and stay."""
    blocks = [
        block(1000, 100, "inactive"),
        block(2000, 30, "active_allocated"),
        block(3000, 7, "active_allocated"),
    ]
    return {
        "segments": [
            {"address": 1000, "total_size": 4096, "stream": 0, "segment_type": "small", "blocks": blocks}
        ],
        "device_traces": [
            [
                entry(50, "free_requested", 1000, 100),
                entry(50, "free_completed", 1000, 100),
                entry(60, "alloc", 3000, 7),
            ]
        ],
        "allocator_settings": {"expandable_segments": False},
    }


@pytest.mark.parametrize("name", ["mine.memory.json", "mine.memory.json.xz"])
def test_a_snapshot_becomes_a_history(name: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.pickle"
    path.write_bytes(pickle.dumps(snapshot()))
    history = open_history(scrub_file(path, tmp_path / name))
    assert sorted(history.live_before["size"]) == [30, 100]
    assert history.events["action"].to_list() == ["free_requested", "free_completed", "alloc"]
    assert history.events["t_us"].to_list() == [0, 0, 10]
    assert history.stacks[history.events["stack"].iloc[2]] == ("train.py:4 step",)
    assert scrub_file(path).name == "mine.scrubbed.memory.json"


class Trap:
    def __reduce__(self) -> Any:
        return Path.touch, (Path("it-ran"),)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (pickle.dumps([Trap()]), r"plain values \(it would run "),
        (pickle.dumps(snapshot())[:200], "plain values .*dump it again"),
        (b"PK\x03\x04 an archive", "plain values .*dump it again"),
        (
            pickle.dumps({"a": 1}),
            r"a pickle, but no snapshot of PyTorch's allocator \(KeyError: 'segments'\)",
        ),
        (pickle.dumps([1]), "a pickle, but no snapshot of PyTorch's allocator"),
    ],
)
def test_other_pickles(content: bytes, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.pickle"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        scrub_file(path, tmp_path / "mine.memory.json")
    assert list(tmp_path.iterdir()) == [path]
