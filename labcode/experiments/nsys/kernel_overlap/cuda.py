"""The program ``cuda/kernel_overlap``: its variants and its flags."""

from labcode.experiments.shared.cuda import CudaProgram

program = CudaProgram(
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
