"""The roofline: a report in; intensities, rates and roofs of each launch out.

A launch that does F operations and moves B bytes has the arithmetic intensity F ÷ B and cannot run faster
than the lower of the peak rate and intensity × bandwidth (Williams, Waterman, Patterson: *Roofline*, CACM
52(4), 2009). Bytes are counted at each level of the memory hierarchy, so a launch has one intensity for
the L1, one for the L2 and one for the DRAM (Yang, Kurth, Williams: *Hierarchical Roofline Analysis for
GPUs*, Concurrency and Computation 32(20), 2020).

Operations come from the counters of executed instructions: an addition or multiplication counts one for
each thread that was not predicated off, a fused multiply-add two, packed halves twice that; tensor
instructions as the hardware counts them. The compiler also loads constants with HFMA2, which the counters
take for arithmetic.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from labcode.errors import InputError, LabError
from labcode.hardware.specs import find_spec
from labcode.inputs import plain_file
from labcode.reports.ncu.report import Launch, NcuReport

LEVELS = ("L1", "L2", "DRAM")
_BYTES = {"L1": "l1_bytes_per_s", "L2": "l2_bytes_per_s", "DRAM": "dram_bytes_per_s"}
# precision → meanings of what is executed in a cycle, and how many operations each counts
_OPERATIONS: Mapping[str, tuple[tuple[str, int], ...]] = {
    "fp64": (("dadd_per_cycle", 1), ("dmul_per_cycle", 1), ("dfma_flops_per_cycle", 1)),
    "fp32": (("fadd_per_cycle", 1), ("fmul_per_cycle", 1), ("ffma_flops_per_cycle", 1)),
    "fp16": (("hadd_flops_per_cycle", 1), ("hmul_flops_per_cycle", 1), ("hfma_flops_per_cycle", 1)),
    "fp16_tensor": (("tensor_fp16_per_cycle", 1), ("tensor_bf16_per_cycle", 1)),
    "tf32_tensor": (("tensor_tf32_per_cycle", 1),),
    "fp8_tensor": (("tensor_fp8_per_cycle", 1),),
    "fp64_tensor": (("tensor_fp64_per_cycle", 1),),
}
_PEAKS = {
    "fp64": "dfma_peak_per_cycle",
    "fp32": "ffma_peak_per_cycle",
    "fp16": "hfma_peak_per_cycle",
    "fp16_tensor": "tensor_fp16_peak_per_cycle",
}
_SHEET = ("fp64", "fp32", "fp16_tensor", "tf32_tensor", "fp8_tensor", "fp64_tensor")
PRECISIONS = tuple(_OPERATIONS)
COLUMNS: Mapping[str, str] = {
    "launch": "int64",
    **dict.fromkeys(("kernel", "precision", "level"), "str"),
    **dict.fromkeys(("flops_per_s", "bytes_per_s", "intensity", "roof_flops_per_s"), "float64"),
    **dict.fromkeys(("share_of_roof",), "float64"),
    "bound": "str",
}


@dataclass(frozen=True)
class Ceiling:
    """A roof: 'memory' with its level (bytes/s) or 'compute' with its precision (FLOP/s), and whence."""

    kind: str
    of: str
    value: float
    origin: str  # 'counters', 'datasheet' or 'measured'
    note: str


def rates(launch: Launch) -> dict[str, float]:
    """FLOP/s of each precision that the report has counters for.

    Raises `InputError` naming the section when there is none at all.
    """
    if not any(launch.has(meaning) for parts in _OPERATIONS.values() for meaning, _ in parts):
        launch.number("ffma_flops_per_cycle")
    clock = _clock(launch)
    found = {}
    for precision, parts in _OPERATIONS.items():
        if all(not launch.has(meaning) for meaning, _ in parts):
            continue
        per_cycle = sum(launch.number_or(meaning, 0.0) * weight for meaning, weight in parts)
        found[precision] = per_cycle * clock
    return found


def dominant(launch: Launch) -> str:
    """The precision that uses most of its own peak; 'fp32' where no operation was counted."""
    found = rates(launch)
    peaks = {one.of: one.value for one in counter_ceilings(launch) if one.kind == "compute"}
    best = max(found, key=lambda precision: found[precision] / peaks.get(precision, np.inf), default="fp32")
    tensor = {name: rate for name, rate in found.items() if name.endswith("_tensor") and rate > 0}
    if tensor and not found.get(best):
        best = max(tensor, key=lambda name: tensor[name])
    return best if found.get(best) else "fp32"


def counter_ceilings(launch: Launch) -> list[Ceiling]:
    """The roofs by the chip's units at the clocks of this launch, as ncu draws them."""
    clocks = {"L1": "l1_clock_hz", "L2": "l2_clock_hz", "DRAM": "dram_clock_hz"}
    found = []
    for level in LEVELS:
        per_cycle, clock = (
            launch.number_or(m) for m in (f"{level.lower()}_peak_bytes_per_cycle", clocks[level])
        )
        if np.isfinite(per_cycle * clock):
            note = f"{per_cycle:,.0f} bytes a cycle at {clock / 1e9:.2f} GHz"
            found.append(Ceiling("memory", level, per_cycle * clock, "counters", note))
    clock = _clock(launch)
    for precision, meaning in _PEAKS.items():
        per_cycle = launch.number_or(meaning)
        if np.isfinite(per_cycle * clock):
            note = f"{per_cycle:,.0f} operations a cycle at {clock / 1e9:.2f} GHz"
            found.append(Ceiling("compute", precision, per_cycle * clock, "counters", note))
    return found


