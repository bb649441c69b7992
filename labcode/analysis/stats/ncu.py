"""The reports of `labcode stats X.ncu-rep`: a report of Nsight Compute in; a table out.

Numbers in CSV and JSON are those of the report, unrounded, in the units that the columns name; tables for
people have two decimals, and shares in percent. The reports ``raw`` and ``details`` hold what
``ncu --import --page`` prints, cell by cell.
"""

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from labcode.analysis.kernel import roofline, sass, stalls
from labcode.analysis.kernel.occupancy import LIMITS, occupancy
from labcode.analysis.stats import ncu_pages
from labcode.analysis.stats.shelf import LackingError, Shelf
from labcode.errors import InputError
from labcode.reports.ncu.report import NcuReport, open_report


def _meanings(report: NcuReport, columns: Mapping[str, str], required: str) -> pd.DataFrame:
    """A row for each launch: columns of meanings, those missing as nan; ``required`` names the section."""
    rows = []
    for one in report.list:
        one.number(required)
        rows.append([one.id, one.function, *(one.number_or(meaning) for meaning in columns.values())])
    table = pd.DataFrame(rows, columns=["launch", "kernel", *columns])
    return table.astype({"launch": "int64", "kernel": "str"})


def launches(report: NcuReport) -> pd.DataFrame:
    """What was launched: grid, block, cluster, device, registers, shared memory, time, clocks."""
    return report.launches().rename(columns={"id": "launch"})


def speed_of_light(report: NcuReport) -> pd.DataFrame:
    """How much of the peak each part reached, in percent of what it can sustain, and the time."""
    columns = {
        "duration (ns)": "duration_ns",
        "compute (%)": "compute_pct",
        "memory (%)": "memory_pct",
        "L1 (%)": "l1_pct",
        "L2 (%)": "l2_pct",
        "DRAM (%)": "dram_pct",
        "SM clock (Hz)": "sm_clock_hz",
        "cycles": "cycles",
        "SM active cycles": "sm_active_cycles",
    }
    return _meanings(report, columns, "compute_pct")


def occupancy_report(report: NcuReport) -> pd.DataFrame:
    """Occupancy: theoretical and achieved in percent, the blocks that each resource allows, what limits.

    ``calculated (%)`` is the lab's own calculator's answer from registers, shared memory and block size.
    """
    columns = {
        "theoretical (%)": "theoretical_occupancy_pct",
        "achieved (%)": "achieved_occupancy_pct",
        "blocks by registers": "limit_registers",
        "blocks by shared memory": "limit_shared",
        "blocks by warps": "limit_warps",
        "blocks by SM": "limit_blocks",
        "registers": "registers",
        "static shared (bytes)": "static_shared_bytes",
        "dynamic shared (bytes)": "dynamic_shared_bytes",
        "waves": "waves",
    }
    table = _meanings(report, columns, "theoretical_occupancy_pct")
    calculated, limiters = [], []
    for one in report.list:
        cc = "{}.{}".format(*one.compute_capability)
        if cc not in LIMITS:
            calculated.append(np.nan)
            limiters.append("")
            continue
        carveout = one.number_or("shared_config_bytes")
        found = occupancy(
            cc,
            one.whole("launch__block_size"),
            one.whole("launch__registers_per_thread"),
            one.whole("launch__shared_mem_per_block_static")
            + one.whole("launch__shared_mem_per_block_dynamic"),
            carveout_bytes=None if np.isnan(carveout) else int(carveout),
            barriers=one.whole("launch__barrier_count"),
        )
        calculated.append(100 * found.share)
        limiters.append(", ".join(found.limiters))
    table.insert(4, "calculated (%)", calculated)
    table.insert(5, "limited by", pd.Series(limiters, dtype="str"))
    return table


