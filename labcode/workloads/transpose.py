"""A matrix transposed, step by step: flags in, ``cuda/transpose`` run, its record out."""

from __future__ import annotations

from collections.abc import Sequence

from labcode.workloads.cuda_program import command_line, run_program
from labcode.workloads.shared import common

PROGRAM = "transpose"
DESCRIPTION = "Transposes a matrix and holds the time against a copy of as many bytes."
VARIANTS = (
    "all",
    "naive",
    "shared_tile",
    "padded",
    "swizzled",
    "vectorized",
    "patches",
    "windowed",
    "chunks",
)
FLAGS = {
    "rows": "rows of the input (16384)",
    "columns": "columns of the input (8192)",
    "bytes": "bytes of an element: 2 or 4 (4)",
    "repetitions": "timings of each step (15)",
    "seed": "of the matrix (1)",
}


def main(arguments: Sequence[str]) -> int:
    """Run the program; its exit code."""
    return run_program(PROGRAM, command_line(PROGRAM, DESCRIPTION, VARIANTS, FLAGS).parse_args(arguments))


if __name__ == "__main__":
    common.run(PROGRAM, main)
