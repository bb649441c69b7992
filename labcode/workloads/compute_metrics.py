"""What keeps multiprocessors from working: flags in, ``cuda/compute_metrics`` run, its record out."""

from __future__ import annotations

from collections.abc import Sequence

from labcode.workloads.cuda_program import command_line, run_program
from labcode.workloads.shared import common

PROGRAM = "compute_metrics"
DESCRIPTION = (
    "Times kernels that each show one thing that keeps an SM from working, with more and less of it."
)
VARIANTS = (
    "all",
    "occupancy_registers",
    "occupancy_shared",
    "occupancy_block",
    "divergence",
    "bank_conflicts",
    "bank_strides",
    "instruction_mix",
    "index_arithmetic",
    "dependency_chains",
    "atomics_one_address",
    "atomics_256_addresses",
    "spills",
)
FLAGS = {
    "work": "steps a thread does, as a multiple of the usual (1)",
    "waves": "threads, as a multiple of what the GPU holds (4)",
    "lines": "lines of 128 bytes in the chain that is followed (2097152)",
    "repetitions": "measured launches (15)",
    "warmup": "launches before those (2)",
    "seed": "seed of the random inputs (1)",
}


def main(arguments: Sequence[str]) -> int:
    """Run the program; its exit code."""
    return run_program(PROGRAM, command_line(PROGRAM, DESCRIPTION, VARIANTS, FLAGS).parse_args(arguments))


if __name__ == "__main__":
    common.run(PROGRAM, main)
