"""Detective advanced-ex42: is there anything wrong?

Three captures: captures/h100/diagnosis/triad-good.nsys.xz, char_gpt-fault.nsys.xz,
pixel_histogram-fault.nsys.xz (the names of the files are no secret; what is good about the
first?).
"""

from labcode.grading.sheet import Answers, Misreading, Number, Share, Word

LIMITS = ("memory, as it should", "the wrong units", "atomics on few addresses", "launches")
QUESTIONS = (
    Share(
        "busy",
        "triad: the share of the steady state's time, from the first operation to the last, in which "
        "the GPU is busy",
        by=0.005,
    ),
    Number("us", "triad: the median length of its most frequent kernel", unit="µs", within=0.02),
    Word("triad", "what limits triad", words=LIMITS),
    Word("char_gpt", "what limits char_gpt", words=LIMITS),
    Word("pixel_histogram", "what limits pixel_histogram", words=LIMITS),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    from labcode.grading import opened

    report = opened.nsys("h100", "diagnosis", "triad-good")
    window = opened.steady(report)
    ops, kernels = opened.cut(report.gpu_ops(), window), opened.cut(report.kernels(), window)
    top = kernels[kernels["short_name"] == kernels["short_name"].mode()[0]]
    spent = (top["end_ns"] - top["start_ns"]) / 1e3
    words = {
        "none": "memory, as it should",
        "no-tensor-cores": "the wrong units",
        "atomics": "atomics on few addresses",
    }
    cases = ("triad", "char_gpt", "pixel_histogram")
    right = {case: words[opened.cause(case)] for case in cases}
    whole = report.gpu_ops()
    memory, units, places = words.values()
    told = {
        ("triad", units): "its one kernel works element by element: no product of matrices is in it",
        ("triad", places): "its one kernel works element by element: each writes a place of its own",
        ("char_gpt", memory): "most of its kernels' time are products of matrices (Kernel2, sm80_xmma_gemm)",
        ("char_gpt", places): "most of its kernels' time are products of matrices (Kernel2, sm80_xmma_gemm)",
        ("pixel_histogram", memory): "its longest kernel scatters: look where to",
        ("pixel_histogram", units): "its longest kernel scatters: that is no product of matrices",
    }
    says = [Misreading(words, {case: word}) for (case, word), words in told.items()]
    says += [
        Misreading(
            "the GPU is busy for 99 % of the steady state, or more: launches come in time", {case: "launches"}
        )
        for case in cases
    ]
    return Answers(
        {"busy": 1 - opened.idle_share(ops), "us": float(spent.median()), **right},
        [
            *says,
            Misreading("that is the whole capture, with start-up", {"busy": 1 - opened.idle_share(whole)}),
            Misreading("that is all of them together", {"us": float(spent.sum())}),
        ],
        ["three times 1.6 GB in that time is what the memory gives: there is nothing to mend"],
    )
