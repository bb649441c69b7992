"""What this machine permits a profiler: settings of kernel and driver read, a verdict and a remedy out."""

import re
from dataclasses import dataclass
from pathlib import Path

_PARAMETERS = Path("/proc/driver/nvidia/params")
_STATUS = Path("/proc/self/status")
_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
_SYS_ADMIN, _PERFMON = 21, 38  # bits of CapEff, see capabilities(7)


@dataclass(frozen=True)
class Permission:
    """Whether something is permitted (None: only trying would tell), why, and what would permit it."""

    allowed: bool | None
    reason: str
    advice: str = ""


def counters() -> Permission:
    """May programs started from here read the GPU's counters (ncu, ``nsys --gpu-metrics-devices``)?"""
    if not _PARAMETERS.parent.is_dir():
        return Permission(None, "no NVIDIA driver is installed here")
    if _capable(_SYS_ADMIN):
        return Permission(True, "this process has the capability SYS_ADMIN")
    try:
        match = re.search(r"RmProfilingAdminOnly:\s*(\d+)", _PARAMETERS.read_text(encoding="utf-8"))
    except OSError:
        match = None
    if match is None:
        return Permission(None, f"{_PARAMETERS} does not say; try ncu on a small program")
    if match.group(1) == "0":
        return Permission(True, "the driver lets every user read them (RmProfilingAdminOnly is 0)")
    return Permission(
        False,
        "the driver keeps them for administrators (RmProfilingAdminOnly is 1)",
        "run as root; or in a container add --cap-add=SYS_ADMIN; or let an administrator write “options "
        "nvidia NVreg_RestrictProfilingToAdminUsers=0” to /etc/modprobe.d/nvidia-profiling.conf and reboot",
    )


def cpu_sampling() -> Permission:
    """May nsys sample the CPU's stacks and record context switches (``--sample``, ``--cpuctxsw``)?"""
    try:
        level = int(_PARANOID.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return Permission(
            False, "this kernel has no perf events", "nothing to do: use --sample=none --cpuctxsw=none"
        )
    if level <= 2:
        return Permission(True, f"kernel.perf_event_paranoid is {level}")
    if _capable(_SYS_ADMIN) or _capable(_PERFMON):
        return Permission(
            True, f"kernel.perf_event_paranoid is {level}, but this process has the capability it takes"
        )
    return Permission(
        False,
        f"kernel.perf_event_paranoid is {level}",
        "let an administrator run `sysctl kernel.perf_event_paranoid=2`",
    )


def paranoid_level() -> int | None:
    """The value of ``kernel.perf_event_paranoid``; None where the kernel has none."""
    try:
        return int(_PARANOID.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _capable(bit: int) -> bool:
    try:
        match = re.search(r"^CapEff:\s*([0-9a-f]+)", _STATUS.read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return False
    return match is not None and bool(int(match.group(1), 16) >> bit & 1)
