"""Small capture sets for tests: records of one experiment, filed as `labcode capture` files them."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from labcode import freshness, store

SOURCE = "program.py"  # the program that was captured, beside the folder of sets


def write_set(
    root: Path,
    name: str,
    time_us: float,
    *,
    fresh: bool = True,
    warnings: tuple[str, ...] = (),
    more: Mapping[str, float] = MappingProxyType({}),
    skipped: Mapping[str, str] = MappingProxyType({}),
    trace: bool = False,
    results: Mapping[str, dict[str, Any]] = MappingProxyType({}),
) -> Path:
    """A set of one experiment ``measuring``, whose one run ``record`` took ``time_us``, and ``more`` like it,
    with a file ``record.sqlite.xz`` on demand; returns its folder. ``skipped`` are experiments that it lacks,
    ``results`` what the record of an experiment holds instead of a time.

    ``root`` is the folder of sets, and the folder above it the repository.
    """
    (root.parent / SOURCE).write_text("print('measured')\n", encoding="utf-8")
    folder = root / name
    sources = freshness.source_digests([SOURCE], root.parent) if fresh else {SOURCE: "another"}
    experiments = {}
    for experiment, time in {"measuring": time_us, **more, **dict.fromkeys(results, 1.0)}.items():
        record = {
            "program": experiment,
            "variant": "record",
            "parameters": {},
            "results": results.get(experiment, {"time_us": time}),
            "checks": {},
        }
        contents = {"record.json": json.dumps(record).encode()}
        contents |= {"record.sqlite.xz": b"a trace"} if trace else {}
        (folder / experiment).mkdir(parents=True, exist_ok=True)
        for file, content in contents.items():
            (folder / experiment / file).write_bytes(content)
        files = {
            file: {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
            for file, content in contents.items()
        }
        experiments[experiment] = {
            "title": "One kernel, timed",
            "tool": "bench",
            "machine": "m1",
            "captured": "2026-11-21",
            "sources": sources,
            "wall_s": 41.7,
            "runs": {
                "record": {
                    "argv": ["python", "-m", f"labcode.workloads.{experiment}"],
                    "tool_args": [],
                    "files": files,
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
        "experiments": experiments,
        "skipped": dict(skipped),
    }
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return folder
