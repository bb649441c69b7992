"""Finish a measured run: its raw recording in, scrubbed and compressed files out, in a process apart.

A process of its own can run on other CPUs than what is being measured meanwhile, and ends at once when the
capture does. ``python -m labcode.capture.finishing REQUEST RESULT`` reads and writes JSON.
"""

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from labcode.capture import tools
from labcode.capture.job import Job, Measured
from labcode.ending import signals_as_exceptions
from labcode.errors import InputError, LabError, ToolError
from labcode.tools import run_tool

LIMIT_S = 1200.0
_ERRORS = {kind.__name__: kind for kind in (LabError, ToolError, InputError)}


def finish(job: Job, measured: Measured) -> Measured:
    """The run with all its files, made by a process of its own.

    Raises what that process met: `LabError` and its kinds, and `OSError` (a full disk).
    """
    if measured.finished:
        return measured
    request, result = job.raw(".request.json"), job.raw(".result.json")
    told = {key: str(value) if isinstance(value, Path) else value for key, value in vars(job).items()}
    request.write_text(json.dumps({"job": told, "measured": asdict(measured)}))
    command: list[str | Path] = [sys.executable, "-m", "labcode.capture.finishing", request, result]
    home = Path(__file__).resolve().parents[2]
    ended = run_tool(command, LIMIT_S, cwd=home, what=f"{job.what}: export, scrub, compress")
    try:
        found: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise ToolError(f"{job.what}: scrubbing ended early ({ended.last_line()})") from None
    if "errno" in found:
        raise OSError(found["errno"], found["error"], found["file"])
    if "error" in found:
        raise _ERRORS[found["kind"]](found["error"])
    return Measured(**found)


def main(request: Path, result: Path) -> None:
    """Finish what ``request`` says and write what came of it, an error too, into ``result``."""
    asked: dict[str, Any] = json.loads(request.read_text(encoding="utf-8"))
    told, measured = asked["job"], Measured(**asked["measured"])
    places = {key: Path(told[key]) for key in ("folder", "cwd", "program") if told[key]}
    job = Job(**{**told, **places, "argv": tuple(told["argv"]), "options": tuple(told["options"])})
    try:
        found = asdict(replace(tools.finish(job, measured), finished=True))
    except OSError as error:
        found = {"error": error.strerror or str(error), "errno": error.errno, "file": error.filename}
    except LabError as error:
        found = {"error": str(error), "kind": type(error).__name__}
    result.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    with signals_as_exceptions():  # so that what it runs ends with it
        main(Path(sys.argv[1]), Path(sys.argv[2]))
