"""PyTorch's own recorders: a command and what to record in; traces, averages or a memory history out.

The program records itself (`labcode.experiments.shared.recording`); here it is asked to, and what it wrote is
made fit to publish. Traces are filed as ``RUN.trace.json.gz`` (one per rank in a group of processes), beside
them ``RUN.averages.json.xz``, which is what `torch.profiler` itself says about the same run; memory
histories as ``RUN.memory.json.xz``.
"""

import gzip
import json
import lzma
import re
import shutil
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from labcode.capture import bench, privacy, scan, snapshot
from labcode.capture.job import Job, Measured, timed
from labcode.capture.privacy import FIRST_PID, Names
from labcode.capture.scrub import LEFT
from labcode.errors import InputError, LabError, ToolError
from labcode.experiments.shared.recording import Request
from labcode.inputs import plain_file
from labcode.outputs import free, whole
from labcode.store import repository_root

_TOP = frozenset(
    {
        "schemaVersion",
        "deviceProperties",
        "distributedInfo",
        "displayTimeUnit",
        "baseTimeNanoseconds",
        "record_shapes",
        "profile_memory",
        "with_stack",
        "with_flops",
        "with_modules",
        "cupti_version",
        "cuda_runtime_version",
        "cuda_driver_version",
    }
)
_DROPPED_ARGS = frozenset(
    {
        "Ev Idx",
        "Record function id",
        "Input Strides",
        "Concrete Inputs",
        "fwd_thread_id",
        "Call stack",
        "kernel_file",
    }
)
_DEVICE_IDS = frozenset({"uuid", "pciBusId", "pci_bus_id"})
_PYTHON = re.compile(r"^(?P<file>.+?)\((?P<line>\d+)\): (?P<function>.*)$", re.DOTALL)
SWITCHES = ("shapes", "stacks", "memory", "modules")
LARGEST_FILE = 2 << 20  # bytes, compressed
_DAY_NS = 86_400 * 10**9
_LARGEST_TEXT = 2 << 30  # bytes of a recording that is scrubbed; it is held in memory as a whole
_OPEN: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}
PROFILER_S = 120.0  # what recording and writing may take beyond the program's own time
# What converting a snapshot of another format ends with: a key that `memory_history` needs is not there.
_LACKING = re.compile(
    "KeyError: '(segments|address|total_size|segment_type|blocks|size|requested_size|state|stream|action|"
    "filename|line|name)'"
)
Scrub = Callable[[Mapping[str, Any], Path, Names], dict[str, Any]]


def scrub_trace(
    trace: Mapping[str, Any], root: Path | None = None, names: Names = (), began_ns: int | None = None
) -> dict[str, Any]:
    """A trace without host, process ids, folders, time of day and bulk.

    Of the time at which it was recorded the day stays: all times are moved so that what happened at
    ``began_ns`` (`began`; of the ranks of one run the first) happens at midnight, UTC.

    Processes are numbered from `FIRST_PID` (plus a thousand times the rank) on and threads from their
    process' number on; GPUs keep theirs. Files keep their place in the repository (``root``), in
    ``site-packages`` or in ``lib/python3.12``. All events stay, so that what is summed over them is what
    `torch.profiler` itself says.
    """
    result = {key: value for key, value in trace.items() if key in _TOP}
    result["deviceProperties"] = [
        {key: value for key, value in device.items() if key not in _DEVICE_IDS}
        for device in trace.get("deviceProperties", [])
    ]
    rank = int((trace.get("distributedInfo") or {}).get("rank", 0))
    events = list(trace["traceEvents"])
    base = _base_ns(trace)
    began_ns = began(trace) if began_ns is None else began_ns
    shift_us = (began_ns - base) / 1000
    if "baseTimeNanoseconds" in trace:
        result["baseTimeNanoseconds"] = began_ns // _DAY_NS * _DAY_NS
    events = [
        {**event, "ts": max(0, round(event["ts"] - shift_us, 3))} if "ts" in event else event
        for event in events
    ]
    threads = _Threads(events, FIRST_PID + 1000 * rank)
    addresses: dict[Any, int] = {}
    events = [_event(event, threads, addresses, root, names) for event in events]
    return {**privacy.reduce_record(result, names), "traceEvents": events}


def began(trace: Mapping[str, Any]) -> int:
    """When the first event of a trace began, in nanoseconds since 1970 and in whole microseconds."""
    happened = (event for event in trace["traceEvents"] if event.get("ph") != "M" and "ts" in event)
    first_us = min((event["ts"] for event in happened), default=0)
    return _base_ns(trace) + int(first_us) * 1000