def memory(report: NcuReport) -> pd.DataFrame:
    """Traffic and how it is shaped: DRAM rates, hit rates, sectors per request, bank conflicts per wavefront.

    32 threads that read 4 bytes each side by side need 4 sectors of 32 bytes; 32 mean that each thread's word
    lies in a sector of its own. ``conflicts`` are wavefronts of shared memory beyond the necessary ones.
    """
    columns = {
        "DRAM (byte/s)": "dram_bytes_per_s",
        "DRAM read (bytes)": "dram_read_bytes",
        "DRAM written (bytes)": "dram_write_bytes",
        "L1 hits (%)": "l1_hit_pct",
        "L2 hits (%)": "l2_hit_pct",
    }
    table = _meanings(report, columns, "l1_hit_pct")
    for op, word in (("ld", "load"), ("st", "store")):
        table[f"sectors a {word}"] = [
            _ratio(one.number_or(f"global_{op}_sectors"), one.number_or(f"global_{op}_requests"))
            for one in report.list
        ]
    for op, word in (("ld", "loads"), ("st", "stores")):
        table[f"shared conflicts, {word}"] = [one.number_or(f"shared_{op}_conflicts") for one in report.list]
        table[f"shared wavefronts, {word}"] = [
            one.number_or(f"shared_{op}_wavefronts") for one in report.list
        ]
    table["spill requests"] = [one.number_or("spill_requests") for one in report.list]
    return table


def _ratio(above: float, below: float) -> float:
    return above / below if below else np.nan


def stalls_report(report: NcuReport) -> pd.DataFrame:
    """Warp states of each launch, the longest first: cycles between two instructions, and samples."""
    table = stalls.stalls(report).drop(columns=["stall"])
    return table[(table["cycles"] > 0) | (table["samples"].fillna(0) > 0)].reset_index(drop=True)


def instructions(report: NcuReport) -> pd.DataFrame:
    """Executed warp instructions by pipe, with their share; opcodes come from the code in the report."""
    parts = []
    for one in report.list:
        table = sass.view(report, one.id)
        if not table["executed"].sum():
            raise InputError(
                f"{report.path}: launch {one.id} ({one.function}) has no counts of executed instructions; "
                "collect them with `ncu --section SourceCounters` (or --set full)"
            )
        found = sass.mix(table)
        found.insert(0, "launch", one.id)
        found.insert(1, "kernel", one.function)
        parts.append(found)
    whole: pd.DataFrame = pd.concat(parts, ignore_index=True)
    return whole


def rules(report: NcuReport) -> pd.DataFrame:
    """What NVIDIA's own rules say, with their estimates in percent."""
    table = report.rules()
    if table.empty:
        raise InputError(
            f"{report.path}: holds no results of NVIDIA's rules; they come with sections: collect them with "
            "`ncu --set basic` (or --set full), without --apply-rules no"
        )
    return table


def roofline_report(report: NcuReport) -> pd.DataFrame:
    """Intensity, rate and roof of each launch at each memory level."""
    return roofline.roofline(report)


def source(report: NcuReport) -> pd.DataFrame:
    """Instructions with their source line, how often they ran, samples, and sectors asked for."""
    parts = []
    for one in report.list:
        table = report.source(one.id)
        wanted = ["offset", "sass", "file", "line", "executed", "samples", "sectors", "sectors_ideal"]
        found = table[[name for name in wanted if name in table]].copy()
        found.insert(0, "launch", one.id)
        found.insert(1, "kernel", one.function)
        parts.append(found)
    whole: pd.DataFrame = pd.concat(parts, ignore_index=True)
    return whole


def details(report: NcuReport) -> pd.DataFrame:
    """``ncu --import --page details --csv``, without process and host."""
    return ncu_pages.details_page(report)


def raw(report: NcuReport) -> pd.DataFrame:
    """``ncu --import --page raw --csv``, without process and host: units in the first row."""
    return ncu_pages.raw_page(report)


REPORTS: Mapping[str, Callable[[NcuReport], pd.DataFrame]] = {
    "speed_of_light": speed_of_light,
    "occupancy": occupancy_report,
    "memory": memory,
    "stalls": stalls_report,
    "instructions": instructions,
    "rules": rules,
    "roofline": roofline_report,
    "source": source,
    "launches": launches,
    "details": details,
    "raw": raw,
}


def answer(report: NcuReport, name: str) -> pd.DataFrame:
    """A report's table; `LackingError` where its section was not collected."""
    try:
        return REPORTS[name](report)
    except LackingError:
        raise
    except InputError as missing:
        raise LackingError(report.path, str(missing).removeprefix(f"{report.path}: ")) from None


SHELF = Shelf(
    of=" of .ncu-rep files",
    reports=REPORTS,
    default=("launches", "speed_of_light", "occupancy"),
    open=open_report,
    answer=answer,
    advice="collect sections with `ncu --set full`",
)
