"""Programs that stand for others: a place and the text of a script in, a file that can be run out.

And programs of several processes, forked from this one.
"""

import importlib
import multiprocessing
import os
import shlex
import sys
import tempfile
from pathlib import Path
from types import ModuleType


def program(path: Path, text: str = "", shell: str = "/bin/sh") -> Path:
    """Write a program; ``shell`` is what reads it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{shell}\n{text}\n")
    path.chmod(0o755)
    return path


def python_program(path: Path, text: str) -> Path:
    """Write a program in Python, which may lie in any path: a script's first line takes neither a space nor
    a long one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    code = path.with_name(f".{path.name}.py")
    code.write_text(text)
    return program(path, shlex.join(["exec", sys.executable, str(code)]) + ' "$@"')


def in_ranks(program: ModuleType, meeting_place: str, count: int, *words: str) -> list[int | None]:
    """Run a program as the processes that it would start, each with PyTorch as this one has imported it.

    ``meeting_place`` names the variable that says where they find each other. Their exit codes; what they
    print goes where this process' does.
    """
    for late in ("torch._dynamo", "torch.distributed.fsdp"):  # of a first step: once, not in each fork
        importlib.import_module(late)
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        place = {"WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, meeting_place: f"{folder}/store"}
        given = [(program, {"RANK": rank, "LOCAL_RANK": rank, **place}, words) for rank in range(count)]
        processes = [context.Process(target=_rank, args=one) for one in given]
        try:
            for process in processes:
                process.start()
            for process in processes:
                process.join(600)
            return [process.exitcode for process in processes]
        finally:
            for process in processes:
                process.kill()
                process.join()


def _rank(program: ModuleType, environment: dict[str, object], words: tuple[str, ...]) -> None:
    os.environ.update({name: str(value) for name, value in environment.items()})
    sys.exit(program.main(words))
