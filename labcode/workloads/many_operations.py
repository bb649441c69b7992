"""Very many short operations of every kind: flags in, ``cuda/many_operations`` run, its record out."""

from __future__ import annotations

from collections.abc import Sequence

from labcode.workloads.cuda_program import command_line, run_program
from labcode.workloads.shared import common

PROGRAM = "many_operations"
VARIANTS = ("mixed",)
FLAGS = {
    "ops": "operations of a repetition (200000)",
    "threads": "host threads that issue them (2)",
    "streams": "streams of each thread, in turns (2)",
    "repetitions": "measured repetitions (1)",
    "warmup": "repetitions of 100 operations before those (1)",
    "seed": "seed of the order of operations (1)",
}


def main(arguments: Sequence[str]) -> int:
    """Run the program; its exit code."""
    description = (
        "Issues very many short kernels, copies and memsets, with ranges and calls of the operating system "
        "around them."
    )
    return run_program(PROGRAM, command_line(PROGRAM, description, VARIANTS, FLAGS).parse_args(arguments))


if __name__ == "__main__":
    common.run(PROGRAM, main)
