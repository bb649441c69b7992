"""Reports of labcode and of nsys on one export, timed in turns: a file in, times, memory and equality out.

Both programs print each report as CSV into a file, one right after the other, so that both meet the same
machine. Several pairs can run side by side. Modules of Python are compiled beforehand, as an installation
compiles them, also where the environment forbids it.
"""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from labcode import tools
from labcode.errors import ToolError
from labcode.experiments.lab.report_speed.big_export import make_big_export

LONG_S = 10.0  # a report for which nsys takes longer is measured once
_NAMES = ("Name", "Range", "NVTX Range", "NameTree")  # columns that older nsys print without the domain's ':'
_FIRST_EXACT = 2025  # the year of the first nsys that rounds and names as labcode does
_FEW = 1000  # operations of an export that says how long a command takes to start
_SHORT = "cuda_api_sum"
# A process counts the memory of the one that started it as its own, so a small one does it.
_LAUNCHER = """
import os, sys, time
begin = time.perf_counter()
_, status, used = os.wait4(os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ), 0)
wall = time.perf_counter() - begin
print([wall, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024], file=sys.stderr)
sys.exit(os.waitstatus_to_exitcode(status) & 255)
"""
_Run = tuple[float, float, int]


class _OutOfTimeError(Exception):
    """A command was stopped because the time for all of them is over."""


@dataclass(frozen=True)
class Timing:
    """The runs of one command: wall and CPU seconds of each, the most memory that one held."""

    wall_s: tuple[float, ...]
    cpu_s: tuple[float, ...]
    peak_bytes: int

    @property
    def median_s(self) -> float:
        """The median of the wall times."""
        return statistics.median(self.wall_s)


@dataclass(frozen=True)
class Comparison:
    """One report of both programs.

    ``difference`` says where they first part, '' where they agree; ``lines`` counts what labcode printed,
    ``different_lines`` those that nsys prints otherwise (all, when it prints another number of lines).
    """

    report: str
    labcode: Timing
    nsys: Timing | None
    ratio: float | None
    difference: str | None
    lines: int
    different_lines: int | None


@dataclass(frozen=True)
class Outcome:
    """Everything measured on a file; ``missing`` are reports without a result, each with why."""

    starts: dict[str, Timing]
    reports: tuple[Comparison, ...]
    missing: dict[str, str]
    record: dict[str, Any]


