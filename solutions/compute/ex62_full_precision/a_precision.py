"""Predict compute-ex62: what will TF32 bring?

captures/h100/diagnosis/energy_mlp-fault.nsys.xz trains a network of dense layers in float32.
Products of matrices take most of its time. Now they are allowed to use TF32. What will be
measured? Write each prediction as [low, high]: the narrower, the more it is worth, if the
measurement lies within. The first grading is the one that is kept.
"""

from labcode.grading.sheet import Answers, Interval, Misreading

QUESTIONS = (
    Interval("faster", "how many times as fast an iteration will be", widest=3.0),
    Interval("products", "the share of kernel time in products of matrices before", widest=0.4, share=True),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    from labcode.grading import opened

    def ms(form: str) -> float:
        record = opened.record("h100", "diagnosis", f"energy_mlp-{form}", clean=True)
        return 1e3 * float(record["results"]["seconds_per_iteration"])

    fault, mended = ms("fault"), ms("mended")
    report = opened.nsys("h100", "diagnosis", "energy_mlp-fault")
    kernels = opened.cut(report.kernels(), opened.steady(report))
    totals = opened.totals(kernels, "short_name")
    products = totals[[n for n in totals.index if n == "Kernel2" or "gemm" in n]].sum() / totals.sum()
    return Answers(
        {"faster": fault / mended, "products": float(products)},
        [
            Misreading(
                "that is the peaks' ratio: products do not reach it, and are not all of the time",
                {"faster": 495 / 67},
            ),
            Misreading("the products are most of it: look at the kernels' names", {"products": 0.5}),
            Misreading(
                "bytes in memory stay the same: the units are others, several times as fast",
                {"faster": 2.0},
            ),
        ],
        ["two peaks bound the gain of the part that uses them, Amdahl that of the whole"],
    )
