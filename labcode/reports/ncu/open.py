"""Opens an ``.ncu-rep``: a path in, its checked content out, or one line that says what is wrong.

The file's frame is checked here (with `labcode.reports.ncu.wire`), because NVIDIA's reader silently skips
what it cannot parse. The content is read in a separate process (`labcode.reports.ncu.extract`), because a
damaged program inside a report can crash that reader. The result is kept in the user's cache, keyed by the
file's SHA-256.

The reader, the package ``ncu-report``, is NVIDIA's, under its own license. The extra ``ncu`` installs it; it
is called through its documented interface, and no part of it is in this repository.
"""

import json
import posixpath
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from labcode import store
from labcode.errors import InputError, ToolError
from labcode.inputs import plain_file
from labcode.reports.common import Read
from labcode.reports.ncu import extract as ncu_extract
from labcode.reports.ncu import wire as ncu_wire
from labcode.reports.ncu.extract import EXTRACT_FORMAT

_XZ_MAGIC = b"\xfd7zXZ\x00"
_LIMIT_S = 300.0
_LARGEST = 1 << 32  # bytes; a report is read whole
OLDEST_READER = "2026.3"  # of ncu-report
_TOO_OLD = "'IMetric' object has no attribute 'label'"  # what versions before it end with
_INSTALL = "pip install ncu-report (NVIDIA's reader, under NVIDIA's license; it needs no GPU)"
READ = (
    Read(
        "Nsight Compute: .ncu-rep",
        f"file formats up to {ncu_wire.NEWEST_FORMAT}, by NVIDIA's package ncu-report {OLDEST_READER} or "
        "newer",
        "number in the file's header; the ncu that wrote it",
        f"format {ncu_wire.NEWEST_FORMAT + 1}: refused; an ncu newer than ncu-report: read with a warning",
    ),
)


@dataclass(frozen=True)
class Extract:
    """What a report holds, not yet in tables."""

    path: Path
    format: int
    product_version: str
    command: str
    launches: tuple[Mapping[str, Any], ...]
    process_ids: tuple[int, ...]
    files: Mapping[str, str]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Frame:
    """What the frame says: format, the ncu that wrote it, its command line, a process id for each launch."""

    format: int
    product_version: str
    command: str
    process_ids: tuple[int, ...]


def open_extract(path: Path) -> Extract:
    """Check a report and read it; `InputError` or `ToolError` says in one line why not."""
    if path.is_dir():
        raise InputError(f"{path}: a folder; name a report of Nsight Compute (.ncu-rep, .ncu-rep.xz)")
    report = unpacked(path)
    with store.kept_if_read(report, path):
        return _extracted(report, path)


def _extracted(report: Path, path: Path) -> Extract:
    digest = store.file_sha256(report)
    frame = _frame(report, path, digest)
    content = _read(report, path, digest)
    launches: Sequence[Mapping[str, Any]] = content["launches"]
    if len(launches) != len(frame.process_ids):
        raise InputError(
            f"{path}: damaged: {len(frame.process_ids)} launches were recorded and {len(launches)} can be "
            "read; copy it again or profile again"
        )
    for place, launch in enumerate(launches):
        if not launch["metrics"]:
            raise InputError(
                f"{path}: damaged: nothing can be read of launch {place}; copy it again or profile again"
            )
    warnings = []
    library = str(content["library"])
    if _newer(frame.product_version, library):
        warnings.append(
            f"{path}: written by Nsight Compute {frame.product_version}, newer than the reader {library}; "
            "`pip install --upgrade ncu-report` if something is missing"
        )
    return Extract(
        path,
        frame.format,
        frame.product_version,
        frame.command,
        tuple(launches),
        frame.process_ids,
        {posixpath.normpath(name): text for name, text in content["files"].items()},
        tuple(warnings),
    )


def unpacked(path: Path) -> Path:
    """The report itself: ``path``, or what an ``.xz`` holds, in the user's cache."""
    with plain_file(path, most_bytes=_LARGEST).open("rb") as handle:
        head = handle.read(len(_XZ_MAGIC))
    if head != _XZ_MAGIC:
        return path
    return store.unpacked(path, ".ncu-rep")


