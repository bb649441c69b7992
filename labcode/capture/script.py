"""Plain scripts under the recorder of `labcode record`: their command and what they print in, records out.

A script knows nothing of the lab. It prints a line of JSON that says how long an iteration took, and that
line becomes its record. What compilers keep on disk lies in a folder of its own, for a run that finds what
another one compiled shows nothing of compilation.
"""

import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from labcode.errors import ToolError
from labcode.record import nsys

SECONDS = "seconds_per_iteration"
OPTIONS = (*nsys.PROGRAM, *nsys.LINES)  # with which `labcode record` starts nsys
_KEPT = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")


def is_script(words: Sequence[str]) -> bool:
    """Whether a neutral command starts a script, not a module of the lab."""
    return words[-1].endswith(".py")


def real_command(words: Sequence[str], root: Path, kept: Path) -> list[str]:
    """The neutral command with this interpreter, the script where it lies, and a folder for compilers."""
    launcher = ["-m", "torch.distributed.run", *words[1:-1]] if words[0] == "torchrun" else []
    fresh = [f"{name}={kept / name.lower()}" for name in _KEPT]
    return ["env", *fresh, sys.executable, *launcher, str(root / words[-1])]


def record_of(printed: str, path: str, what: str) -> dict[str, Any]:
    """The record of a script, of the last line that says how long an iteration took; `ToolError` without."""
    for line in reversed(printed.splitlines()):
        with suppress(ValueError):
            told = json.loads(line)
            if isinstance(told, dict) and isinstance(told.get(SECONDS), float):
                case, name = Path(path).parts[-2:]
                return {"program": f"{case}/{name}", "results": told, "checks": {}}
    raise ToolError(f"{what}: printed no line of JSON with {SECONDS}")
