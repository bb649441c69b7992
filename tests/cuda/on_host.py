"""Device code compiled for the host, its synchronizations numbered so that each can be left out."""

import re
import shutil
from pathlib import Path

import pytest

from tests.cuda.conftest import CUDA, once

SYNCHRONIZATION = re.compile(
    r"__syncthreads\(|group_sync\(worker|copies_wait<.*?>\(|products_wait<\d>\("
    r"|wait_for(?:_blocks)?\([^;]*(?=\);)|hear\(.*round(?=\);)|await_count\([^;]*(?=\);)|consumers_meet\(|turn_wait<kTwo>\(worker(?:_turn)?|cluster_sync<kBlocks>\("
)


def compile_on_host(compiled: Path, source: str, *headers: str) -> tuple[Path, list[str]]:
    """The program of ``source`` with these headers of cuda/; the synchronizations in them, in order."""
    folder = compiled / Path(source).stem
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++ here")
    found, written = list[str](), dict[Path, str]()

    def numbered(match: re.Match[str]) -> str:
        found.append(match.group())
        return f"{match.group()}{'' if match.group().endswith('(') else ', '}{len(found) - 1}"

    for header in headers:
        text = re.sub(r"#include .*\n", "", (CUDA / header).read_text(encoding="utf-8"))
        shared = r"extern __shared__ ([\w ]+) (\w+)\[\];"
        text = re.sub(shared, r"\1* const \2 = static_cast<\1*>(block_memory());", text)
        name = f"{Path(header).stem}_on_host.cuh"
        written[folder / name] = SYNCHRONIZATION.sub(numbered, text)

    def write() -> None:
        folder.mkdir()
        for path, text in written.items():
            path.write_text(text, encoding="utf-8")

    options = ["-std=c++17", "-O1", "-g1", "-w", "-fsanitize=address", f"-I{folder}"]
    try:
        once(folder, [compiler, *options, Path(__file__).with_name(source), "-o", folder / "run"], write)
    except AssertionError as error:
        if "cannot find" in str(error) or "unrecognized" in str(error):
            pytest.skip("this g++ has no address sanitizer")
        raise
    return folder / "run", found
