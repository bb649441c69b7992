"""Completion in shells: what Typer's scripts offer of the lab's commands."""

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.command import labcode, one_line


def bash(tmp_path: Path, *words: str) -> list[str]:
    """What bash offers for the last of the words, by the script that the command prints."""
    done = labcode("completion", "bash")
    assert (done.returncode, done.stderr) == (0, "")
    command = tmp_path / "labcode"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m labcode "$@"\n')
    command.chmod(0o755)
    asked = " ".join(f"'{word}'" for word in words)
    code = f"{done.stdout}\nCOMP_WORDS=({asked}); COMP_CWORD={len(words) - 1}\n"
    code += '_labcode_completion labcode; printf "%s\\n" "${COMPREPLY[@]}"'
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    return subprocess.run(
        ["bash", "--norc", "-c", code], capture_output=True, text=True, check=True, env=env
    ).stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["captures", "me"], ["merge"]),
        (["cap"], ["capture", "captures"]),
        (["stats", "x.sqlite", "--rep"], ["--report"]),
        (["stats", "--format", "j"], ["json"]),
        (["report", "-f", ""], ["html", "md", "json"]),
        (["stats", "x.sqlite", "-r", "cuda_gpu_kern_s"], ["cuda_gpu_kern_sum"]),
        (["stats", "--report", "op_sum,cuda_gpu_kern_s"], ["op_sum,cuda_gpu_kern_sum"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["--limit", "3", "diag"], ["diagnose"]),
    ],
)
def test_bash_offers_what_fits(tmp_path: Path, words: Sequence[str], offered: list[str]) -> None:
    assert bash(tmp_path, "labcode", *words) == offered


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_scripts_of_other_shells_ask_the_same_command(shell: str) -> None:
    done = labcode("completion", shell)
    assert (done.returncode, done.stderr) == (0, "") and f"_LABCODE_COMPLETE=complete_{shell}" in done.stdout


def test_another_shell_is_one_line() -> None:
    assert "completion tcsh: no shell that is completed in" in one_line(labcode("completion", "tcsh"))
