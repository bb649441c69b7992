"""torch.profiler around a program of Python: its words in; the words that record it, or why none can, out.

`labcode.record.traced` does the recording, in the program's own process and by its own Python.
"""

import importlib.util
import os
import re
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path

from labcode.errors import LabError, ToolError
from labcode.record.attend import LIMIT, LIMITED, Recorded, attend, limited, patience, start
from labcode.record.traced import WARMUP_LEAST
from labcode.tools import MARK, run_tool

SUFFIX = ".trace.json.gz"
TRACED = "labcode.record.traced"
_WITH_VALUE = ("-W", "-X")
_PYTHON = re.compile(r"python(?:\d(?:\.\d+)?)?")


def window(
    output: Path, warmup: int, steps: int, delay_s: float | None, duration_s: float | None
) -> list[str]:
    """The words before a script that record a window of it, by steps or by time, for this Python."""
    bounds = [f"--warmup={warmup}", f"--steps={steps}"]
    if delay_s is not None or duration_s is not None:
        bounds = [f"--delay={delay_s or 0:g}", f"--duration={duration_s or 0:g}"]
    return [sys.executable, "-m", TRACED, f"--output={output}", *bounds]


def check_warmup(warmup: int) -> None:
    """`LabError` for fewer steps than go before what is recorded."""
    if warmup < WARMUP_LEAST:
        raise LabError(f"--warmup {warmup}: at least {WARMUP_LEAST} steps go before what is recorded")


def record(
    words: Sequence[str], folder: Path, name: str, *, lines: bool = True, limit_s: float | None = None
) -> Recorded:
    """Run a user's program and record all of it in ``folder/name.trace.json.gz``; ``lines``: with stacks.

    After ``limit_s`` it is asked to end, and what was recorded is written.
    """
    interpreter, program = split(words)
    trace = folder / f"{name}{SUFFIX}"
    runner = str(Path(__file__).with_name("traced.py"))
    traced = [*interpreter, runner, f"--trace={trace}", *(["--stacks"] if lines else []), *program]
    mark = uuid.uuid4().hex if limit_s else ""
    environment = {**os.environ, MARK: mark} if mark else None
    ended = attend(lambda: start(traced, env=environment), look=patience(), limit_s=limit_s, mark=mark)
    code = ended.code
    if ended.cut == LIMIT:
        there = trace.is_file()
        return Recorded(trace if there else None, LIMITED, (limited("torch", limit_s),) if there else ())
    if not trace.is_file() and not code:
        raise ToolError(f"{name}: torch.profiler left no trace; the program ended by os._exit")
    return Recorded(trace if trace.is_file() else None, code)


def lacking(words: Sequence[str]) -> str:
    """Why torch.profiler cannot record a command; '' where it can."""
    interpreter = split(words)[0]
    if not interpreter:
        return (
            f"{words[0]}: not a program of Python, so torch.profiler cannot record it; install "
            "Nsight Systems and use --tool nsys"
        )
    look = "import importlib.util as u, sys; sys.exit(u.find_spec('torch') is None)"
    if run_tool([interpreter[0], "-c", look], 30.0).returncode != 0:
        return f"{interpreter[0]}: has no PyTorch; install it, or use --tool nsys"
    return ""


def missing() -> str:
    """How to get PyTorch for this Python; '' where it is here."""
    there = importlib.util.find_spec("torch") is not None
    return "" if there else "--tool torch: PyTorch is not installed here; `python -m pip install torch`"


def split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """``python -u train.py --lr 1`` as the interpreter with its options and the program with its own; nothing
    for another command, or code that is given in the command (``-c``)."""
    if not _PYTHON.fullmatch(Path(words[0]).name):
        return [], []
    place = 1
    while place < len(words) and words[place].startswith("-") and words[place] not in ("-m", "-c", "-"):
        place += 2 if words[place] in _WITH_VALUE else 1
    if place >= len(words) or words[place] in ("-c", "-"):
        return [], []
    return list(words[:place]), list(words[place:])
