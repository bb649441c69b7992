"""Rows with ratios and intervals in; the comparison as csv, JSON or text out, and whether it fails."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from labcode.analysis.compare.interval import Wishes, exit_code, limits_of, undecided
from labcode.analysis.stats.writer import records, write
from labcode.outputs import DOCUMENT_SCHEMA
from labcode.show import Paper, write_csv, write_json


def write_rows(
    before: Path,
    after: Path,
    table: pd.DataFrame,
    judged: pd.DataFrame,
    notes: Sequence[str],
    wishes: Wishes,
    *,
    name: str,
    grew: str,
) -> int:
    """Write the table; 1 when a row of ``judged`` has its whole interval above the allowed percentage, the
    exit code that is wished for when the interval of one reaches beyond that (by default 5 %).

    name: the column that names a row; grew: what such a row did, in words (``grew``, ``used more``).
    """
    fail_above, fmt, output = wishes.fail_above, wishes.fmt, wishes.output
    failed = judged[judged["ratio_low"] > 1 + fail_above / 100] if fail_above is not None else None
    unsure = undecided(judged, limits_of(fail_above).same)
    if fmt == "csv":
        write_csv(table, output)
    elif fmt == "json":
        document = {
            "schema": DOCUMENT_SCHEMA,
            "before": str(before),
            "after": str(after),
            "notes": list(notes),
            "rows": records(table),
            "regressions": None if failed is None else records(failed),
            "undecided": records(unsure),
        }
        write_json(document, output)
    else:
        lines = [f"before: {before}", f"after: {after}", *(f"note: {note}" for note in notes)]
        if failed is not None:
            lines.append(
                f"{len(failed)} {grew} by over {fail_above:g} %, with the whole interval above it"
                + (f": {', '.join(failed[name])}" if len(failed) else "")
            )
        if len(unsure):
            limit = 100 * limits_of(fail_above).same
            names = ", ".join(unsure[name])
            lines.append(f"{len(unsure)} undecided: the interval reaches above {limit:g} %: {names}")
        Paper(fmt, output).points(lines)
        output.write("\n")
        write(table, fmt, output, exact=True)
    return exit_code(0 if failed is None else len(failed), len(unsure), wishes.undecided_exit)
