"""The program ``cuda/memory_bandwidth``: its variants and its flags."""

from labcode.experiments.shared.cuda import CudaProgram, steps

program = CudaProgram(
    "memory_bandwidth",
    "Copies arrays in GPU memory in several ways and holds each against cudaMemcpy.",
    ("all", *steps("copy"), "triad", "gather", "misaligned", "sizes"),
    {
        "mebibytes": "size of each array (512)",
        "repetitions": "timings of each step (15)",
        "seed": "of the arrays (1)",
    },
)
