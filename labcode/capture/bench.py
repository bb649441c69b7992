"""A program's own measurements: a command in, the checked record it printed about itself out."""

import json
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from labcode.capture import privacy
from labcode.capture.filing import write_json
from labcode.capture.job import Job, Part
from labcode.errors import ToolError
from labcode.tools import run_tool


def real_command(argv: Sequence[str], record: Path) -> list[str]:
    """The neutral command ``python -m …`` with this interpreter and a file for the record."""
    return [sys.executable, *argv[1:], "--json", str(record)]


def run_program(
    argv: Sequence[str],
    record: Path,
    *,
    time_limit_s: float,
    cwd: Path,
    what: str,
    env: Mapping[str, str] | None = None,
) -> None:
    """Run a program without a profiler and leave its checked record in ``record``.

    ``env`` is added to its environment.

    Raises `ToolError` when it fails, runs out of time, or writes no valid record.
    """
    result = run_tool(real_command(argv, record), time_limit_s, cwd=cwd, env=env, what=what)
    if result.returncode != 0 and not _failed_checks(record):
        why = privacy.reduce(result.last_line())[:300]
        raise ToolError(f"{what}: failed with exit code {result.returncode} ({why})")
    check_record(record, what)


def clean(job: Job) -> tuple[Part, ...]:
    """The run without a profiler, if there is to be one."""
    return (program(job, "clean", ".clean.json"),) if job.clean else ()


def program(job: Job, step: str, suffix: str) -> Part:
    """A run without a profiler that leaves its record in the file with ``suffix``."""
    record = job.file(suffix)
    run = partial(run_program, job.argv, record, time_limit_s=job.time_limit_s, cwd=job.cwd, what=job.what)
    return Part(step, run, record)


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
