"""The program ``cuda/attention``: its variants and its flags."""

from labcode.experiments.shared.cuda import CudaProgram, steps

program = CudaProgram(
    "attention",
    "Computes attention of random normal values, step by step.",
    ("all", *steps("attention_bf16"), "slow", "plain_rows", "four_blocks"),
    {
        "type": "of queries, keys, values and result (bf16)",
        "mask": "causal: a query sees no key behind it (none)",
        "heads": "heads, of all sequences of a batch together (64)",
        "length": "queries, keys and values of a head (8192)",
        "dim": "dimensions of a head: 64 or 128 (128)",
        "repetitions": "timings of each step (10)",
        "seed": "of the arrays (1)",
    },
)
