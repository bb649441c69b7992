"""Named baselines: runs that were measured in; a file that keeps them, and the same runs out.

The file is JSON: ``format`` and ``schema`` say what it is; ``baselines`` has by name what its runs are and of
each run its file, the SHA-256 of what was read, and rows of kind, name, value and total. The recordings are
needed no longer, so a small file can stand for them in a repository.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from labcode.analysis.compare.ensemble import Measured
from labcode.errors import InputError, LabError
from labcode.inputs import plain_file
from labcode.outputs import whole

FORMAT = "labcode baselines"
SCHEMA = 1
FILE = "labcode-baselines.json"
_LARGEST = 1 << 28
_Value = Annotated[float, msgspec.Meta(gt=-1e30, lt=1e30)]  # no time in ns and no energy is so large


class _Run(msgspec.Struct):
    file: str
    sha256: list[str]
    rows: list[tuple[str, str, _Value, _Value]]


class _Baseline(msgspec.Struct):
    what: Literal["timeline", "ranks", "power"]
    runs: Annotated[list[_Run], msgspec.Meta(min_length=1)]


class _Kept(msgspec.Struct):
    format: str
    schema: int
    baselines: dict[str, _Baseline]


class _Head(msgspec.Struct):
    format: Any = None
    schema: Any = None


def keep(path: Path, name: str, runs: Sequence[Measured], reads: Sequence[Path]) -> None:
    """Keep runs under a name, in place of what had it; the file's other baselines stay as they are."""
    if not name or "=" in name or "," in name:
        raise LabError(f"--keep {name}: a name without '=' and ','")
    every = _load(path) if path.exists() else {}
    made = [
        _Run(
            Path(run.file).name,
            list(run.sha256),
            [(*key, float(np.median(values)), run.totals[key]) for key, values in run.values.items()],
        )
        for run in runs
    ]
    every[name] = _Baseline(runs[0].what, made)  # type: ignore[arg-type]
    with whole(path, reads=reads) as part:
        part.write_bytes(msgspec.json.encode(_Kept(FORMAT, SCHEMA, every)) + b"\n")


def kept(path: Path, name: str) -> list[Measured]:
    """The runs of a baseline; `LabError` names those there are where the file has no such one."""
    every = _load(path)
    if name not in every:
        raise LabError(f"{path}: keeps no baseline {name!r}; there are: {', '.join(every) or 'none'}")
    found = []
    for run in every[name].runs:
        values = {(kind, item): np.array([value]) for kind, item, value, _ in run.rows}
        totals = {(kind, item): total for kind, item, _, total in run.rows}
        found.append(Measured(f"{name}: {run.file}", every[name].what, tuple(run.sha256), values, totals))
    return found


def _load(path: Path) -> dict[str, _Baseline]:
    text = plain_file(path, most_bytes=_LARGEST).read_bytes()
    try:
        head = msgspec.json.decode(text, type=_Head)
    except msgspec.ValidationError:
        head = _Head()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(
            f"{path}: truncated, or no JSON at all ({error}); keep the baseline again with --keep"
        ) from None
    if head.format != FORMAT:
        raise InputError(f"{path}: no file of baselines; make one with `labcode compare FILES --keep NAME`")
    if type(head.schema) is not int or head.schema > SCHEMA:
        raise InputError(
            f"{path}: baselines of schema {str(head.schema)[:20]}, this labcode reads {SCHEMA}; use a newer "
            "one"
        )
    try:
        return msgspec.json.decode(text, type=_Kept).baselines
    except msgspec.ValidationError as error:
        raise InputError(
            f"{path}: a baseline in it lacks what belongs there ({error}); keep it again with --keep"
        ) from None
