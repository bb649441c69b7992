"""A run of an experiment under its tool: a job in; programs to run in turn, then the files to be filed, out.

A program runs by itself (``clean``) and then recorded: `labcode.record` knows how each tool is started,
`labcode.capture.torch_profile` asks programs that record themselves. What was recorded is trimmed, scrubbed
and compressed here, later and in another process (`labcode.capture.finishing`).
"""

import json
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from labcode.capture import bench, privacy, scan, script, torch_profile
from labcode.capture.filing import file_export, write_json
from labcode.capture.job import Job, Measured, Part, Seconds, timed
from labcode.capture.ncu_scrub import scrub_report
from labcode.capture.scrub import compress, scrub_export
from labcode.capture.steady import trim_program
from labcode.capture.trim import trim_export
from labcode.errors import LabError, ToolError
from labcode.inputs import open_read_only
from labcode.meter import Meter, open_gpus
from labcode.record import ncu, nsys, power
from labcode.record.attend import neutral
from labcode.reports.common import MEASURED

Doctor = Callable[[], Mapping[str, Any]]
PERIOD = "--period-ms="  # between samples of the power meter; all other options are those of nsys
PERIOD_S = 0.01
IDLE_S = 1.0  # metered before the program starts
_MOST_WARNINGS = 20
_WARNING = re.compile(r"^\s*(?:\*+\s*)?(?:warning|WARNING|Warning)\b[:\s]*(.+)$")
# what nsys says of every run made without context switches, as all of ours are
_IDLE_TALK = re.compile(r"Scheduling information is absent|events collected:\s*\d+")


@dataclass(frozen=True)
class Told:
    """What came of a recorded program: what the tool said and warned of, seconds to tell apart; where the
    record is to say what recording cost, ``more`` about it, and its wall seconds if they are not the turn's.
    """

    said: str = ""
    warnings: list[str] = field(default_factory=list)
    apart: Seconds = field(default_factory=dict)
    wall_s: float | None = None
    more: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Tool:
    """How a tool records the program of a job, and how what it left is finished (None: it can be filed as it
    is); whether a job may run its program without the tool, too."""

    part: Callable[[Job], Part]
    finish: Callable[[Job, Measured], Measured] | None = None
    alone: bool = True


def parts(job: Job, doctor: Doctor) -> tuple[Part, ...]:
    """The programs of a run in their order: they leave its records, and recordings as they are.

    ``doctor`` says what `labcode doctor` finds here, which is what a run of the tool ``doctor`` files.
    """
    if job.tool == "doctor":
        return (Part("run", partial(_doctor, job, doctor)),)
    tool = TOOLS[job.tool]
    return *(bench.clean(job) if tool.alone else ()), tool.part(job)


def measured(job: Job, results: Sequence[Any], seconds: Seconds) -> Measured:
    """What the parts left: of several the last one was recorded.

    Its record gets a key ``profiler``, if the tool tells what recording cost: in wall seconds with it and (if
    the program ran so) without.
    """
    record = job.file(".json")
    tool = TOOLS[job.tool]
    if tool.finish is None:
        why = f"{job.what}: something private is left in {record.name}, so it was not filed"
        scan.refuse_private(scan.texts_of(record), privacy.machine_names(), why, LabError)
        return Measured([record.name], seconds, finished=True)
    told: Told = results[-1]
    if told.more is not None:
        content = json.loads(record.read_text(encoding="utf-8"))
        clean = {"clean_wall_s": seconds["clean"]} if job.clean else {}
        wall_s = [*seconds.values()][-1] if told.wall_s is None else round(told.wall_s, 3)
        content["profiler"] = {"tool": job.tool, "wall_s": wall_s, **clean, **told.more}
        write_json(record, content)
    records = job.records if tool.alone else [record.name]
    return Measured(records, {**seconds, **told.apart}, told.warnings, told.said)


def finish(job: Job, run: Measured) -> Measured:
    """The run with all its files: recordings exported, trimmed, scrubbed and compressed."""
    end = TOOLS[job.tool].finish
    return end(job, run) if end is not None else run


# ---- Nsight Systems


def _nsys_part(job: Job) -> Part:
    return Part("under nsys", partial(_under_nsys, job))


def _under_nsys(job: Job) -> Told:
    """Leaves a report; of the seconds those after the program's end are told: then nsys writes it."""
    assert job.program is not None
    record, began = job.file(".json"), time.monotonic()
    result = nsys.profile(
        *(job.program, [option for option in job.options if not option.startswith(PERIOD)]),
        *(bench.command(job, ".json"), job.raw(nsys.SUFFIX)),
        time_limit_s=job.time_limit_s,
        cwd=job.cwd,
        what=job.what,
        neutral=privacy.reduce,
    )
    after_s = time.time() - record.stat().st_mtime if record.is_file() else 0.0
    after_s = min(max(after_s, 0.0), time.monotonic() - began)  # the clock of files may have been set
    bench.settle(job, ".json", result, f"{job.what} under nsys")
    apart = {"of which after the program": round(after_s, 3)}
    return Told(result.stdout + "\n" + result.stderr, apart=apart)


