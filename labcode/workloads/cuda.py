"""The CUDA programs: a program's name and flags in; built, run with the same flags, its record out.

python -m labcode.workloads.cuda softmax --variant all --columns 8192
"""

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from labcode.errors import LabError
from labcode.kernels.build import build, compute_capability
from labcode.kernels.topics import kernels
from labcode.workloads.shared import common


@dataclass(frozen=True)
class CudaProgram:
    """A program below ``cuda/``: its name, what it does, its variants, its flags, each with its help.

    The program itself checks the values of its flags.
    """

    PROGRAM: str
    description: str
    variants: tuple[str, ...]
    flags: Mapping[str, str]

    def main(self, arguments: Sequence[str]) -> int:
        """Build the program for this machine's GPU (cached) and run it; its exit code, or a `LabError`."""
        options = self.command_line().parse_args(arguments)
        binary = build(self.PROGRAM, compute_capability())
        sys.stdout.flush()
        with subprocess.Popen([str(binary), *forwarded(options)], env=dict(os.environ)) as process:
            try:
                code = process.wait()
            except KeyboardInterrupt:
                process.send_signal(signal.SIGINT)
                process.wait()
                raise
        if code < 0:
            print(f"{self.PROGRAM}: ended by signal {-code}", file=sys.stderr)
            return 2
        return code

    def command_line(self) -> argparse.ArgumentParser:
        """A parser for the program's flags."""
        result = common.parser(f"cuda {self.PROGRAM}", self.description, self.variants)
        for flag, text in self.flags.items():
            result.add_argument(f"--{flag}", metavar="X", help=text)
        return result


def forwarded(options: argparse.Namespace) -> list[str]:
    """The command line that passes on what was given."""
    return [
        word
        for name, value in sorted(vars(options).items())
        if value is not None and name != "list"
        for word in (f"--{name.replace('_', '-')}", str(value))
    ]


def steps(*names: str) -> tuple[str, ...]:
    """The steps of kernels of the catalogue as their program calls them."""
    return tuple(step.variant for kernel in kernels(names) for step in kernel.steps)


kernel_overlap = CudaProgram(
    "kernel_overlap",
    "Times many small kernels: on one stream, on several, as a CUDA graph; and a chain of tiny ones.",
    ("stream", "streams", "graph", "tiny_stream", "tiny_graph"),
    {
        "kernels": "kernels a repetition (240; 1000 for the tiny variants)",
        "iterations": "steps a kernel does (2400; 4 for the tiny variants)",
        "streams": "streams of `streams`, branches of `graph` (8)",
        "blocks": "blocks a kernel (8)",
        "threads": "threads a block (256)",
        "repetitions": "measured repetitions (10)",
        "warmup": "repetitions before those (3)",
        "seed": "seed of the random start (1)",
    },
)

memory_timeline = CudaProgram(
    "memory_timeline",
    "Times copy in, kernel, copy out: from pageable memory, from pinned memory, pipelined in chunks.",
    ("pageable", "pinned", "pipelined"),
    {
        "mebibytes": "size of the array, in MiB of fp32 (256)",
        "chunks": "chunks of `pipelined` (32)",
        "schedule": "rotate: chunks around --streams streams; engines: a stream a stage (rotate)",
        "streams": "streams of `--schedule rotate` (5)",
        "iterations": "steps a kernel does; 0: as many as --balance asks for (0)",
        "balance": "kernel time wanted, as a multiple of the pinned copy in (1.15)",
        "repetitions": "measured repetitions (3)",
        "warmup": "repetitions before those (2)",
        "seed": "seed of the random frequencies (1)",
    },
)

memory_bandwidth = CudaProgram(
    "memory_bandwidth",
    "Copies arrays in GPU memory in several ways and holds each against cudaMemcpy.",
    ("all", *steps("copy"), "triad", "gather", "misaligned", "sizes"),
    {
        "mebibytes": "size of each array (512)",
        "repetitions": "timings of each step (15)",
        "seed": "of the arrays (1)",
    },
)

transpose = CudaProgram(
    "transpose",
    "Transposes a matrix and holds the time against a copy of as many bytes.",
    ("all", *steps("transpose")),
    {
        "rows": "rows of the input (16384)",
        "columns": "columns of the input (8192)",
        "bytes": "bytes of an element: 2 or 4 (4)",
        "repetitions": "timings of each step (15)",
        "seed": "of the matrix (1)",
    },
)

gemm = CudaProgram(
    "gemm",
    "Multiplies matrices of random normal values, step by step, and holds the time against cuBLAS.",
    ("fp32", "bf16", *steps("gemm")),
    {
        "m": "rows of A and C (4096)",
        "n": "columns of B and C (4096)",
        "k": "columns of A, rows of B (4096)",
        "pad": "elements between a row's end and the next row (0)",
        "offset": "elements by which the matrices miss the start of their memory (0)",
        "values": "of the matrices; special: a NaN and both infinities among them (normal)",
        "repetitions": "timings of each step (10)",
        "seed": "of the matrices (1)",
    },
)

attention = CudaProgram(
    "attention",
    "Computes attention of random normal values, step by step.",
    ("all", *steps("attention_bf16"), "slow", "plain_rows", "four_blocks"),
    {
        "type": "of queries, keys, values and result (bf16)",
        "mask": "causal: a query sees no key behind it (none)",
        "heads": "heads, of all sequences of a batch together (64)",
        "length": "queries, keys and values of a head (8192)",
        "dim": "dimensions of a head: 64 or 128 (128)",
        "repetitions": "timings of each step (10)",
        "seed": "of the arrays (1)",
    },
)

