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
    says = [
        Misreading(f"look at the kernels of {case} that take the time", {case: word})
        for case in cases
        for word in LIMITS
        if word not in (right[case], "launches")
    ]
    says += [
        Misreading("the GPU is busy all the time: launches come in time", {case: "launches"})
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