def _finish_nsys(job: Job, run: Measured) -> Measured:
    """Export, trim, scrub and compress the report of a run."""
    assert job.program is not None
    report, raw, scrubbed = job.raw(nsys.SUFFIX), job.raw(".raw.sqlite"), job.file(".sqlite")
    seconds = dict(run.seconds)
    with timed(seconds, "export"):
        nsys.export(job.program, report, raw, what=job.what, neutral=privacy.reduce)
    plain = script.is_script(job.argv)
    with timed(seconds, "trim"):
        window = trim_program(raw) if plain else trim_export(raw)
    if window is None:
        lacks = "no kernel repeats" if plain else f"no NVTX range {MEASURED} was recorded"
        raise ToolError(f"{job.what}: {lacks}; the program must {'iterate' if plain else 'open one'}")
    with timed(seconds, "scrub"):
        names = scrub_export(raw, scrubbed).names
        why = f"{job.what}: something private is left in {scrubbed.name}, so it was not filed"
        scan.refuse_private(scan.texts_of(scrubbed), names, why, LabError)
    warned = [*warnings(run.said, scrubbed), *run.warnings]
    with timed(seconds, "compress"):
        filed = file_export(scrubbed)
    for path in (report, raw):
        path.unlink()
    return Measured([filed.name, *run.files], seconds, warned)


def warnings(said: str, exported: Path) -> tuple[str, ...]:
    """What nsys warned of, without paths and repeats.

    Its own lines in what it ``said``, and the diagnostic messages of ``exported``, a scrubbed export (so that
    those about helper processes are gone).
    """
    lines = [m.group(1) for line in re.split(r"[\r\n]+", said) if (m := _WARNING.match(line))]
    counted = Counter(privacy.reduce(" ".join(text.split())) for text in [*lines, *_diagnostics(exported)])
    lines = [text if times == 1 else f"{text} (× {times})" for text, times in counted.items()]
    return tuple(lines[:_MOST_WARNINGS])


def _diagnostics(exported: Path) -> list[str]:
    """Messages of severity warning and above."""
    try:
        with closing(open_read_only(exported)) as db:
            levels = dict(db.execute("SELECT id, name FROM ENUM_DIAGNOSTIC_SEVERITY_LEVEL").fetchall())
            rows = db.execute("SELECT severity, text FROM DIAGNOSTIC_EVENT ORDER BY timestamp").fetchall()
    except sqlite3.OperationalError:  # exports before schema 3.11 have no such table
        return []
    severe = {key for key, name in levels.items() if re.search("WARN|ERROR|FATAL", str(name).upper())}
    return [text for severity, text in rows if severity in severe and not _IDLE_TALK.search(text)]


# ---- Nsight Compute


def _under_ncu(job: Job) -> Told:
    """Leaves a report; tells what replaying cost, and the passes of each launch."""
    assert job.program is not None
    result = ncu.profile(
        *(job.program, job.options, bench.command(job, ".json"), job.raw(ncu.SUFFIX)),
        time_limit_s=job.time_limit_s,
        cwd=job.cwd,
        what=job.what,
        neutral=privacy.reduce,
    )
    bench.check_record(job.file(".json"), f"{job.what} under ncu")
    launches = [{"kernel": kernel, "passes": passes} for kernel, passes in result.launches]
    return Told(warnings=list(result.warnings), wall_s=result.wall_s, more={"launches": launches})


def _finish_ncu(job: Job, run: Measured) -> Measured:
    """Scrub and compress the report of a run."""
    report, packed, seconds = job.raw(ncu.SUFFIX), job.file(".ncu-rep.xz"), dict(run.seconds)
    with timed(seconds, "scrub, compress"):
        scrub_report(report, packed)
    report.unlink()
    return Measured([packed.name, *run.files], seconds, run.warnings)


# ---- the power meter


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


def _metered_part(job: Job) -> Part:
    """The program, around whose turn this process reads all GPUs that it can see; under nsys where
    ``job.program`` names one, whose marks tell the log's clock."""
    told = Told()

    @contextmanager
    def metered() -> Iterator[None]:
        meter = Meter(open_gpus(), period_s=period_s(job.options))
        with power.metered(meter, idle_s=IDLE_S):
            yield
        told.warnings.extend(meter.problems)
        if lost := [problem for problem in meter.problems if "was lost" in problem]:
            raise ToolError(f"{job.what}: {lost[0]}")
        meter.write(job.raw(power.SUFFIX), command=neutral(job.argv), exit_code=0)

    def run() -> Told:
        if job.program is None:
            bench.run(job, ".json")
            return told
        return replace(told, said=_under_nsys(job).said)

    return Part("under the meter", run, around=metered)


def _finish_metered(job: Job, run: Measured) -> Measured:
    """Compress the log of a run, and export, trim, scrub and compress its report where there is one."""
    log, packed = job.raw(power.SUFFIX), job.file(".power.json.xz")
    why = f"{job.what}: something private is left in {packed.name}, so it was not filed"
    scan.refuse_private(scan.texts_of(log), privacy.machine_names(), why, LabError)
    seconds = dict(run.seconds)
    with timed(seconds, "compress"):
        compress(log, packed)
    done = replace(run, files=[packed.name, *run.files], seconds=seconds)
    return done if job.program is None else _finish_nsys(job, done)


# ---- what measures itself


def _doctor(job: Job, doctor: Doctor) -> None:
    """What `labcode doctor --json` says, without this machine's paths."""
    write_json(job.file(".json"), privacy.reduce_record(doctor(), privacy.machine_names()))


def _part(step: str, run: Callable[[Job], Told]) -> Callable[[Job], Part]:
    return lambda job: Part(step, partial(run, job))


def _asked(job: Job) -> Told:
    """The program records itself, if it is asked to (`labcode.capture.torch_profile`)."""
    torch_profile.record(job)
    return Told(more={})


_RECORDED = Tool(_part("recorded", _asked), torch_profile.finish)
_ITSELF = Tool(lambda job: bench.program(job, "run", ".json"), alone=False)
TOOLS = {
    "nsys": Tool(_nsys_part, _finish_nsys),
    "ncu": Tool(_part("under ncu", _under_ncu), _finish_ncu),
    "torch": _RECORDED,
    "memory": _RECORDED,
    "power": Tool(_metered_part, _finish_metered, alone=False),
    "bench": _ITSELF,
    "doctor": _ITSELF,
}
