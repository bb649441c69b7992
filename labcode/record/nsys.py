"""Nsight Systems: a command in; nsys' own words for it, a run under it, its report, an export of that out."""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from labcode.errors import ToolError
from labcode.outputs import private_folder
from labcode.record.attend import LIMITED, Recorded, attend, ending, limited, patience, start
from labcode.tools import ToolResult, libdw_advice, require_nsys, run_tool

SUFFIX, RECORDING = ".nsys-rep", ".qdstrm"  # a report; what it is made of, where it could not be made
LOG = ".nsys.log"
EXPORT_LIMIT_S = 300.0
PROCESSING_S = 120.0  # what nsys may take beyond the program's own time
PLAIN = ("--trace=cuda,nvtx", "--sample=none", "--cpuctxsw=none")  # NCCL names its calls by NVTX
PROGRAM = ("--trace=cuda,nvtx,osrt", "--cpuctxsw=none")  # of a program that nobody knows, with one of:
# Which line did what: samples of Python, of all threads and child processes, every 2 ms. Backtraces of CUDA
# calls (--python-backtrace=cuda) would name the line of each call, but they unwind native stacks, too: a loop
# of short launches took three times as long.
LINES = ("--sample=none", "--python-sampling=true", "--python-sampling-frequency=500")
NO_LINES = ("--sample=none",)
# Processes that outlive a program, such as a pool that compiles, are not waited for; no capture has any.
_LEFT_BEHIND = "--wait=primary"
_PAYLOADS = ("--include-blobs=true", "--include-json=true")
_LITTLE_SPACE = 64 << 20
_ENDED = 128 + signal.SIGTERM  # how nsys ends a program whose time is over
_TOLD = ': > "$0"; "$@"{past}; code=$?; echo $code > "$0"; exit $code'  # nsys may end with a code of its own
Neutral = Callable[[str], str]


def command(
    nsys: str | Path, options: Sequence[str], report: str | Path, program: Sequence[str | Path] = ()
) -> list[str]:
    """The command line of ``nsys profile`` that writes ``report``, a path without suffix."""
    return [
        *(str(nsys), "profile", *options, "--force-overwrite=true", f"--output={report}"),
        *map(str, program),
    ]


def bounds(delay_s: float | None, duration_s: float | None, within: str) -> list[str]:
    """The options that limit a recording to a time span (in seconds) or to an NVTX range."""
    words = [] if delay_s is None else [f"--delay={delay_s:g}"]
    if duration_s is not None:
        words += [f"--duration={duration_s:g}", "--kill=none"]
    if within:
        words += ["--capture-range=nvtx", f"--nvtx-capture={within}", "--capture-range-end=stop"]
        words += ["--env-var=NSYS_NVTX_PROFILER_REGISTER_ONLY=0", "--kill=none"]
    return list(dict.fromkeys(words))


def profile(
    nsys: Path,
    options: Sequence[str],
    program: Sequence[str | Path],
    report: Path,
    *,
    time_limit_s: float,
    cwd: Path,
    what: str,
    neutral: Neutral = str,
) -> ToolResult:
    """Run a program that says nothing under nsys and leave ``report`` (``….nsys-rep``).

    Raises `ToolError` when nsys cannot start, runs out of time, fails, or records without being able to write
    the report (then the message says which library is missing). ``neutral`` puts what nsys said into words
    without this machine's names.
    """
    words = command(nsys, options, report.with_suffix(""), program)
    result = run_tool(words, time_limit_s + PROCESSING_S, cwd=cwd, what=f"{what} under nsys")
    said = result.stdout + result.stderr
    if not report.is_file():
        recorded = report.with_suffix(RECORDING).is_file()
        if recorded or "Importer error" in said or "QdstrmImporter" in said:
            raise ToolError(
                f"{what}: nsys recorded the run but could not write its report: {libdw_advice(nsys)}"
            )
        raise ToolError(f"{what}: nsys made no report ({_why(result, report.parent, neutral)})")
    if result.returncode != 0:
        why = _why(result, report.parent, neutral)
        raise ToolError(f"{what}: failed under nsys with exit code {result.returncode} ({why})")
    return result


