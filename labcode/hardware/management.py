"""What the management library says of this machine's GPUs: NVML or nvidia-smi asked, one record per GPU out.

NVML is read through the package ``nvidia-ml-py`` where it is installed; else ``nvidia-smi``, which says less.
Nothing is ever set.
"""

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from labcode.errors import ToolError
from labcode.hardware import host
from labcode.tools import run_tool

_SMI_FIELDS = {
    "name": "name",
    "memory.total": "memory_bytes",
    "compute_cap": "compute_capability",
    "clocks.sm": "sm_clock_mhz",
    "clocks.mem": "memory_clock_mhz",
    "clocks.max.sm": "max_sm_clock_mhz",
    "clocks.max.mem": "max_memory_clock_mhz",
    "enforced.power.limit": "power_limit_w",
    "ecc.mode.current": "ecc",
    "mig.mode.current": "mig",
    "pci.bus_id": "bus_id",
    "driver_version": "driver",
    "pcie.link.gen.current": "pcie_generation",
    "pcie.link.gen.max": "max_pcie_generation",
    "pcie.link.width.current": "pcie_width",
    "pcie.link.width.max": "max_pcie_width",
}
_LIMIT_S = 30.0
_MOST_GPUS = 1024  # of one machine, partitions and all
_LONGEST_LINE = 4_096  # characters that it says of one


@dataclass(frozen=True)
class ManagedGpu:
    """One GPU. What the library did not say is None. ``bus_id`` never leaves this process.

    ``nvlinks`` counts active links, ``nvlink_peers`` names the GPUs (by index) reached over them;
    ``energy_counter`` is whether the joules used so far can be read. ``pcie_generation`` and ``pcie_width``
    are those of the link as it is, with ``max_`` those that it can have; ``numa_node`` is the memory node.
    """

    name: str
    bus_id: str
    memory_bytes: int | None = None
    compute_capability: str | None = None
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    max_sm_clock_mhz: int | None = None
    max_memory_clock_mhz: int | None = None
    power_limit_w: float | None = None
    ecc: bool | None = None
    mig: bool | None = None
    energy_counter: bool | None = None
    busy_processes: int | None = None
    nvlinks: int | None = None
    nvlink_peers: tuple[int, ...] | None = None
    pcie_generation: int | None = None
    max_pcie_generation: int | None = None
    pcie_width: int | None = None
    max_pcie_width: int | None = None
    numa_node: int | None = None


@dataclass(frozen=True)
class Management:
    """All GPUs, the driver's version, who said it (``nvml``, ``nvidia-smi`` or None), what is wrong."""

    source: str | None
    driver: str | None
    gpus: tuple[ManagedGpu, ...] = ()
    problem: str | None = None
    notes: tuple[str, ...] = field(default=())


def read() -> Management:
    """Ask NVML, else nvidia-smi. Never raises: ``problem`` says what is wrong."""
    try:
        import pynvml
    except ImportError:
        found = _from_smi()
        note = "the package nvidia-ml-py is not installed; nvidia-smi was asked instead, which says less"
        return Management(
            found.source, found.driver, found.gpus, found.problem, (note,) if found.source else ()
        )
    return _from_nvml(pynvml)


def _from_nvml(nvml: ModuleType) -> Management:
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return Management(
            None, None, problem=f"NVML does not start ({error}); is the NVIDIA driver installed?"
        )
    try:
        handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
        gpus = tuple(_nvml_gpu(nvml, handles, index) for index in range(len(handles)))
        driver = _text(nvml.nvmlSystemGetDriverVersion())
        problem = None if gpus else "the NVIDIA driver is installed, but shows no GPU"
        return Management("nvml", driver, gpus, problem)
    except nvml.NVMLError as error:
        return Management(None, None, problem=f"NVML failed ({error}); see nvidia-smi")
    finally:
        nvml.nvmlShutdown()


