"""The wrapper of the CUDA programs passes on their flags and brings back the exit code."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from labcode.errors import LabError
from labcode.experiments.nsys.kernel_overlap.cuda import program as kernel_overlap
from labcode.experiments.shared import cuda
from labcode.experiments.shared.cuda import CudaProgram


def install(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str) -> None:
    """Let a shell script stand for the built program."""
    program = folder / "program"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(cuda, "compute_capability", lambda: (9, 0))
    monkeypatch.setattr(cuda, "build", lambda *_: program)


def test_flags_reach_the_program_as_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, tmp_path, f'echo "$@" > {tmp_path}/seen')
    assert kernel_overlap.main(["--variant", "graph", "--streams", "3", "--json", "x y.json"]) == 0
    assert (tmp_path / "seen").read_text() == "--json x y.json --streams 3 --variant graph\n"


def test_defaults_are_left_to_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, tmp_path, f'echo "$@" > {tmp_path}/seen')
    assert kernel_overlap.main([]) == 0
    assert (tmp_path / "seen").read_text() == "--variant stream\n"


@pytest.mark.parametrize("code", [0, 1, 2])
def test_exit_code_is_the_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    install(monkeypatch, tmp_path, f"exit {code}")
    assert kernel_overlap.main([]) == code


def test_crash_is_exit_code_2_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(monkeypatch, tmp_path, "kill -SEGV $$")
    assert kernel_overlap.main([]) == 2
    assert capsys.readouterr().err == "kernel_overlap: ended by signal 11\n"


def test_the_program_is_named_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(monkeypatch, tmp_path, f'echo "$@" > {tmp_path}/seen')
    assert cuda.main(["sum", "--variant", "tree"]) == 0
    assert (tmp_path / "seen").read_text() == "--variant tree\n"
    assert cuda.main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {name}: " in shown for name in cuda.programs())
    with pytest.raises(LabError, match="sums: name one of the CUDA programs: attention, "):
        cuda.main(["sums"])
    with pytest.raises(LabError, match="no program named: name one of the CUDA programs"):
        cuda.main([])


@pytest.mark.parametrize("program", cuda.programs().values(), ids=list(cuda.programs()))
def test_help_list_and_wrong_flags(program: CudaProgram, capsys: pytest.CaptureFixture[str]) -> None:
    for flag, shown in (("--help", "--variant"), ("--list", "\n".join(program.variants))):
        with pytest.raises(SystemExit) as done:
            program.main([flag])
        assert done.value.code == 0
        assert shown in capsys.readouterr().out
    for arguments in (["--nonsense", "1"], ["--variant", "fastest"]):
        with pytest.raises(SystemExit) as done:
            program.main(arguments)
        assert done.value.code == 2
        assert f"cuda {program.PROGRAM}: error: " in capsys.readouterr().err


def test_without_a_gpu_one_line_and_exit_code_2(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "labcode.workloads.cuda", "sum", "--json", str(tmp_path / "r.json")]
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 2
    assert done.stderr.startswith("cuda: no NVIDIA GPU")
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
