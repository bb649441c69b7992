"""What `labcode doctor` found, for a page: its JSON report in, a table of one line a finding out."""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

_OK = "ok"
_TOOLS = {"nsys": "Nsight Systems", "ncu": "Nsight Compute", "nvcc": "CUDA compiler", "dcgmi": "DCGM"}
_PERMISSIONS = {"counters": "GPU hardware counters", "cpu_sampling": "CPU sampling"}


def doctor_table(report: Mapping[str, Any]) -> pd.DataFrame:
    """The findings of `labcode doctor --json` as a table.

    Columns: ``what`` was looked at, what was ``found``, and its ``state``: “ok”, or what is missing and what
    to do. Paths are left out. Parts of a report that are absent make no line.
    """
    lines = [
        *_machine(report),
        *_gpus(report),
        *_tools(report),
        *_packages(report),
        *_permissions(report),
        *_can_run(report),
    ]
    return pd.DataFrame(lines, columns=["what", "found", "state"])


def _machine(report: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    system, driver = report.get("system", {}), report.get("driver", {})
    if system:
        yield "system", f"{system['os']}, {system['cpu_count']} CPUs, Python {system['python']}", _OK
    if driver:
        found = f"{driver['version']}, serves CUDA {driver['cuda']}" if driver["version"] else "none"
        yield (
            "NVIDIA driver",
            found,
            _OK if driver["version"] else "no driver: pages can be read, not measured again",
        )


def _gpus(report: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for gpu in report.get("gpus", ()):
        details = [gpu["name"]]
        if gpu.get("compute_capability"):
            details.append(f"compute capability {gpu['compute_capability']}")
        if gpu.get("memory_bytes"):
            details.append(f"{gpu['memory_bytes'] / 2**30:.0f} GiB")
        if gpu.get("sm_count"):
            details.append(f"{gpu['sm_count']} SMs")
        if gpu.get("power_limit_w"):
            details.append(f"power limit {gpu['power_limit_w']:.0f} W")
        state = _OK if gpu.get("visible_to_cuda", True) else "hidden from CUDA"
        yield f"GPU {gpu.get('index', '')}".strip(), ", ".join(details), state


def _tools(report: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for name, tool in report.get("tools", {}).items():
        present = bool(tool.get("version") or tool.get("path"))
        inside = ", the one inside Nsight Compute" if tool.get("inside_nsight_compute") else ""
        found = f"{tool.get('version') or 'unknown version'}{inside}" if present else "not found"
        state = tool.get("problem") or (_OK if present else "not needed for this book's captures")
        yield _TOOLS.get(name, name), found, state


def _packages(report: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    packages = report.get("packages", {})
    if packages:
        yield "Python packages", ", ".join(f"{name} {version}" for name, version in packages.items()), _OK


def _permissions(report: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for key, label in _PERMISSIONS.items():
        entry = report.get("permissions", {}).get(key)
        if entry:
            found = {True: "permitted", False: "not permitted", None: "unknown"}[entry["allowed"]]
            yield label, f"{found}: {entry['reason']}", _OK if entry["allowed"] else entry["advice"] or found


def _can_run(report: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    experiments = report.get("can_run", {}).get("experiments", {})
    if experiments:
        able = [name for name, missing in experiments.items() if not missing]
        reasons = dict.fromkeys(reason for missing in experiments.values() for reason in missing)
        yield "experiments", f"{len(able)} of {len(experiments)} can run here", "; ".join(reasons) or _OK
