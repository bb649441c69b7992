"""Make recordings of PyTorch fit to publish: a trace or a memory history in, a neutral copy of it out.

Traces are Chrome traces as `torch.profiler` writes them. Left out are what says which machine, process or
folder it was, and what nothing reads and much space is taken by.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from labcode.capture import privacy
from labcode.capture.privacy import FIRST_PID, Names

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


def scrub_trace(trace: Mapping[str, Any], root: Path | None = None, names: Names = ()) -> dict[str, Any]:
    """A trace without host, process ids, folders and bulk.

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
    threads = _Threads(events, FIRST_PID + 1000 * rank)
    addresses: dict[Any, int] = {}
    events = [_event(event, threads, addresses, root, names) for event in events]
    return {**privacy.reduce_record(result, names), "traceEvents": events}


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
