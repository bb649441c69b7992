"""The power meter: a command in; its record and a power log of the same run out, by request under nsys.

The program runs once, by itself or under Nsight Systems, while this process reads all GPUs that it can see.
Filed are ``RUN.json``, ``RUN.power.json.xz`` and, under nsys, ``RUN.sqlite.xz``, whose marks tell the log's
clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from labcode.capture import bench, nsys, privacy, scan
from labcode.capture.scrub import compress, scrub_export
from labcode.capture.trim import trim_export
from labcode.errors import LabError, ToolError
from labcode.meter import Meter, open_gpus
from labcode.meter.command import neutral
from labcode.reports.power.schema import COMMAND, IDLE
from labcode.tools import ToolResult

PERIOD = "--period-ms="  # the only option: how often samples are taken
PERIOD_S = 0.01
IDLE_S = 1.0  # before the program starts
SUFFIX = ".power.json.xz"


@dataclass(frozen=True)
class Under:
    """nsys, where the program is to run under it, and its options."""

    nsys: Path
    options: tuple[str, ...]


def period_s(options: Sequence[str]) -> float:
    """The seconds between samples that options ask for; `LabError` for any other option."""
    found = PERIOD_S
    for option in options:
        text = option.removeprefix(PERIOD)
        if text == option or not text.isdecimal() or text == "0":
            raise LabError(f"{option}: the power meter takes {PERIOD}N, N a whole number of milliseconds")
        found = int(text) / 1000
    return found


def make_run(
    argv: tuple[str, ...],
    options: tuple[str, ...],
    staging: Path,
    name: str,
    show: Callable[[str], None],
    *,
    time_limit_s: float,
    cwd: Path,
    what: str,
    under: Under | None = None,
) -> tuple[list[str], tuple[str, ...]]:
    """Run the program while the meter reads; the names of the files, and what the tools warned of.

    Raises `LabError` where a GPU cannot be metered, and what the program's own failures raise; nothing is
    filed then.
    """
    record, packed = staging / f"{name}.json", staging / f"{name}{SUFFIX}"
    report = staging / f"{name}.nsys-rep"
    result: ToolResult | None = None
    show(f"{what}: under the power meter")
    with Meter(open_gpus(), period_s=period_s(options)) as meter:
        with meter.window(IDLE):
            time.sleep(IDLE_S)
        with meter.window(COMMAND):
            if under is None:
                bench.run_program(argv, record, time_limit_s=time_limit_s, cwd=cwd, what=what)
            else:
                result = nsys.profile(
                    *(under.nsys, under.options, bench.real_command(argv, record), report),
                    time_limit_s=time_limit_s,
                    cwd=cwd,
                    what=what,
                )
                bench.check_record(record, f"{what} under nsys")
    if lost := [problem for problem in meter.problems if "was lost" in problem]:
        raise ToolError(f"{what}: {lost[0]}")
    plain = staging / f"{name}.power.json"
    meter.write(plain, command=neutral(argv), exit_code=0)
    why = f"{what}: something private is left in {packed.name}, so it was not filed"
    scan.refuse_private(scan.texts_of(plain), privacy.machine_names(), why, LabError)
    compress(plain, packed)
    plain.unlink()
    warnings = tuple(meter.problems)
    if under is None or result is None:
        return [packed.name, record.name], warnings
    show(f"{what}: export, trim, scrub, compress")
    files, said = _export(under.nsys, report, result, what)
    return [*files, packed.name, record.name], (*said, *warnings)


def _export(tool: Path, report: Path, result: ToolResult, what: str) -> tuple[list[str], tuple[str, ...]]:
    """The report as a scrubbed, compressed export; its name, and what nsys warned of."""
    raw, scrubbed, packed = (report.with_suffix(end) for end in (".raw.sqlite", ".sqlite", ".sqlite.xz"))
    nsys.export(tool, report, raw, what=what)
    if trim_export(raw) is None:
        raise ToolError(f"{what}: no NVTX range lab:measured was recorded; the program must open one")
    names = scrub_export(raw, scrubbed).names
    why = f"{what}: something private is left in {scrubbed.name}, so it was not filed"
    scan.refuse_private(scan.texts_of(scrubbed), names, why, LabError)
    compress(scrubbed, packed)
    warned = tuple(nsys.warnings(result, scrubbed))
    for path in (report, raw, scrubbed):
        path.unlink()
    return [packed.name], warned