def _base_ns(trace: Mapping[str, Any]) -> int:
    base = trace.get("baseTimeNanoseconds")
    return base if isinstance(base, int) else 0


def scrub_memory(history: Mapping[str, Any], root: Path | None = None, names: Names = ()) -> dict[str, Any]:
    """A memory history with files in neutral words."""
    frames = [
        {
            **privacy.reduce_record(frame, names),
            "file": privacy.reduce_file(frame["file"], root, names),
        }
        for frame in history["frames"]
    ]
    rest = {key: value for key, value in history.items() if key != "frames"}
    return {**privacy.reduce_record(rest, names), "frames": frames}


def scrub_averages(
    averages: Mapping[str, Any], root: Path | None = None, names: Names = ()
) -> dict[str, Any]:
    """A table of averages with the names that its trace has after `scrub_trace`."""
    return {
        key: [
            {**privacy.reduce_record(row, names), "name": _neutral_name(row["name"], root, names)}
            for row in value
        ]
        if isinstance(value, list)
        else privacy.reduce_record(value, names)
        for key, value in averages.items()
    }


class _Threads:
    """Neutral numbers of processes and threads."""

    def __init__(self, events: Iterable[Mapping[str, Any]], first: int) -> None:
        hosts = {
            event["pid"]
            for event in events
            if event.get("name") == "process_labels" and event.get("args", {}).get("labels") == "CPU"
        }
        self._pids = {pid: first + number for number, pid in enumerate(sorted(hosts, key=str))}
        self._tids: dict[tuple[Any, Any], int] = {(pid, pid): new for pid, new in self._pids.items()}

    def pid(self, pid: Any) -> Any:
        return self._pids.get(pid, pid)

    def tid(self, pid: Any, tid: Any) -> Any:
        if pid not in self._pids or not isinstance(tid, int) or tid == 0:
            return tid
        return self._tids.setdefault((pid, tid), self._pids[pid] + len(self._tids))


def _neutral_name(name: str, root: Path | None, names: Names) -> str:
    """A name in neutral words; Python frames are ``file(line): function``."""
    found = _PYTHON.match(name)
    if found is None:
        return privacy.reduce(name, names)
    file = privacy.reduce_file(found["file"], root, names)
    return f"{file}({found['line']}): {privacy.reduce(found['function'], names)}"


def _event(
    event: Mapping[str, Any], threads: _Threads, addresses: dict[Any, int], root: Path | None, names: Names
) -> dict[str, Any]:
    result = {key: value for key, value in event.items() if key != "args"}
    result = dict(privacy.reduce_record(result, names))
    pid = event.get("pid")
    result["pid"] = threads.pid(pid)
    if "tid" in event:
        result["tid"] = threads.tid(pid, event["tid"])
    args = {key: value for key, value in event.get("args", {}).items() if key not in _DROPPED_ARGS}
    if event.get("ph") == "M":
        if event["name"] == "process_sort_index" and pid != result["pid"]:
            args["sort_index"] = result["pid"]
        if event["name"].startswith("thread_") and event.get("tid") != result.get("tid"):
            args = {key: _thread_fact(value, event["tid"], result["tid"]) for key, value in args.items()}
    else:
        result["name"] = _neutral_name(str(event.get("name", "")), root, names)
    if "Addr" in args:
        args["Addr"] = addresses.setdefault(args["Addr"], len(addresses))
    if args or "args" in event:
        result["args"] = privacy.reduce_record(args, names)
    return result


def _thread_fact(value: Any, old: Any, new: Any) -> Any:
    if value == old:
        return new
    return value.replace(str(old), str(new)) if isinstance(value, str) else value


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


def record(job: Job) -> None:
    """Run the program of a job, asked to record itself; leaves its record, and recordings as they are."""
    work = job.raw(".recorded")
    work.mkdir()
    tool: Literal["torch", "memory"] = "memory" if job.tool == "memory" else "torch"
    env = request_of(job.options, work, job.name, tool).environment()
    try:
        bench.run(job, ".json", what=f"{job.what}, recorded", more_s=PROFILER_S, env=env)
    except ToolError as error:
        if tool == "memory" and (key := _LACKING.search(str(error))):
            raise ToolError(
                f"{job.what}: the allocator's snapshot of this PyTorch has no {key[1]!r}: its version "
                "writes another format; record with the version named in constraints.txt"
            ) from None
        raise


