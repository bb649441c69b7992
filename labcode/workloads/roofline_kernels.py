"""The roofline's roofs, and kernels under them: flags in, ``cuda/roofline_kernels`` run, its record out."""

from __future__ import annotations

from collections.abc import Sequence

from labcode.workloads.cuda_program import command_line, run_program
from labcode.workloads.shared import common

PROGRAM = "roofline_kernels"
DESCRIPTION = "Measures the roofs of the roofline and kernels of different arithmetic intensity under them."
VARIANTS = ("all", "ceilings", "fp64", "fp32", "fp16", "tensor")
FLAGS = {
    "mebibytes": "bytes in, and as many out, of the kernels that go through DRAM, in MiB (1024)",
    "l2-mebibytes": "what is read over and over from the L2, in MiB (16)",
    "work": "length of the loops of the other roofs, as a multiple of the usual (1)",
    "repetitions": "measured launches (11)",
    "warmup": "launches before those (3)",
    "seed": "seed of the random inputs (1)",
}


def main(arguments: Sequence[str]) -> int:
    """Run the program; its exit code."""
    return run_program(PROGRAM, command_line(PROGRAM, DESCRIPTION, VARIANTS, FLAGS).parse_args(arguments))


if __name__ == "__main__":
    common.run(PROGRAM, main)
