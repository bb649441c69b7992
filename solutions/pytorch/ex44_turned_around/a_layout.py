"""Detective pytorch-ex44: turned around and back.

captures/h100/diagnosis/both_layouts-fault.nsys.xz runs blocks of a vision network;
both_layouts-mended.nsys.xz is the same without what costs the time. Judge the steady state
(`--window steady`).
"""

from labcode.grading.sheet import Answers, Misreading, Name, Names, Number, Share, Word

QUESTIONS = (
    Name("top", "fault: the short name of the kernel with the most time"),
    Share("share", "fault: its share of the time of all kernels", by=0.003),
    Share("products", "fault: the share of the matrix product (nvjet)", by=0.005),
    Number(
        "faster",
        "how many times as fast an iteration of mended is without a profiler (the .clean.json)",
        within=0.03,
    ),
    Word(
        "remedy",
        "what was done",
        words=("one layout throughout", "a larger batch", "half precision", "fewer channels"),
    ),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    from labcode.grading import opened

    report = opened.nsys("h100", "diagnosis", "both_layouts-fault")
    kernels = opened.cut(report.kernels(), opened.steady(report))
    totals = opened.totals(kernels, "short_name")
    shares = totals / totals.sum()
    nvjet = float(shares[[name for name in shares.index if name.startswith("nvjet")]].sum())
    times = [
        opened.record("h100", "diagnosis", f"both_layouts-{one}", clean=True)["results"][
            "seconds_per_iteration"
        ]
        for one in ("fault", "mended")
    ]
    top = str(totals.index[0])
    every = Names(top, tuple(map(str, totals.index)))
    return Answers(
        {
            "top": every,
            "share": float(shares.iloc[0]),
            "products": nvjet,
            "faster": times[0] / times[1],
            "remedy": "one layout throughout",
        },
        [
            Misreading("that one is second by its total time", {"top": str(totals.index[1])}),
            Misreading(
                "that is another kernel: it adds, and takes less time",
                {"top": "vectorized_elementwise_kernel"},
            ),
            Misreading("that is the share of the second", {"share": float(shares.iloc[1])}),
            Misreading(
                "that is its share of the steady state, with what is idle",
                {"share": float(totals.iloc[0] / (opened.steady(report)[1] - opened.steady(report)[0]))},
            ),
            Misreading("that is the layer norm", {"products": float(shares.iloc[1])}),
            Misreading("the other way round", {"faster": times[1] / times[0]}),
            Misreading("in both files each kernel has the same grid", {"remedy": "a larger batch"}),
            Misreading("both compute in bfloat16", {"remedy": "half precision"}),
            Misreading("in both files each kernel has the same grid", {"remedy": "fewer channels"}),
        ],
        ["`permute` costs nothing, the `contiguous` after it a pass over memory"],
    )
