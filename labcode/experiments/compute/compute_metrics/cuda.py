"""The program ``cuda/compute_metrics``: its variants and its flags."""

from labcode.experiments.shared.cuda import CudaProgram

program = CudaProgram(
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
