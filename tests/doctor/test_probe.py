"""The doctor: what it finds with and without a GPU, what it advises, and what it never says."""

import getpass
import io
import json
import socket
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from labcode import tools
from labcode.doctor import advice, probe
from labcode.doctor.machine import machine_record
from labcode.hardware import driver, host, management, needs, permissions
from labcode.hardware.driver import CudaDevice, Driver
from labcode.hardware.permissions import Permission
from tests.support.programs import program

UUID, SERIAL, BUS = "GPU-11112222-3333-4444-5555-666677778888", "1654322012345", "00000000:1B:00.0"
ATTRIBUTES = {"sm_count": 132, "l2_bytes": 62914560}


class NvmlError(Exception):
    """What the fake NVML raises."""


def fake_nvml(**changes: Any) -> ModuleType:
    """An NVML with two H200s, of which the second does not tell its power limit, and has MIG on."""
    nvml: Any = ModuleType("pynvml")
    nvml.__spec__ = ModuleSpec("pynvml", None)  # it is looked for, as a package that experiments need

    def unsupported(*_: object) -> Any:
        raise NvmlError("Not Supported")

    functions = {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlSystemGetDriverVersion": lambda: "580.159.03",
        "nvmlDeviceGetCount": lambda: 2,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetName": lambda handle: b"NVIDIA H200",
        "nvmlDeviceGetUUID": lambda handle: UUID,
        "nvmlDeviceGetSerial": lambda handle: SERIAL,
        "nvmlDeviceGetPciInfo": lambda h: SimpleNamespace(busId=BUS.replace("1B", f"1{'BC'[h]}").encode()),
        "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(total=150754820096),
        "nvmlDeviceGetCudaComputeCapability": lambda handle: (9, 0),
        "nvmlDeviceGetClockInfo": lambda handle, which: {0: 345, 1: 3201}[which],
        "nvmlDeviceGetMaxClockInfo": lambda handle, which: {0: 1980, 1: 3201}[which],
        "nvmlDeviceGetEnforcedPowerLimit": lambda handle: unsupported() if handle else 700_000,
        "nvmlDeviceGetEccMode": lambda handle: (1, 1),
        "nvmlDeviceGetMigMode": lambda handle: (handle, 0),
        "nvmlDeviceGetTotalEnergyConsumption": lambda handle: 123456,
        "nvmlDeviceGetComputeRunningProcesses": lambda handle: [object()],
        "nvmlDeviceGetNvLinkState": lambda handle, link: 1 if link < 4 else unsupported(),
        "nvmlDeviceGetP2PStatus": lambda a, b, what: 0,
        "nvmlDeviceGetCurrPcieLinkGeneration": lambda handle: 4,
        "nvmlDeviceGetMaxPcieLinkGeneration": lambda handle: 5,
        "nvmlDeviceGetCurrPcieLinkWidth": lambda handle: 8 if handle else 16,
        "nvmlDeviceGetMaxPcieLinkWidth": lambda handle: unsupported() if handle else 16,
    }
    constants = {
        "NVML_CLOCK_SM": 0,
        "NVML_CLOCK_MEM": 1,
        "NVML_NVLINK_MAX_LINKS": 18,
        "NVML_P2P_CAPS_INDEX_NVLINK": 2,
        "NVML_P2P_STATUS_OK": 0,
        "NVMLError": NvmlError,
    }
    for name, value in {**functions, **constants, **changes}.items():
        setattr(nvml, name, value)
    return nvml  # type: ignore[no-any-return]


def device(index: int) -> CudaDevice:
    return CudaDevice("NVIDIA H200", "9.0", 150109880320, f"0000:1{'bc'[index]}:00.0", dict(ATTRIBUTES))


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with nothing on it: no driver, no tools, no NVML."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    for name in ("LABCODE_NSYS", "LABCODE_NCU", "CUDACXX", "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(
        tools, "_NSYS_PLACES", (f"{tmp_path}/opt/nvidia/nsight-compute/*/host/target-linux-*/nsys",)
    )
    monkeypatch.setattr(tools, "_NCU_PLACES", ())
    monkeypatch.setattr(probe, "find_nvcc", _no_nvcc)
    monkeypatch.setattr(needs, "find_nvcc", _no_nvcc)
    monkeypatch.setattr(driver, "ask", lambda: Driver(None, (), "no NVIDIA driver is installed here"))
    monkeypatch.setitem(sys.modules, "pynvml", None)
    for name in ("_PARAMETERS", "_STATUS", "_PARANOID"):
        monkeypatch.setattr(permissions, name, tmp_path / "proc" / name)
    return tmp_path


def _no_nvcc() -> Path:
    from labcode.errors import ToolError

    raise ToolError("nvcc: not found; install the CUDA toolkit")


