"""PyTorch's own recorders: a command and what to record in; traces, averages or a memory history out.

The program records itself (`labcode.workloads.shared.recording`); here it is asked to, and what it wrote is
made fit to publish. Traces are filed as ``RUN.trace.json.gz`` (one a rank in a group of processes), beside
them ``RUN.averages.json.xz``, which is what `torch.profiler` itself says about the same run; memory
histories as ``RUN.memory.json.xz``.
"""

from __future__ import annotations

import gzip
import json
import lzma
import re
import tempfile
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from labcode.capture import bench, privacy, scan, torch_scrub
from labcode.capture.filing import write_json
from labcode.capture.privacy import Names
from labcode.capture.scrub import LEFT
from labcode.errors import InputError, LabError, ToolError
from labcode.inputs import plain_file
from labcode.outputs import whole
from labcode.store import repository_root
from labcode.workloads.shared.recording import Request

SWITCHES = ("shapes", "stacks", "memory", "modules")
LARGEST_FILE = 2 << 20  # bytes, compressed
_LARGEST_TEXT = 2 << 30  # bytes of a recording that is scrubbed; it is held in memory as a whole
_OPEN: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}
PROFILER_S = 120.0  # what recording and writing may take beyond the program's own time
# What converting a snapshot of another format ends with: a key that `memory_history` needs is not there.
_LACKING = re.compile(
    "KeyError: '(segments|address|total_size|segment_type|blocks|size|requested_size|state|stream|action|"
    "filename|line|name)'"
)
Scrub = Callable[[Mapping[str, Any], Path, Names], dict[str, Any]]


def request_of(
    options: Sequence[str], folder: Path, name: str, tool: Literal["torch", "memory"] = "torch"
) -> Request:
    """Options as manifests have them (``--shapes``, ``--steps=2``) as a request; `LabError` for others."""
    switches: dict[str, Any] = {}
    for word in options:
        key, _, value = word.removeprefix("--").partition("=")
        if word.startswith("--") and key in SWITCHES and not value:
            switches[key] = True
        elif word.startswith("--") and key == "steps" and value.isdigit():
            switches[key] = int(value)
        else:
            known = ", ".join(f"--{switch}" for switch in SWITCHES)
            raise LabError(f"{word}: no option of PyTorch's recorders (there are: {known}, --steps=N)")
    return Request(tool, str(folder), name, **switches)


def make_run(
    argv: Sequence[str],
    options: Sequence[str],
    folder: Path,
    name: str,
    show: Callable[[str], None],
    *,
    tool: Literal["torch", "memory"],
    time_limit_s: float,
    cwd: Path,
    what: str,
) -> list[str]:
    """One run without a recorder, then one with; leaves files and both records in ``folder``.

    Returns the files' names. The record of the recorded run has a key ``profiler``: wall seconds with and
    without it. Raises `ToolError` when the program fails or records nothing, and when a file would be too
    large or hold something private.
    """
    clean, record = folder / f"{name}.clean.json", folder / f"{name}.json"
    show(f"{what}: without profiler")
    began = time.monotonic()
    bench.run_program(argv, clean, time_limit_s=time_limit_s, cwd=cwd, what=what)
    clean_s = time.monotonic() - began
    show(f"{what}: recording")
    with tempfile.TemporaryDirectory(dir=folder, prefix="work-") as work:
        request = request_of(options, Path(work), name, tool)
        began = time.monotonic()
        try:
            bench.run_program(
                argv,
                record,
                time_limit_s=time_limit_s + PROFILER_S,
                cwd=cwd,
                what=f"{what}, recorded",
                env=request.environment(),
            )
        except ToolError as error:
            if tool == "memory" and (key := _LACKING.search(str(error))):
                raise ToolError(
                    f"{what}: the allocator's snapshot of this PyTorch has no {key[1]!r}: its version writes "
                    "another format; record with the version named in constraints.txt"
                ) from None
            raise
        wall_s = time.monotonic() - began
        show(f"{what}: scrub, compress")
        names = file_recordings(Path(work), folder, cwd, what)
    content = json.loads(record.read_text(encoding="utf-8"))
    content["profiler"] = {"tool": tool, "wall_s": round(wall_s, 3), "clean_wall_s": round(clean_s, 3)}
    write_json(record, content)
    return [*names, record.name, clean.name]


