"""The program ``cuda/gemm``: its variants and its flags."""

from labcode.experiments.shared.cuda import CudaProgram, steps

program = CudaProgram(
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
