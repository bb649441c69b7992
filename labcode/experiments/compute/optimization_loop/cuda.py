"""The program ``cuda/optimization_loop``: its variants and its flags."""

from labcode.experiments.shared.cuda import CudaProgram, steps

program = CudaProgram(
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
