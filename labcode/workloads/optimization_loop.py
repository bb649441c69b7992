"""A bilateral filter, optimized in rounds: flags in, ``cuda/optimization_loop`` run, its record out."""

from __future__ import annotations

from collections.abc import Sequence

from labcode.workloads.cuda_program import command_line, run_program
from labcode.workloads.shared import common

PROGRAM = "optimization_loop"
DESCRIPTION = "Times the rounds of optimizing a bilateral filter of 9 x 9 pixels, beside what was predicted."
VARIANTS = (*(f"round{n}" for n in range(10)), "all")
FLAGS = {
    "height": "rows of the image (4096)",
    "width": "columns of the image (4096)",
    "sigma": "standard deviation of the weight for likeness (0.2)",
    "strip-rows": "rows of a strip in rounds 8 and 9 (32)",
    "repetitions": "measured launches (15)",
    "warmup": "launches before those (3)",
    "seed": "seed of the random image (1)",
}


def main(arguments: Sequence[str]) -> int:
    """Run the program; its exit code."""
    return run_program(PROGRAM, command_line(PROGRAM, DESCRIPTION, VARIANTS, FLAGS).parse_args(arguments))


if __name__ == "__main__":
    common.run(PROGRAM, main)