def datasheet_ceilings(device: str) -> list[Ceiling]:
    """The roofs the vendor prints for a GPU; none where it is not in `labcode.hardware.specs`."""
    spec = find_spec(device)
    if spec is None:
        return []
    found = [Ceiling("memory", "DRAM", spec.memory_gb_s * 1e9, "datasheet", spec.source)]
    for precision in _SHEET:
        rate = spec.peak(precision)
        if rate is not None:
            found.append(Ceiling("compute", precision, rate, "datasheet", spec.source))
    return found


def measured_ceilings(path: Path) -> list[Ceiling]:
    """The roofs that were measured, from JSON: the record of ``cuda/roofline_kernels``, or an object with
    ``ceilings``, a list of objects with ``kind`` ('memory' or 'compute'), ``of`` (a level or a precision),
    ``value`` (bytes/s or FLOP/s) and ``note``. Of several for one roof the highest counts.

    Raises `InputError` for a file that is not like this.
    """
    try:
        loaded = json.loads(plain_file(path, most_bytes=1 << 24).read_text(encoding="utf-8"))
        if "program" in loaded:
            found = _of_record(loaded["results"]["ceilings"])
        else:
            found = [
                Ceiling(
                    *(str(row["kind"]), str(row["of"]), float(row["value"]), "measured"),
                    str(row.get("note", "")),
                )
                for row in loaded["ceilings"]
            ]
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path}: not a table of ceilings ({type(error).__name__}: {error}); "
            'it needs {"ceilings": [{"kind": "memory", "of": "DRAM", "value": …}, …]}'
        ) from None
    for one in found:
        names = LEVELS if one.kind == "memory" else PRECISIONS
        if one.kind not in ("memory", "compute") or one.of not in names or not one.value > 0:
            raise InputError(
                f"{path}: a ceiling of kind {one.kind!r} of {one.of!r} with value {one.value:g}; kinds are "
                f"memory (of {', '.join(LEVELS)}) and compute (of {', '.join(PRECISIONS)}), values positive"
            )
    best: dict[tuple[str, str], Ceiling] = {}
    for one in found:
        known = best.get((one.kind, one.of))
        if known is None or one.value > known.value:
            best[one.kind, one.of] = one
    return list(best.values())


_LEVEL_OF = {"dram": "DRAM", "l2": "L2", "l1": "L1"}
_PRECISION_OF = {
    "fp64": "fp64",
    "fp32": "fp32",
    "fp16": "fp16",
    "fp16 tensor": "fp16_tensor",
    "bf16 tensor": "fp16_tensor",
    "tf32 tensor": "tf32_tensor",
    "fp8 tensor": "fp8_tensor",
    "fp64 tensor": "fp64_tensor",
}


def _of_record(entries: object) -> list[Ceiling]:
    """The roofs in the record of the program that measures them; those of other levels are left out."""
    rows = list(entries.values()) if isinstance(entries, dict) else list(entries)  # type: ignore[call-overload]
    found = []
    for row in rows:
        names, kind, unit = (
            (_LEVEL_OF, "memory", 1e9) if row["kind"] == "bandwidth" else (_PRECISION_OF, "compute", 1e12)
        )
        of = names.get(str(row["level"]))
        if of is not None:
            found.append(Ceiling(kind, of, float(row["value"]) * unit, "measured", str(row["name"])))
    return found


def roofline(
    report: NcuReport, precision: str | None = None, ceilings: Sequence[Ceiling] | None = None
) -> pd.DataFrame:
    """A row for each launch and memory level, with the columns `COLUMNS`.

    ``precision`` is one of `PRECISIONS` (by default the one that uses most of its own peak). ``ceilings``
    are the roofs to hold against (by default those of the counters). ``roof_flops_per_s`` is what the
    launch could reach at this level; ``bound`` says which roof is the lower one there. ``intensity`` is 0
    for a launch without operations, infinite for one without traffic at that level.
    """
    if precision is not None and precision not in PRECISIONS:
        raise LabError(f"{precision!r} is not a precision; choose one of {', '.join(PRECISIONS)}")
    rows = []
    for one in report.list:
        name = precision or dominant(one)
        rate = rates(one).get(name, 0.0)
        roofs = list(counter_ceilings(one) if ceilings is None else ceilings)
        peak = min((c.value for c in roofs if c.kind == "compute" and c.of == name), default=np.nan)
        levels = [level for level in LEVELS if one.has(_BYTES[level])]
        if not levels:
            one.number("dram_bytes_per_s")
        for level in levels:
            moved = one.number(_BYTES[level])
            intensity = rate / moved if moved else np.inf if rate else np.nan
            bandwidth = min((c.value for c in roofs if c.kind == "memory" and c.of == level), default=np.nan)
            slope = bandwidth * intensity
            roof = float(np.fmin(slope, peak))
            if rate == 0:  # nothing to compute: only traffic counts
                share, bound = moved / bandwidth if bandwidth > 0 else np.nan, "memory"
            else:
                share, bound = rate / roof, "memory" if slope < peak else "compute"
            rows.append((one.id, one.function, name, level, rate, moved, intensity, roof, share, bound))
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(COLUMNS)


def _clock(launch: Launch) -> float:
    """The clock that operations of a cycle are multiplied with, as ncu's own charts do."""
    for name in ("smsp__cycles_elapsed.avg.per_second", "sm__cycles_elapsed.avg.per_second"):
        reading = launch.readings.get(name)
        if reading is not None and isinstance(reading.value, int | float):
            return float(reading.value)
    return launch.number("sm_clock_hz")
