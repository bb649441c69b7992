"""Programs that stand for others: a place and the text of a script in, a file that can be run out."""

import shlex
import sys
from pathlib import Path


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
