"""What tells hosts apart: nothing in; processor, cores, memory nodes, governor, kernel, virtualization out.

Read from ``/proc`` and ``/sys``; what is not visible there is None. Models and counts only: no host name, no
serial number, no address.
"""

import os
import platform
import re
import statistics
import time
from pathlib import Path

_MAKERS = ("KVM", "QEMU", "VMware", "Xen", "Microsoft", "Google", "Amazon", "OpenStack", "Firecracker")
_PIECES, _STEPS = 21, 60_000  # about 5 ms each
_CORE = re.compile(r"^(physical id|core id|model name|flags|processor)\s*:\s*(.*)$", re.MULTILINE)


def describe(root: Path = Path("/")) -> dict[str, str | int | float | None]:
    """The host as manifests describe it; ``root`` is where ``proc`` and ``sys`` lie.

    ``cpu_sockets`` and ``cpu_cores`` count what the system sees, ``cpu_threads`` those cores' threads;
    ``cpu_quota`` is how many CPUs' time a container may use.
    """
    info = _text(root / "proc/cpuinfo")
    cpus = [dict(_CORE.findall(block)) for block in re.split(r"\n\s*\n", info) if "processor" in block]
    cores = {(cpu.get("physical id"), cpu.get("core id")) for cpu in cpus if "core id" in cpu}
    memory = re.search(r"MemTotal:\s*(\d+) kB", _text(root / "proc/meminfo"))
    nodes = list((root / "sys/devices/system/node").glob("node[0-9]*"))
    return {
        "cpu": " ".join(cpus[0].get("model name", "").split()) or None if cpus else None,
        "cpu_sockets": len({socket for socket, _ in cores}) or None,
        "cpu_cores": len(cores) or None,
        "cpu_threads": len(cpus) or None,
        "cpu_quota": _quota(root),
        "cpu_governor": _text(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip() or None,
        "numa_nodes": len(nodes) or None,
        "host_memory_gib": round(int(memory[1]) / (1 << 20)) if memory else None,
        "kernel": platform.release().partition("-")[0],
        "virtualization": _virtualization(root, cpus[0].get("flags", "") if cpus else ""),
    }


def usable_cpus(root: Path = Path("/")) -> int:
    """How many CPUs this process may use: those it may run on (all where the system does not say, as on
    macOS), and of a container's share of their time at least one.
    """
    some = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(min(some, int(_quota(root) or some)), 1)


def pace_s() -> float:
    """Seconds that this host takes now for a fixed piece of work on one CPU: the median of `_PIECES`.

    A piece takes longer than a CPU is given to one program at a time, so that sharing a CPU shows, as a
    lower clock, a busy twin of the core and a hypervisor that gives less do.
    """
    seconds = []
    for _ in range(_PIECES):
        began, value = time.perf_counter(), 0
        for number in range(_STEPS):
            value = (value * 31 + number) & 0xFFFF
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def stolen_s(root: Path = Path("/")) -> float:
    """Seconds since its start that the CPUs of a virtual machine waited for others; 0 where none are told."""
    found = re.match(r"cpu +(?:\d+ +){7}(\d+)", _text(root / "proc/stat"))
    return int(found[1]) / os.sysconf("SC_CLK_TCK") if found else 0.0


def numa_node(bus_id: str, root: Path = Path("/")) -> int | None:
    """The memory node that a PCI device is attached to; None where it is not visible."""
    found = _text(root / "sys/bus/pci/devices" / bus_id.lower()[-12:] / "numa_node").strip()
    return int(found) if re.fullmatch(r"\d+", found) else None


def _quota(root: Path) -> float | None:
    limit, _, period = _text(root / "sys/fs/cgroup/cpu.max").partition(" ")
    if limit.isdigit() and period.strip().isdigit():
        return round(int(limit) / int(period), 2)
    old = [_text(root / f"sys/fs/cgroup/cpu/cpu.cfs_{of}_us").strip() for of in ("quota", "period")]
    return round(int(old[0]) / int(old[1]), 2) if all(text.isdigit() for text in old) else None


def _virtualization(root: Path, flags: str) -> str | None:
    """The maker of the virtual machine this seems to be, ``virtual`` for an unknown one, None for none."""
    says = "".join(_text(root / "sys/class/dmi/id" / name) for name in ("sys_vendor", "product_name"))
    says += _text(root / "sys/hypervisor/type")
    known = [maker for maker in _MAKERS if maker.lower() in says.lower()]
    if known and ("hypervisor" in flags.split() or known[0] != "Microsoft"):
        return known[0]
    return "virtual" if "hypervisor" in flags.split() else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
