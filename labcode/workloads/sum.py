"""An array added up, step by step: flags in, ``cuda/sum`` run, its record out."""

from __future__ import annotations

from collections.abc import Sequence

from labcode.workloads.cuda_program import command_line, run_program
from labcode.workloads.shared import common

PROGRAM = "sum"
DESCRIPTION = (
    "Adds up an array of random normal floats; holds the time against CUB and a copy of as many bytes."
)
VARIANTS = (
    "all",
    "atomics",
    "tree",
    "shuffle",
    "vectorized",
    "bulk",
)
FLAGS = {
    "mebibytes": "size of the array (1024)",
    "repetitions": "timings of each step (15)",
    "seed": "of the array (1)",
}


def main(arguments: Sequence[str]) -> int:
    """Run the program; its exit code."""
    return run_program(PROGRAM, command_line(PROGRAM, DESCRIPTION, VARIANTS, FLAGS).parse_args(arguments))


if __name__ == "__main__":
    common.run(PROGRAM, main)
