"""What nsys' reports are made of, and those that sum it up: an open export in; names and durations as nsys
counts them, and its summaries of kernels, copies and API calls, out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labcode.analysis.stats.table import Table, Values, texts_of
from labcode.analysis.timeline.grouped import group_stats
from labcode.reports.columns import Column, Floats, Ints, unique
from labcode.reports.nsys import schema
from labcode.reports.nsys.source import Source

if TYPE_CHECKING:
    from decimal import Decimal


MEMSET_LABEL = "[CUDA memset]"
COPY_LABELS = {
    kind: f"[CUDA memcpy {name}]"
    for kind, name in {
        0: "Unknown",
        1: "Host-to-Device",
        2: "Device-to-Host",
        3: "Host-to-Array",
        4: "Array-to-Host",
        5: "Array-to-Array",
        6: "Array-to-Device",
        7: "Device-to-Array",
        8: "Device-to-Device",
        9: "Host-to-Host",
        10: "Peer-to-Peer",
        11: "Unified Host-to-Device",
        12: "Unified Device-to-Host",
        13: "Unified Device-to-Device",
    }.items()
}
MEMORY_LABELS = {
    0: "Pageable",
    1: "Pinned",
    2: "Device",
    3: "Array",
    4: "Managed",
    5: "Device Static",
    6: "Managed Static",
    7: "Unknown",
}
_SUFFIX = re.compile(r"_v.{4}\Z", re.DOTALL)


@dataclass(frozen=True)
class Named:
    """Values by name: a code into ``names`` and a value for each row."""

    codes: Ints
    names: tuple[str, ...]
    values: Ints


def bare_name(raw: str) -> str:
    """An API function's name as nsys' reports print it.

    They cut off ``_v`` and four characters, no more and no fewer: ``cudaLaunchKernel_v7000`` loses its suffix
    and ``cudaLaunchKernelExC_v11060`` keeps it.
    """
    return _SUFFIX.sub("", raw)


def kernel_durations(source: Source) -> Named:
    """Durations of kernels by demangled name."""
    raw = source.ints(schema.KERNEL, ("duration", "demangledName"))
    codes, names = source.kernel_names(raw["demangledName"])
    return Named(codes, tuple(names), raw["duration"].values)


def api_durations(source: Source) -> Named:
    """Durations of CUDA API calls by name as recorded: two versions of a function are two names."""
    raw = source.ints(schema.RUNTIME, ("duration", "nameId"))
    codes, names = source.strings(raw["nameId"])
    return Named(codes, tuple(bare_name(name) for name in names), raw["duration"].values)


def memory_operations(source: Source) -> tuple[Named, Named]:
    """Copies and memsets by operation: durations in ns, sizes in bytes; unknown kinds are left out."""
    copies = source.ints(schema.MEMCPY, ("duration", "bytes", "copyKind"))
    sets = source.ints(schema.MEMSET, ("duration", "bytes"))
    kind = copies["copyKind"].values
    known = (kind >= 0) & (kind < len(COPY_LABELS))
    names = (*COPY_LABELS.values(), MEMSET_LABEL)
    codes = np.concatenate((kind[known], np.full(len(sets["bytes"].values), len(COPY_LABELS))))
    time = np.concatenate([copies["duration"].values[known], sets["duration"].values])
    size = np.concatenate([copies["bytes"].values[known], sets["bytes"].values])
    return Named(codes, names, time), Named(codes, names, size)


def merged(codes: Ints, names: Sequence[str]) -> tuple[Ints, list[str]]:
    """Codes into names, the same with every name once."""
    places = {name: place for place, name in enumerate(dict.fromkeys(names))}
    place = np.array([places[name] for name in names], np.int64)
    return (place[codes] if len(codes) else codes), list(places)


def statistics(
    codes: Ints,
    keys: Sequence[tuple[object, ...]],
    values: Ints,
    key_columns: Sequence[str],
    *,
    unit: str = "ns",
    count: str = "Instances",
    share: bool = True,
    ties: Sequence[Any] | None = None,
) -> Table:
    """nsys' usual summary: one row for each key that has values, the largest total first.

    Columns: Time (%) (only with ``share``), Total Time (ns) or Total (MB), the count, Avg, Med, Min, Max,
    StdDev, and the key columns. Rows of equal total are in the order of ``ties`` (one for each key), by
    default of the keys.
    """
    stats = group_stats(codes, values, len(keys))
    some = [group for group in range(len(keys)) if stats.count[group]]
    some.sort(key=lambda group: (-int(stats.total[group]), (ties or keys)[group]))
    order = np.array(some, np.int64)
    totals = [int(stats.total[group]) for group in some]
    whole = sum(totals)
    size = unit == "MB"
    columns: dict[str, Values] = {}
    if share:
        columns["Time (%)"] = round_half_up([100 * t / whole if whole else np.nan for t in totals], 1)
    columns["Total (MB)" if size else "Total Time (ns)"] = _megabytes(totals) if size else stats.total[order]
    columns[count] = stats.count[order]
    scaled = {
        "Avg": stats.mean,
        "Med": stats.median,
        "Min": stats.least,
        "Max": stats.greatest,
        "StdDev": stats.std,
    }
    for name, column in scaled.items():
        picked = column[order]
        if size:
            columns[f"{name} (MB)"] = _megabytes(picked)
        else:
            columns[f"{name} (ns)"] = picked if picked.dtype == np.int64 else round_half_up(picked, 1)
    for place, name in enumerate(key_columns):
        columns[name] = texts_of([str(keys[group][place]) for group in some])
    return columns


def grid_text(x: Ints, y: Ints, z: Ints) -> tuple[Ints, list[str]]:
    """Grids or blocks as nsys prints them, three right-aligned numbers, as codes into texts."""
    code, texts = np.zeros(len(x), np.int64), [""]
    for part in (x, y, z):
        numbers, place = unique(part)
        both, code = unique(code * len(numbers) + place)
        texts = [
            f"{texts[pair // len(numbers)]}{' ' if texts[pair // len(numbers)] else ''}"
            f"{int(numbers[pair % len(numbers)]):4d}"
            for pair in both.tolist()
        ]
    return code, texts


def _megabytes(values: Sequence[int] | NDArray[np.generic]) -> NDArray[np.float64]:
    return np.asarray(values, np.float64) / 1e6


def with_correlation(table: dict[str, Column]) -> dict[str, Column]:
    """The rows that have a correlation."""
    present = table["correlationId"].present
    return table if present is None else {name: column.take(present) for name, column in table.items()}


# ---- decimals as nsys rounds them


_LARGEST = 1e11  # above this, ties cannot be told in binary to the precision needed here


def round_half_up(values: NDArray[np.generic] | list[float], digits: int) -> Floats:
    """Values rounded at the ``digits``-th decimal place, halves away from zero; nan stays nan.

    What counts is the exact binary value, as in the reports of nsys 2025: 12.25 becomes 12.3, but 12.35,
    which is stored as 12.3499…, becomes 12.3. (nsys 2024 went by the decimal text and printed 12.4.)
    """
    exact = np.asarray(values, np.float64)
    unit = 10.0**digits
    scaled = np.abs(exact) * unit
    result: Floats = np.sign(exact) * np.floor(scaled + 0.5) / unit
    with np.errstate(invalid="ignore"):
        close = (np.abs(scaled - np.floor(scaled) - 0.5) < 1e-4) | (scaled >= _LARGEST)
    for index in np.flatnonzero(close & np.isfinite(exact)):
        result[index] = float(_rounded(float(exact[index]), digits))
    return result


def _rounded(value: float, digits: int) -> Decimal:
    """The same of one value, by its digits."""
    from decimal import ROUND_HALF_UP, Decimal

    return _as_decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)


def _as_decimal(value: float) -> Decimal:
    """The number whose digits are rounded."""
    from decimal import Decimal

    return Decimal(value)


_OS_RUNTIME = 27  # OSRT_API.eventClass of calls; the others are threads and processes that begin and end


def cuda_gpu_kern_sum(source: Source) -> Table:
    """Kernels by name: Time (%), Total Time (ns), Instances, Avg, Med, Min, Max, StdDev (ns), Name."""
    table = kernel_durations(source)
    count = np.bincount(table.codes, minlength=len(table.names)).tolist()
    return _by_name(table, "Name", ties=list(zip(count, table.names, strict=True)))


def cuda_api_sum(source: Source) -> Table:
    """API calls by name: Time (%), Total Time (ns), Num Calls, Avg, Med, Min, Max, StdDev (ns), Name."""
    table = api_durations(source)
    return _by_name(table, "Name", "Num Calls", ties=range(len(table.names)))


def cuda_gpu_mem_time_sum(source: Source) -> Table:
    """Copies and memsets by time: Time (%), Total Time (ns), Count, Avg … StdDev (ns), Operation."""
    return _by_name(memory_operations(source)[0], "Operation", "Count")


def cuda_gpu_mem_size_sum(source: Source) -> Table:
    """Copies and memsets by size: Total (MB), Count, Avg, Med, Min, Max, StdDev (MB), Operation."""
    sizes = memory_operations(source)[1]
    keys = [(name,) for name in sizes.names]
    return statistics(sizes.codes, keys, sizes.values, ["Operation"], unit="MB", count="Count", share=False)


def cuda_gpu_sum(source: Source) -> Table:
    """Kernels and memory operations: as cuda_gpu_kern_sum, with Category, Operation instead of Name."""
    return _by_category(
        {"CUDA_KERNEL": kernel_durations(source), "MEMORY_OPER": memory_operations(source)[0]}
    )


def cuda_api_gpu_sum(source: Source) -> Table:
    """API calls, kernels and memory operations: the columns of cuda_gpu_sum."""
    calls = api_durations(source)
    codes, names = merged(calls.codes, calls.names)
    return _by_category(
        {
            "CUDA_API": Named(codes, tuple(names), calls.values),
            "CUDA_KERNEL": kernel_durations(source),
            "MEMORY_OPER": memory_operations(source)[0],
        }
    )


def cuda_gpu_kern_gb_sum(source: Source) -> Table:
    """Kernels by name, grid and block: as cuda_gpu_kern_sum, with GridXYZ, BlockXYZ before Name."""
    grid, block = ("gridX", "gridY", "gridZ"), ("blockX", "blockY", "blockZ")
    raw = source.ints(schema.KERNEL, ("duration", "demangledName", *grid, *block))
    names, texts = source.kernel_names(raw["demangledName"])
    grids, grid_texts = grid_text(*(raw[c].values for c in grid))
    blocks, block_texts = grid_text(*(raw[c].values for c in block))
    pairs, codes = unique((names * len(grid_texts) + grids) * len(block_texts) + blocks)
    keys = [
        (name, grid_texts[p // len(block_texts) % len(grid_texts)], block_texts[p % len(block_texts)])
        for p in pairs.tolist()
        for name in (texts[p // (len(block_texts) * len(grid_texts))],)
    ]
    columns = ["Name", "GridXYZ", "BlockXYZ"]
    count = np.bincount(codes, minlength=len(keys)).tolist()
    table = statistics(codes, keys, raw["duration"].values, columns, ties=list(zip(count, keys, strict=True)))
    order = [*(c for c in table if c not in columns), "GridXYZ", "BlockXYZ", "Name"]
    return {name: table[name] for name in order}


def osrt_sum(source: Source) -> Table:
    """OS runtime calls by name: Time (%), Total Time (ns), Num Calls, Avg … StdDev (ns), Name."""
    raw = source.ints(schema.OSRT, ("duration", "nameId"), f"eventClass = {_OS_RUNTIME}")
    codes, names = source.strings(raw["nameId"])
    table = Named(codes, tuple(names), raw["duration"].values)
    return _by_name(table, "Name", "Num Calls", ties=range(len(table.names)))


def _by_name(table: Named, column: str, count: str = "Instances", ties: Sequence[Any] | None = None) -> Table:
    keys = [(name,) for name in table.names]
    return statistics(table.codes, keys, table.values, [column], count=count, ties=ties)


def _by_category(tables: dict[str, Named]) -> Table:
    keys: list[tuple[object, ...]] = []
    codes: list[Ints] = []
    ties: list[tuple[str, str]] = []
    for category, table in tables.items():
        codes.append(table.codes + len(keys))
        keys += [(category, name) for name in table.names]
        ties += [(name, category) for name in table.names]
    values = np.concatenate([table.values for table in tables.values()])
    return statistics(np.concatenate(codes), keys, values, ["Category", "Operation"], ties=ties)
