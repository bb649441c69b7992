"""Predict compute-ex63: what do atomics cost?

78,643,200 float32 are summed up on an H200: vectorized reads them at the memory's rate, tree adds
them in shared memory with one barrier per round, atomics adds each element by an atomic to the one
sum in memory. captures/h200/ncu_sum/exam_steps.ncu-rep.xz has the measurement; predict before you
look. Write each prediction as [low, high]: the narrower, the more it is worth, if the measurement
lies within. The first grading is the one that is kept.
"""

from labcode.grading.sheet import Answers, Interval, Misreading

QUESTIONS = (
    Interval("vectorized_us", "the time of vectorized", unit="µs", widest=2.0),
    Interval("tree", "how many times as long tree takes as vectorized", widest=6.0),
    Interval("atomics", "how many times as long atomics takes as vectorized", widest=30.0),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    from labcode.grading import opened

    report = opened.ncu("h200", "ncu_sum", "exam_steps")
    atomics, tree, _, vectorized, _ = (one.number("duration_ns") for one in report.list)
    return Answers(
        {
            "vectorized_us": vectorized / 1e3,
            "tree": tree / vectorized,
            "atomics": atomics / vectorized,
        },
        [
            Misreading(
                "that is with the bytes written: a sum writes hardly any", {"vectorized_us": 2 * 314.57 / 4.8}
            ),
            Misreading("tree runs eight times as many instructions as vectorized", {"tree": 2.0}),
            Misreading(
                "they wait for each other, all at one address: that is no factor of ten", {"atomics": 10.0}
            ),
        ],
        ["contention is a matter of orders of magnitude, not of percent"],
    )
