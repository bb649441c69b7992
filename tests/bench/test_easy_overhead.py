"""What auto_profile adds: the workload's rows and checks, on a PyTorch that a test makes up."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from labcode.bench import easy_overhead
from labcode.experiments.shared import common
from tests.support.records import recorded


class Event:
    """By the clock of a GPU on which a product takes 0.1 ms, and nothing else takes any time."""

    now_ms = 0.0

    def __init__(self, enable_timing: bool) -> None:
        self.at_ms = math.nan

    def record(self, stream: int = 0) -> None:
        self.at_ms = Event.now_ms

    def elapsed_time(self, other: Event) -> float:
        return other.at_ms - self.at_ms

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass


class Tensor:
    """Answers every operation with itself."""

    def add_(self, _: int) -> Tensor:
        return self

    def bfloat16(self) -> Tensor:
        return self

    def __matmul__(self, _: Tensor) -> Tensor:
        Event.now_ms += 0.1
        return self


def fake() -> Any:
    cuda = SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: True,
        device_count=lambda: 1,
        memory_reserved=lambda device: 1,
        current_stream=lambda device: device,
        reset_peak_memory_stats=lambda device: None,
        max_memory_allocated=lambda device: 96 << 20,
        synchronize=lambda device=0: None,
        Event=Event,
    )
    made = Tensor()
    tensors = {"zeros": lambda *n, device: made, "randn": lambda *n, device, dtype=None: made}
    return SimpleNamespace(cuda=cuda, Tensor=Tensor, bfloat16=0, device=lambda *of: None, **tensors)


def test_rows_checks_and_a_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", fake())
    monkeypatch.setattr(common, "gpu_info", lambda torch, device: {})
    results = recorded(easy_overhead, tmp_path, "--blocks", "3", "--seconds", "0.001")["results"]
    rows = {row["way"]: row for row in results["rows"]}
    assert rows["nothing"]["added_us"] < 0 == rows[easy_overhead.BY_HAND]["added_us"]
    assert rows["auto_profile, after the last iteration"]["call_us"] < rows["auto_profile"]["call_us"]
    work = results["work"]
    assert [work["events_us"], work["awaited_us"]] == pytest.approx([100, 100]) and work["energy_j"] is None
    assert [(row["variant"], row["n"]) for row in results["sweep"]] == [
        *(("fp32", 1024), ("fp32", 4096), ("bf16", 1024), ("bf16", 4096)),
    ]


def test_without_a_gpu_it_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = fake()
    torch.cuda.is_available = lambda: False
    torch.version = SimpleNamespace(cuda="13.0")
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(sys, "argv", ["easy_overhead"])
    with pytest.raises(SystemExit) as caught:
        common.run(easy_overhead.PROGRAM, easy_overhead.main)
    assert caught.value.code == 2
    assert "easy_overhead: no NVIDIA GPU that PyTorch can use" in capsys.readouterr().err
