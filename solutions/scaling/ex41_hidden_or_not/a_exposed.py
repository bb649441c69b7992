"""Detective scaling-ex41: hidden, or not?

captures/h100/diagnosis_two/one_big_bucket-fault.nsys.xz. Judge the steady state (`--window
steady`), GPU 0.
"""

from labcode.grading.sheet import Answers, Count, Misreading, Number, Share, Word

QUESTIONS = (
    Number("nccl_ms", "the time of NCCL's kernels", unit="ms", within=0.01),
    Share("exposed", "the share of that time in which no other kernel runs on that GPU"),
    Count(
        "calls", "the collectives of one GPU in an iteration (each iteration begins with one optimizer step)"
    ),
    Number(
        "gain", "how many times as fast an iteration would be at most, if all of it were hidden", within=0.02
    ),
    Word(
        "remedy",
        "what would let it start earlier",
        words=("smaller buckets", "more channels", "a larger batch", "a slower link"),
    ),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    from labcode.analysis.ledger.steady import steady
    from labcode.analysis.timeline import intervals
    from labcode.grading import opened

    report = opened.nsys("h100", "diagnosis_two", "one_big_bucket-fault")
    judged = steady(report)
    kernels = opened.cut(report.kernels(), judged.window)
    mine = kernels[kernels["device"] == 0]
    nccl = opened.named(mine, "^nccl")
    rest = mine[~mine.index.isin(nccl.index)]

    def spans(table):
        return intervals.union(table["start_ns"], table["end_ns"])

    alone = intervals.subtract(*spans(nccl), *spans(rest))
    exposed, time = intervals.total(*alone), intervals.total(*spans(nccl))
    width = judged.window[1] - judged.window[0]
    both = opened.named(kernels, "^nccl")
    return Answers(
        {
            "nccl_ms": time / opened.MS,
            "exposed": exposed / time,
            "calls": round(len(nccl) / judged.count),
            "gain": width / (width - exposed),
            "remedy": "smaller buckets",
        },
        [
            Misreading("that is both GPUs", {"nccl_ms": opened.ms(both)}),
            Misreading("that is all of the steady state; divide by its iterations", {"calls": len(nccl)}),
            Misreading("that is both GPUs", {"calls": round(2 * len(nccl) / judged.count)}),
            Misreading("that is the share of the window", {"exposed": exposed / width}),
            Misreading(
                "that is 1 plus its share of the steady state; divide 1 by what is left",
                {"gain": 1 + exposed / width},
            ),
            Misreading(
                "that takes off the time of both GPUs, which runs at once; or it is 1 plus the exposed share",
                {"gain": width / (width - 2 * exposed)},
            ),
            Misreading("channels change how long it takes, not when it starts", {"remedy": "more channels"}),
            Misreading(
                "one bucket for all starts after the last gradient, however large the batch is",
                {"remedy": "a larger batch"},
            ),
            Misreading("that makes it longer, not earlier", {"remedy": "a slower link"}),
        ],
        ["a bucket as large as the model is full with the last gradient: nothing is left to compute"],
    )
