"""Nsight Compute: a command and kernels' names in; ncu's own words, a report and what it said of its run out.

ncu runs each chosen kernel several times (*replay*), once per group of counters that fit together, and
restores the memory that it wrote in between. The kernel's own time is still valid; the program's is not.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from labcode.errors import ToolError
from labcode.tools import ToolResult, find_ncu, run_tool

SUFFIX = ".ncu-rep"
REPLAY_S = 600.0  # what replaying may take beyond the program's own time
_PASSES = re.compile(r'==PROF== Profiling "(?P<kernel>[^"]*)".*?(?P<passes>\d+) pass(?:es)?')
_WARNING = re.compile(r"^==(?:WARNING|ERROR)==\s*(?P<text>.+)$")
_AVAILABLE = re.compile(r"^\s*\d+\.\s+(?P<name>\S.*)$")
_NO_RIGHTS = "ERR_NVGPUCTRPERM"
_IDLE_TALK = re.compile(r"unmodified GPU clocks|No source files were imported|uncontrolled GPU caches")
_MOST_WARNINGS = 20


@dataclass(frozen=True)
class Profiled:
    """What came of a run under ncu: warnings, the profiled launches with their passes, seconds."""

    warnings: tuple[str, ...]
    launches: tuple[tuple[str, int], ...]
    wall_s: float


def command(
    ncu: str | Path, options: Sequence[str], report: str | Path, program: Sequence[str | Path] = ()
) -> list[str]:
    """The command line of ncu that writes ``report``."""
    return [str(ncu), *options, "--force-overwrite", f"--export={report}", *map(str, program)]


def chosen(kernel: str, launches: int, within: str) -> list[str]:
    """The options for all counters of some kernels of a program: by a pattern, and inside an NVTX range."""
    words = ["--target-processes=all", "--clock-control=none", "--set=full"]
    words += ["--kernel-name-base=demangled", f"--kernel-name=regex:{kernel}", f"--launch-count={launches}"]
    return words + (["--nvtx", f"--nvtx-include={within}/"] if within else [])


def profile(
    ncu: Path,
    options: Sequence[str],
    program: Sequence[str | Path],
    report: Path,
    *,
    time_limit_s: float,
    cwd: Path,
    what: str,
    neutral: Callable[[str], str] = str,
) -> Profiled:
    """Run a program that says nothing under ncu and leave ``report`` (``….ncu-rep``).

    ``options`` are the kernels (``-k regex:…``, ``-c``, ``-s``) and the sections. Raises
    `ToolError` when ncu fails or runs out of time, when counters are not permitted (with how to permit
    them), and when no kernel matches (with the names of those there were). ``neutral`` puts what ncu said
    into words without this machine's names.
    """
    words = command(ncu, options, report, program)
    result = run_tool(words, time_limit_s + REPLAY_S, cwd=cwd, what=f"{what} under ncu")
    said = result.stdout + result.stderr
    if _NO_RIGHTS in said:
        from labcode.hardware import permissions

        advice = permissions.counters().advice or (
            "run as root; or let an administrator write “options nvidia "
            "NVreg_RestrictProfilingToAdminUsers=0” to /etc/modprobe.d/nvidia-profiling.conf and reboot"
        )
        raise ToolError(f"{what}: the GPU's counters are not permitted ({_NO_RIGHTS}): {advice}")
    if "No kernels were profiled" in said:
        names = _available(said)
        there = f"there were: {', '.join(names)}" if names else "the program launched none"
        raise ToolError(f"{what}: no kernel matches {kernels(options)}; {there}")
    if result.returncode != 0 or not report.is_file():
        raise ToolError(f"{what}: ncu made no report ({neutral(_why(result))[:300]})")
    launches = tuple((found["kernel"], int(found["passes"])) for found in _PASSES.finditer(said))
    return Profiled(_warnings(said, neutral), launches, result.wall_s)


def missing() -> str:
    """How to get ncu; '' where it is here."""
    return (
        ""
        if find_ncu() is not None
        else "ncu: not found; install Nsight Compute (the CUDA toolkit has it), or set LABCODE_NCU to it"
    )


def kernels(options: Sequence[str]) -> str:
    """The option that chooses kernels, as it was given."""
    for flag in ("-k", "--kernel-name", "--kernel-id"):
        for place, word in enumerate(options):
            if word == flag and place + 1 < len(options):
                return f"{flag} {options[place + 1]}"
            if word.startswith(flag + "="):
                return word
    return "the filter"


def _available(said: str) -> list[str]:
    """The kernels ncu lists when its filter matched none."""
    _, _, rest = said.partition("Available Kernels:")
    return [found["name"].strip() for line in rest.splitlines() if (found := _AVAILABLE.match(line))]


def _warnings(said: str, neutral: Callable[[str], str]) -> tuple[str, ...]:
    lines = (match["text"] for line in said.splitlines() if (match := _WARNING.match(line.strip())))
    found = [neutral(text.strip())[:300] for text in lines if not _IDLE_TALK.search(text)]
    return tuple(dict.fromkeys(found))[:_MOST_WARNINGS]


def _why(result: ToolResult) -> str:
    lines = [line for line in (result.stdout + result.stderr).splitlines() if line.startswith("==ERROR==")]
    return lines[0] if lines else result.last_line()
