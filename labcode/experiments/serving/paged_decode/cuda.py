"""The program ``cuda/paged_decode``: its variants and its flags."""

from labcode.experiments.shared.cuda import CudaProgram, steps

program = CudaProgram(
    "paged_decode",
    "Computes attention of the newest token over a cache of random normal keys and values, step by step.",
    ("all", *(step for step in steps("paged_decode") if step != "ring")),  # it needs a GPU of its own kind
    {
        "batch": "sequences (16)",
        "tokens": "in the cache, of a sequence on average (16384)",
        "lengths": "uneven: the n-th longest sequence has an n-th of the longest one's tokens (even)",
        "heads": "of the queries (32)",
        "kv-heads": "of the cache; 1, 2, 4 or 8 heads of the queries share one (8)",
        "page": "tokens of a page: 16, 32, 64 and so on (16)",
        "repetitions": "timings of each step (10)",
        "seed": "of the arrays (1)",
    },
)
