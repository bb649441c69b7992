"""``labcode stats`` beside ``nsys stats`` on one export: a file in, a table of times and a JSON record out.

Both programs print each report as CSV into a file, one after the other and in turns, so that both meet the
same machine. Their outputs are compared: a fast report that says something else is worth nothing. Modules
of Python are compiled beforehand, as an installation compiles them, also where the environment forbids it.
"""

from __future__ import annotations

import csv
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from labcode import tools
from labcode.bench.big_export import make_big_export
from labcode.errors import InputError, LabError, ToolError

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
    """One report of both programs; ``difference`` says where they part, '' where they agree."""

    report: str
    labcode: Timing
    nsys: Timing | None
    ratio: float | None
    difference: str | None


def main(
    file: Path | None,
    *,
    ops: int,
    mix: str,
    nsys: Path | None,
    repetitions: int,
    only: Sequence[str],
    json_file: Path | None,
    console: Console,
) -> int:
    """Measure, print the table, write the record; 1 when the outputs of a report differ."""
    from labcode.analysis.nsys_stats import TABLES, check_names

    check_names(only)
    if repetitions < 1 or ops < 1:
        raise LabError("bench reports: repetitions and operations are counted from 1")
    found = _nsys(nsys)
    version = tools.tool_version(found) if found else None
    if found is None:
        console.print("nsys not found: only labcode's times")
    with tempfile.TemporaryDirectory(prefix="labcode-bench-") as folder:
        work = Path(folder)
        if file is None:
            console.print(f"making an export of {ops:,} GPU operations ({mix})")
            file = make_big_export(work / "big.sqlite", ops, mix=mix)
        elif not file.is_file():
            raise InputError(f"{file}: no such file; check the path")
        starts = _starts(found, work, repetitions)
        rows = []
        for name in only or TABLES:
            with console.status(name):
                rows.append(_compare(name, file, found, version, repetitions, work))
        record = {
            "export_bytes": file.stat().st_size,
            "ops": _ops(file),
            "cpu_count": os.cpu_count(),
            "python": sys.version.split()[0],
            "nsys": version,
            "starts": {words: asdict(timing) for words, timing in starts.items()},
            "reports": [asdict(row) for row in rows],
        }
    console.print(_table(rows, f"{record['ops']:,} GPU operations, seconds, medians of {repetitions}"))
    for row in rows:
        if row.difference:
            console.print(f"{row.report}: {row.difference}", markup=False)
    for words, timing in starts.items():
        console.print(f"start: {words}: {timing.median_s:.2f} s")
    if json_file is not None:
        json_file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 1 if any(row.difference for row in rows) else 0


def measure(
    argv: Sequence[str | Path], output: Path, compiled: Path | None = None
) -> tuple[float, float, int]:
    """Run a command with its standard output in a file: wall seconds, CPU seconds, most bytes held.

    ``compiled`` is a folder in which Python keeps and finds compiled modules. Raises `ToolError` when the
    command fails.
    """
    environment = dict(os.environ)
    if compiled is not None:
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        environment["PYTHONPYCACHEPREFIX"] = str(compiled / "compiled")
    words = [sys.executable, "-I", "-S", "-c", _LAUNCHER, *map(str, argv)]
    with output.open("wb") as stream:
        child = subprocess.run(words, stdout=stream, stderr=subprocess.PIPE, text=True, env=environment)
    *said, last = child.stderr.strip().split("\n")
    if child.returncode != 0:
        why = (said or [last])[-1]
        raise ToolError(f"{argv[0]}: ended with exit code {child.returncode} ({why})")
    wall, cpu, peak = json.loads(last)
    return wall, cpu, peak


def difference(ours: str, theirs: str, *, exact: bool) -> str:
    """Where two CSV outputs part, in words; '' when they agree.

    nsys quotes a value with a comma, and leaves quotes inside as they are. Without ``exact``, as for an nsys
    older than 2025, a last digit may be rounded otherwise, names may lack the ':' of the default domain, and
    rows may come in another order.
    """
    mine, other = _lines(ours), theirs.strip("\n").split("\n")
    if mine == other or (len(mine) == 1 and other == [""]):
        return ""
    if len(mine) != len(other):
        return f"{len(mine)} lines here, {len(other)} of nsys"
    wrong = [(a, b) for a, b in zip(mine, other, strict=True) if a != b]
    if not exact:
        header = next(csv.reader(mine[:1]))
        names = [place for place, name in enumerate(header) if name in _NAMES]
        left = sorted(_plain([a for a, _ in wrong], names))
        right = sorted(_plain([b for _, b in wrong], names))
        pairs = zip(left, right, strict=True)
        wrong = [(",".join(a), ",".join(b)) for a, b in pairs if not all(map(_close, a, b))]
    return f"ours {wrong[0][0]!r}, nsys {wrong[0][1]!r}" if wrong else ""


def _compare(
    report: str, file: Path, nsys: Path | None, version: str | None, repetitions: int, work: Path
) -> Comparison:
    ours, theirs = work / "labcode.csv", work / "nsys.csv"
    measure(_own(report, _small(work)), ours, work)  # compiles what the report imports
    runs: list[tuple[float, float, int]] = []
    others: list[tuple[float, float, int]] = []
    for _ in range(repetitions):
        if nsys is not None:
            others.append(measure(_of_nsys(nsys, report, file), theirs, work))
        runs.append(measure(_own(report, file), ours, work))
    timing = _timing(runs)
    if nsys is None:
        return Comparison(report, timing, None, None, None)
    other = _timing(others)
    exact = int((version or "0").split(".")[0]) >= _FIRST_EXACT
    text = "\n".join(line for line in theirs.read_text().split("\n") if not line.startswith("Processing ["))
    found = difference(ours.read_text(), text, exact=exact)
    return Comparison(report, timing, other, timing.median_s / other.median_s, found)


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


def _timing(runs: Sequence[tuple[float, float, int]]) -> Timing:
    wall, cpu, peak = zip(*runs, strict=True)
    return Timing(wall, cpu, max(peak))


def _nsys(path: Path | None) -> Path | None:
    if path is None:
        return tools.find_nsys()
    if not path.is_file():
        raise ToolError(f"{path}: no such file; name nsys itself, or leave --nsys away")
    return path


def _ops(file: Path) -> int:
    from labcode.reports import nsys_schema as schema
    from labcode.reports.nsys import open_report

    tables = (schema.KERNEL, schema.MEMCPY, schema.MEMSET)
    with open_report(file) as report:
        return sum(len(report.source.ints(table, ("start",))["start"].values) for table in tables)


def _table(rows: Iterable[Comparison], title: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    table.add_column("report", no_wrap=True)
    for name in ("nsys", "labcode", "ratio", "nsys CPU", "labcode CPU", "MB", "equal"):
        table.add_column(name, justify="right")
    for row in rows:
        other = row.nsys
        table.add_row(
            row.report,
            f"{other.median_s:.2f}" if other else "",
            f"{row.labcode.median_s:.2f}",
            f"{row.ratio:.2f}" if row.ratio is not None else "",
            f"{statistics.median(other.cpu_s):.2f}" if other else "",
            f"{statistics.median(row.labcode.cpu_s):.2f}",
            f"{row.labcode.peak_bytes / 1e6:.0f}",
            {None: "", "": "yes"}.get(row.difference, "NO"),
        )
    return table


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
