"""The machine of a capture set: what the doctor says of it, of its host and of its links in, a record out."""

from typing import cast

from labcode.doctor import probe
from labcode.hardware import driver, host, management
from labcode.store import Machine

_LINK = ("pcie_generation", "max_pcie_generation", "pcie_width", "max_pcie_width", "numa_node")


def machine_record() -> Machine:
    """`probe.machine_record` with what tells hosts apart: processor, memory nodes, the GPUs' links."""
    record = probe.machine_record()
    visible = [g for g in probe._gpus(driver.ask(), management.read()) if g["visible_to_cuda"]]
    links = [{key: gpu.get(key) for key in _LINK} for gpu in visible]
    gpus = [{**gpu, **link} for gpu, link in zip(record["gpus"], links, strict=True)]
    return cast(Machine, {**record, "gpus": gpus, **host.describe()})
