"""nsys' summary reports of kernels, copies and API calls: an open export in, nsys' columns out."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from labcode.analysis.stats.nsys.tables import (
    Named,
    api_durations,
    grid_text,
    kernel_durations,
    memory_operations,
    merged,
    statistics,
)
from labcode.analysis.stats.table import Table
from labcode.reports.columns import Ints, unique
from labcode.reports.nsys import schema
from labcode.reports.nsys.source import Source

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
