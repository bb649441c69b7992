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
    raise NotImplementedError("a multiply-add is two operations; bytes are read and written")


def roof(intensity: float, memory: float, compute: float) -> float:
    """The most FLOP/s that a kernel of this intensity can reach."""
    raise NotImplementedError("the lower of two roofs")


def verdicts(table: pd.DataFrame, memory: float, compute: float) -> dict[str, str]:
    """For each kernel what limits it: 'memory', 'compute', or 'latency'.

    'latency' stands for a kernel that reaches less than 0.6 of its roof: neither of the two holds it back.
    Any other kernel is limited by the roof above it; 'memory' left of the ridge, 'compute' from it on.
    """
    raise NotImplementedError("first the share of the roof, then the side of the ridge")


def first(table: pd.DataFrame, memory: float, compute: float) -> str:
    """The kernel to improve first: the one that would save most time if it reached its roof."""
    raise NotImplementedError("time it takes, less the time it would take at its roof")


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
