"""Copies, triad, gather, misaligned starts: flags in, ``cuda/memory_bandwidth`` run, its record out."""

from __future__ import annotations

from collections.abc import Sequence

from labcode.workloads.cuda_program import command_line, run_program
from labcode.workloads.shared import common

PROGRAM = "memory_bandwidth"
DESCRIPTION = "Copies arrays in GPU memory in several ways and holds each against cudaMemcpy."
VARIANTS = (
    "all",
    "strided",
    "coalesced",
    "vectorized",
    "in_flight",
    "streaming",
    "bulk_ring",
    "bulk",
    "triad",
    "gather",
    "misaligned",
    "sizes",
)
FLAGS = {
    "mebibytes": "size of each array (512)",
    "repetitions": "timings of each step (15)",
    "seed": "of the arrays (1)",
}


def main(arguments: Sequence[str]) -> int:
    """Run the program; its exit code."""
    return run_program(PROGRAM, command_line(PROGRAM, DESCRIPTION, VARIANTS, FLAGS).parse_args(arguments))


if __name__ == "__main__":
    common.run(PROGRAM, main)
