"""Detective advanced-ex41: a program you have never seen.

captures/h100/diagnosis/watchful_thread-fault.nsys.xz. Judge the steady state (`--window
steady`).
"""

from labcode.grading.sheet import Answers, Count, Misreading, Number, Share, Word

QUESTIONS = (
    Count("iterations", "how many iterations are judged"),
    Number("each_ms", "how long one takes", unit="ms", within=0.02),
    Share(
        "idle",
        "the share of the time, from the first operation to the last, in which the GPU is idle",
        by=0.005,
    ),
    Word(
        "cause",
        "what holds the loop up",
        words=("another thread", "the data loader", "synchronization", "copies"),
    ),
    Number(
        "faster",
        "how many times as fast an iteration of mended is without a profiler (the .clean.json)",
        within=0.05,
    ),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    from labcode.analysis.ledger.steady import steady
    from labcode.grading import opened

    report = opened.nsys("h100", "diagnosis", "watchful_thread-fault")
    judged = steady(report)
    ops = opened.cut(report.gpu_ops(), judged.window)
    times = [
        opened.record("h100", "diagnosis", f"watchful_thread-{one}", clean=True)["results"][
            "seconds_per_iteration"
        ]
        for one in ("fault", "mended")
    ]
    causes = {"other-thread": "another thread"}
    whole = report.gpu_ops()
    return Answers(
        {
            "iterations": judged.count,
            "each_ms": judged.width / judged.count / opened.MS,
            "idle": opened.idle_share(ops),
            "cause": causes[opened.cause("watchful_thread")],
            "faster": times[0] / times[1],
        },
        [
            Misreading(
                "one too many: is one of the warm-up among them, or are both ends counted?",
                {"iterations": judged.count + 1},
            ),
            Misreading("that is mended, without a profiler", {"each_ms": times[1] * 1e3}),
            Misreading("that is the whole window", {"each_ms": judged.width / opened.MS}),
            Misreading("that is without a profiler; the capture is asked for", {"each_ms": times[0] * 1e3}),
            Misreading(
                f"the whole capture, with start-up, has {opened.idle_share(whole):.4f}",
                {"idle": opened.idle_share(whole)},
            ),
            Misreading(
                "the steady state copies nothing to the GPU",
                {"cause": "the data loader"},
            ),
            Misreading("in the steady state no call waits for the GPU", {"cause": "synchronization"}),
            Misreading(
                "the steady state has no memcpy, and its kernels, casts among them, run for 1 % of the time",
                {"cause": "copies"},
            ),
            Misreading("the other way round", {"faster": times[1] / times[0]}),
        ],
        ["the interpreter's lock goes round every five milliseconds: each launch may wait for it"],
    )
