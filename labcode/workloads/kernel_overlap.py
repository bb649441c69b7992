"""Many small kernels, on streams and as a graph: flags in, ``cuda/kernel_overlap`` run, its record out."""

from __future__ import annotations

from collections.abc import Sequence

from labcode.workloads.cuda_program import command_line, run_program
from labcode.workloads.shared import common

PROGRAM = "kernel_overlap"
VARIANTS = ("stream", "streams", "graph", "tiny_stream", "tiny_graph")
FLAGS = {
    "kernels": "kernels a repetition (240; 1000 for the tiny variants)",
    "iterations": "steps a kernel does (2400; 4 for the tiny variants)",
    "streams": "streams of `streams`, branches of `graph` (8)",
    "blocks": "blocks a kernel (8)",
    "threads": "threads a block (256)",
    "repetitions": "measured repetitions (10)",
    "warmup": "repetitions before those (3)",
    "seed": "seed of the random start (1)",
}


def main(arguments: Sequence[str]) -> int:
    """Run the program; its exit code."""
    description = (
        "Times many small kernels: on one stream, on several, as a CUDA graph; and a chain of tiny ones."
    )
    return run_program(PROGRAM, command_line(PROGRAM, description, VARIANTS, FLAGS).parse_args(arguments))


if __name__ == "__main__":
    common.run(PROGRAM, main)
