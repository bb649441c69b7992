"""Typical mistakes in the exercises on Nsight Compute: (part, what is replaced, by what, the reason)."""

from __future__ import annotations

COMPUTE = [
    # ex01a: sectors
    (
        "compute-ex01a",
        "(address + size - 1) // SECTOR + 1",
        "address // SECTOR + 1",
        "may cross into the next",
    ),
    (
        "compute-ex01a",
        "return len(touched)",
        "return len(addresses) - addresses.count(None)",
        "each sector once",
    ),
    ("compute-ex01a", "SECTOR = 32", "SECTOR = 128", "these are lines of 128 bytes"),
    ("compute-ex01a", "return len(wanted) /", "return size * len(addresses) /", "count once|want nothing"),
    ("compute-ex01a", "if wanted else 1.0", "if wanted else 0.0", "nothing was moved"),
    ("compute-ex01a", "max(0, int(", "max(-(10**12), int(", "a kernel wastes nothing when"),
    (
        "compute-ex01a",
        "(-entry[2], entry[0])",
        "(-entry[1], entry[0])",
        "that of the wasted bytes is asked for",
    ),
    # ex02a: occupancy
    ("compute-ex02a", 'PARTS * (sm["registers"] // PARTS // each)', 'sm["registers"] // each', "four parts"),
    ("compute-ex02a", 'rounded(registers * LANES, sm["register_unit"])', "registers * LANES", "whole units"),
    ("compute-ex02a", ' + sm["reserved_bytes"], ', " or 1, ", "the driver keeps some shared memory"),
    ("compute-ex02a", 'LANES) / sm["warps"]', "LANES) / 1.0", "this is the number of warps"),
    (
        "compute-ex02a",
        "if most == min(fit.values()))",
        "if most == min(fit.values()))[:1]",
        "name them all",
    ),
    # ex03a: roofline
    ("compute-ex03a", "2 * row.ffma", "row.ffma", "two operations"),
    ("compute-ex03a", " + row.dram_write_bytes", "", "bytes are written, too"),
    ("compute-ex03a", "(row.duration_ns * 1e-9)", "row.duration_ns", "FLOP/ns|1,000,000,000"),
    ("compute-ex03a", "return min(intensity * memory, compute)", "return compute", "arithmetic alone"),
    ("compute-ex03a", "return min(intensity * memory, compute)", "return intensity * memory", "memory alone"),
    ("compute-ex03a", "rate < 0.6 *", "rate < 0.0 *", "held back by neither"),
    (
        "compute-ex03a",
        '"memory" if intensity <',
        '"memory" if intensity >=',
        "left of the ridge it is the memory",
    ),
    ("compute-ex03a", "kernel: time[kernel] * (", "kernel: (", "farthest below its roof"),
    (
        "compute-ex03a",
        "return max(saved, key=lambda kernel: saved",
        "return max(time, key=lambda kernel: time",
        "longest",
    ),
    # ex04a: stalls
    ("compute-ex04a", '~table["state"].isin(NO_STALLS) & ', "", "are no stalls"),
    (
        "compute-ex04a",
        'total = table["cycles"].sum()',
        'total = table.loc[~table["state"].isin(NO_STALLS), "cycles"].sum()',
        "shares of the stalls",
    ),
    ("compute-ex04a", "float(c / total)", "float(c)", "these are cycles"),
    (
        "compute-ex04a",
        '"issue" if issued >= 0.8 or not found',
        '"issue" if not found',
        "no stall costs anything",
    ),
    ("compute-ex04a", "min(1 / remaining, 1 / issued)", "1 / remaining", "at most once a cycle"),
    ("compute-ex04a", "min(1 / remaining, 1 / issued)", "1 / issued", "only the scheduler"),
]