paged_decode = CudaProgram(
    "paged_decode",
    "Computes attention of the newest token over a cache of random normal keys and values, step by step.",
    ("all", *steps("paged_decode")),
    {
        "batch": "sequences (16)",
        "tokens": "in the cache, of a sequence on average (16384)",
        "lengths": "uneven: the n-th longest sequence has an n-th of the longest one's tokens (even)",
        "heads": "of the queries (32)",
        "kv-heads": "of the cache; 1, 2, 4 or 8 heads of the queries share one (8)",
        "page": "tokens of a page: 16, 32, 64 and so on (16)",
        "repetitions": "timings of each step (10)",
        "seed": "of the arrays (1)",
    },
)

sum_ = CudaProgram(
    "sum",
    "Adds up an array of random normal floats; holds the time against CUB and a copy of as many bytes.",
    ("all", *steps("sum")),
    {
        "mebibytes": "size of the array (1024)",
        "repetitions": "timings of each step (15)",
        "seed": "of the array (1)",
    },
)

_ROW_FLAGS = {
    "type": "type of the elements, float or bf16; the arithmetic is in fp32 (float)",
    "columns": "elements of a row (8192)",
    "rows": "rows; 0: as many as fill --mebibytes (0)",
    "mebibytes": "size of the matrix, in MiB, where --rows is 0 (1024)",
    "offset": "elements by which both matrices start late, to misalign them (0)",
    "repetitions": "timings of each step (15)",
    "seed": "seed of the random numbers (1)",
    "plan": "1: say which kernel each variant takes, and stop; needs no GPU (0)",
}

softmax, rmsnorm = (
    CudaProgram(
        name,
        f"{title} over the rows of a matrix: every step checked, timed and compared with the device copy.",
        ("all", *steps(name)),
        _ROW_FLAGS,
    )
    for name, title in (("softmax", "Softmax"), ("rmsnorm", "RMSNorm"))
)

compute_metrics = CudaProgram(
    "compute_metrics",
    "Times kernels that each show one thing that keeps an SM from working, with more and less of it.",
    (
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
    ),
    {
        "work": "steps a thread does, as a multiple of the usual (1)",
        "waves": "threads, as a multiple of what the GPU holds (4)",
        "lines": "lines of 128 bytes in the chain that is followed (2097152)",
        "repetitions": "measured launches (15)",
        "warmup": "launches before those (2)",
        "seed": "seed of the random inputs (1)",
    },
)

roofline_kernels = CudaProgram(
    "roofline_kernels",
    "Measures the roofs of the roofline and kernels of different arithmetic intensity under them.",
    ("all", "ceilings", "fp64", "fp32", "fp16", "tensor"),
    {
        "mebibytes": "bytes in, and as many out, of the kernels that go through DRAM, in MiB (1024)",
        "l2-mebibytes": "what is read over and over from the L2, in MiB (16)",
        "work": "length of the loops of the other roofs, as a multiple of the usual (1)",
        "repetitions": "measured launches (11)",
        "warmup": "launches before those (3)",
        "seed": "seed of the random inputs (1)",
    },
)

optimization_loop = CudaProgram(
    "optimization_loop",
    "Times the rounds of optimizing a bilateral filter of 9 x 9 pixels, beside what was predicted.",
    (*steps("bilateral"), "all"),
    {
        "height": "rows of the image (4096)",
        "width": "columns of the image (4096)",
        "sigma": "standard deviation of the weight for likeness (0.2)",
        "strip-rows": "rows of a strip in rounds 8 and 9 (32)",
        "repetitions": "measured launches (15)",
        "warmup": "launches before those (3)",
        "seed": "seed of the random image (1)",
    },
)

energy = CudaProgram(
    "energy",
    "Repeats one kind of work after another, each for seconds, and says when: for a meter of power.",
    ("all", "idle", "memory", "arithmetic", "intensity", "tensor", "race"),
    {
        "seconds": "length of a window (3)",
        "warmup": "seconds of the same work before each window (0.3)",
        "mebibytes": "size of each array that goes through DRAM, in MiB (1024)",
        "l2-mebibytes": "what is read over and over from the L2, in MiB (16)",
    },
)

many_operations = CudaProgram(
    "many_operations",
    "Issues very many short kernels, copies and memsets, with ranges and calls of the operating system "
    "around them.",
    ("mixed",),
    {
        "ops": "operations of a repetition (200000)",
        "threads": "host threads that issue them (2)",
        "streams": "streams of each thread, in turns (2)",
        "repetitions": "measured repetitions (1)",
        "warmup": "repetitions of 100 operations before those (1)",
        "seed": "seed of the order of operations (1)",
    },
)

PROGRAMS = {
    program.PROGRAM: program
    for program in (
        kernel_overlap,
        memory_timeline,
        memory_bandwidth,
        transpose,
        sum_,
        gemm,
        attention,
        paged_decode,
        softmax,
        rmsnorm,
        compute_metrics,
        roofline_kernels,
        optimization_loop,
        energy,
        many_operations,
    )
}


def main(arguments: Sequence[str]) -> int:
    """Run the program that is named first; its exit code."""
    name, *flags = arguments or ("",)
    if name in ("-h", "--help"):
        print("usage: python -m labcode.workloads.cuda PROGRAM [flags]; PROGRAM --help says which\n")
        print("\n".join(f"  {program.PROGRAM}: {program.description}" for program in PROGRAMS.values()))
        return 0
    if name not in PROGRAMS:
        raise LabError(f"{name or 'no program named'}: name one of the CUDA programs: {', '.join(PROGRAMS)}")
    return PROGRAMS[name].main(flags)


if __name__ == "__main__":
    common.run("cuda", main)
