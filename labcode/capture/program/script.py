"""Plain scripts under the recorder of `labcode record`: their command and what they print in, records out.

A script knows nothing of the lab. It prints a line of JSON that says how long an iteration took, and that
line becomes its record. What compilers keep on disk lies in a folder of its own, for a run that finds what
another one compiled shows nothing of compilation.
"""

import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from labcode.capture import bench, privacy
from labcode.capture.filing import write_json
from labcode.capture.job import Job, Part
from labcode.errors import ToolError
from labcode.tools import run_tool

SECONDS = "seconds_per_iteration"
_KEPT = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
_REPEATED = "--force-overwrite=true"  # whoever starts nsys says it


def is_script(words: Sequence[str]) -> bool:
    """Whether a neutral command starts a script, not a module of the lab."""
    return words[-1].endswith(".py")


def options() -> tuple[str, ...]:
    """The options with which `labcode record` starts nsys."""
    from labcode.capture.program import command as recorder  # which exports by the module that asks this

    told = (*recorder.NSYS, *recorder.LINES)
    return tuple(word for word in told if word != _REPEATED)


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


def keep(record: Path, printed: str, path: str, what: str) -> None:
    """Write the record of a script."""
    told = record_of(printed, path, what)
    write_json(record, privacy.reduce_record(told, privacy.machine_names()))


def clean(job: Job) -> tuple[Part, ...]:
    """The run without a profiler, if there is to be one."""
    record = job.file(".clean.json")
    return (Part("clean", partial(_run, job, record), record),) if job.clean else ()


def _run(job: Job, record: Path) -> None:
    words = real_command(job.argv, job.cwd, job.raw(".compiled.clean"))
    result = run_tool(words, job.time_limit_s, cwd=job.cwd, what=job.what)
    if result.returncode != 0:
        why = privacy.reduce(result.last_line())[:300]
        raise ToolError(f"{job.what}: failed with exit code {result.returncode} ({why})")
    keep(record, result.stdout, job.argv[-1], job.what)
    bench.check_record(record, job.what)