def record(
    words: Sequence[str], folder: Path, name: str, *, lines: bool = True, limit_s: float | None = None
) -> Recorded:
    """Run a user's program under nsys, which leaves ``folder/name.nsys-rep``; what nsys says goes to a log.

    After ``limit_s`` seconds nsys ends the program and writes what it has. Where nsys did not start the
    program because it does not know, or may not use, what `LINES` asks for, it is run again without. Raises
    `ToolError` where nsys fails, including where it did not start the program.
    """
    nsys = require_nsys()
    if shutil.which(words[0]) is None:
        raise ToolError(f"{words[0]}: not found; check the command after --")
    report, log, notes = folder / f"{name}{SUFFIX}", folder / f"{name}{LOG}", list[str]()
    for more in (LINES, NO_LINES) if lines else (NO_LINES,):
        options = (*PROGRAM, _LEFT_BEHIND, *more, *([f"--duration={limit_s:g}"] if limit_s else []))
        began, told, ended, seconds = _attended(nsys, options, words, report, log)
        if began or more == NO_LINES:
            break
        notes.append(f"nsys: without lines of the program, for it said: {_last_line(log)}")
    made = report.is_file()
    if not began or (not made and not told):
        failed = "failed" if made else "made no report"
        unseen = "" if began else " and did not start the program"
        how = f" ({ending(ended)})" if ended and not told else ""
        raise ToolError(f"{name}: nsys {failed}{unseen}; its last words: {_last_line(log)}{how}")
    if limit_s and made and seconds >= limit_s and told in (None, _ENDED):
        return Recorded(report, LIMITED, (*notes, limited("nsys", limit_s)))
    return Recorded(report if made else None, ended if told is None else told, tuple(notes))


def _attended(
    nsys: Path, options: Sequence[str], words: Sequence[str], report: Path, log: Path
) -> tuple[bool, int | None, int, float]:
    """Whether the program began, the exit code that it ended with (None: nobody saw it), nsys' own, and the
    seconds that it took.
    """
    # what the program prints goes past nsys' log; only bash knows descriptors of two digits
    bash = shutil.which("bash") is not None
    with private_folder() as work, _passed_by() as (out, err):
        file = work / "code"
        script = _TOLD.format(past=f" >&{out} 2>&{err}" if bash else "")
        program = ["bash" if bash else "sh", "-c", script, str(file), *words]
        profiled = command(nsys, options, report.with_suffix(""), program)
        with log.open("wb") as said:
            where = said if bash else None
            begin = partial(start, profiled, stdout=where, stderr=subprocess.STDOUT, keep=(out, err))
            ended = attend(begin, look=patience())
        code = file.read_text().strip() if file.is_file() else ""
        return file.is_file(), int(code) if code else None, ended.code, ended.seconds


def export(nsys: Path, report: Path, target: Path, *, what: str = "", neutral: Neutral = str) -> ToolResult:
    """Write a report's SQLite export to ``target``; `ToolError` (about ``what``) where nsys cannot.

    The export includes NVTX payloads, which nsys omits by default, if this nsys can write them (from 2025).
    Python samples and Python backtraces are such payloads.
    """
    what = what or str(report)
    argv = [str(nsys), "export", "--type=sqlite", "--force-overwrite=true", *_PAYLOADS]
    argv += [f"--output={target}", str(report)]
    result = run_tool(argv, EXPORT_LIMIT_S, what=f"{what}: nsys export")
    if re.search("unrecogni[sz]ed option", result.stdout + result.stderr):  # nsys before 2025
        argv = [word for word in argv if word not in _PAYLOADS]
        result = run_tool(argv, EXPORT_LIMIT_S, what=f"{what}: nsys export")
    if result.returncode != 0 or not target.is_file():
        target.unlink(missing_ok=True)
        if "libdw" in result.stdout + result.stderr:
            raise ToolError(f"{what}: {libdw_advice(nsys)}")
        raise ToolError(f"{what}: nsys could not export it ({_why(result, target.parent, neutral)})")
    return result


def _why(result: ToolResult, folder: Path, neutral: Neutral) -> str:
    """The line of a tool's output that most likely names the cause."""
    if folder.is_dir() and shutil.disk_usage(folder).free < _LITTLE_SPACE:
        return f"the disk that holds {folder} is full: free some space and run it again"
    said = re.split(r"[\r\n]+", result.stdout + "\n" + result.stderr)
    lines = [line.strip() for line in said if line.strip()]
    for pattern in (
        r"no space left|disk quota",
        r"permission denied|not permitted|insufficient privil",
        r"\b(?:error|fatal|fail)",
    ):
        for line in lines:
            if re.search(pattern, line, re.IGNORECASE):
                return neutral(line)[:300]
    return neutral(result.last_line())[:300]


def _last_line(log: Path) -> str:
    """What a tool said last, with its progress bars left out."""
    said = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    told = [line.strip() for line in re.split(r"[\r\n]+", said) if line.strip() and "%" not in line]
    return told[-1][:300] if told else "nothing"


@contextmanager
def _passed_by() -> Iterator[tuple[int, int]]:
    """Copies of stdout and stderr that programs inherit, as numbers a shell can write."""
    copies = [os.dup(number) for number in (1, 2)]
    try:
        yield copies[0], copies[1]
    finally:
        for copy in copies:
            os.close(copy)


def missing() -> str:
    """How to get nsys; '' where it is here."""
    try:
        require_nsys()
    except ToolError as error:
        return str(error)
    return ""
