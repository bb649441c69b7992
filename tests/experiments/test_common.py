"""What the workloads share: the record, the flags they refuse, what they say without torch or a GPU."""

import argparse
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from labcode.errors import LabError, ToolError
from labcode.experiments.shared import common
from labcode.experiments.shared.common import Check, Record
from labcode.workloads import located

TORCH_PROGRAMS = (
    *("measuring", "multi_gpu", "timeline_basics", "transformer", "attention_sweep", "lm_grid"),
    *("bottleneck_hunt", "convolutions", "memory_leak", "distributed_training", "profiler_overhead"),
    *("triton_gemm", "languages", "flex_attention", "backward_counters"),
)
PROGRAMS = ("sweeps", *TORCH_PROGRAMS)


def record(**changes: Any) -> Record:
    return Record(
        **{
            "program": "p",
            "variant": "v",
            "parameters": {"n": 1},
            "results": {"t_us": [1.5]},
            "checks": {},
            **changes,
        }
    )


def test_record_is_written_whole_with_null_for_nan(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    checks = {"good": Check(True, "fine")}
    results = {"t_us": [1.5, float("nan")], "inner": {"x": float("inf"), "pair": (1, 2)}}
    assert common.finish(record(results=results, checks=checks), path) == 0
    assert json.loads(path.read_text()) == {
        "program": "p",
        "variant": "v",
        "parameters": {"n": 1},
        "results": {"t_us": [1.5, None], "inner": {"x": None, "pair": [1, 2]}},
        "checks": {"good": {"passed": True, "detail": "fine"}},
        "gpu": {},
    }
    assert list(tmp_path.iterdir()) == [path]


def test_failed_check_is_exit_code_1_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    checks = {"good": Check(True, "fine"), "bad": Check(False, "off by 3")}
    assert common.finish(record(checks=checks), None) == 1
    assert capsys.readouterr().err == "p: check bad failed: off by 3\n"


def test_unwritable_record_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"missing/r\.json\.part: No such file or directory; check the path"):
        common.finish(record(), tmp_path / "missing" / "r.json")
    if Path("/dev/full").exists():
        (tmp_path / "r.json.part").symlink_to("/dev/full")
        with pytest.raises(LabError, match="No space left on device; free some space"):
            common.finish(record(), tmp_path / "r.json")
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("program", PROGRAMS)
def test_help_and_list_need_neither_torch_nor_gpu(
    program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    module = importlib.import_module(located(f"labcode.workloads.{program}"))
    with pytest.raises(SystemExit) as done:
        module.main(["--help"])
    assert done.value.code == 0
    assert "--variant" in capsys.readouterr().out
    with pytest.raises(SystemExit) as done:
        module.main(["--list"])
    assert done.value.code == 0
    assert capsys.readouterr().out.split() == list(module.VARIANTS)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("arguments", [["--nonsense", "1"], ["--variant", "fastest"]])
def test_wrong_flags_are_exit_code_2(
    program: str, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    module = importlib.import_module(located(f"labcode.workloads.{program}"))
    with pytest.raises(SystemExit) as done:
        module.main(arguments)
    assert done.value.code == 2
    assert f"{program}: error: " in capsys.readouterr().err


@pytest.mark.parametrize("program", TORCH_PROGRAMS)
def test_without_torch_it_says_so(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    module = importlib.import_module(located(f"labcode.workloads.{program}"))
    with pytest.raises(ToolError, match="this workload needs PyTorch, which cannot be imported here"):
        module.main([])


@pytest.mark.parametrize("program", ("sweeps", "timeline_basics"))
def test_without_a_gpu_one_line_and_exit_code_2(program: str, tmp_path: Path) -> None:
    if program in TORCH_PROGRAMS:
        pytest.importorskip("torch")
    command = [sys.executable, "-m", f"labcode.workloads.{program}", "--json", str(tmp_path / "r.json")]
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 2
    assert done.stderr.startswith(f"{program}: no NVIDIA GPU")
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("program", TORCH_PROGRAMS)
def test_without_a_gpu_torch_programs_stop_before_they_write(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(sys, "argv", [program, "--json", str(tmp_path / "r.json")])
    module = importlib.import_module(located(f"labcode.workloads.{program}"))
    assert program == module.PROGRAM
    with pytest.raises(SystemExit) as ended:
        common.run(program, module.main)
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert said.startswith(f"{program}: no NVIDIA GPU")
    assert len(said.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


class FakeCuda:
    """What torch.cuda would say on a machine with some GPUs."""

    def __init__(self, count: int, free: int = 0) -> None:
        self.count, self.free = count, free

    def is_available(self) -> bool:
        return self.count > 0

    def device_count(self) -> int:
        return self.count

    def mem_get_info(self) -> tuple[int, int]:
        return self.free, self.free


class FakeTorch:
    def __init__(self, cuda: FakeCuda, build: str | None = "13.0") -> None:
        self.cuda, self.version = cuda, argparse.Namespace(cuda=build)


def test_too_few_gpus_is_one_line() -> None:
    assert common.require_gpus(FakeTorch(FakeCuda(2)), 2) == 2
    with pytest.raises(ToolError, match="needs 4 GPUs and PyTorch sees 2; run it on a larger machine"):
        common.require_gpus(FakeTorch(FakeCuda(2)), 4)
    with pytest.raises(ToolError, match="no NVIDIA GPU that PyTorch can use: see nvidia-smi"):
        common.require_gpus(FakeTorch(FakeCuda(0)))
    with pytest.raises(ToolError, match="no NVIDIA GPU that PyTorch can use: this PyTorch is a CPU build"):
        common.require_gpus(FakeTorch(FakeCuda(0), None))


def test_too_little_memory_is_one_line() -> None:
    torch = FakeTorch(FakeCuda(1, free=100 << 20))
    common.require_memory(torch, 100 << 20, "x")
    with pytest.raises(ToolError, match="100 MiB free and this run needs about 300 MiB; choose less"):
        common.require_memory(torch, 300 << 20, "choose less")


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (common.whole(1, 9), "0", "0 is not between 1 and 9"),
        (common.whole(1, 9), "2.5", "'2.5' is not a whole number"),
        (common.positive, "0", "0 is not above 0"),
        (common.positive, "inf", "inf is not above 0"),
        (common.positive, "nan", "nan is not above 0"),
        (common.positive, "much", "'much' is not a number"),
    ],
)
def test_numbers_out_of_bounds(kind: Any, text: str, message: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError) as error:
        kind(text)
    assert str(error.value) == message


def exit_code(error: BaseException) -> int | str | None:
    def main(_: object) -> int:
        raise error

    with pytest.raises(SystemExit) as done:
        common.run("p", main)
    return done.value.code


def test_known_errors_are_one_line_and_unknown_ones_are_not_hidden(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class OutOfMemoryError(RuntimeError):
        """Named as PyTorch's."""

    assert exit_code(LabError("no such thing")) == 2
    assert capsys.readouterr().err == "p: no such thing\n"
    assert exit_code(OutOfMemoryError("tried to get 3 GiB\nand more")) == 2
    assert capsys.readouterr().err == "p: OutOfMemoryError: tried to get 3 GiB\n"
    assert exit_code(KeyboardInterrupt()) == 130
    with pytest.raises(RuntimeError, match="a mistake of ours"):
        common.run("p", lambda _: (_ for _ in ()).throw(RuntimeError("a mistake of ours")))


def test_rounding_keeps_significant_digits() -> None:
    assert common.rounded([1234.5678, 0.00012345678], 4) == [1235.0, 0.0001235]
