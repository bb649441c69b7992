"""Make recordings of PyTorch fit to publish: a trace or a memory history in, a neutral copy of it out.

Traces are Chrome traces as `torch.profiler` writes them. Left out are what says which machine, process or
folder it was, and what nothing reads and much space is taken by.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from labcode.capture import privacy

FIRST_PID = 100_000  # neutral; far from the numbers of GPUs, which traces have as processes too
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
_ADDRESS = re.compile(r"\b0x[0-9a-f]{4,}\b")
# Frames between a program's line and PyTorch's operator that say nothing about either.
_BETWEEN = re.compile(
    r"(?:^|/)torch/(?:nn/modules/module|utils/_contextlib|_tensor|autograd/profiler|_ops|_jit_internal"
    r"|overrides|_compile|autograd/grad_mode|cuda/nvtx|compiler/__init__|jit/__init__|backends/__init__"
    r"|_environment|_dynamo/\w+|profiler/\w+)\.py$"
    r"|^<frozen |(?:^|/)(?:runpy|contextlib|typing|enum|functools)\.py$"
)


def scrub_trace(trace: Mapping[str, Any], root: Path | None = None) -> dict[str, Any]:
    """A trace without host, process ids, folders and bulk.

    Processes are numbered from `FIRST_PID` (plus the rank) on and threads from their process' number on;
    GPUs keep theirs. Files keep their place in the repository (``root``), in ``site-packages`` or in
    ``lib/python3.12``. Python frames that are built-in functions or PyTorch's own calling of modules are left
    out; who was called by one of them is then called by its caller.
    """
    result = {key: value for key, value in trace.items() if key in _TOP}
    result["deviceProperties"] = [
        {key: value for key, value in device.items() if key not in _DEVICE_IDS}
        for device in trace.get("deviceProperties", [])
    ]
    rank = int((trace.get("distributedInfo") or {}).get("rank", 0))
    events = list(trace["traceEvents"])
    threads = _Threads(events, FIRST_PID + 1000 * rank)
    frames = _kept_frames(events, root)
    addresses: dict[Any, int] = {}
    result["traceEvents"] = [
        _event(event, threads, frames, addresses)
        for event in events
        if event.get("cat") != "python_function" or _python_id(event) in frames.names
    ]
    return result


def scrub_memory(history: Mapping[str, Any], root: Path | None = None) -> dict[str, Any]:
    """A memory history with files in neutral words."""
    frames = [
        {**frame, "file": privacy.reduce_file(frame["file"], root), "function": _name(frame["function"])}
        for frame in history["frames"]
    ]
    return {**history, "frames": frames}


def scrub_averages(averages: Mapping[str, Any]) -> dict[str, Any]:
    """A table of averages with names in neutral words."""
    return {
        key: [{**row, "name": _name(row["name"])} for row in value] if isinstance(value, list) else value
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


class _Frames:
    """Python frames that stay: their names, and for every frame the nearest caller that stays."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.parents: dict[int, int | None] = {}

    def caller(self, frame: int | None) -> int | None:
        while frame is not None and frame not in self.names:
            frame = self.parents.get(frame)
        return frame


def _kept_frames(events: Iterable[Mapping[str, Any]], root: Path | None) -> _Frames:
    frames = _Frames()
    for event in events:
        if event.get("cat") != "python_function":
            continue
        number = _python_id(event)
        frames.parents[number] = event["args"].get("Python parent id")
        name = _frame_name(event["name"], root)
        if name is not None:
            frames.names[number] = name
    return frames


def _python_id(event: Mapping[str, Any]) -> int:
    return int(event["args"]["Python id"])


def _frame_name(name: str, root: Path | None) -> str | None:
    """A frame's name in neutral words; None for one that is left out."""
    if name.startswith("nn.Module:"):
        return name
    found = _PYTHON.match(name)
    if found is None or _BETWEEN.search(found["file"]):
        return None
    file = privacy.reduce_file(found["file"], root)
    return f"{file}({found['line']}): {_name(found['function'])}"


def _event(
    event: Mapping[str, Any], threads: _Threads, frames: _Frames, addresses: dict[Any, int]
) -> dict[str, Any]:
    result = dict(event)
    pid = event.get("pid")
    result["pid"] = threads.pid(pid)
    if "tid" in event:
        result["tid"] = threads.tid(pid, event["tid"])
    args = {key: value for key, value in event.get("args", {}).items() if key not in _DROPPED_ARGS}
    if event.get("cat") == "python_function":
        number = _python_id(event)
        result["name"] = frames.names[number]
        args["Python parent id"] = frames.caller(frames.parents.get(number))
    elif event.get("ph") == "M":
        if event["name"] == "process_sort_index" and pid != result["pid"]:
            args["sort_index"] = result["pid"]
        if event["name"].startswith("thread_") and event.get("tid") != result.get("tid"):
            args = {key: _thread_fact(value, event["tid"], result["tid"]) for key, value in args.items()}
    else:
        result["name"] = _name(str(event.get("name", "")))
    if "Addr" in args:
        args["Addr"] = addresses.setdefault(args["Addr"], len(addresses))
    if args or "args" in event:
        result["args"] = dict(_neutral(args))
    return result


def _thread_fact(value: Any, old: Any, new: Any) -> Any:
    if value == old:
        return new
    return value.replace(str(old), str(new)) if isinstance(value, str) else value


def _neutral(args: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in args.items():
        yield key, _name(value) if isinstance(value, str) else privacy.reduce_record(value)


def _name(text: str) -> str:
    return _ADDRESS.sub("0x…", privacy.reduce_paths(text))
