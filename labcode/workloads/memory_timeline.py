"""Copy in, compute, copy out, in three ways: flags in, ``cuda/memory_timeline`` run, its record out."""

from __future__ import annotations

from collections.abc import Sequence

from labcode.workloads.cuda_program import command_line, run_program
from labcode.workloads.shared import common

PROGRAM = "memory_timeline"
VARIANTS = ("pageable", "pinned", "pipelined")
FLAGS = {
    "mebibytes": "size of the array, in MiB of fp32 (256)",
    "chunks": "chunks of `pipelined` (32)",
    "schedule": "rotate: chunks around --streams streams; engines: a stream a stage (rotate)",
    "streams": "streams of `--schedule rotate` (5)",
    "iterations": "steps a kernel does; 0: as many as --balance asks for (0)",
    "balance": "kernel time wanted, as a multiple of the pinned copy in (1.15)",
    "repetitions": "measured repetitions (3)",
    "warmup": "repetitions before those (2)",
    "seed": "seed of the random frequencies (1)",
}


def main(arguments: Sequence[str]) -> int:
    """Run the program; its exit code."""
    description = (
        "Times copy in, kernel, copy out: from pageable memory, from pinned memory, pipelined in chunks."
    )
    return run_program(PROGRAM, command_line(PROGRAM, description, VARIANTS, FLAGS).parse_args(arguments))


if __name__ == "__main__":
    common.run(PROGRAM, main)