def finish(job: Job, run: Measured) -> Measured:
    """Scrub and compress the recordings of a run.

    Raises `ToolError` when nothing was recorded, `LabError` when a file would be too large or hold something
    private.
    """
    work, seconds = job.raw(".recorded"), dict(run.seconds)
    with timed(seconds, "scrub, compress"):
        names = file_recordings(work, job.folder, job.cwd, job.what)
    shutil.rmtree(work)
    return Measured([*names, *run.files], seconds)


def file_recordings(work: Path, folder: Path, root: Path, what: str) -> list[str]:
    """Scrub and compress all recordings in ``work`` into ``folder``; the names of the files made."""
    ranks = sorted(work.glob("*.trace.json"))
    began_ns = min(began(_recording(path, what)[1]) for path in ranks) if ranks[1:] else None
    kinds: tuple[tuple[str, str, Scrub], ...] = (
        (".trace.json", ".gz", partial(scrub_trace, began_ns=began_ns)),
        (".averages.json", ".xz", scrub_averages),
        (".memory.json", ".xz", scrub_memory),
    )
    names = []
    for suffix, packing, scrub in kinds:
        for path in sorted(work.glob(f"*{suffix}")):
            target = folder / (path.name + packing)
            raw, content = _recording(path, what)
            words = (*privacy.machine_names(), *privacy.stated_names(scan.json_texts(raw), what))
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
            f"{what}: nothing was recorded; the program must use labcode.experiments.shared.recording"
        )
    return names


def _recording(path: Path, what: str) -> tuple[bytes, Any]:
    """The bytes and the content of what PyTorch wrote."""
    try:
        raw = path.read_text(encoding="utf-8", errors="replace").encode()
        return raw, json.loads(raw)
    except ValueError as error:
        kind = path.name.partition(".")[2]
        raise ToolError(f"{what}: PyTorch wrote no valid {kind} ({error})") from None


def pack(data: bytes, packing: str) -> bytes:
    """Compress: the same bytes for the same content."""
    if packing == ".gz":
        return gzip.compress(data, compresslevel=9, mtime=0)
    return lzma.compress(data, preset=6)


def scrub_file(path: Path, output: Path | None = None, also: Names = (), *, force: bool = True) -> Path:
    """Scrub a trace (``.json``, ``.json.gz``) or a memory history (also ``.json.xz``); of a snapshot of the
    allocator (``.pickle``) make a history.

    ``output`` defaults to the input's name with ``.scrubbed`` in it, beside the input, which stays; ``also``
    are names to take out. Returns the path written. Raises `InputError` for anything else, and when
    something private is left.
    """
    stem, rest = path.name.partition(".")[0], path.name.partition(".")[2]
    dumped = path.suffix.lower() in snapshot.SUFFIXES
    output = output or path.with_name(f"{stem}.scrubbed.{'memory.json' if dumped else rest}")
    packing = output.suffix if output.suffix in _OPEN else ""
    free(output, force=force, reads=[path])
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
    try:
        if isinstance(content.get("traceEvents"), list):
            return scrub_trace(content, repository_root(), names)
        if {"events", "frames", "schema"} <= set(content):
            return scrub_memory(content, repository_root(), names)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        why = f"{type(error).__name__}: {str(error)[:200]}"
        raise InputError(f"{path}: not as PyTorch writes it ({why}); record it again") from None
    raise InputError(f"{path}: JSON, but neither a trace of torch.profiler nor a memory history")


def _content(path: Path) -> tuple[dict[str, Any], Names]:
    """A JSON object from a file, unpacked if it is packed; and the names that it states."""
    try:
        with _OPEN.get(path.suffix, open)(plain_file(path, most_bytes=_LARGEST_TEXT), "rb") as stream:
            data = stream.read(_LARGEST_TEXT + 1)
        if len(data) > _LARGEST_TEXT:
            raise InputError(f"{path}: more than {_LARGEST_TEXT >> 30} GiB of text; record fewer steps")
        if path.suffix.lower() in snapshot.SUFFIXES:
            data = _dumped(snapshot.history_of(path, data))
        content = json.loads(data)
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise InputError(f"{path}: cannot be unpacked ({error}); copy it again") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not valid JSON, or cut off ({error}); copy or record it again") from None
    if not isinstance(content, dict):
        raise InputError(f"{path}: JSON, but neither a trace of torch.profiler nor a memory history")
    return content, privacy.stated_names(scan.json_texts(data), path)
