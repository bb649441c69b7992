"""``labcode stats`` beside ``nsys stats`` on one export: a file in, a table of times and a JSON record out.

Their outputs are compared: a fast report that says something else is worth nothing.
"""

import json
import sqlite3
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from labcode import tools
from labcode.errors import LabError, ToolError
from labcode.inputs import plain_file
from labcode.outputs import private_folder, refuse_inputs, whole
from labcode.show import terminal
from labcode.workloads.models.big_export import make_big_export
from labcode.workloads.models.side_by_side import Comparison, side_by_side

_LONGEST_S = 1_000_000


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
    streams: int = 1,
    limit_s: float | None = None,
) -> int:
    """Measure, print the table, write the record; 1 when the outputs of a report differ or one is missing."""
    from labcode.analysis.stats.driver import check_names, shelf_of

    check_names(shelf_of("nsys"), only)
    if repetitions < 1 or ops < 1 or streams < 1:
        raise LabError("bench reports: repetitions, operations and streams are counted from 1")
    if limit_s is not None and not 0 < limit_s <= _LONGEST_S:
        raise LabError(f"bench reports --limit {limit_s:g}: more than 0 and at most {_LONGEST_S:,} seconds")
    found = _nsys(nsys)
    if found is None:
        console.print("nsys not found: only labcode's times")
    if file is not None and json_file is not None:
        refuse_inputs([json_file], [file])
    with private_folder() as work:
        if file is None:
            console.print(f"making an export of {ops:,} GPU operations ({mix})")
            try:
                file = make_big_export(work / "big.sqlite", ops, mix=mix)
            except sqlite3.OperationalError as error:
                raise LabError(f"{work.parent}: {error}; free some space or set TMPDIR") from None
        else:
            plain_file(file)
        with console.status("measuring") as status:
            outcome = side_by_side(
                *(file, list(only) or _answered(file), found, work),
                repetitions=repetitions,
                streams=streams,
                limit_s=limit_s,
                say=lambda report: status.update(f"measured {report}"),
            )
    title = f"{outcome.record['ops']:,} GPU operations, seconds, medians of up to {repetitions}"
    console.print(_table(outcome.reports, title))
    for row in outcome.reports:
        if row.difference:
            console.print(f"{row.report}: {row.difference}", markup=False)
    for report, why in outcome.missing.items():
        console.print(f"{report}: {why}", markup=False)
    for words, timing in outcome.starts.items():
        console.print(f"start: {words}: {timing.median_s:.2f} s")
    if json_file is not None:
        with whole(json_file) as part:
            part.write_text(json.dumps(outcome.record, indent=1) + "\n", encoding="utf-8")
    return 1 if outcome.missing or any(row.difference for row in outcome.reports) else 0


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
