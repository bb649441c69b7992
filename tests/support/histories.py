"""Histories of the allocator, made up: what is allocated and freed in, JSON as captures hold it out."""

import json
import lzma
from pathlib import Path
from typing import Any

FRAMES = [
    {"file": "site-packages/torch/nn/modules/linear.py", "line": 130, "function": "forward"},
    {"file": "labcode/workloads/model.py", "line": 12, "function": "forward"},
    {"file": "labcode/workloads/train.py", "line": 40, "function": "step"},
    {"file": "labcode/workloads/train.py", "line": 51, "function": "remember"},
]
LINEAR, KEPT = [0, 1, 2], [3, 2]
MODEL, LEAK = "labcode/workloads/model.py:12 forward", "labcode/workloads/train.py:51 remember"


def event(t_us: int, action: str, addr: int, size: int, frames: list[int]) -> dict[str, Any]:
    return {"t_us": t_us, "action": action, "addr": addr, "size": size, "stream": 0, "frames": frames}


def leaking(steps: int = 10) -> dict[str, Any]:
    """Each step allocates 1000 bytes and frees them, and keeps 24 more."""
    events = [event(0, "segment_alloc", 900, 1 << 20, [])]
    for step in range(steps):
        at = 100 * step
        events += [
            event(at + 1, "alloc", 1, 1000, LINEAR),
            event(at + 2, "alloc", 100 + step, 24, KEPT),
            event(at + 50, "free_requested", 1, 1000, LINEAR),
            event(at + 51, "free_completed", 1, 1000, LINEAR),
        ]
    return {
        "schema": 1,
        "torch": "2.11.0",
        "segments": [],
        "events": events,
        "frames": FRAMES,
        "live_before": [{"addr": 7, "size": 4096, "stream": 0, "frames": []}],
    }


def write(folder: Path, content: Any, name: str = "run.memory.json.xz") -> Path:
    path = folder / name
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    path.write_bytes(lzma.compress(text) if name.endswith(".xz") else text)
    return path
