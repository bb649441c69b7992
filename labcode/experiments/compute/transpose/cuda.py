"""The program ``cuda/transpose``: its variants and its flags."""

from labcode.experiments.shared.cuda import CudaProgram, steps

program = CudaProgram(
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
