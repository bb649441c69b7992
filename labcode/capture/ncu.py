"""Nsight Compute's command line: a command and kernels' names in, a report and what it cost out.

ncu runs each chosen kernel several times (*replay*), once for each group of counters that fit together, and
restores the memory it wrote in between: the kernel's own time is measured, the program's is not its own any
more. The wall time with and without ncu is kept beside the report.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from labcode.capture import bench, privacy
from labcode.capture.filing import write_json
from labcode.capture.job import Job, Measured, Part, Seconds, timed
from labcode.capture.ncu_scrub import scrub_report
from labcode.errors import ToolError
from labcode.hardware import permissions
from labcode.tools import ToolResult, run_tool

REPLAY_S = 600.0  # what replaying may take beyond the program's own time
_PASSES = re.compile(r'==PROF== Profiling "(?P<kernel>[^"]*)".*?(?P<passes>\d+) pass(?:es)?')
_WARNING = re.compile(r"^==(?:WARNING|ERROR)==\s*(?P<text>.+)$")
_AVAILABLE = re.compile(r"^\s*\d+\.\s+(?P<name>\S.*)$")
_NO_RIGHTS = "ERR_NVGPUCTRPERM"
_IDLE_TALK = re.compile(r"unmodified GPU clocks|No source files were imported|uncontrolled GPU caches")
_MOST_WARNINGS = 20


@dataclass(frozen=True)
class Profiled:
    """What a run under ncu said and took: warnings, launches profiled with their passes, seconds."""

    warnings: tuple[str, ...]
    launches: tuple[tuple[str, int], ...]
    wall_s: float


def profile(
    ncu: Path,
    options: Sequence[str],
    command: Sequence[str | Path],
    report: Path,
    *,
    time_limit_s: float,
    cwd: Path,
    what: str,
) -> Profiled:
    """Run ``command`` under ncu and leave ``report`` (``….ncu-rep``).

    ``options`` are `NCU_ALWAYS`, the kernels (``-k regex:…``, ``-c``, ``-s``) and the sections. Raises
    `ToolError` when ncu fails or runs out of time, when counters are not permitted (with how to permit
    them), and when no kernel matches (with the names of those there were).
    """
    words: list[str | Path] = [ncu, *options, "--force-overwrite", "--export", report, *command]
    result = run_tool(words, time_limit_s + REPLAY_S, cwd=cwd, what=f"{what} under ncu")
    said = result.stdout + result.stderr
    if _NO_RIGHTS in said:
        advice = permissions.counters().advice or (
            "run as root; or let an administrator write “options nvidia "
            "NVreg_RestrictProfilingToAdminUsers=0” to /etc/modprobe.d/nvidia-profiling.conf and reboot"
        )
        raise ToolError(f"{what}: the GPU's counters are not permitted ({_NO_RIGHTS}): {advice}")
    if "No kernels were profiled" in said:
        names = _available(said)
        there = f"there were: {', '.join(names)}" if names else "the program launched none"
        raise ToolError(f"{what}: no kernel matches {_filter(options)}; {there}")
    if result.returncode != 0 or not report.is_file():
        raise ToolError(f"{what}: ncu made no report ({_why(result)})")
    return Profiled(_warnings(said), _launches(said), result.wall_s)


def parts(job: Job) -> tuple[Part, ...]:
    """One run without a profiler, then one under ncu: they leave both records, and the report as it is."""
    assert job.program is not None
    under_ncu = partial(
        profile,
        *(job.program, job.options, bench.real_command(job.argv, job.file(".json")), job.raw(".ncu-rep")),
        time_limit_s=job.time_limit_s,
        cwd=job.cwd,
        what=job.what,
    )
    return *bench.clean(job), Part("under ncu", under_ncu, job.file(".json"))


def measured(job: Job, results: Sequence[Any], seconds: Seconds) -> Measured:
    """What the parts left; the record of the run under ncu gets a key ``profiler``.

    It says what replaying cost, in wall seconds with it and (if the program ran so) without, and the passes
    of each launch.
    """
    record, result = job.file(".json"), results[-1]
    checked = bench.check_record(record, f"{job.what} under ncu")
    checked["profiler"] = {
        "tool": "ncu",
        "wall_s": round(result.wall_s, 3),
        **({"clean_wall_s": seconds["clean"]} if job.clean else {}),
        "launches": [{"kernel": kernel, "passes": passes} for kernel, passes in result.launches],
    }
    write_json(record, checked)
    return Measured(job.records, seconds, list(result.warnings))


def finish(job: Job, run: Measured) -> Measured:
    """Scrub and compress the report of a run."""
    report, packed, seconds = job.raw(".ncu-rep"), job.file(".ncu-rep.xz"), dict(run.seconds)
    with timed(seconds, "scrub, compress"):
        scrub_report(report, packed)
    report.unlink()
    return Measured([packed.name, *run.files], seconds, run.warnings)


def _available(said: str) -> list[str]:
    """The kernels ncu lists when its filter matched none."""
    _, _, rest = said.partition("Available Kernels:")
    return [found["name"].strip() for line in rest.splitlines() if (found := _AVAILABLE.match(line))]


def _filter(options: Sequence[str]) -> str:
    for flag in ("-k", "--kernel-name", "--kernel-id"):
        for place, word in enumerate(options):
            if word == flag and place + 1 < len(options):
                return f"{flag} {options[place + 1]}"
            if word.startswith(flag + "="):
                return word
    return "the filter"


def _warnings(said: str) -> tuple[str, ...]:
    found = []
    for line in said.splitlines():
        match = _WARNING.match(line.strip())
        if match and not _IDLE_TALK.search(match["text"]):
            found.append(privacy.reduce(match["text"].strip())[:300])
    return tuple(dict.fromkeys(found))[:_MOST_WARNINGS]


def _launches(said: str) -> tuple[tuple[str, int], ...]:
    return tuple((found["kernel"], int(found["passes"])) for found in _PASSES.finditer(said))


def _why(result: ToolResult) -> str:
    lines = [line for line in (result.stdout + result.stderr).splitlines() if line.startswith("==ERROR==")]
    return privacy.reduce(lines[0] if lines else result.last_line())[:300]
