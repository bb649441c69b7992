"""The program ``cuda/memory_timeline``: its variants and its flags."""

from labcode.experiments.shared.cuda import CudaProgram

program = CudaProgram(
    "memory_timeline",
    "Times copy in, kernel, copy out: from pageable memory, from pinned memory, pipelined in chunks.",
    ("pageable", "pinned", "pipelined"),
    {
        "mebibytes": "size of the array, in MiB of fp32 (256)",
        "chunks": "chunks of `pipelined` (32)",
        "schedule": "rotate: chunks around --streams streams; engines: a stream a stage (rotate)",
        "streams": "streams of `--schedule rotate` (5)",
        "iterations": "steps a kernel does; 0: as many as --balance asks for (0)",
        "balance": "kernel time wanted, as a multiple of the pinned copy in (1.15)",
        "repetitions": "measured repetitions (3)",
        "warmup": "repetitions before those (2)",
        "seed": "seed of the random frequencies (1)",
    },
)
