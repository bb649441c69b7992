"""Nsight Compute reports: a path in, documented tables out::

    report = open_report("capture.ncu-rep")
    report.launches()[["id", "kernel", "duration_ns"]]
    report.list[0].number("dram_pct")

Values are exactly those in the report, in its base units (ns, byte, hz, %);
`labcode.analysis.stats.ncu_pages` scales and rounds them as ``ncu`` prints them. Reading needs neither a GPU
nor the CUDA toolkit, only NVIDIA's package ``ncu-report`` (the extra ``ncu``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from labcode.errors import InputError, LabError
from labcode.inputs import Closing
from labcode.reports.common import Shown
from labcode.reports.ncu.launch import Launch, Reading, RuleResult, Section, Value, launch_of, plain
from labcode.reports.ncu.open import Extract, open_extract

__all__ = [
    "LAUNCH_COLUMNS",
    "Launch",
    "NcuReport",
    "Reading",
    "RuleResult",
    "Section",
    "Value",
    "open_report",
    "plain",
]

LAUNCH_COLUMNS = {
    "id": "int64",
    **dict.fromkeys(("kernel", "demangled", "mangled"), "str"),
    **dict.fromkeys(("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"), "int64"),
    **dict.fromkeys(("cluster_x", "cluster_y", "cluster_z", "device"), "int64"),
    "cc": "str",
    **dict.fromkeys(("context", "stream", "registers_per_thread"), "int64"),
    **dict.fromkeys(("static_shared_bytes", "dynamic_shared_bytes"), "int64"),
    **dict.fromkeys(("duration_ns", "sm_clock_hz", "dram_clock_hz"), "float64"),
}


class NcuReport(Shown, Closing):
    """An opened report.

    ``list`` has its launches in order, ``product_version`` is the version of the ncu that wrote it,
    ``command`` its command line (without folders), ``files`` maps the names of the source files that it
    carries to their texts, ``warnings`` has one line for each reason to distrust it.
    """

    def __init__(
        self, path: Path, launches: tuple[Launch, ...], extract: Extract, warnings: tuple[str, ...]
    ) -> None:
        self.path = path
        self.list = launches
        self.extract = extract
        self.product_version = extract.product_version
        self.command = extract.command
        self.warnings = warnings
        self.files: Mapping[str, str] = extract.files

    @property
    def clock_control(self) -> str:
        """The value of ``--clock-control``: 'none' leaves the clocks alone, 'base' is ncu's default.

        It is '' where the report does not hold ncu's command line.
        """
        found = re.search(r"--clock-control[= ](\S+)", self.command)
        return found.group(1) if found else "base" if self.command else ""

    def select(self, kernel: str | None = None, launch: int | None = None) -> NcuReport:
        """The same report with only some of its launches.

        ``kernel`` is a regular expression that the function's name or demangled name has to match, ``launch``
        an id. Raises `LabError`, which lists what there is, if nothing matches.
        """
        chosen = self.list
        if kernel is not None:
            try:
                pattern = re.compile(kernel)
            except re.error as error:
                raise LabError(f"--kernel {kernel}: not a regular expression ({error})") from None
            chosen = tuple(
                one for one in chosen if pattern.search(one.function) or pattern.search(one.demangled)
            )
            if not chosen:
                names = ", ".join(dict.fromkeys(one.function for one in self.list))
                raise LabError(f"{self.path}: no kernel matches {kernel!r}; there are: {names}")
        if launch is not None:
            chosen = tuple(one for one in chosen if one.id == launch)
            if not chosen:
                raise LabError(
                    f"{self.path}: no launch {launch}; there are: "
                    + ", ".join(f"{one.id} {one.function}" for one in self.list[:20])
                )
        return NcuReport(self.path, chosen, self.extract, self.warnings)

    def launches(self) -> pd.DataFrame:
        """One row per launch, with the columns and dtypes of `LAUNCH_COLUMNS`."""
        rows = [
            (
                one.id,
                one.function,
                one.demangled,
                one.mangled,
                *one.grid,
                *one.block,
                *one.cluster,
                one.whole("launch__device_id"),
                "{}.{}".format(*one.compute_capability),
                one.whole("launch__context_id"),
                one.whole("launch__stream_id"),
                one.whole("launch__registers_per_thread"),
                one.whole("launch__shared_mem_per_block_static"),
                one.whole("launch__shared_mem_per_block_dynamic"),
                one.number_or("duration_ns"),
                one.number_or("sm_clock_hz"),
                one.number_or("dram_clock_hz"),
            )
            for one in self.list
        ]
        return pd.DataFrame(rows, columns=list(LAUNCH_COLUMNS)).astype(LAUNCH_COLUMNS)

    def metrics(self) -> pd.DataFrame:
        """One row per launch and metric.

        launch, name, label, unit, value (float64; nan for texts), text (the exact value, '' without one).
        """
        rows = [
            (
                one.id,
                name,
                reading.label,
                reading.unit,
                float(reading.value) if isinstance(reading.value, int | float) else np.nan,
                "" if reading.value is None else str(reading.value),
            )
            for one in self.list
            for name, reading in one.readings.items()
        ]
        columns = {
            "launch": "int64",
            "name": "str",
            "label": "str",
            "unit": "str",
            "value": "float64",
            "text": "str",
        }
        return pd.DataFrame(rows, columns=list(columns)).astype(columns)

    def rules(self) -> pd.DataFrame:
        """What NVIDIA's rules say, one row per launch and rule.

        launch, kernel, rule, name, section, kind ('OK', 'OPT', 'WRN', 'ERR', ''), speedup_pct (nan where none
        is given), speedup_kind ('local', 'global', ''), title, message, focus ('metric = value, …').
        """
        rows = [
            (
                one.id,
                one.function,
                result.rule,
                result.name,
                result.section,
                result.kind,
                result.speedup_pct,
                result.speedup_kind,
                result.title,
                result.message,
                ", ".join(f"{name} = {value:g}" for name, value, _ in result.focus),
            )
            for one in self.list
            for result in one.rules
        ]
        columns = ["launch", "kernel", "rule", "name", "section", "kind", "speedup_pct", "speedup_kind"]
        frame = pd.DataFrame(rows, columns=[*columns, "title", "message", "focus"])
        return frame.astype({c: "str" for c in frame.columns if c not in ("launch", "speedup_pct")}).astype(
            {"launch": "int64", "speedup_pct": "float64"}
        )

    def source(self, launch: int) -> pd.DataFrame:
        """The instructions of a launch, one row each.

        address, offset (from the first one, in bytes), sass, ptx, file, line, and one column per metric that
        has values for instructions (0 for an instruction without): executed, thread_executed, samples,
        samples_not_issued, one ``stall_*`` per warp state, sectors, sectors_ideal, …. Raises `LabError` where
        there is no such launch, and `InputError` where the report holds no code (``--import-sass no``).
        """
        one = self.select(launch=launch).list[0]
        addresses = np.array(one.code.get("address", ()), dtype=np.int64)
        if not len(addresses):
            raise InputError(
                f"{self.path}: launch {launch} ({one.function}) carries no SASS; "
                "collect it without `--import-sass no`"
            )
        columns: dict[str, object] = {
            "address": addresses,
            "offset": addresses - addresses[0],
            **{name: pd.Series(list(one.code[name]), dtype="str") for name in ("sass", "ptx", "file")},
            "line": np.array(one.code["line"], dtype=np.int64),
        }
        places = {int(address): place for place, address in enumerate(addresses)}
        for name, (keys, values) in one.instances.items():
            if not keys or not all(isinstance(key, int) and key in places for key in keys):
                continue
            column = np.zeros(len(addresses), dtype=np.float64)
            for key, value in zip(keys, values, strict=True):
                column[places[int(key)]] = float(value) if isinstance(value, int | float) else np.nan  # type: ignore[arg-type]
            whole = np.isfinite(column).all() and bool((column == np.floor(column)).all())
            columns[_column(name)] = column.astype(np.int64) if whole else column
        return pd.DataFrame(columns)


_COLUMNS = {
    "inst_executed": "executed",
    "thread_inst_executed": "thread_executed",
    "thread_inst_executed_true": "thread_executed_on",
    "smsp__pcsamp_sample_count": "samples",
    "memory_l2_theoretical_sectors_global": "sectors",
    "memory_l2_theoretical_sectors_global_ideal": "sectors_ideal",
    "memory_l1_wavefronts_shared": "wavefronts",
    "memory_l1_wavefronts_shared_ideal": "wavefronts_ideal",
    "memory_l1_tag_requests_global": "tag_requests",
    "smsp__branch_targets_threads_divergent": "divergent",
}


def _column(name: str) -> str:
    if name in _COLUMNS:
        return _COLUMNS[name]
    return name.replace("smsp__pcsamp_warps_issue_stalled_", "stall_")


def open_report(path: str | Path) -> NcuReport:
    """Open an ``.ncu-rep`` or ``.ncu-rep.xz``.

    Raises `labcode.errors.InputError` for a file that is missing, empty, truncated, damaged, not from Nsight
    Compute, of a newer format, or without any launch, and `labcode.errors.ToolError` where the package
    ``ncu-report`` is missing or fails.
    """
    extract = open_extract(Path(path))
    launches = tuple(
        launch_of(number, raw, pid, extract.path)
        for number, (raw, pid) in enumerate(zip(extract.launches, extract.process_ids, strict=True))
    )
    return NcuReport(extract.path, launches, extract, extract.warnings)
