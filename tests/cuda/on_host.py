"""Device code compiled for the host, its synchronizations numbered so that each can be left out."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.cuda.conftest import CUDA
from tests.cuda.ncu_programs import run

SYNCHRONIZATION = re.compile(
    r"__syncthreads\(|group_sync\(worker|copies_wait<.*?>\(|products_wait<\d>\("
    r"|wait_for(?:_blocks)?\([^;]*(?=\);)|hear\(.*round(?=\);)|consumers_meet\(|turn_wait<kTwo>\(worker|cluster_sync<kBlocks>\("
)


def compile_on_host(folder: Path, source: str, *headers: str) -> tuple[Path, list[str]]:
    """The program of ``source`` with these headers of cuda/; the synchronizations in them, in order."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++ here")
    found = list[str]()

    def numbered(match: re.Match[str]) -> str:
        found.append(match.group())
        return f"{match.group()}{'' if match.group().endswith('(') else ', '}{len(found) - 1}"

    for header in headers:
        text = re.sub(r"#include .*\n", "", (CUDA / header).read_text(encoding="utf-8"))
        shared = r"extern __shared__ ([\w ]+) (\w+)\[\];"
        text = re.sub(shared, r"\1* const \2 = static_cast<\1*>(block_memory());", text)
        name = f"{Path(header).stem}_on_host.cuh"
        (folder / name).write_text(SYNCHRONIZATION.sub(numbered, text), encoding="utf-8")
    options = ["-std=c++17", "-O1", "-g1", "-w", "-fsanitize=address", f"-I{folder}"]
    done = run([compiler, *options, Path(__file__).with_name(source), "-o", folder / "run"])
    if done.returncode != 0 and ("cannot find" in done.stderr or "unrecognized" in done.stderr):
        pytest.skip("this g++ has no address sanitizer")
    assert done.returncode == 0, done.stderr
    return folder / "run", found
