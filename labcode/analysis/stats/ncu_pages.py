"""What ``ncu --import`` prints: a report in; its pages *raw*, *details* and *source* as tables of texts out.

Units are scaled and numbers rounded as ncu does it, so that every cell equals ncu's: on the raw page each
metric has one unit, taken from its largest value, and six decimals; on the details page each value has
its own unit and two decimals; numbers without a unit are grouped by thousands.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from labcode.reports.ncu.report import Launch, NcuReport, Reading, Value

_STEPS: Mapping[str, tuple[tuple[str, float], ...]] = {
    "byte": (("byte", 1.0), ("Kbyte", 1e3), ("Mbyte", 1e6), ("Gbyte", 1e9), ("Tbyte", 1e12), ("Pbyte", 1e15)),
    "ns": (("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)),
    "hz": (("hz", 1.0), ("Khz", 1e3), ("Mhz", 1e6), ("Ghz", 1e9)),
}
_RATES = (("s", 1.0), ("ms", 1e3), ("us", 1e6), ("ns", 1e9))  # of other things than bytes: sector/ns
_OVER_TIME = ".Triage"  # in the names of metrics sampled over time, which have no value of their own
_UNNAMED = frozenset({"idc__requests.sum"})  # metrics whose unit ncu leaves out
NO_VALUE = "no data"


def scaled(value: float, unit: str) -> tuple[str, float]:
    """The unit that ncu shows a value in, and what to divide the value by; '%/byte' scales its lower part."""
    above, slash, below = unit.partition("/")
    if above in _STEPS:
        name, factor = _step(value, above)
        return name + slash + below, factor
    if below in _STEPS and above == "%":
        name, factor = _step(value, below)
        return above + slash + name, factor
    if below == "s" and above:
        name, factor = _step(value, "", _RATES)
        return above + slash + name, factor
    return unit, 1.0


def _step(value: float, base: str, steps: tuple[tuple[str, float], ...] | None = None) -> tuple[str, float]:
    steps = steps or _STEPS[base]
    chosen = steps[0]
    for step in steps:
        if abs(value) >= step[1]:
            chosen = step
    return chosen


def identity(report: NcuReport, launch: Launch) -> dict[str, str]:
    """The columns that name a launch on ncu's pages, without process and host names."""
    return {
        "ID": str(launch.id),
        "Kernel Name": launch.demangled,
        "Context": str(launch.whole("launch__context_id")),
        "Stream": str(launch.whole("launch__stream_id")),
        "Block Size": "({}, {}, {})".format(*launch.block),
        "Grid Size": "({}, {}, {})".format(*launch.grid),
        "Device": str(launch.whole("launch__device_id")),
        "CC": "{}.{}".format(*launch.compute_capability),
    }


def raw_page(report: NcuReport) -> pd.DataFrame:
    """``ncu --import --page raw --csv``: a row for each launch after a row of units; a column per metric."""
    names = sorted(dict.fromkeys(name for one in report.list for name in one.readings))
    columns: dict[str, list[str]] = {}
    for name in identity(report, report.list[0]):
        columns[name] = ["", *(identity(report, one)[name] for one in report.list)]
    for name in names:
        readings = [one.readings.get(name) for one in report.list]
        numbers = [one.value for one in readings if one and isinstance(one.value, int | float)]
        bare = all(number <= 0 for number in numbers)
        unit, factor = _of_column(readings)
        if name in _UNNAMED:
            unit = ""
        texts = [_raw(one, unit, factor, bare) for one in readings]
        if _OVER_TIME in name:
            texts = ["" if text == NO_VALUE else text for text in texts]
        columns[name] = [unit, *texts]
    return pd.DataFrame(columns)


def _of_column(readings: list[Reading | None]) -> tuple[str, float]:
    """Unit and divisor of a column: from its largest value."""
    present = [one for one in readings if one is not None]
    numbers = [abs(one.value) for one in present if isinstance(one.value, int | float)]
    return scaled(float(max(numbers, default=0.0)), present[0].unit if present else "")


def _raw(reading: Reading | None, unit: str, factor: float, bare: bool) -> str:
    if reading is None:
        return ""
    value = reading.value
    if not isinstance(value, int | float):
        return NO_VALUE if value is None else value
    if bare:
        return "0"
    if factor != 1.0:
        return f"{value / factor:.6f}"
    if isinstance(value, float):
        return f"{value:.6f}" if unit else _grouped(value)
    return str(value) if unit else f"{value:,}"


def details_page(report: NcuReport) -> pd.DataFrame:
    """``ncu --import --page details --csv``: a row for each metric in a section's header, then its rules.

    Columns: ID, Kernel Name, Context, Stream, Block Size, Grid Size, Device, CC, Section Name, Metric Name,
    Metric Unit, Metric Value, Rule Name, Rule Type, Rule Description, Estimated Speedup Type, Estimated
    Speedup.
    """
    rows: list[dict[str, str]] = []
    for one in report.list:
        who = identity(report, one)
        for section in one.sections:
            for name, label, base in section.header:
                reading = one.readings.get(name)
                if reading is not None:
                    unit, text = shown(reading.value, base)
                    rows.append(
                        {
                            **who,
                            "Section Name": section.name,
                            "Metric Name": label or name,
                            "Metric Unit": unit,
                            "Metric Value": text,
                        }
                    )
            for rule in one.rules:
                if rule.section == section.id and rule.message:
                    rows.append(
                        {
                            **who,
                            "Section Name": section.id,
                            "Rule Name": rule.rule,
                            "Rule Type": "INF" if rule.kind == "OK" else rule.kind,
                            "Rule Description": rule.message,
                            "Estimated Speedup Type": rule.speedup_kind,
                            "Estimated Speedup": ""
                            if np.isnan(rule.speedup_pct)
                            else f"{rule.speedup_pct:.4g}",
                        }
                    )
    names = ["Section Name", "Metric Name", "Metric Unit", "Metric Value", "Rule Name", "Rule Type"]
    names += ["Rule Description", "Estimated Speedup Type", "Estimated Speedup"]
    who = identity(report, report.list[0]) if report.list else {}
    return pd.DataFrame([{name: row.get(name, "") for name in [*who, *names]} for row in rows], dtype="str")


def shown(value: Value, unit: str) -> tuple[str, str]:
    """A value as ncu prints it on the details page: its unit, its text."""
    if not isinstance(value, int | float):
        return unit, NO_VALUE if value is None else str(value)
    name, factor = scaled(float(value), unit)
    if factor != 1.0:
        return name, _grouped(value / factor)
    return name, f"{value:,}" if isinstance(value, int) else _grouped(value)


def _grouped(value: float) -> str:
    """Two decimals and thousands; whole numbers without decimals."""
    if not np.isfinite(value):
        return "nan" if np.isnan(value) else "inf"
    return f"{int(value):,}" if value == int(value) else f"{value:,.2f}"
