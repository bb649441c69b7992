"""Detective nsys-ex41: the gap at the end.

captures/h200/timeline_basics/exam_improved.nsys.xz is the training loop of the page after it
was mended: a thread loads batches ahead, copies run beside the step, losses are read once. Open
it with `labcode stats`, `labcode timeline`, or Nsight Systems. Times are counted from the start
of the first operation on the GPU.
"""

from labcode.grading.sheet import Answers, Misreading, Number, Share, Word

QUESTIONS = (
    Number("gap_ms", "how long the longest time without any operation on the GPU lasts", unit="ms"),
    Number("begins_ms", "when it begins, counted from the first operation", unit="ms", within=0.0, by=0.1),
    Word(
        "range",
        "what the program does meanwhile",
        words=("load batch", "read loss", "optimizer", "wait for batch"),
    ),
    Share("idle", "the share of the time from the first operation to the last in which none runs", by=0.004),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    from labcode.grading import opened

    report = opened.nsys("h200", "timeline_basics", "exam_improved")
    ops, ranges = report.gpu_ops(), report.nvtx()
    first, last = opened.extent(ops)
    gaps = opened.gaps(ops).sort_values("ns", ascending=False).reset_index()
    begins, length = float(gaps["start_ns"][0]), float(gaps["ns"][0])
    middle = begins + length / 2
    open_then = ranges[(ranges["start_ns"] <= middle) & (ranges["end_ns"] >= middle)]
    known = QUESTIONS[2].words
    right = {
        "gap_ms": length / opened.MS,
        "begins_ms": (begins - first) / opened.MS,
        "range": next(name for name in open_then["name"][::-1] if name in known),
        "idle": opened.idle_share(ops),
    }
    window = report.window()
    return Answers(
        right,
        [
            Misreading("that is the second longest", {"gap_ms": gaps["ns"][1] / opened.MS}),
            Misreading(
                "counted from the start of the range lab:measured, not from the first operation",
                {"begins_ms": (begins - window[0]) / opened.MS},
            ),
            Misreading(
                "there it ends, and the second longest begins",
                {"begins_ms": (begins + length - first) / opened.MS},
            ),
            Misreading("that is the time of the capture's own clock", {"begins_ms": begins / opened.MS}),
            Misreading("the last range of that name ended before", {"range": "load batch"}),
            Misreading("the last range of that name ended before", {"range": "optimizer"}),
            Misreading("the last range of that name ended before", {"range": "wait for batch"}),
            Misreading(
                "that is the longest gap alone; all of them count",
                {"idle": length / (last - first)},
            ),
        ],
        [
            "the program reads its losses once at the end: the launch of the kernel that joins them "
            "returns when the gap ends, then they are copied"
        ],
    )
