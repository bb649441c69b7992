"""Detective nsys-ex43: a kernel that fills nothing.

captures/h100/diagnosis/audio_norm-fault.nsys.xz normalizes sound clips. `nvidia-smi` shows 100
% for it. Judge its steady state (`--window steady`). The H100 has 132 multiprocessors.
"""

from labcode.grading.sheet import Answers, Count, Misreading, Name, Share, Word

QUESTIONS = (
    Name("kernel", "the kernel that takes most of the time"),
    Share("share", "its share of the time of all kernels", by=0.003),
    Count("blocks", "the blocks of its grid"),
    Share("filled", "the share of the multiprocessors that have a block of it", by=0.005),
    Word(
        "remedy",
        "what would help most",
        words=("more blocks a row", "fewer launches", "pinned memory", "a second stream"),
    ),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    from labcode.grading import opened

    report = opened.nsys("h100", "diagnosis", "audio_norm-fault")
    begin, end = opened.steady(report)
    kernels = opened.cut(report.kernels(), (begin, end))
    totals = opened.totals(kernels, "short_name")
    top = kernels[kernels["short_name"].astype(str) == totals.index[0]]
    row = top.iloc[0]
    blocks = int(row["grid_x"] * row["grid_y"] * row["grid_z"])
    threads = int(row["block_x"] * row["block_y"] * row["block_z"])
    return Answers(
        {
            "kernel": opened.names(kernels, str(totals.index[0]), "short_name"),
            "share": totals.iloc[0] / totals.sum(),
            "blocks": blocks,
            "filled": blocks / 132,
            "remedy": "more blocks a row",
        },
        [
            Misreading("that one is second by its total time", {"kernel": str(totals.index[1])}),
            Misreading(
                "that is its share of the steady state, not of the kernels' time",
                {"share": totals.iloc[0] / (end - begin)},
            ),
            Misreading("those are the threads of a block", {"blocks": threads}),
            Misreading("all threads of the grid; blocks are asked for", {"blocks": blocks * threads}),
            Misreading(
                "the GPU hardly waits for a launch here: it is idle for less than 1 %",
                {"remedy": "fewer launches"},
            ),
            Misreading("in the steady state nothing is copied", {"remedy": "pinned memory"}),
            Misreading(
                "a second such kernel beside the first would still leave most multiprocessors empty",
                {"remedy": "a second stream"},
            ),
        ],
        ["one block a row of the clip: `nvidia-smi` counts time with any kernel, not full multiprocessors"],
    )
