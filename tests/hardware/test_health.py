# ruff: noqa: N802 (NVML's own names)
"""A GPU lost, an ECC error, heat, another program, a clock that is set: noticed between two looks."""

from types import SimpleNamespace
from typing import Any

import pytest

from labcode.hardware import health
from labcode.hardware.health import Gpu, Look, between, look
from tests.support.fake_nvml import NVMLError


class Nvml:
    NVMLError = NVMLError
    NVML_ERROR_GPU_IS_LOST = 15

    def __init__(self) -> None:
        self.errors, self.heat_ns, self.programs, self.fails = 0, 0, [0], 0
        self.ended = 0

    def _said(self, value: Any) -> Any:
        if self.fails:
            raise NVMLError(self.fails)
        return value

    def nvmlInit(self) -> None: ...

    def nvmlShutdown(self) -> None:
        self.ended += 1

    def nvmlDeviceGetCount(self) -> int:
        return 2

    def nvmlDeviceGetHandleByIndex(self, number: int) -> int:
        return int(self._said(number))

    def nvmlDeviceGetTotalEccErrors(self, handle: int, kind: int, counter: int) -> int:
        return int(self._said(self.errors * handle))

    def nvmlDeviceGetViolationStatus(self, handle: int, policy: int) -> Any:
        return self._said(SimpleNamespace(violationTime=self.heat_ns))

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[int]:
        return [1] * (self.programs.pop(0) if len(self.programs) > 1 else self.programs[0])


def test_nothing_happened() -> None:
    nvml = Nvml()
    before, after = look(nvml=nvml), look(nvml=nvml, ended=True)
    assert before.gpus == {0: Gpu(0, 0, 0), 1: Gpu(0, 0, 0)}
    assert between(before, after) == health.Told() and nvml.ended == 2


def test_what_makes_a_run_void() -> None:
    nvml = Nvml()
    before = look([1], nvml)
    nvml.errors = 2
    assert "GPU 1 met 2 memory errors that ECC could not correct" in between(before, look([1], nvml)).void[0]
    nvml.fails = 15
    assert between(before, look([1], nvml)).void == (
        "GPU 1 was lost meanwhile; see the kernel's log, and capture again",
    )


def test_what_readers_should_know() -> None:
    nvml = Nvml()
    before = look([0], nvml)
    nvml.heat_ns, nvml.programs = 3_000_000_000, [1]
    after = look([0], nvml)
    told = between(before, Look(after.gpus, before.even_s + 10, before.set_s + 3610, before.stolen_s + 0.5))
    assert told.void == () and told.warnings == (
        "GPU 0 lowered its clocks for heat for 3.0 of 10.0 s",
        "another program was on GPU 0 after the run, and may have been meanwhile",
        "other virtual machines took 0.5 s from CPUs in 10.0 s",
        "the system's clock was set by +3,600 s meanwhile",
    )
    same = Look({}, before.even_s + 10, before.set_s + 10, before.stolen_s + 0.09)
    assert between(Look({}, before.even_s, before.set_s, before.stolen_s), same).warnings == ()


def test_a_program_that_has_just_ended_is_no_other_one() -> None:
    nvml = Nvml()
    nvml.programs = [1, 1, 0]
    assert look([0], nvml, ended=True).gpus[0].programs == 0


@pytest.mark.parametrize("fails", [3, 4])
def test_what_a_gpu_does_not_tell_is_no_finding(fails: int) -> None:
    nvml = Nvml()
    before = look([0], nvml)
    nvml.nvmlDeviceGetTotalEccErrors = lambda *_: (_ for _ in ()).throw(NVMLError(fails))  # type: ignore[method-assign]
    assert between(before, look([0], nvml)).void == ()


def test_without_nvml_the_clock_is_looked_at_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pynvml", None)
    found = look()
    assert (
        found.gpus == {}
        and between(found, Look({}, found.even_s, found.set_s, found.stolen_s)) == health.Told()
    )
