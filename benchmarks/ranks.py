"""``python -m benchmarks.ranks``: what comparing very many ranks costs, as a record."""

import json
import os
import pickle
import resource
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks import run
from labcode import reports
from labcode.analysis.ranks import synthetic
from labcode.analysis.ranks.run import open_run
from labcode.errors import LabError
from labcode.outputs import whole
from labcode.show.terminal import console
from labcode.verbs.diagnose.verdicts import diagnose


def main(
    capture: Annotated[Path, typer.Argument(help="The capture that ranks are made up after.")],
    ranks: Annotated[list[int] | None, typer.Option("--ranks", help="How many; may be repeated.")] = None,
    scheduler: Annotated[
        str | None, typer.Option("--scheduler", help="As of labcode stats: where the reports are read.")
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the record here.")] = None,
) -> int:
    """Make up ranks, diagnose them, and tell the cost; 1 where the slow rank is not found."""
    counts = ranks or [128, 1024]
    if min(counts) < 2:
        raise LabError("--ranks takes numbers from 2 up")
    rows = []
    for count in counts:
        rows.append(row := measure(capture, count, scheduler))
        console().print(
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


def measure(capture: Path, count: int, scheduler: str | None) -> dict[str, Any]:
    """Make up so many ranks, read and compare them: what that took, and whether the slow one was named."""
    slow = count * 3 // 5
    with tempfile.TemporaryDirectory(prefix="labcode-ranks-") as work:
        folder = Path(work) / "ranks"
        with reports.open_timeline(capture, "timeline") as report:
            files = synthetic.write(report, folder, synthetic.Planted(count, slow=slow, factor=1.1))
        size = sum(path.stat().st_size for path in files)
        before, began = _cpu_s(), time.perf_counter()
        with open_run(folder, scheduler=scheduler) as run:
            lanes = run.lanes
            read = _cpu_s() - before
            verdict = {one.rule: one for one in diagnose(run)}["late-rank"]
        wall, cpu = time.perf_counter() - began, _cpu_s() - before
    return {
        "ranks": count,
        "bytes": size,
        "lane_bytes": len(pickle.dumps(lanes[0])),
        "wall_s": round(wall, 3),
        "cpu_s": round(cpu, 3),
        "read_s": round(read, 3),
        "cpu_ms_a_rank": round(1e3 * cpu / count, 2),
        "slow_rank_named": f"rank {slow} comes last" in verdict.message,
    }


def _cpu_s() -> float:
    """CPU time of this process and of the workers that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


if __name__ == "__main__":
    run(main)