def _nvml_gpu(nvml: ModuleType, handles: list[Any], index: int) -> ManagedGpu:
    handle = handles[index]

    def ask(name: str, *arguments: Any) -> Any:
        """A reading, or None where this GPU, driver or package does not have it."""
        try:
            return getattr(nvml, name)(*arguments)
        except (nvml.NVMLError, AttributeError):
            return None

    def maybe(value: Any, convert: Callable[[Any], Any]) -> Any:
        return None if value is None else convert(value)

    capability = ask("nvmlDeviceGetCudaComputeCapability", handle)
    links = [
        ask("nvmlDeviceGetNvLinkState", handle, link)
        for link in range(getattr(nvml, "NVML_NVLINK_MAX_LINKS", 18))
    ]
    peers = tuple(
        other
        for other, there in enumerate(handles)
        if other != index
        and ask("nvmlDeviceGetP2PStatus", handle, there, nvml.NVML_P2P_CAPS_INDEX_NVLINK)
        == nvml.NVML_P2P_STATUS_OK
    )
    bus_id = maybe(ask("nvmlDeviceGetPciInfo", handle), lambda pci: _text(pci.busId)) or ""
    return ManagedGpu(
        name=_text(ask("nvmlDeviceGetName", handle) or "unknown"),
        bus_id=bus_id,
        memory_bytes=maybe(ask("nvmlDeviceGetMemoryInfo", handle), lambda memory: int(memory.total)),
        compute_capability=maybe(capability, lambda pair: f"{pair[0]}.{pair[1]}"),
        sm_clock_mhz=ask("nvmlDeviceGetClockInfo", handle, nvml.NVML_CLOCK_SM),
        memory_clock_mhz=ask("nvmlDeviceGetClockInfo", handle, nvml.NVML_CLOCK_MEM),
        max_sm_clock_mhz=ask("nvmlDeviceGetMaxClockInfo", handle, nvml.NVML_CLOCK_SM),
        max_memory_clock_mhz=ask("nvmlDeviceGetMaxClockInfo", handle, nvml.NVML_CLOCK_MEM),
        power_limit_w=maybe(
            ask("nvmlDeviceGetEnforcedPowerLimit", handle), lambda milliwatts: milliwatts / 1000
        ),
        ecc=maybe(ask("nvmlDeviceGetEccMode", handle), lambda modes: bool(modes[0])),
        mig=maybe(ask("nvmlDeviceGetMigMode", handle), lambda modes: bool(modes[0])),
        energy_counter=ask("nvmlDeviceGetTotalEnergyConsumption", handle) is not None,
        busy_processes=maybe(ask("nvmlDeviceGetComputeRunningProcesses", handle), len),
        nvlinks=None if all(link is None for link in links) else sum(bool(link) for link in links),
        nvlink_peers=peers,
        pcie_generation=ask("nvmlDeviceGetCurrPcieLinkGeneration", handle),
        max_pcie_generation=ask("nvmlDeviceGetMaxPcieLinkGeneration", handle),
        pcie_width=ask("nvmlDeviceGetCurrPcieLinkWidth", handle),
        max_pcie_width=ask("nvmlDeviceGetMaxPcieLinkWidth", handle),
        numa_node=host.numa_node(bus_id),
    )


def _from_smi() -> Management:
    smi = shutil.which("nvidia-smi")
    if smi is None:
        return Management(None, None, problem="neither NVML (package nvidia-ml-py) nor nvidia-smi is here")
    query = [smi, f"--query-gpu={','.join(_SMI_FIELDS)}", "--format=csv,noheader,nounits"]
    try:
        result = run_tool(query, _LIMIT_S)
    except ToolError as error:
        return Management(None, None, problem=str(error))
    if result.returncode != 0:
        return Management(None, None, problem=f"nvidia-smi failed ({result.last_line()})")
    lines = [line for line in result.stdout.splitlines() if line]
    if len(lines) > _MOST_GPUS:
        return Management(None, None, problem=f"nvidia-smi printed {len(lines):,} lines; is it NVIDIA's?")
    if any(len(line) > _LONGEST_LINE for line in lines):
        return Management(None, None, problem="nvidia-smi printed an endless line; is it NVIDIA's?")
    rows = [dict(zip(_SMI_FIELDS.values(), re.split(r",\s*", line), strict=False)) for line in lines]
    gpus = tuple(_smi_gpu(row) for row in rows)
    driver = rows[0].get("driver") if rows else None
    return Management("nvidia-smi", driver, gpus, None if gpus else "nvidia-smi shows no GPU")


def _smi_gpu(row: dict[str, str]) -> ManagedGpu:
    def number(key: str) -> float | None:
        return float(row[key]) if re.fullmatch(r"\d{1,18}(\.\d+)?", row.get(key, "")) else None

    def whole(key: str) -> int | None:
        value = number(key)
        return None if value is None else round(value)

    def switch(key: str) -> bool | None:
        return {"Enabled": True, "Disabled": False}.get(row.get(key, ""))

    memory_mib = number("memory_bytes")
    return ManagedGpu(
        name=row["name"],
        bus_id=row.get("bus_id", ""),
        memory_bytes=None if memory_mib is None else round(memory_mib * (1 << 20)),
        compute_capability=row.get("compute_capability"),
        sm_clock_mhz=whole("sm_clock_mhz"),
        memory_clock_mhz=whole("memory_clock_mhz"),
        max_sm_clock_mhz=whole("max_sm_clock_mhz"),
        max_memory_clock_mhz=whole("max_memory_clock_mhz"),
        power_limit_w=number("power_limit_w"),
        ecc=switch("ecc"),
        mig=switch("mig"),
        pcie_generation=whole("pcie_generation"),
        max_pcie_generation=whole("max_pcie_generation"),
        pcie_width=whole("pcie_width"),
        max_pcie_width=whole("max_pcie_width"),
        numa_node=host.numa_node(row.get("bus_id", "")),
    )


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
