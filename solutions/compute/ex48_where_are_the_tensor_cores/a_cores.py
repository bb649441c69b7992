"""Detective compute-ex48: who uses the tensor cores?

captures/h100/diagnosis/char_gpt-fault.nsys.xz trains a small language model;
char_gpt-mended.nsys.xz is the same after one line was changed. Judge the steady state
(`--window steady`).
"""

from labcode.grading.sheet import Answers, Misreading, Name, Number, Share, Word

QUESTIONS = (
    Word("precision", "the precision in which the fault multiplies", words=("fp32", "tf32", "bf16", "fp64")),
    Share("products", "fault: the share of kernel time in Kernel2 and the sm80_xmma kernels together"),
    Name("mended", "mended: the short name of the matrix product with the most time"),
    Number(
        "faster",
        "how many times as fast an iteration of mended is without a profiler (the .clean.json beside it)",
        within=0.03,
    ),
    Word(
        "next",
        "what limits the mended program in its capture",
        words=("launches", "tensor cores", "copies", "memory"),
    ),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    from labcode.grading import opened

    def length(report):
        first, last = opened.extent(opened.cut(report.gpu_ops(), opened.steady(report)))
        return last - first

    fault, mended = (opened.nsys("h100", "diagnosis", f"char_gpt-{one}") for one in ("fault", "mended"))
    kernels = opened.cut(fault.kernels(), opened.steady(fault))
    totals = opened.totals(kernels, "short_name")
    slow = [str(n) for n in totals.index if n == "Kernel2" or n.startswith("sm80_xmma")]
    products = totals[slow].sum()
    after = opened.cut(mended.kernels(), opened.steady(mended))
    made = opened.totals(after, "short_name")
    best = next(str(name) for name in made.index if name.startswith("nvjet"))
    first = str(made.index[0])
    times = [
        opened.record("h100", "diagnosis", f"char_gpt-{one}", clean=True)["results"]["seconds_per_iteration"]
        for one in ("fault", "mended")
    ]
    return Answers(
        {
            "precision": "fp32",
            "products": products / totals.sum(),
            "mended": opened.names(after, best, "short_name"),
            "faster": times[0] / times[1],
            "next": "launches",
        },
        [
            Misreading(
                "tf32 stands in a name of its own: tf32f32; here it is f32f32_f32f32", {"precision": "tf32"}
            ),
            Misreading("the names say f32", {"precision": "bf16"}),
            Misreading("the names say f32", {"precision": "fp64"}),
            Misreading("that is Kernel2 alone", {"products": totals["Kernel2"] / totals.sum()}),
            Misreading(
                "that is with attention's kernels (fmha)",
                {"products": (products + totals[totals.index.str.startswith("fmha")].sum()) / totals.sum()},
            ),
            Misreading(
                "that is by the windows of the two captures, which hold different numbers of iterations",
                {"faster": length(fault) / length(mended)},
            ),
            Misreading("that one has the most time, and is no product", {"mended": first}),
            *(Misreading("that one is of the run before it was mended", {"mended": one}) for one in slow),
            Misreading("the other way round", {"faster": times[1] / times[0]}),
            Misreading("the GPU runs nothing for more than half of the time", {"next": "tensor cores"}),
            Misreading("in the steady state nothing is copied to the GPU", {"next": "copies"}),
            Misreading("the GPU runs nothing for more than half of the time", {"next": "memory"}),
        ],
        ["what was hidden by slow products shows afterwards: the GPU now waits for its launches"],
    )
