"""Named baselines: runs that were measured in; a file that keeps them, and the same runs out.

The file is JSON: ``format`` and ``schema`` say what it is; ``baselines`` has by name what its runs are and of
each run its file, the SHA-256 of what was read, and rows of kind, name, value and total. The recordings are
needed no longer, so a small file can stand for them in a repository.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from labcode.analysis.compare.ensemble import Measured
from labcode.errors import InputError, LabError
from labcode.inputs import plain_file
from labcode.outputs import whole

FORMAT = "labcode baselines"
SCHEMA = 1
FILE = "labcode-baselines.json"
_LARGEST = 1 << 28
_MOST = 1e30  # no time in ns and no energy is so large


def keep(path: Path, name: str, runs: Sequence[Measured], reads: Sequence[Path]) -> None:
    """Keep runs under a name, in place of what had it; the file's other baselines stay as they are."""
    if not name or "=" in name or "," in name:
        raise LabError(f"--keep {name}: a name without '=' and ','")
    every = _load(path) if path.exists() else {}
    every[name] = {
        "what": runs[0].what,
        "runs": [
            {
                "file": Path(run.file).name,
                "sha256": list(run.sha256),
                "rows": [
                    [kind, name, float(np.median(values)), run.totals[kind, name]]
                    for (kind, name), values in run.values.items()
                ],
            }
            for run in runs
        ],
    }
    document = {"format": FORMAT, "schema": SCHEMA, "baselines": every}
    with whole(path, reads=reads) as part:
        part.write_text(json.dumps(document, allow_nan=False) + "\n", encoding="utf-8")


def kept(path: Path, name: str) -> list[Measured]:
    """The runs of a baseline; `LabError` names those there are where the file has no such one."""
    every = _load(path)
    if name not in every:
        raise LabError(f"{path}: keeps no baseline {name!r}; there are: {', '.join(every) or 'none'}")
    found = []
    for run in every[name]["runs"]:
        values = {(kind, item): np.array([value]) for kind, item, value, _ in run["rows"]}
        totals = {(kind, item): total for kind, item, _, total in run["rows"]}
        found.append(
            Measured(f"{name}: {run['file']}", every[name]["what"], tuple(run["sha256"]), values, totals)
        )
    return found


def _load(path: Path) -> dict[str, Any]:
    try:
        text = plain_file(path, most_bytes=_LARGEST).read_text(encoding="utf-8")
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path}: truncated, or no JSON at all ({error}); keep the baseline again with --keep"
        ) from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InputError(f"{path}: no file of baselines; make one with `labcode compare FILES --keep NAME`")
    schema = document.get("schema")
    if type(schema) is not int or schema > SCHEMA:
        raise InputError(
            f"{path}: baselines of schema {str(schema)[:20]}, this labcode reads {SCHEMA}; use a newer one"
        )
    every = document.get("baselines")
    if not isinstance(every, dict) or not all(map(_is_baseline, every.values())):
        raise InputError(f"{path}: a baseline in it lacks what belongs there; keep it again with --keep")
    return every


def _is_baseline(one: Any) -> bool:
    return (
        isinstance(one, dict)
        and one.get("what") in ("timeline", "ranks", "power")
        and isinstance(one.get("runs"), list)
        and len(one["runs"]) > 0
        and all(map(_is_run, one["runs"]))
    )


def _is_run(run: Any) -> bool:
    return (
        isinstance(run, dict)
        and isinstance(run.get("file"), str)
        and isinstance(run.get("sha256"), list)
        and all(isinstance(sha, str) for sha in run["sha256"])
        and isinstance(run.get("rows"), list)
        and all(map(_is_row, run["rows"]))
    )


def _is_row(row: Any) -> bool:
    return (
        isinstance(row, list)
        and [type(part) for part in row[:2]] == [str, str]
        and len(row) == 4
        and all(type(part) in (int, float) and abs(part) < _MOST for part in row[2:])
    )