@pytest.fixture
def two_gpus(bare: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with two GPUs, the second of them hidden from CUDA."""
    monkeypatch.setattr(driver, "ask", lambda: Driver("13.0", (device(0),), None))
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml())
    monkeypatch.setattr(host, "numa_node", lambda bus_id: 1)
    (bare / "proc").mkdir()
    return bare


def printed(report: dict[str, Any]) -> str:
    stream = io.StringIO()
    probe.render(report, Console(file=stream, width=400))
    return stream.getvalue()


def test_without_anything_the_doctor_says_what_is_missing_and_what_still_works(bare: Path) -> None:
    report = json.loads(json.dumps(probe.probe()))
    assert report["gpus"] == [] and report["driver"]["version"] is None
    assert report["problems"] == [
        "no NVIDIA driver is installed here",
        "neither NVML (package nvidia-ml-py) nor nvidia-smi is here",
        "nsys: not found; install Nsight Systems (or Nsight Compute, which brings one along) "
        "or set LABCODE_NSYS to its path",
        "ncu: not found; install Nsight Compute or set LABCODE_NCU to its path",
        "nvcc: not found; install the CUDA toolkit",
    ]
    can = report["can_run"]
    assert can["experiments"]["doctor"] == []
    assert can["experiments"]["kernel_overlap"] == ["gpu", "nsys", "nvcc"]
    assert can["experiments"]["multi_gpu"][:2] == ["2 gpus", "nsys"]
    assert can["missing"]["gpu"] == "needs a GPU: no NVIDIA driver is installed here"
    assert can["missing"]["2 gpus"] == "needs 2 GPUs: no NVIDIA driver is installed here"
    text = printed(report)
    assert "Every page can be read, built and run on the captures that ship with it." in text
    assert "none that this machine shows" in text and "To enable the rest" in text
    assert "lacking gpu, nsys, nvcc: " in text and "kernel_overlap" in text
    for remedy in ("install Nsight Systems", "install Nsight Compute", "pip install nvidia-ml-py"):
        assert text.count(remedy) == 1
    assert "pip install torch" not in text.partition("To enable the rest")[0]
    assert "neither NVML" not in text  # that a driver and pynvml lack is said


def test_the_doctor_works_where_the_system_tells_less(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.sched_getaffinity", raising=False)  # macOS has none
    monkeypatch.setattr("os.cpu_count", lambda: 12)
    for quota, count in ((None, 12), (2.5, 2), (0.5, 1), (64.0, 12)):  # of a container
        monkeypatch.setattr("labcode.hardware.host._quota", lambda _, quota=quota: quota)
        assert probe.probe()["system"]["cpu_count"] == count


def test_gpus_are_described_from_nvml_and_the_driver(two_gpus: Path) -> None:
    first, second = probe.probe()["gpus"]
    assert first == {
        "index": 0,
        "visible_to_cuda": True,
        "name": "NVIDIA H200",
        "memory_bytes": 150754820096,
        "compute_capability": "9.0",
        "sm_clock_mhz": 345,
        "memory_clock_mhz": 3201,
        "max_sm_clock_mhz": 1980,
        "max_memory_clock_mhz": 3201,
        "power_limit_w": 700.0,
        "ecc": True,
        "mig": False,
        "energy_counter": True,
        "busy_processes": 1,
        "nvlinks": 4,
        "nvlink_peers": [1],
        "pcie_generation": 4,
        "max_pcie_generation": 5,
        "pcie_width": 16,
        "max_pcie_width": 16,
        "numa_node": 1,
        **ATTRIBUTES,
    }
    assert second["visible_to_cuda"] is False and second["power_limit_w"] is None and second["mig"] is True
    assert second["pcie_width"] == 8 and second["max_pcie_width"] is None
    text = printed(probe.probe())
    assert "345 / 1980 MHz" in text and "4 to GPU 1" in text and "(hidden from CUDA)" in text


def test_nothing_private_is_said(two_gpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: two_gpus)
    (two_gpus / "proc/_PARAMETERS").write_text("RmProfilingAdminOnly: 0")
    program(two_gpus / "bin/nsys", "echo NVIDIA Nsight Systems version 2025.3.1")
    report = probe.probe()
    assert report["tools"]["nsys"]["path"] == "~/bin/nsys"
    said = json.dumps(report) + json.dumps(probe.machine_record()) + printed(report)
    for secret in (UUID, SERIAL, BUS, "0000:1b", str(two_gpus)):
        assert secret not in said
    for name in (socket.gethostname(), getpass.getuser()):
        if len(name) > 4:
            assert name not in said


def test_a_gpu_that_only_the_driver_shows_is_listed(two_gpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml(nvmlDeviceGetCount=lambda: 0))
    report = probe.probe()
    assert [(gpu["name"], gpu["sm_count"], gpu["visible_to_cuda"]) for gpu in report["gpus"]] == [
        ("NVIDIA H200", 132, True)
    ]
    assert "the NVIDIA driver is installed, but shows no GPU" in report["problems"]
    assert "?" in printed(report)


def test_an_nvml_that_does_not_start_is_named(two_gpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise NvmlError("Driver/library version mismatch")

    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml(nvmlInit=fail))
    assert management.read().problem == (
        "NVML does not start (Driver/library version mismatch); is the NVIDIA driver installed?"
    )


SMI = "NVIDIA A100, 40960, 8.0, 1410, 1215, 1410, 1215, 400.00, Enabled, [N/A], 0:00:04.0, 550.1, 3, 4, 8, 16"


def test_without_nvml_nvidia_smi_is_asked(bare: Path) -> None:
    program(bare / "bin/nvidia-smi", f'echo "{SMI}"')
    found = management.read()
    assert (found.source, found.driver, found.problem) == ("nvidia-smi", "550.1", None)
    gpu = found.gpus[0]
    assert (gpu.name, gpu.memory_bytes, gpu.power_limit_w) == ("NVIDIA A100", 40960 << 20, 400.0)
    assert (gpu.ecc, gpu.mig, gpu.energy_counter, gpu.nvlinks) == (True, None, None, None)
    assert (gpu.pcie_generation, gpu.max_pcie_generation) == (3, 4)
    assert (gpu.pcie_width, gpu.max_pcie_width) == (8, 16)
    assert "nvidia-ml-py is not installed" in found.notes[0]
    assert "nvidia-ml-py is not installed" in printed(probe.probe())


def test_an_nvidia_smi_that_fails_is_named(bare: Path) -> None:
    program(bare / "bin/nvidia-smi", "echo 'No devices were found'; exit 6")
    assert management.read().problem == "nvidia-smi failed (No devices were found)"


def test_the_nsys_inside_nsight_compute_is_recognized_and_its_missing_library_named(
    two_gpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = two_gpus / "opt/nvidia/nsight-compute/2025.3.1/host/target-linux-x64/nsys"
    program(place, "echo NVIDIA Nsight Systems version 2025.3.1.0-0v0")
    monkeypatch.setattr(probe, "libdw_available", lambda nsys: False)
    nsys = probe.probe()["tools"]["nsys"]
    assert nsys["inside_nsight_compute"] is True and nsys["version"] == "2025.3.1.0"
    assert "nsys can record but not write reports" in nsys["problem"]
    assert "install libdw1 (Debian, Ubuntu) or elfutils-libs (RHEL, Fedora)" in nsys["problem"]
    assert "the one inside Nsight Compute (see below)" in printed(probe.probe())
    monkeypatch.setattr(probe, "libdw_available", lambda nsys: True)
    assert probe.probe()["tools"]["nsys"]["problem"] is None


def test_a_tool_that_does_not_start_is_named(two_gpus: Path) -> None:
    program(two_gpus / "bin/ncu", "exit 1")
    assert probe.probe()["tools"]["ncu"]["problem"] == f"{two_gpus}/bin/ncu: does not start; install it again"


def test_the_machine_record_holds_what_a_manifest_needs(two_gpus: Path) -> None:
    program(two_gpus / "bin/nsys", "echo NVIDIA Nsight Systems version 2025.3.1")
    record = machine_record()
    assert record["gpus"][0]["pcie_width"] == 16 and record["gpus"][0]["numa_node"] == 1
    assert record["gpu_count"] == 1 and record["gpus"][0]["sm_count"] == 132
    assert (record["driver"], record["cuda"], record["nsys"], record["ncu"]) == (
        "580.159.03",
        "13.0",
        "2025.3.1",
        None,
    )
    assert set(record) == {
        *("gpus", "gpu_count", "driver", "cuda", "nvcc", "python", "torch", "nsys", "ncu", "cpu_count", "os"),
        *host.describe(),
    }


def capabilities(path: Path, bits: int) -> None:
    (path / "_STATUS").write_text(f"Name:\tx\nCapEff:\t{bits:016x}\n")


@pytest.mark.parametrize(
    ("parameters", "bits", "expected", "words"),
    [
        ("RmProfilingAdminOnly: 1\n", 0, False, "RmProfilingAdminOnly is 1"),
        ("RmProfilingAdminOnly: 0\n", 0, True, "RmProfilingAdminOnly is 0"),
        ("RmProfilingAdminOnly: 1\n", 1 << 21, True, "SYS_ADMIN"),
        (None, 0, None, "does not say"),
    ],
)
def test_permission_to_read_counters(
    two_gpus: Path, parameters: str | None, bits: int, expected: bool | None, words: str
) -> None:
    if parameters is not None:
        (two_gpus / "proc/_PARAMETERS").write_text(parameters)
    capabilities(two_gpus / "proc", bits)
    found = permissions.counters()
    assert found.allowed is expected and words in found.reason
    assert ("NVreg_RestrictProfilingToAdminUsers=0" in found.advice) == (expected is False)


@pytest.mark.parametrize(
    ("level", "bits", "expected"),
    [("2\n", 0, True), ("4\n", 0, False), ("4\n", 1 << 38, True), (None, 0, False)],
)
def test_permission_to_sample_the_cpu(two_gpus: Path, level: str | None, bits: int, expected: bool) -> None:
    if level is not None:
        (two_gpus / "proc/_PARANOID").write_text(level)
    capabilities(two_gpus / "proc", bits)
    assert permissions.cpu_sampling().allowed is expected
    assert permissions.paranoid_level() == (None if level is None else int(level))


def test_needs_are_met_or_explained(two_gpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert needs.unmet(["gpu"]) == {}
    found = needs.unmet(["gpu", "2 gpus", "nvcc", "nsys", "no_such_package"])
    assert found["2 gpus"] == "needs 2 GPUs, this machine has 1"
    assert found["nvcc"] == "needs nvcc: not found; install the CUDA toolkit"
    assert "needs nsys: not found; install Nsight Systems" in found["nsys"]
    assert found["no_such_package"] == (
        "needs the Python package no_such_package: not installed; `python -m pip install no_such_package`"
    )
    denied = Permission(False, "the driver keeps them", "run as root")
    monkeypatch.setattr(permissions, "counters", lambda: denied)
    assert needs.unmet(["counters"]) == {
        "counters": "needs the GPU's counters: the driver keeps them; run as root"
    }


def test_a_torch_without_cuda_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(needs.importlib.metadata, "version", lambda name: "2.13.0+cpu")
    expected = "needs PyTorch for CUDA: this one is built for the CPU alone; install the CUDA build"
    assert needs.unmet(["torch", "any torch"]) == {"torch": expected}
    monkeypatch.setattr(needs.importlib.metadata, "version", lambda name: "2.13.0")
    assert needs.unmet(["torch"]) == {}


def test_pages_need_what_their_experiments_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "book/nsys").mkdir(parents=True)
    (tmp_path / "book/nsys/overlap.md").write_text('report = book.capture("kernel_overlap", "stream")\n')
    (tmp_path / "book/plain.md").write_text("No capture here.\n")
    monkeypatch.setattr(advice, "repository_root", lambda: tmp_path)
    monkeypatch.setattr(advice, "unmet", lambda wanted: {need: "no" for need in wanted if need == "nvcc"})
    assert advice.can_run()["chapters"] == {"nsys/overlap": ["nvcc"]}


def test_the_driver_is_asked_in_a_process_of_its_own() -> None:
    command = [sys.executable, "-m", "labcode.hardware.driver"]
    root = Path(driver.__file__).resolve().parents[2]
    answer = json.loads(subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout)
    assert set(answer) == {"cuda_version", "devices", "problem"}
    assert (answer["problem"] is None) == bool(answer["devices"])


def test_a_driver_that_hangs_or_talks_nonsense_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(driver.sys, "executable", str(program(tmp_path / "python", "echo nonsense")))
    assert driver.ask.__wrapped__().problem == "the CUDA driver could not be asked (nonsense)"
    monkeypatch.setattr(driver.sys, "executable", str(program(tmp_path / "python", "echo hello; sleep 60")))
    monkeypatch.setattr(driver, "_LIMIT_S", 0.5)
    assert "CUDA driver: not done after 0.5 s" in str(driver.ask.__wrapped__().problem)


def test_the_doctor_does_not_import_torch() -> None:
    code = (
        "import sys; from labcode.doctor import probe; probe.probe(); probe.machine_record(); "
        "assert not {'torch', 'cupy', 'pandas'} & set(sys.modules), set(sys.modules)"
    )
    root = Path(driver.__file__).resolve().parents[2]
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True)


@pytest.mark.gpu
@pytest.mark.skipif(needs.gpu_count() == 0, reason="needs a GPU")
def test_on_a_gpu_machine_the_doctor_agrees_with_torch() -> None:
    torch = pytest.importorskip("torch")
    record = probe.machine_record()
    properties = torch.cuda.get_device_properties(0)
    assert record["gpu_count"] == torch.cuda.device_count()
    assert record["gpus"][0]["name"] == properties.name
    assert record["gpus"][0]["sm_count"] == properties.multi_processor_count
    assert record["gpus"][0]["l2_bytes"] == properties.L2_cache_size
    assert record["driver"] is not None
