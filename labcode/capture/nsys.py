"""Nsight Systems: a run to measure in; records and a scrubbed export out, or one line on what failed."""

import re
import shutil
import sqlite3
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from labcode.capture import bench, privacy, scan
from labcode.capture.job import Job, Measured, Part, Seconds, timed
from labcode.capture.program import script
from labcode.capture.program.steady import trim_program
from labcode.capture.scrub import compress, scrub_export
from labcode.capture.trim import trim_export
from labcode.errors import LabError, ToolError
from labcode.reports.marks import MEASURED
from labcode.tools import ToolResult, libdw_advice, run_tool

EXPORT_LIMIT_S = 300.0
PROCESSING_S = 120.0  # what nsys may take beyond the program's own time
_PAYLOADS = ("--include-blobs=true", "--include-json=true")
_LITTLE_SPACE = 64 << 20
_MOST_WARNINGS = 20
_WARNING = re.compile(r"^\s*(?:\*+\s*)?(?:warning|WARNING|Warning)\b[:\s]*(.+)$")
# what nsys says of every run made without context switches, as all of ours are
_IDLE_TALK = re.compile(r"Scheduling information is absent|events collected:\s*\d+")


def parts(job: Job) -> tuple[Part, ...]:
    """One run without a profiler, then one under nsys: they leave both records, and the report as it is.

    Where nsys takes a hand in how Python starts, what it watches does not start early.
    """
    program = job.program
    assert program is not None
    if script.is_script(job.argv):
        return _script_parts(job, program)

    def profiled() -> tuple[str, float]:
        record = job.file(".json")
        result = profile(
            *(program, job.options, bench.real_command(job.argv, record), job.raw(".nsys-rep")),
            time_limit_s=job.time_limit_s,
            cwd=job.cwd,
            what=job.what,
        )
        after_s = time.time() - record.stat().st_mtime if record.is_file() else 0.0
        bench.check_record(record, f"{job.what} under nsys")
        return result.stdout + "\n" + result.stderr, after_s

    watched = any(re.search("python|pytorch", word) for word in job.options)
    return *bench.clean(job), Part("under nsys", profiled, job.file(".json"), early=not watched)


def _script_parts(job: Job, program: Path) -> tuple[Part, ...]:
    """The same for a plain script, which prints what it measured."""

    def profiled() -> tuple[str, float]:
        words = script.real_command(job.argv, job.cwd, job.raw(".compiled"))
        limit_s = job.time_limit_s
        where = (program, job.options, words, job.raw(".nsys-rep"))
        result = profile(*where, time_limit_s=limit_s, cwd=job.cwd, what=job.what)
        script.keep(job.file(".json"), result.stdout, job.argv[-1], f"{job.what} under nsys")
        return result.stdout + "\n" + result.stderr, 0.0

    return *script.clean(job), Part("under nsys", profiled, job.file(".json"), early=False)


def measured(job: Job, results: Sequence[Any], seconds: Seconds) -> Measured:
    """What the parts left; of the seconds also those after the program's end: then nsys writes its report."""
    said, after_s = results[-1]
    apart = {"of which after the program": round(after_s, 3)}
    return Measured(job.records, {**seconds, **apart}, said=said)


def finish(job: Job, run: Measured) -> Measured:
    """Export, trim, scrub and compress the report of a run."""
    assert job.program is not None
    report, raw, scrubbed = (job.raw(suffix) for suffix in (".nsys-rep", ".raw.sqlite", ".sqlite"))
    packed, seconds = job.file(".sqlite.xz"), dict(run.seconds)
    with timed(seconds, "export"):
        export(job.program, report, raw, what=job.what)
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
    with timed(seconds, "compress"):
        compress(scrubbed, packed)
    warned = list(warnings(run.said, scrubbed))
    for path in (report, raw, scrubbed):
        path.unlink()
    return Measured([packed.name, *run.files], seconds, warned)


