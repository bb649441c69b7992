"""Recorders asked for by capture: files of the recorded steps; a memory snapshot becomes plain JSON."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from labcode.errors import LabError  # noqa: E402
from labcode.experiments.shared import memory_history  # noqa: E402
from labcode.experiments.shared.recording import REQUEST, Request, recording  # noqa: E402
from labcode.reports.memory.history import open_history  # noqa: E402

CPU = torch.device("cpu")


def run(warmup: int, steps: int) -> None:
    with recording(torch, CPU, warmup=warmup, steps=steps) as tick:
        for number in range(warmup + steps):
            with torch.profiler.record_function(f"work {number}"):
                torch.ones(8, 4) @ torch.ones(4, 2)
            tick()


def ask(monkeypatch: pytest.MonkeyPatch, folder: Path, **switches: Any) -> None:
    request = Request("torch", str(folder), "run", **switches)
    monkeypatch.setenv(REQUEST, request.environment()[REQUEST])


@pytest.mark.parametrize(("warmup", "steps", "most"), [(0, 2, 0), (1, 2, 0), (4, 3, 0), (2, 9, 3)])
def test_the_measured_steps_are_recorded_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warmup: int, steps: int, most: int
) -> None:
    ask(monkeypatch, tmp_path, steps=most)
    run(warmup, steps)
    trace = json.loads((tmp_path / "run.trace.json").read_text())
    names = [e["name"] for e in trace["traceEvents"] if e.get("cat") == "user_annotation"]
    works = [name for name in names if name.startswith("work")]
    recorded = range(warmup, warmup + (most or steps))
    assert works == [f"work {number}" for number in recorded]


def test_averages_are_those_of_the_recorded_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(monkeypatch, tmp_path, shapes=True)
    run(2, 3)
    content = json.loads((tmp_path / "run.averages.json").read_text())
    assert content["schema"] == 1 and content["torch"] == torch.__version__
    rows = {row["name"]: row for row in content["rows"]}
    assert rows["aten::matmul"]["calls"] == 3 and rows["aten::matmul"]["kind"] == "CPU"
    assert rows["aten::matmul"]["cpu_total_us"] >= rows["aten::matmul"]["self_cpu_total_us"] > 0
    shaped = [row for row in content["rows_by_shape"] if row["name"] == "aten::matmul"]
    assert [row["shapes"] for row in shaped] == [[[8, 4], [4, 2]]]


def test_nothing_is_recorded_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(1, 2)
    assert list(tmp_path.iterdir()) == []


def test_each_rank_has_its_own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(monkeypatch, tmp_path)
    monkeypatch.setenv("RANK", "3")
    run(1, 1)
    assert {path.name for path in tmp_path.iterdir()} == {"run.rank3.trace.json", "run.rank3.averages.json"}


@pytest.mark.parametrize("text", ["[", '{"tool": "torch", "what": 1}'])
def test_a_request_that_makes_no_sense_is_one_line(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(REQUEST, text)
    with pytest.raises(LabError, match=f"environment variable {REQUEST} asks for nothing known"):
        run(1, 1)


def test_memory_recorder_needs_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REQUEST, Request("memory", str(tmp_path), "run").environment()[REQUEST])
    with pytest.raises(
        LabError, match="the memory recorder is part of PyTorch's allocator for GPUs; it needs one"
    ):
        run(1, 1)


FRAMES = [{"filename": "a.py", "line": 3, "name": "f"}, {"filename": "b.py", "line": 9, "name": "main"}]
SNAPSHOT: dict[str, Any] = {
    "segments": [
        {
            "device": 0,
            "address": 0x7000,
            "total_size": 2048,
            "stream": 0x55,
            "segment_type": "small",
            "blocks": [
                {
                    "address": 0x7000,
                    "size": 512,
                    "requested_size": 500,
                    "state": "active_allocated",
                    "frames": FRAMES,
                },
                {"address": 0x7200, "size": 512, "requested_size": 0, "state": "inactive"},
                {"address": 0x7400, "size": 1024, "requested_size": 9, "state": "active_awaiting_free"},
            ],
        }
    ],
    "device_traces": [
        [
            {
                "action": "free_completed",
                "addr": 0x7200,
                "size": 512,
                "stream": 0x55,
                "time_us": 1009,
                "frames": [],
            },
            {
                "action": "alloc",
                "addr": 0x7000,
                "size": 512,
                "stream": 0x55,
                "time_us": 1000,
                "frames": FRAMES,
            },
            {"action": "snapshot", "addr": 0, "size": 0, "stream": 0, "time_us": 1020, "frames": []},
        ],
        [],
    ],
}


def test_snapshot_becomes_json_with_addresses_and_frames_by_index() -> None:
    before = memory_history.live_blocks(SNAPSHOT)
    assert [(block["addr"], block["size"]) for block in before] == [(0x7000, 512), (0x7400, 1024)]
    content = memory_history.convert(SNAPSHOT, "2.11.0", before[1:])
    assert json.loads(json.dumps(content)) == content
    assert content["events"] == [
        {"t_us": 0, "action": "alloc", "addr": 1, "size": 512, "stream": 0, "frames": [0, 1]},
        {"t_us": 9, "action": "free_completed", "addr": 2, "size": 512, "stream": 0, "frames": []},
    ]
    assert (
        content["frames"][0] == {"file": "a.py", "line": 3, "function": "f"} and len(content["frames"]) == 2
    )
    assert content["live_before"] == [{"addr": 0, "size": 1024, "stream": 0, "frames": []}]
    (segment,) = content["segments"]
    assert [block["addr"] for block in segment["blocks"]] == [1, 2, 0] and segment["size"] == 2048
    assert segment["blocks"][0]["frames"] == [0, 1] and segment["blocks"][1]["state"] == "inactive"


class FakeMemory:
    """What the allocator's recorder is asked to do, in order."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def _record_memory_history(self, enabled: str | None, **options: Any) -> None:
        self.asked.append(f"record {enabled}")

    def _snapshot(self) -> dict[str, Any]:
        self.asked.append("snapshot")
        return SNAPSHOT


