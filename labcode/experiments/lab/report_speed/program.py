"""`labcode stats` beside `nsys stats` on a large export: all reports in, one JSON record out.

Two exports. ``generated`` is made up, the same wherever it is made, and needs no GPU. ``recorded`` is what
nsys wrote of a run of `labcode.workloads.many_operations`. Each report is printed by both programs one right
after the other. A few such pairs of long reports run side by side, then half as many of short ones. What was
measured is recorded also when the time ends before the last report; the record then names those missing.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from labcode.analysis.stats.nsys.reports import TABLES
from labcode.errors import ToolError
from labcode.experiments.lab.report_speed.big_export import MIXES, make_big_export
from labcode.experiments.lab.report_speed.cuda import program as many_operations
from labcode.experiments.lab.report_speed.side_by_side import side_by_side
from labcode.experiments.shared import common
from labcode.experiments.shared.common import Check, Record
from labcode.tools import require_nsys, run_tool

PROGRAM = "report_speed"
VARIANTS = ("generated", "recorded")
LONGEST_FIRST = (
    *("nvtx_gpu_proj_trace", "nvtx_gpu_proj_sum", "nvtx_pushpop_trace", "nvtx_kern_sum"),
    *("cuda_gpu_trace", "cuda_api_trace", "cuda_kern_exec_trace"),
)
SHORT = tuple(name for name in TABLES if name not in LONGEST_FIRST)
NSYS = (
    *("profile", "--trace=cuda,nvtx,osrt", "--osrt-threshold=0", "--sample=none", "--cpuctxsw=none"),
    *("--export=sqlite", "--force-overwrite=true"),
)


def main(arguments: Sequence[str]) -> int:
    """Make the export, time every report of both programs on it, write the record."""
    parser = common.parser(PROGRAM, "Times labcode stats beside nsys stats, report by report.", VARIANTS)
    parser.add_argument("--ops", type=common.whole(1, 20_000_000), default=2_000_000, help="GPU operations")
    parser.add_argument("--mix", choices=MIXES, default="dense", help="of `generated` (dense)")
    parser.add_argument("--repetitions", type=common.whole(1, 100), default=5)
    parser.add_argument("--streams", type=common.whole(1, 8), default=3, help="long pairs side by side")
    parser.add_argument("--limit-s", type=common.positive, default=400.0, help="for all reports together")
    options = parser.parse_args(arguments)
    nsys = require_nsys()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="labcode-bench-") as folder:
        work = Path(folder)
        if options.variant == "generated":
            file = make_big_export(work / "big.sqlite", options.ops, mix=options.mix)
        else:
            file = record_operations(nsys, work, options.ops, options.limit_s)
        making_s = time.monotonic() - began
        outcome = side_by_side(
            *(file, (*LONGEST_FIRST, *SHORT), nsys, work),
            repetitions=options.repetitions,
            streams=options.streams,
            last=SHORT,
            limit_s=options.limit_s - making_s,
            say=lambda report: print(f"{report} ({time.monotonic() - began:.0f} s)", flush=True),
        )
    measured = Check(bool(outcome.reports), f"{len(outcome.reports)} of {len(TABLES)} reports were measured")
    results = {"making_s": round(making_s, 2), **outcome.record}
    parameters = common.parameters_of(options)
    record = Record(PROGRAM, options.variant, parameters, results, {"something_was_measured": measured})
    return common.finish(record, options.json)


def record_operations(nsys: Path, folder: Path, ops: int, limit_s: float) -> Path:
    """The export that nsys makes of a run of ``ops`` operations; `ToolError` when there is none."""
    from labcode.kernels.build import build, compute_capability

    program = build(many_operations.PROGRAM, compute_capability())
    file = folder / "recorded.sqlite"
    command: list[str | Path] = [nsys, *NSYS, "-o", file.with_suffix(""), program, "--ops", str(ops)]
    done = run_tool(command, limit_s, what="nsys profile")
    if done.returncode != 0 or not file.is_file():
        raise ToolError(f"nsys profile: no export came (exit code {done.returncode}: {done.last_line()})")
    return file


if __name__ == "__main__":
    common.run(PROGRAM, main)
