"""The program ``cuda/roofline_kernels``: its variants and its flags."""

from labcode.experiments.shared.cuda import CudaProgram

program = CudaProgram(
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
