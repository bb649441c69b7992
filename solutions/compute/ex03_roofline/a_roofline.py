"""Exercise compute-ex03, part a: points under the roofline, from counters.

A table of counters comes in, one row per kernel:

    kernel, duration_ns, ffma, fadd, fmul, dram_read_bytes, dram_write_bytes

ffma, fadd and fmul count instructions of threads in single precision; a fused multiply-add is two operations.
The roofs are `memory`, in bytes/s, and `compute`, in FLOP/s. Under them a kernel of an arithmetic intensity
can reach at most min(intensity × memory, compute).

A worked example, with memory = 4e12 and compute = 60e12:

    kernel  duration_ns  ffma  fadd  fmul  dram_read_bytes  dram_write_bytes
    axpy           1000  2e5   0     0     2.4e6            0.8e6

    points(table)                        ->  {'axpy': (0.125, 4e11)}         4e5 FLOP, 3.2e6 bytes, 1 µs
    verdicts(table, memory, compute)     ->  {'axpy': 'memory'}              3.2e12 of 4e12 bytes/s
    first(table, memory, compute)        ->  'axpy'

Grade it:         labcode exercises compute-ex03a        (or: nox -s exercises -- compute-ex03a)
Get a hint:       labcode exercises compute-ex03a --hint
"""

import math

import pandas as pd


def points(table: pd.DataFrame) -> dict[str, tuple[float, float]]:
    """For each kernel: its arithmetic intensity in FLOP/byte of DRAM, and its FLOP/s.

    The intensity of a kernel that moves no byte is infinite.
    """
    # [solution]
    found = {}
    for row in table.itertuples():
        flop = 2 * row.ffma + row.fadd + row.fmul
        moved = row.dram_read_bytes + row.dram_write_bytes
        intensity = flop / moved if moved else math.inf
        found[row.kernel] = (float(intensity), float(flop / (row.duration_ns * 1e-9)))
    return found
    # [starter]
    # raise NotImplementedError("a multiply-add is two operations; bytes are read and written")
    # [end]


def roof(intensity: float, memory: float, compute: float) -> float:
    """The most FLOP/s that a kernel of this intensity can reach."""
    # [solution]
    return min(intensity * memory, compute)
    # [starter]
    # raise NotImplementedError("the lower of two roofs")
    # [end]


def verdicts(table: pd.DataFrame, memory: float, compute: float) -> dict[str, str]:
    """For each kernel what limits it: 'memory', 'compute', or 'latency'.

    'latency' stands for a kernel that reaches less than 0.6 of its roof: neither of the two holds it back.
    Any other kernel is limited by the roof above it; 'memory' left of the ridge, 'compute' from it on.
    """
    # [solution]
    found = {}
    for kernel, (intensity, rate) in points(table).items():
        if rate < 0.6 * roof(intensity, memory, compute):
            found[kernel] = "latency"
        else:
            found[kernel] = "memory" if intensity < compute / memory else "compute"
    return found
    # [starter]
    # raise NotImplementedError("first the share of the roof, then the side of the ridge")
    # [end]


def first(table: pd.DataFrame, memory: float, compute: float) -> str:
    """The kernel to improve first: the one that would save most time if it reached its roof."""
    # [solution]
    time = dict(zip(table["kernel"], table["duration_ns"], strict=True))
    saved = {
        kernel: time[kernel] * (1 - rate / roof(intensity, memory, compute))
        for kernel, (intensity, rate) in points(table).items()
    }
    return max(saved, key=lambda kernel: saved[kernel])
    # [starter]
    # raise NotImplementedError("time it takes, less the time it would take at its roof")
    # [end]


if __name__ == "__main__":
    example = pd.DataFrame(
        {
            "kernel": ["axpy", "matmul"],
            "duration_ns": [1000, 1000],
            "ffma": [200_000, 25_000_000],
            "fadd": [0, 0],
            "fmul": [0, 0],
            "dram_read_bytes": [2_400_000, 400_000],
            "dram_write_bytes": [800_000, 100_000],
        }
    )
    print(points(example), verdicts(example, 4e12, 60e12), first(example, 4e12, 60e12), sep="\n")