def check_frame(data: ncu_wire.Data, path: Path) -> Frame:
    """Walk the file's blocks; `InputError` when it is empty, foreign, newer, truncated, damaged or bare.

    Its lengths come first, so that of a large file that is cut off little is read.
    """
    if not len(data):
        raise InputError(f"{path}: empty; the profiling run was interrupted, profile again")
    if data[: len(ncu_wire.MAGIC)] != ncu_wire.MAGIC:
        raise InputError(
            f"{path}: not a report of Nsight Compute: it does not begin like one; "
            "make one with `ncu -o NAME PROGRAM` and name NAME.ncu-rep"
        )
    product = command = ""
    process_ids: list[int] = []
    try:
        number = ncu_wire.format_number(data)
        if number > ncu_wire.NEWEST_FORMAT:
            raise InputError(
                f"{path}: format {number} of Nsight Compute's reports is newer than this labcode knows "
                f"({ncu_wire.NEWEST_FORMAT}); update labcode and ncu-report"
            )
        for block in list(ncu_wire.blocks(data)):
            ncu_wire.check_entries(data, block)
            process_ids += [block.process[0]] * len(block.results)
            for field, _, value in block.header:
                if field == ncu_wire.SESSION and isinstance(value, bytes):
                    session = ncu_wire.dict_of(value)
                    command = ncu_wire.text_of(session, ncu_wire.COMMAND) or command
                    client = session.get(ncu_wire.CLIENT)
                    if isinstance(client, bytes):
                        about = ncu_wire.dict_of(client)
                        if ncu_wire.text_of(about, 1).startswith("Nsight Compute"):
                            product = ncu_wire.text_of(about, 2).split(" ")[0]
    except ncu_wire.WireError as error:
        raise InputError(f"{path}: truncated or damaged ({error}); copy it again or profile again") from None
    if not process_ids:
        raise InputError(
            f"{path}: holds no launch: no kernel was profiled; check the filter given to `ncu -k` "
            "and that the program reaches its kernels"
        )
    words = command.split(" ")
    command = " ".join([words[0].rpartition("/")[2], *words[1:]])
    return Frame(number, product, command, tuple(process_ids))


def _frame(report: Path, path: Path, digest: str) -> Frame:
    """The report's frame, walked once: what was checked of equal bytes is in the cache."""

    def walk(made: Path) -> None:
        with report.open("rb") as handle:
            frame = check_frame(ncu_wire.FileBytes(handle), path)
        made.write_text(json.dumps(asdict(frame)), encoding="utf-8")

    found = json.loads(store.cached(digest, f".frame{EXTRACT_FORMAT}.json", walk).read_text(encoding="utf-8"))
    return Frame(**found | {"process_ids": tuple(found["process_ids"])})


def _read(report: Path, path: Path, digest: str) -> dict[str, Any]:
    """The report's content by NVIDIA's reader in a process of its own, or from the cache."""
    from labcode.tools import run_tool

    def extract(made: Path) -> None:
        words: list[str | Path] = [sys.executable, "-P", Path(ncu_extract.__file__), report.resolve(), made]
        result = run_tool(words, _LIMIT_S, what=f"reading {path}")
        said = result.stdout + result.stderr
        if "No module named 'ncu_report'" in said:
            raise ToolError(
                f"{path}: reading it takes the package ncu-report, which is not installed; {_INSTALL}"
            )
        if _TOO_OLD in said:
            raise ToolError(
                f"{path}: reading it takes ncu-report {OLDEST_READER} or newer, and Python found an older "
                f"one here (the copy that comes with Nsight Compute, by PYTHONPATH?); {_INSTALL}"
            )
        if result.returncode < 0:
            raise InputError(
                f"{path}: damaged: NVIDIA's reader crashed on it (signal {-result.returncode}); "
                "copy it again or profile again"
            )
        if result.returncode != 0 or not made.exists():
            raise InputError(
                f"{path}: NVIDIA's reader could not read it ({result.last_line()}); profile again"
            )

    made = store.cached(digest, f".ncu{EXTRACT_FORMAT}.json", extract)
    content: dict[str, Any] = json.loads(made.read_text(encoding="utf-8"))
    return content


def _newer(product: str, library: str) -> bool:
    one, other = (tuple(int(p) for p in re.findall(r"\d+", text)[:3]) for text in (product, library))
    return bool(one and other) and one > other
