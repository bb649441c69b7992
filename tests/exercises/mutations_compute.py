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
    # ex06a: diagnosis
    ("compute-ex06a", "(LANES * launch", "(1 * launch", "a warp has 32 lanes"),
    ("compute-ex06a", '"idle lanes": 1 - lanes', '"idle lanes": lanes', "those that were off"),
    (
        "compute-ex06a",
        '1 - launch["shared_loads"] / turns',
        'turns / launch["shared_loads"]',
        "turns over loads",
    ),
    ("compute-ex06a", ' + launch["local_stores"]', "", "stored as well as loaded"),
    ("compute-ex06a", '>= launch["instructions"] / 100', ">= 0", "uneven slices"),
    (
        "compute-ex06a",
        '1 - launch["slices_mean_pct"] / launch["slices_busiest_pct"]',
        'launch["slices_busiest_pct"] / 100',
        "nothing without the mean",
    ),
    (
        "compute-ex06a",
        "if waste[worst] >= ENOUGH:",
        'if waste[worst] >= ENOUGH and launch["issued"] < BUSY:',
        "busy, too",
    ),
    ("compute-ex06a", "if waste[worst] >= ENOUGH:", "if waste[worst] > 0:", "below ENOUGH is no cause"),
    ("compute-ex06a", "max(STALLS, key", "max((*STALLS, *NO_STALLS), key", "are no stalls"),
    ("compute-ex06a", "for state in (*STALLS, *NO_STALLS))", "for state in STALLS)", "share of the stalls"),
    ("compute-ex06a", 'share * launch["duration_ns"]', 'launch["duration_ns"]', "longest kernel"),
    ("compute-ex06a", 'share * launch["duration_ns"]', "share", "largest share"),
    ("compute-ex06a", 'min(share, 1 - launch["issued"])', "share", "a stall cannot save more"),
    ("compute-ex06a", "            share = 0.0\n", "            pass\n", "has nothing to save"),
]
