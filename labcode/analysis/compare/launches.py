"""`labcode compare A.ncu-rep B.ncu-rep`: two reports in; kernel by kernel what changed, an exit code out.

Launches are paired by their kernel's name and their place among the launches of that name; where each
side has one kernel left, they are paired too, and named as renamed. ncu measures each launch once, with
its memory restored and its clocks as they are, so a ratio has no interval: below the threshold nothing is
called a change.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import pandas as pd

from labcode.analysis.compare.interval import Wishes
from labcode.analysis.kernel.stalls import main_stall
from labcode.analysis.stats.writer import records, write
from labcode.errors import LabError
from labcode.outputs import DOCUMENT_SCHEMA
from labcode.reports import open_launches
from labcode.reports.ncu.launch import Launch
from labcode.reports.report import LaunchesReport
from labcode.show import Paper, write_json

THRESHOLD = 0.05
CLOCKS = 0.02  # a larger difference of clocks is told
DURATION = "duration (ns)"
_METRICS: Mapping[str, str] = {
    DURATION: "duration_ns",
    "cycles": "cycles",
    "SM clock (Hz)": "sm_clock_hz",
    "compute (% of peak)": "compute_pct",
    "memory (% of peak)": "memory_pct",
    "DRAM (% of peak)": "dram_pct",
    "L2 (% of peak)": "l2_pct",
    "L1 (% of peak)": "l1_pct",
    "instructions": "instructions",
    "instructions a cycle of an SM": "ipc",
    "issue slots used (%)": "issue_pct",
    "threads an instruction": "predicated_threads_per_instruction",
    "cycles between two instructions": "latency_per_issue",
    "theoretical occupancy (%)": "theoretical_occupancy_pct",
    "achieved occupancy (%)": "achieved_occupancy_pct",
    "registers": "registers",
    "static shared (bytes)": "static_shared_bytes",
    "dynamic shared (bytes)": "dynamic_shared_bytes",
    "waves": "waves",
    "DRAM read (bytes)": "dram_read_bytes",
    "DRAM written (bytes)": "dram_write_bytes",
    "L1 hits (%)": "l1_hit_pct",
    "L2 hits (%)": "l2_hit_pct",
    "sectors asked for": "sectors_asked",
    "superfluous wavefronts": "wavefronts_shared",
    "spill requests": "spill_requests",
}
COLUMNS = {
    **dict.fromkeys(("kernel", "kernel_before"), "str"),
    **dict.fromkeys(("launch_before", "launch_after"), "int64"),
    "metric": "str",
    **dict.fromkeys(("before", "after", "ratio"), "float64"),
    "changed": "bool",
}


@dataclass(frozen=True)
class Pair:
    """Two launches that are compared; ``renamed`` is a guess."""

    before: Launch
    after: Launch
    renamed: bool


@dataclass(frozen=True)
class Comparison:
    """What changed: pairs, a table with the columns `COLUMNS`, kernels only one side has, warnings."""

    pairs: tuple[Pair, ...]
    table: pd.DataFrame
    vanished: tuple[str, ...]
    new: tuple[str, ...]
    warnings: tuple[str, ...]

    def slower(self, percent: float) -> list[Pair]:
        """The pairs whose launch became slower by more than ``percent``."""
        limit = 1 + percent / 100
        return [pair for pair in self.pairs if _ratio(pair, "duration_ns") > limit]


def compare(before: LaunchesReport, after: LaunchesReport, *, threshold: float = THRESHOLD) -> Comparison:
    """Compare two reports; a metric has changed when its ratio is further from 1 than ``threshold``."""
    pairs, vanished, new = _paired(before, after)
    rows = [row for pair in pairs for row in _rows(pair, threshold)]
    warnings = []
    for pair in pairs:
        clocks = _ratio(pair, "sm_clock_hz")
        if abs(clocks - 1) > CLOCKS:
            warnings.append(
                f"{pair.after.function}: the SM clocks differ ({clocks:.3f} times): compare cycles, not times"
            )
    devices = [{str(one.device().get("display_name")) for one in report.list} for report in (before, after)]
    if devices[0] != devices[1]:
        names = (", ".join(sorted(names)) for names in devices)
        warnings.append(f"measured on different GPUs: {' and '.join(names)}")
    table = pd.DataFrame(rows, columns=list(COLUMNS)).astype(COLUMNS)
    return Comparison(tuple(pairs), table, vanished, new, tuple(dict.fromkeys(warnings)))


def _paired(
    before: LaunchesReport, after: LaunchesReport
) -> tuple[list[Pair], tuple[str, ...], tuple[str, ...]]:
    sides = [_by_name(report.list) for report in (before, after)]
    pairs = []
    for name, others in sides[1].items():
        pairs += [Pair(one, other, False) for one, other in zip(sides[0].get(name, []), others, strict=False)]
    vanished = tuple(name for name in sides[0] if name not in sides[1])
    new = tuple(name for name in sides[1] if name not in sides[0])
    if len(vanished) == len(new) == 1:
        both = zip(sides[0][vanished[0]], sides[1][new[0]], strict=False)
        pairs += [Pair(one, other, True) for one, other in both]
        vanished = new = ()
    return sorted(pairs, key=lambda pair: pair.after.id), vanished, new


def _by_name(launches: Sequence[Launch]) -> dict[str, list[Launch]]:
    found: dict[str, list[Launch]] = {}
    for one in launches:
        found.setdefault(one.demangled, []).append(one)
    return found


def _rows(pair: Pair, threshold: float) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for title, meaning in _METRICS.items():
        values = [one.number_or(meaning) for one in (pair.before, pair.after)]
        if title == "superfluous wavefronts":
            ideal = [one.number_or("wavefronts_shared_ideal") for one in (pair.before, pair.after)]
            values = [made - needed for made, needed in zip(values, ideal, strict=True)]
        one, other = values
        if math.isnan(one) or math.isnan(other):
            continue
        ratio = other / one if one else (1.0 if other == 0 else math.inf)
        rows.append(
            (
                pair.after.function,
                pair.before.function if pair.renamed else "",
                pair.before.id,
                pair.after.id,
                title,
                one,
                other,
                ratio,
                abs(ratio - 1) > threshold,
            )
        )
    return rows


def _ratio(pair: Pair, meaning: str) -> float:
    one, other = pair.before.number_or(meaning), pair.after.number_or(meaning)
    return other / one if one else math.nan


def run(before: Path, after: Path, wishes: Wishes) -> int:
    """Compare two reports, write what changed ('csv', 'json': every metric), and return 1 when a launch
    became slower by more than is allowed, else 0. Raises `LabError` when they have no kernel in common.
    """
    fail_above, fmt, output = wishes.fail_above, wishes.fmt, wishes.output
    one, other = (open_launches(file).select(wishes.kernel) for file in (before, after))
    found = compare(one, other)
    if not found.pairs:
        raise LabError(
            f"{before} and {after}: no kernel in common; {before.name} holds {_functions(one)}, "
            f"{after.name} {_functions(other)}"
        )
    slower = found.slower(fail_above) if fail_above is not None else []
    if fmt == "csv":
        write(found.table, fmt, output, exact=True)
    elif fmt == "json":
        document = {
            "schema": DOCUMENT_SCHEMA,
            "before": str(before),
            "after": str(after),
            "threshold": THRESHOLD,
            "warnings": list(found.warnings),
            "vanished": list(found.vanished),
            "new": list(found.new),
            "rows": records(found.table),
            "slower": [pair.after.function for pair in slower] if fail_above is not None else None,
        }
        write_json(document, output)
    else:
        _write(found, before, after, slower, fail_above, fmt, output)
    return 1 if slower else 0


def _write(
    found: Comparison,
    before: Path,
    after: Path,
    slower: Sequence[Pair],
    limit: float | None,
    fmt: str,
    output: TextIO,
) -> None:
    paper = Paper(fmt, output)
    lines = [f"before: {before}", f"after: {after}"]
    for title, names in (("vanished", found.vanished), ("new", found.new)):
        lines += [f"{title}: {', '.join(names)}"] if names else []
    lines += [f"note: {warning}" for warning in found.warnings]
    if limit is not None:
        lines.append(f"{len(slower)} of {len(found.pairs)} launches slower by more than {limit:g} %")
    paper.points(lines)
    for pair in found.pairs:
        ratio = _ratio(pair, "duration_ns")
        verdict = "no change" if abs(ratio - 1) <= THRESHOLD else "slower" if ratio > 1 else "faster"
        was = f" (was {pair.before.function}?)" if pair.renamed else ""
        paper.heading(f"{pair.after.function}{was}: {verdict}, {ratio:.3g} times the time")
        waits = [_waits(one) for one in (pair.before, pair.after)]
        if all(waits):
            paper.points([f"waits mostly for: {waits[0]} → {waits[1]}"])
            output.write("\n" * paper.md)
        rows = found.table[
            (found.table["launch_after"] == pair.after.id) & (found.table["launch_before"] == pair.before.id)
        ]
        rows = rows[rows["changed"] | (rows["metric"] == DURATION)]
        write(rows[["metric", "before", "after", "ratio"]], fmt, output, exact=True)


def _functions(report: LaunchesReport) -> str:
    return ", ".join(dict.fromkeys(one.function for one in report.list))


def _waits(one: Launch) -> str:
    try:
        state, share = main_stall(one)
    except LabError:
        return ""
    return f"{state} ({100 * share:.0f} %)"
