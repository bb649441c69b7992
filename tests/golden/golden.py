"""What nsys itself reported of a set's captures: a set's name in, its golden files out.

They lie in ``tests/golden/SET.tar.xz`` or unpacked in ``tests/golden/SET/``, as make_golden.py writes them.
Of a long report the first lines are kept, and of all its lines the hashes, block by block.
"""

import csv
import hashlib
import io
import json
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
KEPT_LINES = 60  # of a long report: enough to see what differs; the hashes see whether
BLOCK_LINES = 250


@dataclass(frozen=True)
class Golden:
    """The golden files of a set by name (``EXPERIMENT/RUN.REPORT.csv``), and versions.json."""

    files: dict[str, str]
    versions: dict[str, Any]


def load_golden(name: str, folder: Path = HERE) -> Golden | None:
    """The golden files of a set; None when there are none."""
    packed, unpacked = folder / f"{name}.tar.xz", folder / name
    files = {}
    if packed.is_file():
        with tarfile.open(packed) as tar:
            for member in tar:
                handle = tar.extractfile(member)
                if handle is not None:
                    files[member.name] = handle.read().decode()
    elif unpacked.is_dir():
        files = {str(p.relative_to(unpacked)): p.read_text() for p in unpacked.rglob("*.*") if p.is_file()}
    else:
        return None
    versions = json.loads(files.pop("versions.json", "{}"))
    return Golden(files, versions)


def as_nsys_writes(text: str) -> list[str]:
    """Our CSV the way nsys writes it: a value with a comma in quotes, and quotes inside not doubled."""
    lines = text.removesuffix("\n").split("\n")
    if any(line.count('"') % 2 for line in lines):  # a value of several lines
        lines = ["\n".join(lines)]
    return "\n".join(_unquoted(line) if '"' in line else line for line in lines).split("\n")


def _unquoted(text: str) -> str:
    rows = csv.reader(io.StringIO(text))
    return "\n".join(",".join(f'"{v}"' if "," in v else v for v in row) for row in rows)


def line_hashes(lines: list[str]) -> dict[str, Any]:
    """How many lines there are, and a hash of each block of `BLOCK_LINES`."""
    blocks = [
        hashlib.sha256("\n".join(lines[at : at + BLOCK_LINES]).encode()).hexdigest()[:16]
        for at in range(0, len(lines), BLOCK_LINES)
    ]
    return {"lines": len(lines), "blocks": blocks}


def abridge(text: str) -> tuple[str, dict[str, Any] | None]:
    """What is kept of a report's CSV, and the hashes of all its lines when that is not everything."""
    lines = text.strip("\n").split("\n")
    if len(lines) <= KEPT_LINES:
        return text, None
    return "\n".join(lines[:KEPT_LINES]) + "\n", line_hashes(lines)


def difference(ours: list[str], kept: str, hashes: dict[str, Any] | None) -> str:
    """Where a report differs from what is kept of nsys' own, in words; '' when it does not."""
    theirs = kept.strip("\n").split("\n")
    if hashes is None:
        return first_difference(ours, theirs)
    found = first_difference(ours[: len(theirs)], theirs)
    if found:
        return found
    if len(ours) != hashes["lines"]:
        return f"{len(ours)} lines here, {hashes['lines']} of nsys"
    for number, (our, their) in enumerate(zip(line_hashes(ours)["blocks"], hashes["blocks"], strict=True)):
        if our != their:
            first = number * BLOCK_LINES
            return f"a line from {first} to {first + BLOCK_LINES - 1}, the first ours {ours[first]!r}"
    return ""


def first_difference(ours: list[str], theirs: list[str]) -> str:
    """Where two reports differ, in words; '' when they do not."""
    for number, (our, their) in enumerate(zip(ours, theirs, strict=False)):
        if our != their:
            return f"line {number}: ours {our!r}, nsys {their!r}"
    return "" if len(ours) == len(theirs) else f"{len(ours)} lines here, {len(theirs)} of nsys"
