"""Detective scaling-ex42: many small ones.

captures/h100/diagnosis_two/grain_by_grain-fault.nsys.xz. Judge the steady state (`--window
steady`), which holds one iteration.
"""

from labcode.grading.sheet import Answers, Count, Misreading, Number, Word

QUESTIONS = (
    Count("each", "collectives in that iteration, on one GPU"),
    Number("median_us", "the median length of one on GPU 1", unit="µs", within=0.03),
    Word("waits", "the GPU that waits in its collectives for the other", words=("0", "1")),
    Number("faster", "how many times as fast the mended program is (the .clean.json beside it)", within=0.03),
    Word(
        "limit",
        "what limits a collective of this size",
        words=("latency", "bandwidth", "the copy engines", "memory"),
    ),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    from labcode.grading import opened

    report = opened.nsys("h100", "diagnosis_two", "grain_by_grain-fault")
    kernels = opened.named(opened.cut(report.kernels(), opened.steady(report)), "^nccl")
    spent = {device: mine["end_ns"] - mine["start_ns"] for device, mine in kernels.groupby("device")}
    early = max(spent, key=lambda device: spent[device].sum())
    times = [
        opened.record("h100", "diagnosis_two", f"grain_by_grain-{one}", clean=True)["results"][
            "seconds_per_iteration"
        ]
        for one in ("fault", "mended")
    ]
    count = len(spent[1])
    return Answers(
        {
            "each": count,
            "median_us": float(spent[1].median() / 1e3),
            "waits": str(early),
            "faster": times[0] / times[1],
            "limit": "latency",
        },
        [
            Misreading("that is both GPUs", {"each": len(kernels)}),
            Misreading(
                "that is GPU 0, which waits in them for the other",
                {"median_us": float(spent[0].median() / 1e3)},
            ),
            Misreading(
                "its collectives begin last, and are the shorter: the other waits for it",
                {"waits": str(1 - early)},
            ),
            Misreading("the other way round", {"faster": times[1] / times[0]}),
            Misreading(
                "most of them carry 2 KB, in some µs: a small part of what the link gives",
                {"limit": "bandwidth"},
            ),
            Misreading("NCCL's kernels copy by themselves", {"limit": "the copy engines"}),
            Misreading("the link is slower than the memory", {"limit": "memory"}),
        ],
        ["many small collectives cost their latency each; together they would cost it once"],
    )
