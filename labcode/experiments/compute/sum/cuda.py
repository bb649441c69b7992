"""The program ``cuda/sum``: its variants and its flags."""

from labcode.experiments.shared.cuda import CudaProgram, steps

program = CudaProgram(
    "sum",
    "Adds up an array of random normal floats; holds the time against CUB and a copy of as many bytes.",
    ("all", *steps("sum")),
    {
        "mebibytes": "size of the array (1024)",
        "repetitions": "timings of each step (15)",
        "seed": "of the array (1)",
    },
)
