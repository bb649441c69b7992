"""What comparing the reports of many ranks costs: numbers of ranks in, a JSON record out; no GPU is used.

The ranks are made up after a trace that comes with this book, one of them slow (`labcode.analysis.ranks
.synthetic`); each set is read and diagnosed by one process.
"""

from __future__ import annotations

import argparse
import os
import pickle
import resource
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from labcode import reports
from labcode.analysis.ranks import synthetic
from labcode.analysis.ranks.run import open_run
from labcode.analysis.rules.driver import diagnose
from labcode.store import repository_root
from labcode.workloads.shared import common
from labcode.workloads.shared.common import Check

PROGRAM = "many_ranks"
VARIANTS = ("here",)
CAPTURE = "captures/h200/torch_distributed/improved.rank0.trace.json.gz"


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


def command_line() -> argparse.ArgumentParser:
    """The flags."""
    parser = common.parser(PROGRAM, "Reads and compares the reports of made-up ranks.", VARIANTS)
    whole, usual = common.whole(2, 10**6), [64, 192, 512]
    parser.add_argument("--ranks", type=whole, nargs="+", default=usual, help="how many (64 192 512)")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Measure each number of ranks, print and write the record; the exit code."""
    given = command_line().parse_args(arguments)
    rows = [measure(repository_root() / CAPTURE, count, "here") for count in given.ranks]
    missed = [row["ranks"] for row in rows if not row["slow_rank_named"]]
    checks = {
        "slow_rank_named": Check(not missed, f"not named among {missed}" if missed else f"{len(rows)}×")
    }
    results = {"cores": os.cpu_count(), "sets": rows}
    return common.finish(
        common.Record(PROGRAM, given.variant, common.parameters_of(given), results, checks), given.json
    )


if __name__ == "__main__":
    common.run(PROGRAM, main)
