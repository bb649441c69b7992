"""The program ``cuda/many_operations``: its variants and its flags."""

from labcode.experiments.shared.cuda import CudaProgram

program = CudaProgram(
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
