"""``python -m benchmarks.reports``: ``labcode stats`` beside ``nsys stats``, as a table and a record.

Their outputs are compared: a fast report that says something else is worth nothing.
"""

import json
import sqlite3
import statistics
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from benchmarks import run
from labcode import tools
from labcode.errors import LabError, ToolError
from labcode.experiments.lab.report_speed.big_export import make_big_export
from labcode.experiments.lab.report_speed.side_by_side import Comparison, Timing, measure, side_by_side
from labcode.inputs import plain_file
from labcode.outputs import private_folder, refuse_inputs, whole
from labcode.show import terminal
from labcode.show.terminal import console

_LONGEST_S = 1_000_000


def main(
    file: Annotated[
        Path | None, typer.Argument(help="An nsys export to report on; a made-up one without it.")
    ] = None,
    ops: Annotated[int, typer.Option("--ops", help="GPU operations of the made-up export.")] = 2_000_000,
    mix: Annotated[
        str,
        typer.Option(
            "--mix", help="Of the made-up export: dense (half as many rows of every kind) or training."
        ),
    ] = "dense",
    nsys: Annotated[
        Path | None, typer.Option("--nsys", help="The nsys to compare with; the one at hand without it.")
    ] = None,
    repetitions: Annotated[
        int,
        typer.Option("--repetitions", help="Runs of each report and program; one where nsys takes long."),
    ] = 3,
    streams: Annotated[int, typer.Option("--streams", help="Reports measured side by side.")] = 1,
    limit_s: Annotated[
        float | None, typer.Option("--limit", help="Seconds after which no report is waited for.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="A report; may be repeated. All without it.")
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the record here.")] = None,
) -> int:
    """Time `labcode stats` beside `nsys stats`, report by report, and compare what they print.

    Of the made-up export as it is without options every report has a million rows of its own or more; nsys
    takes minutes for some of them. The exit code is 1 when outputs of a report differ or one is missing.
    """
    from labcode.verbs.stats import check_names, shelf_of

    check_names(shelf_of("nsys"), only or [])
    if repetitions < 1 or ops < 1 or streams < 1:
        raise LabError("repetitions, operations and streams are counted from 1")
    if limit_s is not None and not 0 < limit_s <= _LONGEST_S:
        raise LabError(f"--limit {limit_s:g}: more than 0 and at most {_LONGEST_S:,} seconds")
    screen, found = console(), _nsys(nsys)
    if found is None:
        screen.print("nsys not found: only labcode's times")
    if file is not None and json_file is not None:
        refuse_inputs([json_file], [file])
    with private_folder() as work:
        if file is None:
            screen.print(f"making an export of {ops:,} GPU operations ({mix})")
            try:
                file = make_big_export(work / "big.sqlite", ops, mix=mix)
            except sqlite3.OperationalError as error:
                raise LabError(f"{work.parent}: {error}; free some space or set TMPDIR") from None
        else:
            plain_file(file)
        with screen.status("measuring") as status:
            outcome = side_by_side(
                *(file, only or _answered(file), found, work),
                repetitions=repetitions,
                streams=streams,
                limit_s=limit_s,
                say=lambda report: status.update(f"measured {report}"),
            )
            judged = {} if only else _judging(file, work, repetitions)
    title = f"{outcome.record['ops']:,} GPU operations, seconds, medians of up to {repetitions}"
    screen.print(_table(outcome.reports, title))
    for row in outcome.reports:
        if row.difference:
            screen.print(f"{row.report}: {row.difference}", markup=False)
    for report, why in outcome.missing.items():
        screen.print(f"{report}: {why}", markup=False)
    for words, timing in outcome.starts.items():
        screen.print(f"start: {words}: {timing.median_s:.2f} s")
    for command, timing in judged.items():
        screen.print(
            f"labcode {command}: {statistics.median(timing.cpu_s):.2f} s of CPU, "
            f"{timing.peak_bytes / 1e6:.0f} MB at most"
        )
    if json_file is not None:
        record = outcome.record | {"judging": {command: asdict(timing) for command, timing in judged.items()}}
        with whole(json_file) as part:
            part.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 1 if outcome.missing or any(row.difference for row in outcome.reports) else 0


def _judging(file: Path, work: Path, repetitions: int) -> dict[str, Timing]:
    """What the commands take that look at all of an export: its verdicts, and the page on it."""
    timings = {}
    for command in ("diagnose", "report"):
        argv = [sys.executable, "-m", "labcode", command, file, "--format", "json"]
        runs = [measure(argv, work / "out.txt", work) for _ in range(repetitions)]
        wall, cpu, peak = zip(*runs, strict=True)
        timings[command] = Timing(wall, cpu, max(peak))
    return timings


def _answered(file: Path) -> list[str]:
    """nsys' reports for which an export has data."""
    from labcode.analysis.stats.nsys.reports import SHELF, TABLES, missing_data

    with SHELF.open(file) as source:
        return [name for name in TABLES if not missing_data(source, name)]


def _nsys(path: Path | None) -> Path | None:
    if path is None:
        return tools.find_nsys()
    if not path.is_file():
        raise ToolError(f"{path}: no such file; name nsys itself, or leave --nsys away")
    return path


def _table(rows: Iterable[Comparison], title: str) -> Table:
    columns = ("nsys", "labcode", "ratio", "nsys CPU", "labcode CPU", "MB", "equal")
    table = terminal.table("report", right=columns, title=title)
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


if __name__ == "__main__":
    run(main)
