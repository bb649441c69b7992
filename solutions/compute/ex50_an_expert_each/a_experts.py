"""Detective compute-ex50: sixty-four experts, unevenly loaded.

captures/h100/grouped_bench/all.json: the matmul of a mixture of experts, in several ways. In
"small" 49,152 tokens go to 64 experts, in "decode" 384. `loop` launches a matmul for each expert,
`graph` replays them as a CUDA graph, `queue` is one kernel whose blocks draw tiles from a queue.
"""

from labcode.grading.sheet import Answers, Count, Misreading, Number, Share, Word

QUESTIONS = (
    Count("unused", "small: how many experts have no token"),
    Number("uneven", "small: tokens of the busiest expert over the mean of all 64", within=0.02),
    Share("launching", "decode: the share of the time of `loop` that `graph` saves", by=0.02),
    Share("mfu", "small: MFU of `queue`, of 989 TFLOP/s", by=0.01),
    Word(
        "limit",
        "what `queue` is limited by in decode",
        words=("bytes of weights", "tensor cores", "launches", "empty experts"),
    ),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    from labcode.grading import opened

    record = opened.record("h100", "grouped_bench", "all")
    small, decode = record["results"]["small"], record["results"]["decode"]
    rows, n, k, experts = record["parameters"]["shapes"]["small"]
    loads = small["loads"]
    used = [load for load in loads if load]
    mfu = 2 * rows * n * k / small["queue_us"] / 1e-6 / 989e12
    saved = 1 - decode["graph_us"] / decode["loop_us"]
    return Answers(
        {
            "unused": experts - len(used),
            "uneven": max(loads) * experts / rows,
            "launching": saved,
            "mfu": mfu,
            "limit": "bytes of weights",
        },
        [
            Misreading("those are the experts that have tokens", {"unused": len(used)}),
            Misreading("an expert with one token is used", {"unused": sum(load <= 1 for load in loads)}),
            Misreading("that is the busiest expert's share of all tokens", {"uneven": max(loads) / rows}),
            Misreading("those are its tokens: divide by the mean of all experts", {"uneven": max(loads)}),
            Misreading(
                "experts without tokens count in the mean", {"uneven": max(loads) * len(used) / sum(loads)}
            ),
            Misreading(
                "that is over the median expert", {"uneven": max(loads) / sorted(loads)[experts // 2]}
            ),
            Misreading("that is the share that is left", {"launching": 1 - saved}),
            Misreading(
                "that is `small`",
                {"launching": 1 - small["graph_us"] / small["loop_us"]},
            ),
            Misreading(
                "half of it: is a multiply-add counted as two FLOP, and the peak that without sparsity?",
                {"mfu": mfu / 2},
            ),
            Misreading("that is cuBLAS's one large matmul", {"mfu": small["cublas_tflop_per_s"] / 989}),
            Misreading("that is decode", {"mfu": decode["queue_tflop_per_s"] / 989}),
            Misreading(
                "that is a share of the rate of cuBLAS's one large matmul",
                {"mfu": small["cublas_us"] / small["queue_us"]},
            ),
            Misreading(
                "they are hardly used: an expert has 6 tokens in the mean, and the MFU is below 2 %",
                {"limit": "tensor cores"},
            ),
            Misreading("`queue` is one launch", {"limit": "launches"}),
            Misreading("two of the 64 have no token in decode", {"limit": "empty experts"}),
        ],
        ["with few tokens an expert, one token more costs little beside the expert's weights"],
    )
