"""Typical mistakes in the exercises on Nsight Compute: (part, what is replaced, by what, the reason)."""

from __future__ import annotations

COMPUTE = [
    # ex07a: which roof binds
    (
        "compute-ex07a",
        "value[peak] * value[clock] for",
        "value[peak] * value[SM_CLOCK] for",
        "clocks of their own",
    ),
    ("compute-ex07a", "value[peak] * value[", "value[peak] or value[", "amounts in a cycle"),
    ("compute-ex07a", 'metrics.groupby("launch")', 'metrics.groupby(metrics["launch"] * 0)', "differ|clocks"),
    ("compute-ex07a", '(rates[name] / peaks[launch][name], name == "fp32")', "rates[name]", "most FLOP/s"),
    (
        "compute-ex07a",
        "precision = max(rates, key=",
        'precision = "fp32" or max(rates, key=',
        "not every launch",
    ),
    (
        "compute-ex07a",
        "sum(value[one] for one in executed)",
        "value[executed[2]]",
        "multiplications count, too",
    ),
    ("compute-ex07a", "in executed) * value[SM_CLOCK]", "in executed)", "counted in a cycle"),
    (
        "compute-ex07a",
        "sum(value[one] for one in executed)",
        "(sum(value[one] for one in executed) + value[executed[2]])",
        "count a multiply-add as its operations already",
    ),
    (
        "compute-ex07a",
        "rate / value[moved] if value[moved]",
        'rate / value["dram__bytes.sum.per_second"] if value["dram__bytes.sum.per_second"]',
        "own bytes",
    ),
    (
        "compute-ex07a",
        "most = min(most, intensity * peaks[launch][level])",
        "pass",
        "numbers are the peaks",
    ),
    ("compute-ex07a", "used[roof] >= 0.6", "used[roof] >= 0.0", "held by none of them"),
    (
        "compute-ex07a",
        "peaks[level] for level, (moved, _, _) in LEVELS.items()}\n    return used",
        'peaks[level] for level, (moved, _, _) in LEVELS.items() if level == "DRAM"}\n    return used',
        "L1 and L2 are roofs, too",
    ),
]