def profile(
    nsys: Path,
    options: Sequence[str],
    command: Sequence[str | Path],
    report: Path,
    *,
    time_limit_s: float,
    cwd: Path,
    what: str,
) -> ToolResult:
    """Run ``command`` under ``nsys profile`` and leave ``report`` (``….nsys-rep``).

    Raises `ToolError` when nsys cannot start, runs out of time, fails, or records without being able to write
    the report (then the message says which library is missing).
    """
    argv: list[str | Path] = [
        nsys,
        "profile",
        *options,
        "--force-overwrite=true",
        f"--output={report.with_suffix('')}",
        *command,
    ]
    result = run_tool(argv, time_limit_s + PROCESSING_S, cwd=cwd, what=f"{what} under nsys")
    said = result.stdout + result.stderr
    recording = report.with_suffix(".qdstrm")
    if not report.is_file():
        if recording.is_file() or "Importer error" in said or "QdstrmImporter" in said:
            raise ToolError(
                f"{what}: nsys recorded the run but could not write its report: {libdw_advice(nsys)}"
            )
        raise ToolError(f"{what}: nsys made no report ({_why(result, report.parent)})")
    if result.returncode != 0:
        raise ToolError(
            f"{what}: failed under nsys with exit code {result.returncode} ({_why(result, report.parent)})"
        )
    return result


def export(nsys: Path, report: Path, target: Path, *, what: str = "") -> ToolResult:
    """Write a report's SQLite export to ``target``; `ToolError` (about ``what``) when nsys cannot.

    The export holds the contents of NVTX payloads where nsys can write them (2025 on); by itself it leaves
    them out. Python samples and Python backtraces are such payloads.
    """
    what = what or str(report)
    argv: list[str | Path] = [
        nsys,
        "export",
        "--type=sqlite",
        "--force-overwrite=true",
        *_PAYLOADS,
        f"--output={target}",
        report,
    ]
    result = run_tool(argv, EXPORT_LIMIT_S, what=f"{what}: nsys export")
    if re.search("unrecogni[sz]ed option", result.stdout + result.stderr):  # nsys before 2025
        argv = [word for word in argv if word not in _PAYLOADS]
        result = run_tool(argv, EXPORT_LIMIT_S, what=f"{what}: nsys export")
    if result.returncode != 0 or not target.is_file():
        target.unlink(missing_ok=True)
        if "libdw" in result.stdout + result.stderr:
            raise ToolError(f"{what}: {libdw_advice(nsys)}")
        raise ToolError(f"{what}: nsys could not export it ({_why(result, target.parent)})")
    return result


def warnings(said: str, exported: Path) -> tuple[str, ...]:
    """What the profiler warned of, without paths and repeats.

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
        with closing(sqlite3.connect(f"{exported.resolve().as_uri()}?mode=ro", uri=True)) as db:
            levels = dict(db.execute("SELECT id, name FROM ENUM_DIAGNOSTIC_SEVERITY_LEVEL").fetchall())
            rows = db.execute("SELECT severity, text FROM DIAGNOSTIC_EVENT ORDER BY timestamp").fetchall()
    except sqlite3.OperationalError:  # exports before schema 3.11 have no such table
        return []
    severe = {key for key, name in levels.items() if re.search("WARN|ERROR|FATAL", str(name).upper())}
    return [text for severity, text in rows if severity in severe and not _IDLE_TALK.search(text)]


def _why(result: ToolResult, folder: Path) -> str:
    """The line of a tool's output that most likely names the cause."""
    if folder.is_dir() and shutil.disk_usage(folder).free < _LITTLE_SPACE:
        return f"the disk that holds {folder} is full: free some space and run it again"
    lines = [
        line.strip() for line in re.split(r"[\r\n]+", result.stdout + "\n" + result.stderr) if line.strip()
    ]
    for pattern in (
        r"no space left|disk quota",
        r"permission denied|not permitted|insufficient privil",
        r"\b(?:error|fatal|fail)",
    ):
        for line in lines:
            if re.search(pattern, line, re.IGNORECASE):
                return privacy.reduce(line)[:300]
    return privacy.reduce(result.last_line())[:300]