@pytest.mark.parametrize(("warmup", "steps"), [(0, 2), (2, 3)])
def test_memory_is_recorded_from_the_end_of_the_warm_up_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warmup: int, steps: int
) -> None:
    monkeypatch.setenv(REQUEST, Request("memory", str(tmp_path), "run").environment()[REQUEST])
    memory = FakeMemory()
    fake = SimpleNamespace(
        cuda=SimpleNamespace(memory=memory, synchronize=lambda: None), __version__="2.11.0"
    )
    seen = []
    with recording(fake, SimpleNamespace(type="cuda"), warmup=warmup, steps=steps) as tick:
        for number in range(warmup + steps):
            seen.append((number, "record all" in memory.asked, "record None" in memory.asked))
            tick()
    assert seen == [(number, number >= warmup, False) for number in range(warmup + steps)]
    assert memory.asked == ["snapshot", "record all", "snapshot", "record None", "record None"]
    content = json.loads((tmp_path / "run.memory.json").read_text())
    assert content["torch"] == "2.11.0" and len(content["live_before"]) == 2 and len(content["events"]) == 2


def test_the_reader_of_histories_reads_it(tmp_path: Path) -> None:
    content = memory_history.convert(SNAPSHOT, "2.11.0", memory_history.live_blocks(SNAPSHOT)[1:])
    path = tmp_path / "run.memory.json"
    path.write_text(json.dumps(content))
    history = open_history(path)
    assert history.torch == "2.11.0" and history.warnings == ()
    assert history.events["action"].tolist() == ["alloc", "free_completed"]
    assert history.stacks[history.events["stack"].iloc[0]] == ("a.py:3 f", "b.py:9 main")
    assert history.live_before["size"].tolist() == [1024]


@pytest.mark.gpu
def test_memory_recorder_sees_what_a_loop_keeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REQUEST, Request("memory", str(tmp_path), "run").environment()[REQUEST])
    device, kept = torch.device("cuda", 0), []
    with recording(torch, device, warmup=1, steps=3) as tick:
        for _ in range(4):
            kept.append(torch.zeros(1 << 20, device=device))
            tick()
    content = json.loads((tmp_path / "run.memory.json").read_text())
    allocated = [event for event in content["events"] if event["action"] == "alloc"]
    assert len(allocated) == 3 and all(event["size"] == 4 << 20 for event in allocated)
    assert sum(block["size"] for block in content["live_before"]) >= 4 << 20
    files = [content["frames"][index]["file"] for index in allocated[0]["frames"]]
    assert any(name.endswith("test_recording.py") for name in files)
