"""A program's own measurements: a job in, the checked record that its program wrote about itself out.

A program of the lab writes its record where it is told to; a plain script prints it.
"""

import json
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from labcode.capture import privacy, script
from labcode.capture.filing import write_json
from labcode.capture.job import Job, Part
from labcode.errors import ToolError
from labcode.tools import ToolResult, run_tool


def command(job: Job, suffix: str) -> list[str]:
    """A job's command with this interpreter, for a record in the file with ``suffix``."""
    if script.is_script(job.argv):
        return script.real_command(job.argv, job.cwd, job.raw(f".compiled{suffix.removesuffix('.json')}"))
    return [sys.executable, *job.argv[1:], "--json", str(job.file(suffix))]


def run(
    job: Job, suffix: str, *, what: str = "", more_s: float = 0.0, env: Mapping[str, str] | None = None
) -> None:
    """Run a job's program without a profiler and leave its checked record in the file with ``suffix``.

    It gets ``more_s`` beyond its time, and ``env`` is added to its environment. Raises `ToolError`, about
    ``what``, when it fails, runs out of time, or gives no valid record.
    """
    what = what or job.what
    result = run_tool(command(job, suffix), job.time_limit_s + more_s, cwd=job.cwd, env=env, what=what)
    if result.returncode != 0 and not _failed_checks(job.file(suffix)):
        why = privacy.reduce(result.last_line())[:300]
        raise ToolError(f"{what}: failed with exit code {result.returncode} ({why})")
    settle(job, suffix, result, what)


def settle(job: Job, suffix: str, result: ToolResult, what: str) -> None:
    """Keep what a script printed, and check the record; `ToolError` about ``what``."""
    record = job.file(suffix)
    if script.is_script(job.argv):
        write_json(record, script.record_of(result.stdout, job.argv[-1], what))
    check_record(record, what)


def clean(job: Job) -> tuple[Part, ...]:
    """The run without a profiler, if there is to be one."""
    return (program(job, "clean", ".clean.json"),) if job.clean else ()


def program(job: Job, step: str, suffix: str) -> Part:
    """A run without a profiler that leaves its record in the file with ``suffix``."""
    return Part(step, partial(run, job, suffix))


def check_record(path: Path, what: str) -> dict[str, Any]:
    """Check the record a program wrote and take paths out of it; `ToolError` when a check of it failed."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ToolError(f"{what}: wrote no record; the program must honor --json FILE") from None
    except ValueError as error:
        raise ToolError(f"{what}: its record is not valid JSON ({error})") from None
    if not isinstance(record, dict) or not {"program", "results", "checks"} <= set(record):
        raise ToolError(f"{what}: its record lacks program, results or checks")
    failed = _failed_checks(path)
    if failed:
        raise ToolError(f"{what}: a check of the program failed: {'; '.join(failed)}")
    record = privacy.reduce_record(record, privacy.machine_names())
    write_json(path, record)
    return dict(record)


def _failed_checks(path: Path) -> list[str]:
    try:
        checks = json.loads(path.read_text(encoding="utf-8"))["checks"]
        return [
            f"{name} ({check.get('detail', '')})" for name, check in checks.items() if not check["passed"]
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []
