"""Capture sets, made up: what the files of each run hold in, the folder of a set with its manifest out."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from labcode.capture.filing import files_record

MACHINE = {"gpus": [{"name": "NVIDIA H200"}], "gpu_count": 1, "driver": "580.1", "cuda": "13.0"}


def make_set(
    folder: Path,
    experiments: Mapping[str, Mapping[str, Mapping[str, bytes]]],
    *,
    machine: Mapping[str, Any] = MACHINE,
    run: Mapping[str, Any] | None = None,
    more: Mapping[str, Any] | None = None,
    **entry: Any,
) -> Path:
    """Write the set that is named like ``folder``: by experiment, run and name what files hold.

    ``run`` is said of each run, ``entry`` of each experiment and ``more`` of the set, beside what must be.
    """
    listed = {}
    for experiment, runs in experiments.items():
        place = folder / experiment
        place.mkdir(parents=True, exist_ok=True)
        found = {}
        for name, files in runs.items():
            for file, data in files.items():
                (place / file).write_bytes(data)
            said = {"argv": ["python"], "tool_args": [], "warnings": [], **(run or {})}
            found[name] = {**said, "files": files_record(place, list(files))}
        least = {"title": experiment, "tool": "bench", "machine": "m1", "captured": "2026-01-01"}
        listed[experiment] = {**least, "sources": {}, "wall_s": 1.0, **entry, "runs": found}
    folder.mkdir(parents=True, exist_ok=True)
    manifest = {"schema": 2, "set": folder.name, "machines": {"m1": machine}, "experiments": listed}
    (folder / "manifest.json").write_text(json.dumps({**manifest, **(more or {})}))
    return folder
