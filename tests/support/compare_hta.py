"""Reading and four analyses of a folder of ranks, by labcode and by Holistic Trace Analysis, side by side.

    python -m tests.support.traces FOLDER --ranks 4 --steps 250    # a gigabyte
    python -m tests.support.compare_hta FOLDER                     # where both are installed

Each runs in a process of its own, one after the other, in turns. Printed are wall time, CPU time (with the
processes that it starts) and the most memory of one process; ratios are HTA's by labcode's.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

OURS = """
import sys
from labcode.analysis.stats import kineto_gpu
from labcode.reports.kineto.report import open_trace
report = open_trace(sys.argv[1])
for name in ("idle_breakdown", "comm_overlap", "queue_length", "launch_stats"):
    assert len(getattr(kineto_gpu, name)(report))
"""
THEIRS = """
import logging, sys, warnings
from hta.trace_analysis import TraceAnalysis
if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    traces = TraceAnalysis(trace_dir=sys.argv[1], include_last_profiler_step=True)
    ranks = traces.t.get_ranks()
    traces.get_idle_time_breakdown(ranks=ranks, visualize=False)
    traces.get_comm_comp_overlap(visualize=False)
    traces.get_queue_length_summary(ranks=ranks)
    traces.get_cuda_kernel_launch_stats(ranks=ranks, visualize=False)
"""


def measure(program: str, folder: Path) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds and MiB of one run in a new process."""
    begun = time.perf_counter()
    child = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", program, str(folder)], stdout=subprocess.DEVNULL
    )
    _, status, used = os.wait4(child.pid, 0)
    wall = time.perf_counter() - begun
    if status:
        raise SystemExit("a run failed; see above")
    return wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main() -> None:
    """Measure in turns and print medians."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    words.add_argument("folder", type=Path)
    words.add_argument("--rounds", type=int, default=1)
    given = words.parse_args()
    size = sum(file.stat().st_size for file in given.folder.glob("*.trace.json*"))
    found: dict[str, list[tuple[float, float, float]]] = {"labcode": [], "HTA": []}
    for _ in range(given.rounds):
        for name, program in (("labcode", OURS), ("HTA", THEIRS)):
            found[name].append(measure(program, given.folder))
            print(name, "{:.1f} s wall, {:.1f} s CPU, {:,.0f} MiB".format(*found[name][-1]), flush=True)
    medians = {
        name: [statistics.median(run[k] for run in runs) for k in range(3)] for name, runs in found.items()
    }
    ratios = [theirs / ours for ours, theirs in zip(medians["labcode"], medians["HTA"], strict=True)]
    told = ", ".join(
        f"{ratio:.1f} × {what}" for ratio, what in zip(ratios, ("wall", "CPU", "memory"), strict=True)
    )
    print(f"{size / 1e9:.2f} GB: HTA by labcode {told}")


if __name__ == "__main__":
    main()
