"""Predict energy-ex61: what do zeros draw?

An H100 (700 W at most) multiplies 8192 × 8192 matrices in bf16 without a pause: of random
numbers, then of zeros. captures/h100/energy_matmul has the measurement; predict first. Write each
prediction as [low, high]: the narrower, the more it is worth, if the measurement lies within. The
first grading is the one that is kept.
"""

from labcode.grading.sheet import Answers, Interval, Misreading

QUESTIONS = (
    Interval("random_w", "watts with random numbers", unit="W", widest=1.3),
    Interval("zeros_w", "watts with zeros", unit="W", widest=2.0),
    Interval("faster", "products a second with zeros, over those with random numbers", widest=2.0),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    from labcode.analysis.energy.repeated import repeated
    from labcode.grading import opened

    table = repeated(
        opened.record("h100", "energy_matmul", "record"), opened.power("h100", "energy_matmul", "record")
    )
    rate = table["repetitions"] / table["seconds"]
    random, zeros = "bf16 random", "bf16 zeros"
    return Answers(
        {
            "random_w": float(table["watts"][random]),
            "zeros_w": float(table["watts"][zeros]),
            "faster": float(rate[zeros] / rate[random]),
        },
        [
            Misreading("random numbers run into the cap, and stay there", {"random_w": 550.0}),
            Misreading(
                "that is about what it draws idle; zeros are multiplied all the same", {"zeros_w": 75.0}
            ),
            Misreading("the products take as many cycles; the clock alone is higher", {"faster": 2.0}),
            Misreading("the clock is higher: random numbers run into the cap", {"faster": 1.0}),
        ],
        ["zeros draw a third less, and at a higher clock"],
    )
