"""`labcode stats X.ncu-rep`: a report and report names in; tables as text out.

Numbers in CSV and JSON are those of the report, unrounded, in the units that the columns name; tables for
people have two decimals, and shares in percent. The reports ``raw`` and ``details`` hold what
``ncu --import --page`` prints, cell by cell.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TextIO

import numpy as np
import pandas as pd

from labcode.analysis.kernel import roofline, sass, stalls
from labcode.analysis.kernel.occupancy import LIMITS, occupancy
from labcode.analysis.stats import ncu_pages
from labcode.analysis.stats.text import records, write
from labcode.analysis.stats.writer import FORMATS
from labcode.errors import InputError, LabError
from labcode.outputs import base_names, staged
from labcode.reports.ncu.report import NcuReport, open_report

SUFFIXES = (".ncu-rep", ".ncu-rep.xz")
ENDINGS = {"csv": ".csv", "json": ".json", "md": ".md", "table": ".txt"}


def is_ncu_report(path: Path) -> bool:
    """Whether a file's name says that it is a report of Nsight Compute."""
    return path.name.endswith(SUFFIXES)


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
    """Traffic and how it is shaped: DRAM rates, hit rates, sectors a request, bank conflicts a wavefront.

    32 threads that read 4 bytes each side by side need 4 sectors of 32 bytes; 32 mean that each thread's
    word lies in a sector of its own. ``conflicts`` are wavefronts of shared memory beyond the necessary
    ones.
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
DEFAULT_REPORTS = ("launches", "speed_of_light", "occupancy")


def stats(
    path: Path,
    reports: Sequence[str],
    fmt: str,
    output: TextIO,
    *,
    kernel: str | None = None,
    launch: int | None = None,
) -> None:
    """Write reports of the ``.ncu-rep`` at ``path`` to ``output``.

    Without names: the launches, and of `DEFAULT_REPORTS` what was collected. Raises `LabError` for a
    report or format there is not and a selection that matches nothing, `InputError` when a named report's
    section was not collected.
    """
    for name in reports:
        if name not in REPORTS:
            close = difflib.get_close_matches(name, REPORTS, n=1)
            hint = f"did you mean {close[0]}? " if close else ""
            raise LabError(
                f"{name!r} is not a report of .ncu-rep files; {hint}there are: {', '.join(REPORTS)}"
            )
    if fmt not in FORMATS:
        raise LabError(f"{fmt!r} is not a format; choose one of {', '.join(FORMATS)}")
    report = open_report(path).select(kernel, launch)
    names = tuple(dict.fromkeys(reports)) or DEFAULT_REPORTS
    tables = {}
    for name in names:
        try:
            tables[name] = REPORTS[name](report)
        except InputError as missing:
            if reports:
                raise
            output.write(f"# no {name}: {missing}\n" if fmt == "csv" else "")
    if fmt == "json" and len(tables) > 1:
        everything = {name: records(table) for name, table in tables.items()}
        output.write(json.dumps(everything, indent=2, ensure_ascii=False) + "\n")
        return
    for place, (name, table) in enumerate(tables.items()):
        if len(tables) > 1:
            heading = {"md": f"## {name}\n\n", "csv": f"# {name}\n"}.get(fmt, f"{name}\n")
            output.write("\n" * (place > 0) + heading)
        write(table, fmt, output)


def run(
    files: Sequence[Path],
    reports: Sequence[str],
    fmt: str,
    output: TextIO,
    *,
    every: bool = False,
    folder: Path | None = None,
    force: bool = False,
    kernel: str | None = None,
    launch: int | None = None,
) -> list[Path]:
    """Write reports of several files to ``output``, or into ``folder`` as ``<file>_<report>.csv``: all or
    none.

    ``every`` takes all reports whose sections were collected. Returns the files written. Raises `LabError`
    for a file that is not a report of Nsight Compute, and what `stats` raises.
    """
    for file in files:
        if not is_ncu_report(file):
            raise LabError(f"{file}: name reports of one tool at once; the others are .ncu-rep files")
    if every and reports:
        raise LabError("stats: --all takes every report that has data; leave out --report or --all")
    if folder is None:
        for place, file in enumerate(files):
            if len(files) > 1:
                output.write("\n" * (place > 0) + f"{'# ' if fmt in ('csv', 'md') else ''}{file}\n")
            wanted = _collected(file, kernel, launch) if every else reports
            stats(file, wanted, fmt, output, kernel=kernel, launch=launch)
        return []
    written = []
    with staged(folder, force=force, reads=files) as work:
        for file, base in base_names(files).items():
            wanted = _collected(file, kernel, launch) if every else (reports or DEFAULT_REPORTS)
            for name in wanted:
                target = f"{base}_{name}{ENDINGS[fmt]}"
                with (work / target).open("w", encoding="utf-8", newline="") as stream:
                    stats(file, [name], fmt, stream, kernel=kernel, launch=launch)
                written.append(folder / target)
    return written


def _collected(file: Path, kernel: str | None, launch: int | None) -> list[str]:
    """The reports that a file has the sections for."""
    report = open_report(file).select(kernel, launch)
    found = []
    for name, table in REPORTS.items():
        try:
            table(report)
        except InputError:
            continue
        found.append(name)
    return found