def side_by_side(
    file: Path,
    reports: Sequence[str],
    nsys: Path | None,
    work: Path,
    *,
    repetitions: int,
    streams: int = 1,
    last: Collection[str] = (),
    limit_s: float | None = None,
    say: Callable[[str], None] = lambda report: None,
) -> Outcome:
    """Time each report of both programs, ``streams`` at a time and in the order given.

    Those of ``last`` come after the others and half as many at a time.

    ``work`` is a folder for what they write; ``limit_s`` ends everything, and what was measured until then
    is returned, as it is when a report fails. ``say`` hears of each report when it is done.
    """
    deadline = None if limit_s is None else time.monotonic() + limit_s
    version = tools.tool_version(nsys) if nsys else None
    exact = int((version or "0").split(".")[0]) >= _FIRST_EXACT
    starts = _starts(nsys, work, repetitions)

    missing: dict[str, str] = {}

    def one(report: str) -> Comparison | None:
        try:
            return _compare(
                *(report, file, nsys, work), exact=exact, repetitions=repetitions, deadline=deadline
            )
        except _OutOfTimeError:
            missing[report] = "no time was left"
        except ToolError as error:
            missing[report] = str(error)
        finally:
            say(report)
        return None

    with ThreadPoolExecutor(streams) as pool:
        found = list(pool.map(one, (report for report in reports if report not in last)))
    with ThreadPoolExecutor(max(1, streams // 2)) as pool:
        found += pool.map(one, (report for report in reports if report in last))
    rows = tuple(row for row in found if row is not None)
    counts = _rows(file)
    record = {
        "export_bytes": file.stat().st_size,
        "ops": counts["kernels"] + counts["copies"] + counts["memsets"],
        "rows": counts,
        "cpu_count": len(os.sched_getaffinity(0)),
        "streams": streams,
        "last": [report for report in reports if report in last],
        "python": sys.version.split()[0],
        "nsys": version,
        "starts": {words: asdict(timing) for words, timing in starts.items()},
        "reports": [asdict(row) for row in rows],
        "missing": missing,
    }
    return Outcome(starts, rows, missing, record)


def measure(
    argv: Sequence[str | Path], output: Path, compiled: Path | None = None, deadline: float | None = None
) -> _Run:
    """Run a command with its standard output in a file: wall seconds, CPU seconds, most bytes held.

    ``compiled`` is a folder in which Python keeps and finds compiled modules. Raises `ToolError` when the
    command fails.
    """
    environment = dict(os.environ)
    if compiled is not None:
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        environment["PYTHONPYCACHEPREFIX"] = str(compiled / "compiled")
    words = [sys.executable, "-I", "-S", "-c", _LAUNCHER, *map(str, argv)]
    with (
        output.open("wb") as stream,
        subprocess.Popen(
            words,
            stdout=stream,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        ) as child,
    ):
        try:
            _, said = child.communicate(timeout=None if deadline is None else deadline - time.monotonic())
        except BaseException as error:
            os.killpg(child.pid, signal.SIGKILL)  # with all that it started
            child.communicate()
            if isinstance(error, subprocess.TimeoutExpired):
                raise _OutOfTimeError from None
            raise
    *before, last = said.strip().split("\n")
    if child.returncode != 0:
        why = (before or [last])[-1]
        raise ToolError(f"{argv[0]}: ended with exit code {child.returncode} ({why})")
    wall, cpu, peak = json.loads(last)
    return wall, cpu, peak


def difference(ours: str, theirs: str, *, exact: bool) -> tuple[str, int, int]:
    """Where two CSV outputs first part ('' when they agree), the lines of ours, how many of them differ.

    nsys quotes a value with a comma, and leaves quotes inside as they are. Without ``exact``, as for an nsys
    older than 2025, a last digit may be rounded otherwise, names may lack the ':' of the default domain, and
    rows may come in another order.
    """
    mine, other = _lines(ours), theirs.strip("\n").split("\n")
    if mine == other or (len(mine) == 1 and other == [""]):
        return "", len(mine), 0
    if len(mine) != len(other):
        return f"{len(mine)} lines here, {len(other)} of nsys", len(mine), len(mine)
    wrong = [(a, b) for a, b in zip(mine, other, strict=True) if a != b]
    if not exact:
        header = next(csv.reader(mine[:1]))
        names = [place for place, name in enumerate(header) if name in _NAMES]
        left = sorted(_plain([a for a, _ in wrong], names))
        right = sorted(_plain([b for _, b in wrong], names))
        pairs = zip(left, right, strict=True)
        wrong = [(",".join(a), ",".join(b)) for a, b in pairs if not all(map(_close, a, b))]
    first = f"ours {wrong[0][0]!r}, nsys {wrong[0][1]!r}" if wrong else ""
    return first, len(mine), len(wrong)


def _compare(
    report: str,
    file: Path,
    nsys: Path | None,
    work: Path,
    *,
    exact: bool,
    repetitions: int,
    deadline: float | None,
) -> Comparison:
    """A report of both programs in turns."""
    ours, theirs = work / f"{report}.labcode.csv", work / f"{report}.nsys.csv"
    runs: list[_Run] = []
    others: list[_Run] = []
    measure(_own(report, _small(work)), ours, work, deadline)  # compiles what the report imports
    for _ in range(repetitions):
        if nsys is not None:
            others.append(measure(_of_nsys(nsys, report, file), theirs, work, deadline))
        runs.append(measure(_own(report, file), ours, work, deadline))
        if others and others[-1][0] > LONG_S:
            break
    timing = _timing(runs)
    if nsys is None:
        return Comparison(report, timing, None, None, None, len(_lines(ours.read_text())), None)
    of_nsys = _timing(others)
    text = "\n".join(line for line in theirs.read_text().split("\n") if not line.startswith("Processing ["))
    first, lines, different = difference(ours.read_text(), text, exact=exact)
    for path in (ours, theirs):
        path.unlink()
    ratio = timing.median_s / of_nsys.median_s
    return Comparison(report, timing, of_nsys, ratio, first, lines, different)


def _own(report: str, file: Path) -> list[str | Path]:
    return [sys.executable, "-m", "labcode", "stats", file, "--report", report, "--format", "csv"]


def _of_nsys(nsys: Path, report: str, file: Path) -> list[str | Path]:
    return [nsys, "stats", "--force-export=false", "--format", "csv", "--report", report, file]


def _starts(nsys: Path | None, work: Path, repetitions: int) -> dict[str, Timing]:
    """What the programs take when there is next to nothing to do: no report is quicker."""
    file = _small(work)
    commands: dict[str, Sequence[str | Path]] = {
        "labcode --help": [sys.executable, "-m", "labcode", "--help"],
        f"labcode stats of {_FEW:,} operations": _own(_SHORT, file),
    }
    if nsys is not None:
        commands[f"nsys stats of {_FEW:,} operations"] = _of_nsys(nsys, _SHORT, file)
    out = work / "out.txt"
    timings = {}
    for words, argv in commands.items():
        measure(argv, out, work)
        timings[words] = _timing([measure(argv, out, work) for _ in range(repetitions)])
    return timings


def _small(work: Path) -> Path:
    """An export with few operations, a range and a call of every kind."""
    file = work / "small.sqlite"
    return file if file.exists() else make_big_export(file, _FEW, mix="dense")


def _timing(runs: Sequence[_Run]) -> Timing:
    wall, cpu, peak = zip(*runs, strict=True)
    return Timing(wall, cpu, max(peak))


def _rows(file: Path) -> dict[str, int]:
    """How many rows of each kind an export has; the first three are operations of a GPU."""
    from labcode.reports.nsys import schema
    from labcode.reports.nsys.report import open_report

    tables = {
        "kernels": schema.KERNEL,
        "copies": schema.MEMCPY,
        "memsets": schema.MEMSET,
        "calls": schema.RUNTIME,
        "ranges": schema.NVTX,
        "os_calls": schema.OSRT,
    }
    with open_report(file) as report:
        return {
            kind: len(report.source.ints(table, ("start",))["start"].values) for kind, table in tables.items()
        }


def _lines(text: str) -> list[str]:
    """Our CSV as nsys writes it."""
    if '""' not in text:
        return text.strip("\n").split("\n")
    rows = csv.reader(io.StringIO(text))
    return "\n".join(",".join(f'"{v}"' if "," in v else v for v in row) for row in rows).split("\n")


def _plain(lines: list[str], names: Sequence[int]) -> list[list[str]]:
    rows = list(csv.reader(lines))
    for row in rows:
        for place in names:
            row[place] = row[place].replace(":", "", 1) if row[place].lstrip("-")[:1] == ":" else row[place]
    return rows


def _close(ours: str, theirs: str) -> bool:
    if ours == theirs:
        return True
    try:
        return "." in ours and abs(float(ours) - float(theirs)) < 10.0 ** -len(ours.split(".")[1]) * 1.001
    except ValueError:
        return False
