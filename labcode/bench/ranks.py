"""``labcode bench ranks``: numbers of ranks in; what comparing so many costs, as a record, out."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from labcode.errors import LabError
from labcode.outputs import whole
from labcode.workloads.scaling.many_ranks import measure


def main(
    capture: Path, ranks: Sequence[int], scheduler: str | None, json_file: Path | None, console: Console
) -> int:
    """Make up ranks after a capture, diagnose them, and tell the cost; 1 where the slow rank is not found."""
    if not ranks or min(ranks) < 2:
        raise LabError("bench ranks: --ranks takes numbers from 2 up")
    rows = []
    for count in ranks:
        rows.append(row := measure(capture, count, scheduler))
        console.print(
            f"{count:,} ranks: {row['wall_s']:.1f} s, {row['cpu_s']:.1f} s of CPU, "
            f"{row['cpu_ms_a_rank']:.1f} ms a rank; slow rank "
            + ("named" if row["slow_rank_named"] else "NOT named")
        )
    if json_file is not None:
        record = {
            "capture": capture.name,
            "cores": os.cpu_count(),
            "scheduler": scheduler or "",
            "runs": rows,
        }
        with whole(json_file, reads=[capture]) as part:
            part.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return 0 if all(row["slow_rank_named"] for row in rows) else 1
