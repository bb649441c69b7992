"""What metrics are called: a meaning in; its names by versions of ncu and chips, and its section, out.

The one table of names that differ is ``metrics.csv``. The first name that a report holds is taken; `section`
is the section file that collects it, for the message when none is there. Sources: the section files of Nsight
Compute 2022.1 to 2025.3 and the list that ``ncu --query-metrics`` prints.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Metric:
    """A meaning: its names in order of preference, the section that collects it, what it is."""

    names: tuple[str, ...]
    section: str
    meaning: str


STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
SAMPLES = "smsp__pcsamp_warps_issue_stalled_{}"
_MEMORY = "MemoryWorkloadAnalysis"


def _metrics() -> dict[str, Metric]:
    with Path(__file__).with_name("metrics.csv").open(encoding="utf-8", newline="") as table:
        return {
            row["key"]: Metric(tuple(row["names"].split()), row["section"], row["meaning"])
            for row in csv.DictReader(table)
        }


METRICS: Mapping[str, Metric] = _metrics()

# State of a warp → the endings of its metric's name in warp-state metrics and in samples.
_ALIKE = (
    "barrier branch_resolving dispatch_stall drain imc_miss lg_throttle long_scoreboard "
    "math_pipe_throttle membar mio_throttle misc not_selected selected short_scoreboard sleeping "
    "tex_throttle wait"
)
STALL_ENDINGS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    **{state: ((state,), (state,)) for state in _ALIKE.split()},
    "gmma": (("gmma", "warpgroup_arrive"), ("warpgroup_arrive", "gmma")),
    "no_instruction": (("no_instruction", "no_inst"), ("no_instructions", "no_instruction")),
}
STALL_ENDINGS = dict(sorted(STALL_ENDINGS.items()))

# Metrics that ncu 2025.3 shows in a section's header and the package ncu-report leaves out of it, or gives no
# unit: (section, name) → label, unit, the name it is sorted by (headers are in the order of the names).
HEADER_EXTRAS: Mapping[tuple[str, str], tuple[str, str, str]] = {
    ("PmSampling", "profiler__pmsampler_interval_time"): ("Maximum Sampling Interval", "ns", ""),
    (_MEMORY, "lrc__ilc_input_sectors.sum"): ("L2 Compression Input Sectors", "sector", "lts__gcomp"),
    (_MEMORY, "lts__average_gcomp_output_sector_compression_achieved_rate.ratio"): (
        "L2 Compression Ratio",
        "%",
        "",
    ),
    # what the section names where a chip has them and the report none of the above
    (_MEMORY, "lrc__average_ilc_input_sector_success_rate.pct"): (
        "L2 Compression Success Rate",
        "%",
        "lts__average_gcomp_input_sector_success_rate.pct",
    ),
    (_MEMORY, "lrc__average_ilc_output_sector_compression_achieved_rate.pct"): (
        "L2 Compression Ratio",
        "%",
        "lts__average_gcomp_output_sector_compression_achieved_rate.ratio",
    ),
}


def stall_names(state: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of a warp state: in the warp-state metrics, and in the samples."""
    metric, sample = STALL_ENDINGS[state]
    return tuple(STALL.format(ending) for ending in metric), tuple(SAMPLES.format(end) for end in sample)