def file_recordings(work: Path, folder: Path, root: Path, what: str) -> list[str]:
    """Scrub and compress all recordings in ``work`` into ``folder``; the names of the files made."""
    kinds: tuple[tuple[str, str, Scrub], ...] = (
        (".trace.json", ".gz", torch_scrub.scrub_trace),
        (".averages.json", ".xz", torch_scrub.scrub_averages),
        (".memory.json", ".xz", torch_scrub.scrub_memory),
    )
    names = []
    for suffix, packing, scrub in kinds:
        for path in sorted(work.glob(f"*{suffix}")):
            target = folder / (path.name + packing)
            try:
                raw = path.read_text(encoding="utf-8", errors="replace").encode()
                content = json.loads(raw)
            except ValueError as error:
                raise ToolError(
                    f"{what}: PyTorch wrote no valid {suffix.removeprefix('.')} ({error})"
                ) from None
            words = (*privacy.machine_names(), *privacy.stated_names(scan.json_texts(raw)))
            data = _dumped(scrub(content, root, words))
            why = f"{what}: something private is left in {target.name}, so it was not filed"
            scan.refuse_private(scan.json_texts(data), words, why, LabError)
            target.write_bytes(pack(data, packing))
            if target.stat().st_size > LARGEST_FILE:
                raise LabError(
                    f"{what}: {target.name} is {target.stat().st_size / (1 << 20):.1f} MiB, more than "
                    f"{LARGEST_FILE >> 20}; record fewer steps (--steps=N), or no stacks"
                )
            names.append(target.name)
    if not any(name.endswith((".trace.json.gz", ".memory.json.xz")) for name in names):
        raise ToolError(
            f"{what}: nothing was recorded; the program must use labcode.workloads.shared.recording"
        )
    return names


def pack(data: bytes, packing: str) -> bytes:
    """Compress: the same bytes for the same content."""
    if packing == ".gz":
        return gzip.compress(data, compresslevel=9, mtime=0)
    return lzma.compress(data, preset=6)


def scrub_file(path: Path, output: Path | None = None, also: Names = ()) -> Path:
    """Scrub a trace (``.json``, ``.json.gz``) or a memory history (also ``.json.xz``).

    ``output`` defaults to the input's name with ``.scrubbed`` in it, beside the input, which stays; ``also``
    are names to take out. Returns the path written. Raises `InputError` for anything else, and when
    something private is left.
    """
    packing = path.suffix if path.suffix in (".gz", ".xz") else ""
    stem, rest = path.name.partition(".")[0], path.name.partition(".")[2]
    output = output or path.with_name(f"{stem}.scrubbed.{rest}")
    with whole(output, reads=[path]) as part:
        content, names = _content(path)
        names = (*also, *privacy.machine_names(), *names)
        data = _dumped(_scrubbed(path, content, names))
        scan.refuse_private(scan.json_texts(data), names, f"{path}: {LEFT}", InputError)
        part.write_bytes(pack(data, packing) if packing else data)
    return output


def _dumped(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode(errors="replace")


def _scrubbed(path: Path, content: dict[str, Any], names: Names) -> dict[str, Any]:
    if isinstance(content.get("traceEvents"), list):
        return torch_scrub.scrub_trace(content, repository_root(), names)
    if {"events", "frames", "schema"} <= set(content):
        return torch_scrub.scrub_memory(content, repository_root(), names)
    raise InputError(f"{path}: JSON, but neither a trace of torch.profiler nor a memory history")


def _content(path: Path) -> tuple[dict[str, Any], Names]:
    """A JSON object from a file, unpacked if it is packed; and the names that it states."""
    try:
        with _OPEN.get(path.suffix, open)(plain_file(path, most_bytes=_LARGEST_TEXT), "rb") as stream:
            data = stream.read(_LARGEST_TEXT + 1)
        if len(data) > _LARGEST_TEXT:
            raise InputError(f"{path}: more than {_LARGEST_TEXT >> 30} GiB of text; record fewer steps")
        content = json.loads(data)
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise InputError(f"{path}: cannot be unpacked ({error}); copy it again") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not valid JSON, or cut off ({error}); copy or record it again") from None
    if not isinstance(content, dict):
        raise InputError(f"{path}: JSON, but neither a trace of torch.profiler nor a memory history")
    return content, privacy.stated_names(scan.json_texts(data))
