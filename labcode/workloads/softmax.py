"""Softmax over rows, step by step: flags in, ``cuda/softmax`` run, its record out."""

from __future__ import annotations

from collections.abc import Sequence

from labcode.workloads.cuda_program import command_line, run_program
from labcode.workloads.shared import common

PROGRAM = "softmax"
DESCRIPTION = (
    "Softmax over the rows of a matrix: every step checked, timed and compared with the device copy."
)
VARIANTS = (
    "all",
    "three_passes",
    "online",
    "on_chip",
    "vectorized",
    "warp_rows",
    "cluster",
    "bulk",
    "chosen_any_gpu",
    "chosen",
)
FLAGS = {
    "type": "type of the elements, float or bf16; the arithmetic is in fp32 (float)",
    "columns": "elements of a row (8192)",
    "rows": "rows; 0: as many as fill --mebibytes (0)",
    "mebibytes": "size of the matrix, in MiB, where --rows is 0 (1024)",
    "offset": "elements by which both matrices start late, to misalign them (0)",
    "repetitions": "timings of each step (15)",
    "seed": "seed of the random numbers (1)",
    "plan": "1: say which kernel each variant takes, and stop; needs no GPU (0)",
}


def main(arguments: Sequence[str]) -> int:
    """Run the program; its exit code."""
    return run_program(PROGRAM, command_line(PROGRAM, DESCRIPTION, VARIANTS, FLAGS).parse_args(arguments))


if __name__ == "__main__":
    common.run(PROGRAM, main)
