"""What this machine has and permits: a JSON-able report out, for `labcode doctor` and for capture sets.

No host name, serial number, UUID or user name is in it, and torch is never imported.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

from labcode.doctor.advice import can_run
from labcode.doctor.render import render
from labcode.errors import LabError
from labcode.hardware import driver, host, management, permissions
from labcode.hardware.needs import gpu_count
from labcode.tools import (
    find_ncu,
    find_nsys,
    find_nvcc,
    inside_nsight_compute,
    libdw_advice,
    libdw_available,
    tool_version,
)

__all__ = ["gpu_count", "machine_record", "probe", "render"]

REPORT_SCHEMA = 1
_PACKAGES = ("torch", "cupy-cuda13x", "cupy-cuda12x", "nvidia-ml-py", "nvtx", "triton")


def probe() -> dict[str, Any]:
    """Everything `labcode doctor` says.

    Keys: ``system``, ``driver``, ``gpus``, ``tools`` (nsys, ncu, nvcc, dcgmi), ``packages``, ``permissions``,
    ``can_run`` (experiments, exercises, chapters: what each is missing here) and ``problems``.
    Works without a GPU, a driver or any tool.
    """
    seen, managed = driver.ask(), management.read()
    tools = {"nsys": _nsys(), "ncu": _ncu(), "nvcc": _nvcc(), "dcgmi": _dcgmi()}
    report = {
        "schema": REPORT_SCHEMA,
        "system": _system(),
        "driver": {
            "version": managed.driver,
            "cuda": seen.cuda_version,
            "asked": managed.source,
            "notes": list(managed.notes),
        },
        "gpus": _gpus(seen, managed),
        "tools": tools,
        "packages": {name: version for name in _PACKAGES if (version := _version(name)) is not None},
        "permissions": {
            "counters": asdict(permissions.counters()),
            "cpu_sampling": asdict(permissions.cpu_sampling()),
            "perf_event_paranoid": permissions.paranoid_level(),
        },
        "can_run": can_run(),
    }
    said = [seen.problem, managed.problem, *(tool["problem"] for tool in tools.values())]
    problems = dict.fromkeys(text for text in said if text)
    return {**report, "problems": list(problems)}


def machine_record() -> dict[str, Any]:
    """The machine as manifests describe it: GPUs in use, versions of driver and tools, CPUs, system."""
    seen, managed = driver.ask(), management.read()
    system, nsys, ncu, nvcc = _system(), find_nsys(), find_ncu(), _nvcc()
    wanted = (
        "name",
        "memory_bytes",
        "compute_capability",
        "sm_count",
        "l2_bytes",
        "max_sm_clock_mhz",
        "max_memory_clock_mhz",
        "power_limit_w",
        "ecc",
        "nvlinks",
    )
    gpus = [{key: gpu.get(key) for key in wanted} for gpu in _gpus(seen, managed) if gpu["visible_to_cuda"]]
    return {
        "gpus": gpus,
        "gpu_count": len(gpus),
        "driver": managed.driver,
        "cuda": seen.cuda_version,
        "nvcc": nvcc["version"],
        "python": system["python"],
        "torch": _version("torch"),
        "nsys": tool_version(nsys) if nsys else None,
        "ncu": tool_version(ncu) if ncu else None,
        "cpu_count": system["cpu_count"],
        "os": system["os"],
    }


def _system() -> dict[str, Any]:
    try:
        release = platform.freedesktop_os_release()
        name = " ".join(part for part in (release.get("NAME"), release.get("VERSION_ID")) if part)
    except OSError:
        name = platform.system()
    return {
        "os": name,
        "kernel": platform.release().partition("-")[0],
        "architecture": platform.machine(),
        "cpu_count": host.usable_cpus(),
        "python": platform.python_version(),
        "cuda_visible_devices": os.environ.get("CUDA_VISIBLE_DEVICES"),
    }


def _gpus(seen: driver.Driver, managed: management.Management) -> list[dict[str, Any]]:
    """One record per GPU, from both sources, matched by their place on the bus (which is then forgotten)."""
    by_bus = {_bus(device.bus_id): device for device in seen.devices}
    records = []
    for index, gpu in enumerate(managed.gpus):
        device = by_bus.pop(_bus(gpu.bus_id), None)
        record = {key: value for key, value in asdict(gpu).items() if key != "bus_id"}
        record["nvlink_peers"] = None if gpu.nvlink_peers is None else list(gpu.nvlink_peers)
        records.append(
            {"index": index, "visible_to_cuda": device is not None, **record, **_attributes(device)}
        )
    for device in by_bus.values():  # in a MIG slice or without NVML
        basic: dict[str, Any] = {
            "name": device.name,
            "memory_bytes": device.memory_bytes,
            "compute_capability": device.compute_capability,
        }
        records.append({"index": len(records), "visible_to_cuda": True, **basic, **_attributes(device)})
    return records


def _attributes(device: driver.CudaDevice | None) -> dict[str, int]:
    return {} if device is None else dict(device.attributes)


def _bus(bus_id: str) -> str:
    """A PCI address in one form: NVML writes the domain with eight digits, CUDA with four."""
    return re.sub(r"^0+(?=[0-9a-f]{4}:)", "", bus_id.lower())


def _nsys() -> dict[str, Any]:
    record = _tool(find_nsys)
    path = record.pop("found")
    if path is None:
        record["problem"] = record["problem"] or (
            "nsys: not found; install Nsight Systems (or Nsight Compute, which brings one along) "
            "or set LABCODE_NSYS to its path"
        )
        return record
    record["inside_nsight_compute"] = inside_nsight_compute(path)
    if record["inside_nsight_compute"] and not libdw_available(path):
        record["problem"] = f"nsys can record but not write reports: {libdw_advice(Path(record['path']))}"
    return record


def _ncu() -> dict[str, Any]:
    record = _tool(find_ncu)
    if record.pop("found") is None:
        record["problem"] = (
            record["problem"] or "ncu: not found; install Nsight Compute or set LABCODE_NCU to its path"
        )
    return record


def _nvcc() -> dict[str, Any]:
    record = _tool(find_nvcc, r"release (\d+\.\d+)")
    record.pop("found")
    return record


def _dcgmi() -> dict[str, Any]:
    found = shutil.which("dcgmi")
    record = _tool(lambda: Path(found) if found else None)
    record.pop("found")
    return record


def _tool(find: Any, pattern: str = r"(\d+\.\d+(?:\.\d+)*)") -> dict[str, Any]:
    try:
        path = find()
    except LabError as error:
        return {"found": None, "path": None, "version": None, "problem": str(error)}
    if path is None:
        return {"found": None, "path": None, "version": None, "problem": None}
    version = tool_version(path, pattern)
    problem = None if version else f"{_shown(path)}: does not start; install it again"
    return {"found": path, "path": _shown(path), "version": version, "problem": problem}


def _shown(path: Path) -> str:
    """A path without the user's name."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
