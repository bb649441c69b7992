"""Detective nsys-ex47: which pattern is it?

Three programs, captures/h100/diagnosis/NAME-fault.nsys.xz:

    careful_saver, class_scores, vocab_loss

Judge the steady state of each (`--window steady`).
"""

from labcode.grading.sheet import Answers, Count, Misreading, Share, Word

CASES = ("careful_saver", "class_scores", "vocab_loss")
CAUSES = ("checkpoint", "host-sync", "unfused", "launch-bound")
QUESTIONS = (
    Word("careful_saver", "what costs it the most", words=CAUSES),
    Word("class_scores", "what costs it the most", words=CAUSES),
    Word("vocab_loss", "what costs it the most", words=CAUSES),
    Share(
        "idle",
        "class_scores: the share of its time, from the first operation to the last, in which the GPU is idle",
    ),
    Count("read", "class_scores: how many times a number is copied to the host in the steady state"),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    from labcode.grading import opened

    report = opened.nsys("h100", "diagnosis", "class_scores-fault")
    window = opened.steady(report)
    ops, copies = opened.cut(report.gpu_ops(), window), opened.cut(report.memcpys(), window)
    in_all = opened.idle_share(report.gpu_ops())
    right: dict[str, object] = {name: opened.cause(name) for name in CASES}
    told = {
        "careful_saver": {
            "host-sync": "all copies to the host lie in one iteration of five: it saves what was learned",
            "unfused": "there the GPU would be busy; here it is idle for most of the time",
            "launch-bound": "nearly all idle time lies in one iteration; the others launch as many kernels",
        },
        "class_scores": {
            "checkpoint": "four bytes at a time are no checkpoint",
            "unfused": "there the GPU would be busy; here it is idle for most of the time",
            "launch-bound": "some nine launches come with each number that the host waits for; in the "
            "mended program both are gone",
        },
        "vocab_loss": {
            "checkpoint": "nothing is copied to the host",
            "host-sync": "the GPU is idle for less than 1 %: it does not wait for the host",
            "launch-bound": "the GPU is idle for less than 1 %: launches come in time",
        },
    }
    says = [
        Misreading(words, {case: cause}) for case, found in told.items() for cause, words in found.items()
    ]
    count = int((copies["copy_kind"] == "D2H").sum())
    return Answers(
        {**right, "idle": opened.idle_share(ops), "read": count},
        [
            *says,
            Misreading(
                f"of the whole capture it is {in_all:.3f}; the steady state alone is asked for",
                {"idle": in_all},
            ),
            Misreading(
                "that is the whole capture, not the steady state alone",
                {"read": int((report.memcpys()["copy_kind"] == "D2H").sum())},
            ),
        ],
        ["no gap: look at the kernels; gaps: look at the CPU in them"],
    )
