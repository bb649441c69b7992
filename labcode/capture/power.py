"""The power meter: a run to measure in; its record and its power log out, by request recorded by nsys too.

The program runs once, by itself or under Nsight Systems, while this process reads all GPUs that it can see.
Filed are ``RUN.json``, ``RUN.power.json.xz`` and, under nsys, ``RUN.sqlite.xz``, whose marks tell the log's
clock.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from labcode.capture import bench, nsys, privacy, scan
from labcode.capture.job import Job, Measured, Part, Seconds, timed
from labcode.capture.scrub import compress
from labcode.errors import LabError, ToolError
from labcode.meter import Meter, open_gpus
from labcode.meter.command import neutral
from labcode.reports.power.schema import COMMAND, IDLE

PERIOD = "--period-ms="  # how often samples are taken; all other options are those of nsys
PERIOD_S = 0.01
IDLE_S = 1.0  # before the program starts
SUFFIX = ".power.json.xz"


def period_s(options: Sequence[str]) -> float:
    """The seconds between samples that options ask for; `LabError` for no whole number of milliseconds."""
    found = PERIOD_S
    for option in options:
        if option.startswith(PERIOD):
            text = option.removeprefix(PERIOD)
            if not text.isdecimal() or text == "0":
                raise LabError(f"{option}: the power meter takes {PERIOD}N, N a whole number of milliseconds")
            found = int(text) / 1000
    return found


def parts(job: Job) -> tuple[Part, ...]:
    """The program, around whose turn the meter reads: leaves the record, the log, and under nsys the report.

    It runs under nsys where ``job.program`` names one. Raises `LabError` where a GPU cannot be metered, and
    what the program's own failures raise.
    """

    record, problems = job.file(".json"), list[str]()

    @contextmanager
    def metered() -> Iterator[None]:
        with Meter(open_gpus(), period_s=period_s(job.options)) as meter:
            with meter.window(IDLE):
                time.sleep(IDLE_S)
            with meter.window(COMMAND):
                yield
        problems.extend(meter.problems)
        if lost := [problem for problem in problems if "was lost" in problem]:
            raise ToolError(f"{job.what}: {lost[0]}")
        meter.write(job.raw(".power.json"), command=neutral(job.argv), exit_code=0)

    def run() -> tuple[str, list[str]]:
        if job.program is None:
            bench.program(job, "", ".json").run()
            return "", problems
        result = nsys.profile(
            *(job.program, [option for option in job.options if not option.startswith(PERIOD)]),
            *(bench.real_command(job.argv, record), job.raw(".nsys-rep")),
            time_limit_s=job.time_limit_s,
            cwd=job.cwd,
            what=job.what,
        )
        bench.check_record(record, f"{job.what} under nsys")
        return result.stdout + "\n" + result.stderr, problems

    return (Part("under the meter", run, record, around=metered),)


def measured(job: Job, results: Sequence[Any], seconds: Seconds) -> Measured:
    """What the part left."""
    said, problems = results[-1]
    return Measured([f"{job.name}.json"], seconds, problems, said)


def finish(job: Job, run: Measured) -> Measured:
    """Compress the log of a run, and export, trim, scrub and compress its report where there is one."""
    log, packed = job.raw(".power.json"), job.file(SUFFIX)
    why = f"{job.what}: something private is left in {packed.name}, so it was not filed"
    scan.refuse_private(scan.texts_of(log), privacy.machine_names(), why, LabError)
    seconds = dict(run.seconds)
    with timed(seconds, "compress"):
        compress(log, packed)
    done = replace(run, files=[packed.name, *run.files], seconds=seconds)
    if job.program is None:
        return done
    exported = nsys.finish(job, done)
    return replace(exported, warnings=[*exported.warnings, *run.warnings])
