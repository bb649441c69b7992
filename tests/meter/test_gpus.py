"""Which GPUs are metered, and each way in which one cannot be."""

import sys

import pytest

from labcode.errors import LabError, ToolError
from labcode.meter.gpus import GpuLostError, open_gpus
from labcode.meter.visible import visible
from tests.support.fake_nvml import FakeGpu, FakeNvml

UUIDS = ["GPU-5ebe9f43-aaaa", "GPU-5ebe9f43-bbbb", "GPU-77777777-cccc"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (None, [0, 1, 2]),
        ("0", [0]),
        ("2,0", [2, 0]),
        (" 1 , 2 ", [1, 2]),
        ("0,7,1", [0]),  # what follows the first that is none is not seen
        ("1,-1,2", [1]),
        ("GPU-7", [2]),
        ("gpu-77777777-cccc,GPU-5ebe9f43-b", [2, 1]),
        ("0,GPU-5ebe9f43", [0]),  # not unique
    ],
)
def test_visible_devices_are_read_as_cuda_reads_them(text: str | None, found: list[int]) -> None:
    assert visible(text, UUIDS) == found


@pytest.mark.parametrize("text", ["", "-1", "NoDevFiles", "3", "0,0"])
def test_no_gpu_left_is_an_error(text: str) -> None:
    with pytest.raises(LabError, match=r"leaves no GPU to meter; unset it or name 0…2"):
        visible(text, UUIDS)


def test_a_mig_device_is_refused() -> None:
    with pytest.raises(LabError, match="names a MIG device; NVML meters whole GPUs"):
        visible("MIG-5ebe9f43-aaaa", UUIDS)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    nvml = FakeNvml(FakeGpu(uuid=UUIDS[0]), FakeGpu(uuid=UUIDS[2], watts=90))
    monkeypatch.setitem(sys.modules, "pynvml", nvml)  # type: ignore[arg-type]
    return nvml


def test_one_call_reads_both_powers_and_the_counter(fake: FakeNvml) -> None:
    one, other = open_gpus()
    assert (one.number, other.number) == (0, 1)
    assert one.digest != other.digest and UUIDS[0] not in one.digest and len(one.digest) == 12
    assert one.power_limit_w == 700.0
    fake.calls.clear()
    reading = one.read()
    assert reading[:2] == (200_000, 200_000) and reading[2] is not None and reading[2] >= 5_000_000
    assert reading[3:] == (1980, 2619, 45, 0)
    again = one.read()
    assert again[3:] == reading[3:]
    assert fake.calls.count("nvmlDeviceGetFieldValues") == 2
    assert len(fake.calls) == 2 + 4  # clocks, temperature and reasons are not asked for again so soon


def test_only_what_cuda_shows_is_metered(fake: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", UUIDS[2])
    (only,) = open_gpus()
    assert (only.number, only.read()[0]) == (0, 90_000)


def test_numbers_of_mixed_gpus_need_an_order(fake: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.gpus[1].name = "NVIDIA Other"
    assert len(open_gpus()) == 2
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    with pytest.raises(LabError, match="set CUDA_DEVICE_ORDER=PCI_BUS_ID, or name GPUs by UUID"):
        open_gpus()
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    assert open_gpus()[0].name == "NVIDIA Other"


def test_readings_that_need_a_call_of_their_own(fake: FakeNvml) -> None:
    fake.gpus[0].fails = {"instant": 3, "average": 3, "energy": 3}
    reading = open_gpus()[0].read()
    assert reading[0] is None and reading[1] == 200_000 and reading[2] is not None


@pytest.mark.parametrize(
    ("fails", "message"),
    [
        (
            {"energy": 3, "nvmlDeviceGetTotalEnergyConsumption": 3},
            r"GPU 0 .* has no energy counter \(Not",
        ),
        ({"instant": 3, "average": 3, "nvmlDeviceGetPowerUsage": 3}, "gives no readings of power"),
        ({"energy": 3, "nvmlDeviceGetTotalEnergyConsumption": 4}, "reading its power is not permitted here"),
        ({"nvmlDeviceGetFieldValues": 4}, "reading its power is not permitted here"),
    ],
)
def test_what_cannot_be_metered_is_refused(fake: FakeNvml, fails: dict[str, int], message: str) -> None:
    fake.gpus[0].fails = fails
    with pytest.raises(LabError, match=message):
        open_gpus()


def test_mig_mode_is_refused(fake: FakeNvml) -> None:
    fake.gpus[1].mig = True
    with pytest.raises(LabError, match=r"GPU 1 \(NVIDIA Test\): is in MIG mode; NVML meters the whole GPU"):
        open_gpus()


def test_no_nvml_no_driver_no_gpu(fake: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.init = 9
    with pytest.raises(ToolError, match=r"NVML does not start .*; is the NVIDIA driver installed"):
        open_gpus()
    fake.init = 4
    with pytest.raises(ToolError, match="NVML: not permitted here"):
        open_gpus()
    fake.init = 0
    fake.gpus = []
    with pytest.raises(ToolError, match="the NVIDIA driver is installed, but shows no GPU"):
        open_gpus()
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(ToolError, match="pip install nvidia-ml-py"):
        open_gpus()


def test_a_lost_gpu_is_told_apart_from_a_failed_reading(fake: FakeNvml) -> None:
    gpu, _ = open_gpus()
    fake.gpus[0].fails = {"nvmlDeviceGetFieldValues": 999}
    assert gpu.read() == (None,) * 7
    fake.gpus[0].fails = {"energy": 15}
    with pytest.raises(GpuLostError, match="GPU is lost"):
        gpu.read()
