"""The program ``cuda/energy``: its variants and its flags."""

from labcode.experiments.shared.cuda import CudaProgram

program = CudaProgram(
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
