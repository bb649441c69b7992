"""Small capture sets for tests: records of one experiment, filed as `labcode capture` files them."""

import hashlib
import json
from pathlib import Path
from typing import Any

from labcode import freshness, store

SOURCE = "program.py"  # the program that was captured, beside the folder of sets


def write_set(
    root: Path, name: str, time_us: float, *, fresh: bool = True, warnings: tuple[str, ...] = ()
) -> Path:
    """A set of one experiment ``measuring``, whose one run ``record`` took ``time_us``; returns its folder.

    ``root`` is the folder of sets, and the folder above it the repository.
    """
    (root.parent / SOURCE).write_text("print('measured')\n", encoding="utf-8")
    folder = root / name
    (folder / "measuring").mkdir(parents=True, exist_ok=True)
    argv = ["python", "-m", "labcode.workloads.measuring"]
    record = {
        "program": "measuring",
        "variant": "record",
        "parameters": {},
        "results": {"time_us": time_us},
        "checks": {},
    }
    content = json.dumps(record).encode()
    (folder / "measuring" / "record.json").write_bytes(content)
    sources = freshness.source_digests([SOURCE], root.parent) if fresh else {SOURCE: "another"}
    entry: dict[str, Any] = {
        "title": "One kernel, timed",
        "tool": "bench",
        "machine": "m1",
        "captured": "2026-11-21",
        "sources": sources,
        "wall_s": 41.7,
        "runs": {
            "record": {
                "argv": argv,
                "tool_args": [],
                "files": {
                    "record.json": {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
                },
                "warnings": list(warnings),
            }
        },
    }
    machine = {
        "gpus": [{"name": f"NVIDIA {name.upper()}"}],
        "gpu_count": 4,
        "driver": "580.1",
        "cuda": "13.0",
        "nsys": "2025.3.1",
    }
    manifest = {
        "schema": store.MANIFEST_SCHEMA,
        "set": name,
        "machines": {"m1": machine},
        "experiments": {"measuring": entry},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return folder
